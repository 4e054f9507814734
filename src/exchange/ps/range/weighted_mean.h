/* The weighted mean of updates, in one pass through memory: decoded, weighted, summed over the
 * fixed tree and divided, block by block. */
#ifndef WEFT_EXCHANGE_PS_RANGE_WEIGHTED_MEAN_H
#define WEFT_EXCHANGE_PS_RANGE_WEIGHTED_MEAN_H

#include "compress/compress.h"

/* Begins all zero. Buffers are reused from one mean to the next. */
typedef struct weft_weighted_mean {
    weft_dtype dtype;
    int64_t count;
    int updates;
    struct weft_weighted_mean_leaf {
        weft_encoded message;
        double weight;
    } * leaves;
    size_t leaf_capacity;
    void *blocks; /* one for each level of the tree */
    int levels;
} weft_weighted_mean;

/* Begins the mean of so many updates of `count` numbers. */
weft_status weft_weighted_mean_begin(weft_weighted_mean *mean, weft_dtype dtype, int64_t count,
                                     int updates) WEFT_NODISCARD;
/* Adds update v, whose bytes must outlive the mean. */
void weft_weighted_mean_take(weft_weighted_mean *mean, int v, const weft_encoded *message,
                             double weight);
/* The mean in the message of the only update, if that is dense and has weight 1; NULL: it has to be
 * made. Aligned to a multiple of 8 bytes. */
const void *weft_weighted_mean_in_place(const weft_weighted_mean *mean);
/* After all updates: writes out[count]. */
void weft_weighted_mean_make(weft_weighted_mean *mean, void *out);
void weft_weighted_mean_free(weft_weighted_mean *mean);

#endif
