/* Time spent in batches by their rows: reading inputs, computing, writing outputs. Thread-safe. */
#ifndef WEFT_SERVE_COMPUTE_STATS_H
#define WEFT_SERVE_COMPUTE_STATS_H

#include "base/base.h"
#include "weft/service.h"

typedef struct weft_compute_stats weft_compute_stats;

/* Seconds, summed over batches or over requests; each request is charged the whole time of its
 * batch. */
typedef struct weft_compute_times {
    int64_t rows;  /* of a batch; in the total: sum over all requests */
    int64_t count; /* of batches, or of requests */
    double input, infer, output;
} weft_compute_times;

/* For batches of up to `limit` rows. */
weft_status weft_compute_stats_create(int64_t limit, weft_compute_stats **out) WEFT_NODISCARD;
void weft_compute_stats_free(weft_compute_stats **stats); /* NULL is allowed */
/* Adds a batch. at: times by weft_seconds of its start, and of the ends of input, computation and
 * output. */
void weft_compute_stats_add(weft_compute_stats *stats, int64_t rows, int requests,
                            const double *at);
/* The i-th batch size that occurred; false past the end. */
bool weft_compute_stats_size(weft_compute_stats *stats, int i, weft_compute_times *out);
/* All requests; *last is the end of the last batch, in seconds since 1970, 0: none. */
void weft_compute_stats_total(weft_compute_stats *stats, weft_compute_times *out, double *last);

/* The statistics of a version. */
weft_compute_stats *weft_servable_compute_stats(const weft_servable *servable);

#endif
