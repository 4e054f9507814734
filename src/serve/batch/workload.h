/* Sources of requests in virtual time: open-loop arrivals, or closed-loop clients that wait for
 * their answers. */
#ifndef WEFT_SERVE_BATCH_WORKLOAD_H
#define WEFT_SERVE_BATCH_WORKLOAD_H

#include "load/load.h"
#include "weft/forecast.h"

typedef struct weft_demand {
    const weft_forecast_options *options;
    weft_arrivals *arrivals;
    double *at; /* heap of the known times of future requests */
    int count;
} weft_demand;

weft_status weft_demand_open(weft_context *context, const weft_forecast_options *options,
                             weft_demand *out) WEFT_NODISCARD;
/* Time of the next request; infinite: none before an answer. */
double weft_demand_next(const weft_demand *demand);
/* Takes the next request. stepped: the load has changed to the second one. */
void weft_demand_came(weft_demand *demand, bool stepped);
/* A request has been answered or refused. */
void weft_demand_answered(weft_demand *demand, double now, bool stepped);
void weft_demand_close(weft_demand *demand);

#endif
