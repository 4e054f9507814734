/* Inside of the status page: what it remembers, and its drawings. */
#ifndef WEFT_SERVE_FRONT_PAGE_H
#define WEFT_SERVE_FRONT_PAGE_H

#include "serve/front/front.h"

/* --- history.c: what lines had done at some moments --- */

enum { WEFT_MOMENTS = 128, WEFT_PAST_SECONDS = 180 };

typedef struct weft_moment {
    double at; /* seconds, as weft_seconds */
    weft_line_stats stats;
} weft_moment;

/* Of one version of a model; moment i of `count` is moments[(first + i) % WEFT_MOMENTS]. */
typedef struct weft_past {
    char name[128];
    int64_t version;
    int first, count;
    weft_moment moments[WEFT_MOMENTS];
} weft_past;

/* What is remembered of the model, with what it has done until now, where the last moment is a
 * second ago; *past is the history's. With its lock. */
weft_status weft_history_take(weft_history *h, const char *name, int64_t version, double now,
                              const weft_line_stats *stats, const weft_past **past) WEFT_NODISCARD;
const weft_moment *weft_past_moment(const weft_past *past, int i);
/* What was done from one moment to a later one: only counts, and sums of seconds. */
void weft_moments_between(const weft_line_stats *before, const weft_line_stats *after,
                          weft_line_stats *out);

/* --- chart.c: SVG with classes of the page's style, of the last WEFT_PAST_SECONDS --- */

void weft_chart_rate(weft_text *text, const weft_past *past, double now);
/* The median, the 95th and 99th percentile, and what the policy expects. */
void weft_chart_latency(weft_text *text, const weft_past *past, double now);
/* How many batches had how many rows; those of sizes up to `limit`. */
void weft_chart_batches(weft_text *text, const int64_t *cells, int64_t limit);
/* "1.2 ms" and "3.4 k", with few digits. */
void weft_add_seconds(weft_text *text, double s);
void weft_add_count(weft_text *text, double x);

#endif
