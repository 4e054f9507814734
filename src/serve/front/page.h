/* Internals of the status page: its history of statistics, and its charts. */
#ifndef WEFT_SERVE_FRONT_PAGE_H
#define WEFT_SERVE_FRONT_PAGE_H

#include "serve/front/http_internal.h"

/* --- page_history.c: samples of the queues' statistics --- */

enum { WEFT_HISTORY_SAMPLES = 128, WEFT_HISTORY_SECONDS = 180 };

typedef struct weft_history_sample {
    double at; /* time by weft_seconds */
    weft_batch_queue_stats stats;
} weft_history_sample;

/* The samples of one version of a model, a ring that grows up to WEFT_HISTORY_SAMPLES: sample i of
 * `count` is samples[(first + i) % WEFT_HISTORY_SAMPLES]. */
typedef struct weft_version_history {
    char name[128];
    int64_t version;
    int first, count;
    weft_history_sample *samples;
    size_t capacity;
} weft_version_history;

/* Adds a sample of a version's statistics if the last sample is old enough. *history: all samples
 * of the version, owned by `h`. The caller holds the history's lock. */
weft_status weft_history_add(weft_history *h, const char *name, int64_t version, double now,
                             const weft_batch_queue_stats *stats,
                             const weft_version_history **history) WEFT_NODISCARD;
const weft_history_sample *weft_version_history_sample(const weft_version_history *history, int i);
/* The difference of the counts and sums of seconds of two samples; the other fields are 0. */
void weft_history_difference(const weft_batch_queue_stats *before,
                             const weft_batch_queue_stats *after, weft_batch_queue_stats *out);

/* --- page_chart.c: charts as SVG, in the page's style, of the last WEFT_HISTORY_SECONDS --- */

void weft_chart_rate(weft_text *text, const weft_version_history *history, double now);
/* The 50th, 95th and 99th percentile of the latency, and the latency that the batching policy
 * predicts. */
void weft_chart_latency(weft_text *text, const weft_version_history *history, double now);
/* The number of batches of each size. cells: as in weft_batch_queue_stats.batch; limit: largest
 * batch in rows. */
void weft_chart_batches(weft_text *text, const int64_t *cells, int64_t limit);
/* Write a number with few digits and a unit, such as "1.2 ms" and "3.4 k". */
void weft_add_seconds(weft_text *text, double s);
void weft_add_count(weft_text *text, double x);

#endif
