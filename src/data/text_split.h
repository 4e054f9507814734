/* Cuts a text into pieces by regular expressions (PCRE2). */
#ifndef WEFT_DATA_TEXT_SPLIT_H
#define WEFT_DATA_TEXT_SPLIT_H

#include "base/base.h"

typedef struct weft_text_split weft_text_split;

/* Compiles patterns in which \s is Unicode's White_Space, as in Oniguruma. FORMAT: one is not
 * valid; the message begins with `name`. */
weft_status weft_text_split_create(const char *name, char *const *patterns, int count,
                                   weft_text_split **out) WEFT_NODISCARD;
void weft_text_split_free(weft_text_split **split);
/* Calls fn with each piece of a text in valid UTF-8, from the first one to the last: each match of
 * the first pattern, and what lies between them, cut by the other patterns in turn. Ends with the
 * first error of fn. FORMAT: a pattern needs too much time or memory for the text. */
typedef weft_status (*weft_split_fn)(void *user, const unsigned char *piece, size_t size);
weft_status weft_text_split_run(const weft_text_split *split, const char *name,
                                const unsigned char *text, size_t size, weft_split_fn fn,
                                void *user) WEFT_NODISCARD;

#endif
