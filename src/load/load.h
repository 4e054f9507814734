/* When requests come: one description for load that is made and load that is simulated. */
#ifndef WEFT_LOAD_LOAD_H
#define WEFT_LOAD_LOAD_H

#include "base/base.h"
#include "weft/options.h"

typedef struct weft_arrivals weft_arrivals;

/* "poisson", "steady", "bursts[:size=N]" (N at once, 10 unless said, such bursts independent of
 * each other), "trace:FILE" (gzip too: a time in seconds on each line, not falling; scaled so that
 * the mean rate is what is asked for, and begun again at its end; a rate of 0 takes it as it is).
 * ARGUMENT: there is no such way (WEFT_KIND_ARRIVALS), or a key of it; FORMAT, IO: the file, with
 * its line. */
weft_status weft_arrivals_open(weft_context *context, const char *spec, uint64_t seed,
                               weft_arrivals **out) WEFT_NODISCARD;
/* Seconds from the request before to the next one, at this rate (requests a second). */
double weft_arrivals_next(weft_arrivals *arrivals, double rate);
void weft_arrivals_close(weft_arrivals **arrivals);
weft_status weft_arrivals_register(weft_context *context) WEFT_NODISCARD;

/* The rows of weft_load_table, as the context is to be given them. */
extern const weft_option weft_load_rows[];

#endif
