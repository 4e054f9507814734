/* Measurements of a load test: a histogram of latencies whose buckets grow by 1 %, so that a fixed
 * array has the same relative precision from microseconds to minutes; and counts of failures by
 * kind. */
#include "load/measure.h"

#include <math.h>
#include <stdio.h>

static const double FIRST = 1e-6, WIDER = 1.01;

void weft_load_histogram_add(weft_load_histogram *histogram, double seconds)
{
    double place = seconds > FIRST ? log(seconds / FIRST) / log(WIDER) : 0;
    histogram->buckets[place < WEFT_LOAD_BUCKETS - 1 ? (size_t)place : WEFT_LOAD_BUCKETS - 1]++;
    histogram->low = histogram->count ? fmin(histogram->low, seconds) : seconds;
    histogram->high = histogram->count ? fmax(histogram->high, seconds) : seconds;
    histogram->sum += seconds;
    histogram->count++;
}

double weft_load_quantile(const weft_load_histogram *histogram, double quantile)
{
    WEFT_NEED_ELSE(0, histogram);
    int64_t rank = (int64_t)ceil(quantile * (double)histogram->count), seen = 0;
    if (histogram->count == 0) return 0;
    if (rank >= histogram->count) return histogram->high;
    for (int i = 0; i < WEFT_LOAD_BUCKETS; i++) {
        seen += histogram->buckets[i];
        if (seen < WEFT_MAX(rank, 1)) continue;
        return fmin(fmax(FIRST * pow(WIDER, i + 0.5), histogram->low), histogram->high);
    }
    return histogram->high;
}

double weft_load_mean(const weft_load_histogram *histogram)
{
    WEFT_NEED_ELSE(0, histogram);
    return histogram->count ? histogram->sum / (double)histogram->count : 0;
}

void weft_load_result_add_failure(weft_load_result *result, int status, const char *what,
                                  const char *example)
{
    int i = 0;
    result->failed++;
    while (i < result->failure_kinds &&
           (result->failures[i].status != status || strcmp(result->failures[i].what, what) != 0))
        i++;
    if (i == WEFT_LOAD_FAILURES) { /* from here on the last kind counts all other ones */
        result->failures[i - 1].what = "others";
        result->failures[i - 1].status = 0;
        result->failures[i - 1].count++;
        return;
    }
    weft_load_failure *f = &result->failures[i];
    if (i == result->failure_kinds) {
        result->failure_kinds++;
        f->status = status;
        f->what = what;
        (void)snprintf(f->example, sizeof(f->example), "%s", example);
    }
    f->count++;
}
