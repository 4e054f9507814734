/* Reads a tokenizer.json of Hugging Face whose tokens are made by byte-pair encoding over bytes
 * (Sennrich et al. 2016; Radford et al. 2019). */
#ifndef WEFT_FORMATS_TOKENIZER_JSON_H
#define WEFT_FORMATS_TOKENIZER_JSON_H

#include "base/base.h"

/* The tokens `left` and `right`, one behind the other, become `result`. */
typedef struct weft_bpe_merge {
    int32_t left, right, result;
} weft_bpe_merge;

enum { WEFT_BPE_PATTERNS = 8 };

/* Added tokens are matched as they stand, before anything else: first those that are not
 * `normalized`, then the others, and of several the longest. */
typedef enum weft_bpe_added { WEFT_BPE_USUAL, WEFT_BPE_ADDED, WEFT_BPE_ADDED_LATE } weft_bpe_added;

typedef struct weft_bpe_spec {
    int tokens;            /* 1 + the largest number of a token */
    char **text;           /* [tokens]: text of each token; NULL: the number is not used */
    weft_bpe_added *added; /* [tokens] */
    int merges;
    weft_bpe_merge *merge; /* [merges], the most important one first */
    /* Regular expressions, by each of which in turn the text is cut before it is encoded. */
    int patterns;
    char *pattern[WEFT_BPE_PATTERNS];
    bool prefix_space;  /* a space is put before a text that has none */
    bool ignore_merges; /* a piece of text that is a token is this token */
} weft_bpe_spec;

/* Parses the file. FORMAT: it is damaged; UNSUPPORTED: it is a tokenizer of another kind. */
weft_status weft_bpe_parse(const char *name, const char *data, size_t size,
                           weft_bpe_spec *out) WEFT_NODISCARD;
void weft_bpe_spec_free(weft_bpe_spec *spec);
/* Writes the parts of the file that determine the tokens as JSON in one line, which is equal for
 * equal tokenizers; the caller frees it. */
weft_status weft_bpe_shorten(const char *name, const char *data, size_t size,
                             char **out) WEFT_NODISCARD;

#endif
