/* Computes the weighted mean of updates in one pass through memory: block by block, the updates are
 * decoded, weighted, summed over the fixed tree and divided by their number. */
#ifndef WEFT_EXCHANGE_PS_RANGE_WEIGHTED_MEAN_H
#define WEFT_EXCHANGE_PS_RANGE_WEIGHTED_MEAN_H

#include "compress/compress.h"

/* All fields are zero at first. The buffers are reused from one mean to the next. */
typedef struct weft_weighted_mean {
    weft_dtype dtype;
    int64_t count;
    int updates;
    struct weft_weighted_mean_leaf {
        weft_encoded message;
        double weight;
    } * leaves;
    size_t leaf_capacity;
    void *blocks; /* [levels] blocks of partial sums, one for each level of the tree */
    int levels;
} weft_weighted_mean;

/* Begins a mean of `updates` updates of `count` numbers each. */
weft_status weft_weighted_mean_begin(weft_weighted_mean *mean, weft_dtype dtype, int64_t count,
                                     int updates) WEFT_NODISCARD;
/* Takes update v, from 0, with its weight. The bytes of the message must outlive the mean. */
void weft_weighted_mean_take(weft_weighted_mean *mean, int v, const weft_encoded *message,
                             double weight);
/* If a single update, dense and of weight 1, was taken: the mean, which is read in its message at a
 * multiple of 8 bytes. NULL: weft_weighted_mean_make has to compute the mean. */
const void *weft_weighted_mean_in_place(const weft_weighted_mean *mean);
/* Computes the mean into out[count], after all updates were taken. */
void weft_weighted_mean_make(weft_weighted_mean *mean, void *out);
void weft_weighted_mean_free(weft_weighted_mean *mean);

#endif
