/*
 * Forecasts for a batching policy: simulates the batcher's own queue and policies in virtual time
 * for given arrivals and batch times. Nothing sleeps, so a day takes seconds; the same seed gives
 * the same numbers.
 */
#ifndef WEFT_FORECAST_H
#define WEFT_FORECAST_H

#include "weft/batcher.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_forecast_options {
    size_t struct_size;   /* sizeof(weft_forecast_options) */
    const char *policy;   /* as in weft_line_options */
    const char *arrivals; /* "poisson", "steady", "bursts[:size=N]", "trace:FILE" (seconds, one a
                             line); default "poisson" */
    double rate;          /* requests a second */
    int64_t rows;         /* of a request; default 1 */
    int executors;
    int64_t limit, waiting;
    const int64_t *curve_rows; /* as in weft_line_options: at least one size */
    const double *curve_times;
    int curve_sizes;
    const double *slower; /* NULL: executors do not slow each other down */
    double variation;     /* coefficient of variation of batch times; default 0 */
    int64_t requests;     /* counted requests; a tenth as many precede them */
    uint64_t seed;
    /* A change of the load: from this request on the rate is `then`. 0: none. */
    int64_t step;
    double then;
    /* The rate varies like a cosine by this fraction (0..1), with `period` in seconds. 0:
     * constant. */
    double swing, period;
    /* Closed loop: each of so many clients sends its next request after its answer and a gap of
     * `arrivals` at rate / clients; `rate` is what they would send if answers took no time. 0: open
     * loop. */
    int clients;
    /* Delay of timed waits in seconds. */
    double slack;
    /* Other processes use the cores for this fraction of the time (0..1), in periods of `disturbs`
     * seconds on average, and slow batches down by `disturbance`. 0: none. */
    double disturbed, disturbance, disturbs;
} weft_forecast_options;
WEFT_API void weft_forecast_options_init(weft_forecast_options *options);

typedef struct weft_forecast {
    int64_t requests, refused, batches;
    double mean, p50, p95, p99, p999; /* latency in seconds */
    double rows;                      /* mean rows of a batch */
    double utilisation;               /* mean fraction of busy executors */
    double wait;                      /* the policy's last setting: seconds and rows */
    int64_t need;
} weft_forecast;

/* Runs the simulation. Each latency is passed to `each` (may be NULL) in the order of arrivals;
 * below 0: refused. ARGUMENT: names the option. */
WEFT_API WEFT_NODISCARD weft_status weft_forecast_run(weft_context *context,
                                                      const weft_forecast_options *options,
                                                      void (*each)(void *user, double latency),
                                                      void *user, weft_forecast *out);

#ifdef __cplusplus
}
#endif
#endif
