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
    const char *policy;   /* as weft_batch_queue_options */
    const char *arrivals; /* "poisson", "steady", "bursts[:size=N]", "trace:FILE" (seconds, one a
                             line); default "poisson" */
    double rate;          /* requests a second */
    int64_t rows;         /* of a request; default 1 */
    int executors;
    int64_t limit, waiting;
    const int64_t *curve_rows; /* as weft_batch_queue_options: at least one size */
    const double *curve_times;
    int curve_sizes;
    const double *slowdown; /* NULL: executors do not slow each other down */
    double variation;       /* of a batch's time: its coefficient of variation; 0 */
    int64_t requests;       /* counted, after a tenth as many that are not */
    uint64_t seed;
    /* A change of the load on the way: from this request on the rate is `step_rate`. 0: none. */
    int64_t step;
    double step_rate;
    /* As in a day the rate goes down and up by this share of itself (0..1), once in `period`
     * seconds. 0: it does not. */
    double swing, period;
    /* Closed loop: each of so many clients sends its next request after its answer and a gap of
     * `arrivals` at rate / clients; `rate` is what they would send if answers took no time. 0: open
     * loop. */
    int clients;
    /* A wait for a time ends so many seconds after it. */
    double timer_slack;
    /* Others use the cores for this share of the time (0..1), for `interference_seconds` seconds on
     * the mean, and meanwhile batches take `interference_slowdown` times as long. 0: nobody does.
     */
    double interference_share, interference_slowdown, interference_seconds;
} weft_forecast_options;
WEFT_API void weft_forecast_options_init(weft_forecast_options *options);

typedef struct weft_forecast {
    int64_t requests, refused, batches;
    double mean, p50, p95, p99, p999; /* seconds of latency */
    double rows;                      /* of a batch, mean */
    double utilisation;               /* executors that compute, mean over them */
    double max_delay;                 /* seconds and rows as the policy had them at the end */
    int64_t min_rows;
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
