/* Who asks in virtual time: nobody in particular, or clients that wait for their answers. */
#ifndef WEFT_SERVE_BATCH_DEMAND_H
#define WEFT_SERVE_BATCH_DEMAND_H

#include "load/load.h"
#include "weft/forecast.h"

typedef struct weft_demand {
    const weft_forecast_options *options;
    weft_arrivals *arrivals;
    double *at; /* when requests come of which that is known, as a heap */
    int count;
} weft_demand;

weft_status weft_demand_open(weft_context *context, const weft_forecast_options *options,
                             weft_demand *out) WEFT_NODISCARD;
/* When the next one comes; infinite: not before one is answered. */
double weft_demand_next(const weft_demand *demand);
/* It has come. stepped: the load is another one from now on. */
void weft_demand_came(weft_demand *demand, bool stepped);
/* One has been answered or refused. */
void weft_demand_answered(weft_demand *demand, double now, bool stepped);
void weft_demand_close(weft_demand *demand);

#endif
