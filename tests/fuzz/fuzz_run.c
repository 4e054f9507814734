#include "fuzz.h"

#include "weft/train.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    weft_train_options o;
    memset(&o, 0, sizeof(o));
    if (weft_options_init(weft_train_table(), &o) == WEFT_OK &&
        weft_options_load_text(weft_train_table(), &o, "fuzz", data, size) != WEFT_OK &&
        !weft_last_message()[0])
        abort();
    weft_options_free(weft_train_table(), &o);
    return 0;
}
