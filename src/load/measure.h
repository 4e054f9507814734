/* Measurements, and the list of rates to measure. */
#ifndef WEFT_LOAD_MEASURE_H
#define WEFT_LOAD_MEASURE_H

#include "base/base.h"
#include "weft/load.h"

enum { WEFT_MOST_RATES = 1024 };

/* --- measure.c --- */

void weft_load_histogram_add(weft_load_histogram *histogram, double seconds);
/* Counts a failure of a kind; `example` is kept for the first one. */
void weft_load_result_add_failure(weft_load_result *result, int status, const char *what,
                                  const char *example);

/* --- rates.c --- */

typedef struct weft_load_rate {
    double rate, seconds; /* rate 0: as recorded in the trace, or closed loop */
    int64_t closed;
} weft_load_rate;

/* Parses the rates of the options; the caller frees *out. ARGUMENT: names the invalid one. */
weft_status weft_load_rates_parse(const weft_load_options *options, weft_load_rate **out,
                                  int *count) WEFT_NODISCARD;

#endif
