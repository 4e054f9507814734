/* What is measured, and what is to be. */
#ifndef WEFT_LOAD_MEASURE_H
#define WEFT_LOAD_MEASURE_H

#include "base/base.h"
#include "weft/load.h"

enum { WEFT_MOST_RATES = 1024 };

/* --- measure.c --- */

void weft_cells_add(weft_load_cells *cells, double seconds);
/* One more failure of a kind; `example` is kept of the first one. */
void weft_figures_fail(weft_load_figures *figures, int status, const char *what,
                       const char *example);

/* --- rates.c --- */

typedef struct weft_rate {
    double rate, seconds; /* rate 0: as recorded, or closed */
    int64_t closed;
} weft_rate;

/* The rates that options ask for; the caller frees *out. ARGUMENT: which of them cannot be. */
weft_status weft_rates_read(const weft_load_options *options, weft_rate **out,
                            int *count) WEFT_NODISCARD;

#endif
