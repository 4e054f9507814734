/* Strings that end a generated text, none of which is empty. */
#ifndef WEFT_TRAIN_STOP_STRINGS_H
#define WEFT_TRAIN_STOP_STRINGS_H

#include "base/base.h"
#include "weft/options.h"

/* Where the first of them begins in a text whose last `grown` bytes are new; `size`: nowhere. */
WEFT_PRIVATE_API size_t weft_stop_strings_find(const weft_texts *stops, const char *text,
                                               size_t size, size_t grown);
/* The bytes at the end of the text that may be the beginning of one of them. */
WEFT_PRIVATE_API size_t weft_stop_strings_held(const weft_texts *stops, const char *text,
                                               size_t size);

#endif
