/* Strings that end a generated text. The text ends before the first of them. */
#include "train/stop_strings.h"

#include "base/base.h"

size_t weft_stop_strings_find(const weft_texts *stops, const char *text, size_t size, size_t grown)
{
    size_t longest = 0, first = size;
    for (int i = 0; i < stops->count; i++) longest = WEFT_MAX(longest, strlen(stops->at[i]));
    /* The text before the new bytes has none, but may have the beginning of one. */
    size_t from = size - WEFT_MIN(size, grown + longest);
    for (int i = 0; i < stops->count; i++) {
        const char *at = memmem(text + from, size - from, stops->at[i], strlen(stops->at[i]));
        if (at) first = WEFT_MIN(first, (size_t)(at - text));
    }
    return first;
}

size_t weft_stop_strings_held(const weft_texts *stops, const char *text, size_t size)
{
    size_t held = 0;
    for (int i = 0; i < stops->count; i++)
        for (size_t n = WEFT_MIN(size, strlen(stops->at[i])); n > held; n--)
            if (memcmp(text + size - n, stops->at[i], n) == 0) held = n;
    return held;
}
