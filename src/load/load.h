/* Arrival processes of requests, shared by the load generator and the forecasts of serving. */
#ifndef WEFT_LOAD_LOAD_H
#define WEFT_LOAD_LOAD_H

#include "base/base.h"
#include "weft/options.h"

typedef struct weft_arrivals weft_arrivals;

/* Opens an arrival process: "poisson"; "steady"; "bursts[:size=N]", a Poisson process of bursts of
 * N requests, by default 10; or "trace:FILE", recorded times in seconds, one on each line,
 * non-decreasing. A trace may be gzip data, is repeated, and is scaled to the requested rate unless
 * that is 0. ARGUMENT: no such process or key; FORMAT, IO: names the file and its line. */
weft_status weft_arrivals_open(weft_context *context, const char *spec, uint64_t seed,
                               weft_arrivals **out) WEFT_NODISCARD;
/* Draws the seconds from the previous request to the next one, at a mean of `rate` requests a
 * second. */
/* Whether arrivals of this specification (NULL: none is given) have times of their own, so that
 * they need no rate. */
bool weft_arrivals_are_timed(const weft_context *context, const char *spec);
double weft_arrivals_next(weft_arrivals *arrivals, double rate);
void weft_arrivals_close(weft_arrivals **arrivals);
weft_status weft_arrivals_register(weft_context *context) WEFT_NODISCARD;

/* options.c: adds the arrival processes and the option table of `weft load` to a context, once: a
 * further call changes nothing. */
weft_status weft_load_register(const weft_context *context) WEFT_NODISCARD;

#endif
