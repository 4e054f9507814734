#include "fuzz.h"

#include "weft/train.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static weft_context *context;
    weft_train_options o;
    memset(&o, 0, sizeof(o));
    if (!context && weft_context_create(&context) != WEFT_OK) return 0;
    if (weft_train_options_init(context, &o) == WEFT_OK &&
        weft_options_load_text(weft_train_table(context), &o, "fuzz", data, size) != WEFT_OK &&
        !weft_last_message()[0])
        abort();
    weft_options_free(weft_train_table(context), &o);
    return 0;
}
