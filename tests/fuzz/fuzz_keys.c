/* Files with a secret key: what is read is what the one line says, and is no other line's. */
#include "fuzz.h"

#include "actor/net.h"
#include "fuzz_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    weft_key key, again;
    char text[WEFT_KEY_TEXT];
    if (weft_key_load(fuzz_file(data, size), &key) != WEFT_OK) {
        if (!weft_last_message()[0]) abort();
        return 0;
    }
    weft_key_text(&key, text);
    if (!weft_key_read(text, &again) || memcmp(&key, &again, sizeof(key)) != 0) abort();
    if (size < 64) abort(); /* that many digits it must have */
    return 0;
}
