/* Cuts a text into pieces as the pre-tokenizers of a tokenizer.json do, with the regular
 * expressions of Oniguruma. */
#ifndef WEFT_DATA_TEXT_SPLIT_H
#define WEFT_DATA_TEXT_SPLIT_H

#include "formats/tokenizer_json.h"

typedef struct weft_text_split weft_text_split;

/* Compiles `count` cuts, whose patterns are copied. FORMAT: a pattern is no regular expression of
 * Oniguruma; the message begins with `name`. */
weft_status weft_text_split_create(const char *name, const weft_bpe_cut *cuts, int count,
                                   weft_text_split **out) WEFT_NODISCARD;
void weft_text_split_free(weft_text_split **split);
/* Calls fn with each piece of a text in valid UTF-8, from the first one to the last, in bytes of
 * the text: each cut is applied to every piece of the cut before. Ends with the first error of fn.
 * FORMAT: a pattern needs too much time or memory for the text. */
typedef weft_status (*weft_split_fn)(void *user, const unsigned char *piece, size_t size);
weft_status weft_text_split_run(const weft_text_split *split, const char *name,
                                const unsigned char *text, size_t size, weft_split_fn fn,
                                void *user) WEFT_NODISCARD;

#endif
