/*
 * Forecasts of latency for a batching policy: a simulation runs the batcher's own dispatch, queue
 * and policy in virtual time, on given arrivals and batch times. Nothing sleeps, so a day takes
 * seconds. The results depend on the options and the seed alone.
 */
#ifndef WEFT_FORECAST_H
#define WEFT_FORECAST_H

#include "weft/batcher.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_forecast_options {
    size_t struct_size; /* sizeof(weft_forecast_options) */
    const char *policy; /* as in weft_batch_queue_options; default "adaptive" */
    /* Arrival process: "poisson", "steady", "bursts[:size=N]" or "trace:FILE" (a time in seconds on
     * each line); default "poisson". */
    const char *arrivals;
    double rate;   /* requests per second; default 100 */
    int64_t rows;  /* rows of a request; default 1 */
    int executors; /* 1 to 64; default 1 */
    /* Most rows of a batch, default 64; most rows that may wait, default 4096. */
    int64_t limit, waiting;
    double queue_timeout; /* of each request, as in weft_request; 0: none */
    /* The true batch times, as in weft_batch_queue_options; at least one size. */
    const int64_t *curve_rows;
    const double *curve_times;
    int curve_sizes;
    const double *slowdown; /* [executors]; NULL: executors do not slow each other down */
    double variation;       /* coefficient of variation of the time of a batch; 0: none */
    /* Requests that are counted, after a tenth as many that are not; default 20000. */
    int64_t requests;
    uint64_t seed;
    /* A change of the load: from counted request number `step` on the rate is `step_rate`. 0:
     * none. */
    int64_t step;
    double step_rate;
    /* The rate goes up and down as over a day: at time t it is rate * (1 - swing * cos(2 pi t /
     * period)), with swing in 0..1 and the period in seconds. swing 0: the rate is constant. */
    double swing, period;
    /* Closed loop: the number of clients. Each sends its next request after the answer to the last
     * one and a gap, drawn from `arrivals` at rate / clients; so `rate` is what all would send if
     * answers took no time. 0: open loop. */
    int clients;
    /* Seconds by which each timed wait of an executor ends late. */
    double timer_slack;
    /* Other processes use the cores for this share of the time (0..1), each time for
     * `interference_seconds` on average, and meanwhile batches take `interference_slowdown` times
     * as long. Share 0: they never do. */
    double interference_share, interference_slowdown, interference_seconds;
} weft_forecast_options;
WEFT_API void weft_forecast_options_init_size(weft_forecast_options *options, size_t size);
#define weft_forecast_options_init(options)                                                        \
    weft_forecast_options_init_size(options, sizeof(*(options)))

/* The result of a forecast, over the counted requests. */
typedef struct weft_forecast {
    /* requests: answered; refused: the queue was full; late: their queue_timeout passed, or was
     * sure to pass when they arrived */
    int64_t requests, refused, late, batches;
    double mean, p50, p95, p99, p999; /* latency in seconds */
    double rows;                      /* mean rows of a batch */
    /* Fraction of the time in which an executor computes, mean over the executors. */
    double utilisation;
    /* The policy's wait in seconds and the rows that it waits for, at the end. */
    double max_delay;
    int64_t min_rows;
    uint64_t room[8]; /* of later versions: 0 */
} weft_forecast;

/* Runs the simulation. `each` (may be NULL) gets the latency of each counted request in seconds, in
 * the order of arrivals; below 0: the request was refused or late. ARGUMENT: an option is out of
 * range; the message names it. */
WEFT_API WEFT_NODISCARD weft_status weft_forecast_run(weft_context *context,
                                                      const weft_forecast_options *options,
                                                      void (*each)(void *user, double latency),
                                                      void *user, weft_forecast *out);

#ifdef __cplusplus
}
#endif
#endif
