/* Arrival processes, shared by the load generator and the simulation. */
#ifndef WEFT_LOAD_LOAD_H
#define WEFT_LOAD_LOAD_H

#include "base/base.h"
#include "weft/options.h"

typedef struct weft_arrivals weft_arrivals;

/* "poisson", "steady", "bursts[:size=N]" (N at once, 10 by default; bursts are independent),
 * "trace:FILE" (may be gzip data: a time in seconds on each line, non-decreasing; scaled to the
 * requested mean rate, unless the rate is 0, and repeated). ARGUMENT: no such process
 * (WEFT_KIND_ARRIVALS), or no such key; FORMAT, IO: the file, with its line. */
weft_status weft_arrivals_open(weft_context *context, const char *spec, uint64_t seed,
                               weft_arrivals **out) WEFT_NODISCARD;
/* Seconds from the previous request to the next one, at `rate` requests a second. */
double weft_arrivals_next(weft_arrivals *arrivals, double rate);
void weft_arrivals_close(weft_arrivals **arrivals);
weft_status weft_arrivals_register(weft_context *context) WEFT_NODISCARD;

/* The rows of weft_load_table, for the context. */
extern const weft_option weft_load_rows[];

#endif
