/* Reads a tokenizer.json of Hugging Face whose tokens are made by byte-pair encoding over bytes
 * (Sennrich et al. 2016; Radford et al. 2019). */
#ifndef WEFT_FORMATS_TOKENIZER_JSON_H
#define WEFT_FORMATS_TOKENIZER_JSON_H

#include "base/base.h"

/* The tokens `left` and `right`, one behind the other, become `result`. */
typedef struct weft_bpe_merge {
    int32_t left, right, result;
} weft_bpe_merge;

/* Steps by which a text is cut into pieces before it is encoded, as the pre-tokenizers of the file
 * say. A ByteLevel is up to three of them: a space in front, GPT-2's pattern, and characters that
 * stand for bytes, if other steps follow that see these. */
typedef enum weft_bpe_cut_kind {
    WEFT_CUT_SPLIT,               /* by a regular expression */
    WEFT_CUT_PREFIX_SPACE,        /* a piece that begins with no space gets one */
    WEFT_CUT_BYTES_TO_CHARACTERS, /* see weft_bpe_character_of */
} weft_bpe_cut_kind;

/* A match, or with `invert` a text between two matches, becomes a piece of its own, is removed,
 * joins what is beside it, or joins its like. */
typedef enum weft_split_behavior {
    WEFT_SPLIT_ISOLATED,
    WEFT_SPLIT_REMOVED,
    WEFT_SPLIT_MERGED_WITH_PREVIOUS,
    WEFT_SPLIT_MERGED_WITH_NEXT,
    WEFT_SPLIT_CONTIGUOUS,
} weft_split_behavior;

typedef struct weft_bpe_cut {
    weft_bpe_cut_kind kind;
    char *pattern; /* of a split: a regular expression in the syntax of Oniguruma */
    weft_split_behavior behavior;
    bool invert;
} weft_bpe_cut;

enum { WEFT_BPE_CUTS = 16 };

/* Added tokens are matched as they stand, before anything else: first those that are not
 * `normalized`, then the others, and of several the longest. */
typedef enum weft_bpe_added { WEFT_BPE_USUAL, WEFT_BPE_ADDED, WEFT_BPE_ADDED_LATE } weft_bpe_added;

typedef struct weft_bpe_spec {
    int tokens;            /* 1 + the largest number of a token */
    char **text;           /* [tokens]: text of each token; NULL: the number is not used */
    weft_bpe_added *added; /* [tokens] */
    int merges;
    weft_bpe_merge *merge; /* [merges], the most important one first */
    int cuts;
    weft_bpe_cut cut[WEFT_BPE_CUTS]; /* in the order in which they are applied */
    bool ignore_merges;              /* a piece of text that is a token is this token */
} weft_bpe_spec;

/* Parses the file. FORMAT: it is damaged; UNSUPPORTED: it is a tokenizer of another kind. */
weft_status weft_bpe_parse(const char *name, const char *data, size_t size,
                           weft_bpe_spec *out) WEFT_NODISCARD;
void weft_bpe_spec_free(weft_bpe_spec *spec);
/* Writes the parts of the file that determine the tokens as JSON in one line, which is equal for
 * equal tokenizers; the caller frees it. */
weft_status weft_bpe_shorten(const char *name, const char *data, size_t size,
                             char **out) WEFT_NODISCARD;

/* The character that stands for a byte: printable characters of Latin-1 for themselves, those from
 * 256 on for the other bytes in their order. */
uint32_t weft_bpe_character_of(int byte);
/* The byte that a character stands for; -1: none. */
int weft_bpe_byte_of(uint32_t point);

#endif
