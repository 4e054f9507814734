/* The merges of byte-pair encoding (Sennrich et al. 2016). */
#ifndef WEFT_DATA_BPE_MERGE_H
#define WEFT_DATA_BPE_MERGE_H

#include "formats/tokenizer_json.h"

typedef struct weft_bpe_merges weft_bpe_merges;
weft_status weft_bpe_merges_create(const weft_bpe_merge *merge, int count,
                                   weft_bpe_merges **out) WEFT_NODISCARD;
void weft_bpe_merges_free(weft_bpe_merges **merges);

/* Memory that is used again from piece to piece; zero at first. */
typedef struct weft_bpe_scratch {
    int32_t *before, *after;
    struct weft_bpe_pair *heap;
    size_t capacity;
} weft_bpe_scratch;
void weft_bpe_scratch_free(weft_bpe_scratch *scratch);

/* Merges neighbours among `count` tokens, the most important pair first and of equal ones the
 * first, until none is left. Takes O(n log n). Writes the tokens in place, and returns their number
 * to *count. */
weft_status weft_bpe_merge_all(const weft_bpe_merges *merges, weft_bpe_scratch *scratch,
                               int32_t *token, int64_t *count) WEFT_NODISCARD;

#endif
