/* Histogram of latencies whose cells grow by 1 %: equal relative precision from microseconds to
 * minutes, in a fixed array. */
#include "load/measure.h"

#include <math.h>
#include <stdio.h>

static const double FIRST = 1e-6, WIDER = 1.01;

void weft_cells_add(weft_load_cells *cells, double seconds)
{
    double place = seconds > FIRST ? log(seconds / FIRST) / log(WIDER) : 0;
    cells->at[place < WEFT_LOAD_CELLS - 1 ? (size_t)place : WEFT_LOAD_CELLS - 1]++;
    cells->low = cells->count ? fmin(cells->low, seconds) : seconds;
    cells->high = cells->count ? fmax(cells->high, seconds) : seconds;
    cells->sum += seconds;
    cells->count++;
}

double weft_load_quantile(const weft_load_cells *cells, double quantile)
{
    int64_t rank = (int64_t)ceil(quantile * (double)cells->count), seen = 0;
    if (cells->count == 0) return 0;
    if (rank >= cells->count) return cells->high;
    for (int i = 0; i < WEFT_LOAD_CELLS; i++) {
        seen += cells->at[i];
        if (seen < WEFT_MAX(rank, 1)) continue;
        return fmin(fmax(FIRST * pow(WIDER, i + 0.5), cells->low), cells->high);
    }
    return cells->high;
}

double weft_load_mean(const weft_load_cells *cells)
{
    return cells->count ? cells->sum / (double)cells->count : 0;
}

void weft_figures_fail(weft_load_figures *figures, int status, const char *what,
                       const char *example)
{
    int i = 0;
    figures->failed++;
    while (i < figures->kinds &&
           (figures->failures[i].status != status || strcmp(figures->failures[i].what, what) != 0))
        i++;
    if (i == WEFT_LOAD_FAILURES) { /* the last kind counts all further ones */
        figures->failures[i - 1].what = "others";
        figures->failures[i - 1].status = 0;
        figures->failures[i - 1].count++;
        return;
    }
    weft_load_failure *f = &figures->failures[i];
    if (i == figures->kinds) {
        figures->kinds++;
        f->status = status;
        f->what = what;
        (void)snprintf(f->example, sizeof(f->example), "%s", example);
    }
    f->count++;
}
