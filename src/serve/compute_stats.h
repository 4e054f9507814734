/* Statistics of the seconds that a model version has spent on reading inputs, computing and writing
 * outputs, by the rows of the batches. All functions are thread-safe. */
#ifndef WEFT_SERVE_COMPUTE_STATS_H
#define WEFT_SERVE_COMPUTE_STATS_H

#include "base/base.h"
#include "weft/service.h"

typedef struct weft_compute_stats weft_compute_stats;

/* A count and sums of seconds: over the batches of one size, or over all requests. In the sum over
 * requests, each request is charged the whole time of its batch. */
typedef struct weft_compute_times {
    int64_t rows;  /* of one such batch; in the total over requests: of all batches */
    int64_t count; /* number of batches, or of requests */
    double input, infer, output;
} weft_compute_times;

/* Creates statistics for batches of up to `limit` rows. */
weft_status weft_compute_stats_create(int64_t limit, weft_compute_stats **out) WEFT_NODISCARD;
void weft_compute_stats_free(weft_compute_stats **stats); /* NULL is allowed */
/* Adds a batch. at: four times by weft_seconds: start of the batch, end of reading inputs, end of
 * the computation, end of writing outputs. */
void weft_compute_stats_add(weft_compute_stats *stats, int64_t rows, int requests,
                            const double *at);
/* The statistics of the i-th batch size that has occurred, in increasing order; false past the last
 * one. */
bool weft_compute_stats_size(weft_compute_stats *stats, int i, weft_compute_times *out);
/* The statistics over all requests. *last: when the last batch ended, in seconds since 1970; 0: no
 * batch has ended. */
void weft_compute_stats_total(weft_compute_stats *stats, weft_compute_times *out, double *last);

/* The statistics of a model version. */
weft_compute_stats *weft_servable_compute_stats(const weft_servable *servable);

#endif
