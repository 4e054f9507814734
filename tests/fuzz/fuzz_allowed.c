/* Fuzzes the list of allowed public keys, one on each line. A key may be admitted only if all its
 * digits stand in the file. */
#include "fuzz.h"

#include "actor/net_internal.h"
#include "fuzz_file.h"

/* Whether the file contains the digits of the key. */
static bool stands(const uint8_t *data, size_t size, const weft_key *key)
{
    char text[WEFT_KEY_TEXT];
    weft_key_text(key, text);
    size_t digits = strlen(text);
    for (size_t at = 0; at + digits <= size; at++)
        if (strncasecmp((const char *)data + at, text, digits) == 0) return true;
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    weft_net_context *world;
    if (weft_net_context_create(&world) != WEFT_OK) abort();
    weft_status status = weft_net_context_allow_file(world, fuzz_file(data, size));
    if (status != WEFT_OK && !weft_last_message()[0]) abort();
    if (world->allowed_count > size / 64) abort();
    for (size_t i = 0; i < world->allowed_count; i++)
        if (!stands(data, size, &world->allowed[i])) abort();
    weft_net_context_destroy(&world);
    return 0;
}
