/* Internals of the status page: its history, and its charts. */
#ifndef WEFT_SERVE_FRONT_PAGE_H
#define WEFT_SERVE_FRONT_PAGE_H

#include "serve/front/http_internal.h"

/* --- page_history.c: samples of the queues' statistics --- */

enum { WEFT_MOMENTS = 128, WEFT_PAST_SECONDS = 180 };

typedef struct weft_moment {
    double at; /* time by weft_seconds */
    weft_batch_queue_stats stats;
} weft_moment;

/* The samples of one version of a model; sample i of `count` is moments[(first + i) %
 * WEFT_MOMENTS]. */
typedef struct weft_past {
    char name[128];
    int64_t version;
    int first, count;
    weft_moment moments[WEFT_MOMENTS];
} weft_past;

/* Adds a sample if the last one is old enough; *past belongs to the history. Call it with the
 * history's lock. */
weft_status weft_history_take(weft_history *h, const char *name, int64_t version, double now,
                              const weft_batch_queue_stats *stats,
                              const weft_past **past) WEFT_NODISCARD;
const weft_moment *weft_past_moment(const weft_past *past, int i);
/* Difference of two samples: counts, and sums of seconds only. */
void weft_moments_between(const weft_batch_queue_stats *before, const weft_batch_queue_stats *after,
                          weft_batch_queue_stats *out);

/* --- page_chart.c: SVG with the style classes of the page, of the last WEFT_PAST_SECONDS --- */

void weft_chart_rate(weft_text *text, const weft_past *past, double now);
/* The 50th, 95th and 99th percentile, and the latency that the policy predicts. */
void weft_chart_latency(weft_text *text, const weft_past *past, double now);
/* Number of batches of each size, for sizes up to `limit`. */
void weft_chart_batches(weft_text *text, const int64_t *cells, int64_t limit);
/* "1.2 ms" and "3.4 k", with few digits. */
void weft_add_seconds(weft_text *text, double s);
void weft_add_count(weft_text *text, double x);

#endif
