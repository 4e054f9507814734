/* The source of requests in a forecast: open-loop arrivals, or closed-loop clients that wait for
 * their answers. */
#ifndef WEFT_SERVE_BATCH_SIMULATED_REQUESTS_H
#define WEFT_SERVE_BATCH_SIMULATED_REQUESTS_H

#include "load/load.h"
#include "weft/forecast.h"

typedef struct weft_workload {
    const weft_forecast_options *options;
    weft_arrivals *arrivals;
    /* heap of the times of future requests that are known: one in an open loop, one for each client
     * that waits for no answer in a closed loop */
    double *at;
    int count;
} weft_workload;

weft_status weft_workload_open(weft_context *context, const weft_forecast_options *options,
                               weft_workload *out) WEFT_NODISCARD;
/* The time of the next request; infinite: there is none before an answer. */
double weft_workload_next(const weft_workload *workload);
/* Removes the next request, and in an open loop draws the one after it. stepped: the rate is
 * step_rate now. */
void weft_workload_take(weft_workload *workload, bool stepped);
/* Reports that a request was answered or refused; in a closed loop its client will send again. */
void weft_workload_answered(weft_workload *workload, double now, bool stepped);
void weft_workload_close(weft_workload *workload);

#endif
