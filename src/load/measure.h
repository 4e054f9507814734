/* Measurements of a load test, and its list of rates. */
#ifndef WEFT_LOAD_MEASURE_H
#define WEFT_LOAD_MEASURE_H

#include "base/base.h"
#include "weft/load.h"

enum { WEFT_MOST_RATES = 1024 };

/* --- measure.c --- */

void weft_load_histogram_add(weft_load_histogram *histogram, double seconds);
/* Counts a failed request. Failures with equal `status` and `what` are of one kind; `example` is
 * kept for the first one of a kind. */
void weft_load_result_add_failure(weft_load_result *result, int status, const char *what,
                                  const char *example);

/* --- rates.c --- */

typedef struct weft_load_rate {
    double rate, seconds; /* rate 0: closed loop, or the recorded rate of a trace */
    int64_t closed;
} weft_load_rate;

/* Parses the list of rates or of closed loops in the options; the caller frees *out. ARGUMENT: the
 * message names the invalid item. */
weft_status weft_load_rates_parse(const weft_context *context, const weft_load_options *options,
                                  weft_load_rate **out, int *count) WEFT_NODISCARD;

#endif
