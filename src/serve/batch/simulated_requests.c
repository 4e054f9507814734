/* Generates the requests of a forecast in virtual time: open-loop arrivals at a rate, or
 * closed-loop clients, each of which sends again after its answer and a gap. */
#include "serve/batch/simulated_requests.h"

#include <math.h>

#include "serve/batch/batch_internal.h"

enum { MOST_CLIENTS = 1 << 20 };

static weft_status check(const weft_forecast_options *o)
{
    if (o->clients < 0 || o->clients > MOST_CLIENTS)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "a forecast of %d clients, must be from 1 to %d, or 0 for requests that "
                         "wait for no answer",
                         o->clients, MOST_CLIENTS);
    if (!(o->swing >= 0) || o->swing >= 1 || (o->swing > 0 && !(o->period > 0)))
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "the rate swings by %g of itself in %g s; must be below 1, and above 0",
                         o->swing, o->period);
    return WEFT_OK;
}

/* The seconds from `now` to the next request: of all arrivals in an open loop, or of one client in
 * a closed loop. */
static double gap(weft_workload *d, double now, bool stepped)
{
    const weft_forecast_options *o = d->options;
    double rate = stepped ? o->step_rate : o->rate;
    if (o->swing > 0) rate *= 1 - o->swing * cos(6.283185307179586 * now / o->period);
    return weft_arrivals_next(d->arrivals, o->clients > 0 ? rate / o->clients : rate);
}

weft_status weft_workload_open(weft_context *context, const weft_forecast_options *options,
                               weft_workload *out)
{
    *out = (weft_workload){.options = options};
    WEFT_TRY(check(options));
    WEFT_TRY(WEFT_NEW(&out->at, WEFT_MAX(options->clients, 1)));
    WEFT_TRY(weft_arrivals_open(context, options->arrivals, options->seed, &out->arrivals));
    for (int i = 0; i < WEFT_MAX(options->clients, 1); i++)
        weft_time_heap_add(out->at, &out->count, gap(out, 0, false));
    return WEFT_OK;
}

double weft_workload_next(const weft_workload *d)
{
    return d->count > 0 ? d->at[0] : INFINITY;
}

void weft_workload_take(weft_workload *d, bool stepped)
{
    double now = d->at[0];
    weft_time_heap_pop(d->at, &d->count);
    if (d->options->clients == 0) weft_time_heap_add(d->at, &d->count, now + gap(d, now, stepped));
}

void weft_workload_answered(weft_workload *d, double now, bool stepped)
{
    if (d->options->clients > 0) weft_time_heap_add(d->at, &d->count, now + gap(d, now, stepped));
}

void weft_workload_close(weft_workload *d)
{
    weft_arrivals_close(&d->arrivals);
    free(d->at);
    d->at = NULL;
}
