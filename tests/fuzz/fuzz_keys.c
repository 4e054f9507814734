/* Fuzzes files with a secret key. A key that is accepted is written and read again as the same
 * key. */
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
    if (size < 64) abort(); /* a key has at least so many hexadecimal digits */
    return 0;
}
