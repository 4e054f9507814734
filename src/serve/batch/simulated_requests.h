/* Sources of requests in virtual time: open-loop arrivals, or closed-loop clients that wait for
 * their answers. */
#ifndef WEFT_SERVE_BATCH_SIMULATED_REQUESTS_H
#define WEFT_SERVE_BATCH_SIMULATED_REQUESTS_H

#include "load/load.h"
#include "weft/forecast.h"

typedef struct weft_workload {
    const weft_forecast_options *options;
    weft_arrivals *arrivals;
    double *at; /* heap of the known times of future requests */
    int count;
} weft_workload;

weft_status weft_workload_open(weft_context *context, const weft_forecast_options *options,
                               weft_workload *out) WEFT_NODISCARD;
/* Time of the next request; infinite: none before an answer. */
double weft_workload_next(const weft_workload *workload);
/* Takes the next request. stepped: the load has changed to the second one. */
void weft_workload_take(weft_workload *workload, bool stepped);
/* A request has been answered or refused. */
void weft_workload_answered(weft_workload *workload, double now, bool stepped);
void weft_workload_close(weft_workload *workload);

#endif
