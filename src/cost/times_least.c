/* A lower bound of the estimates of an operator. An estimate is a mean of logarithms of measured
 * times, each scaled by the ratio of two rooflines. So relative to its own roofline no estimate is
 * below the least measurement of the operator in the setting that it takes, which may be any. */
#include <math.h>

#include "cost/times_internal.h"

/* The least ratio of a measured time to its roofline; INFINITY: the operator was not measured. */
static double least_ratio(const weft_times *t, const time_setting *s, uint64_t op)
{
    double least = INFINITY;
    for (size_t i = s->begin; i < s->end; i++) {
        const time_line *m = &t->lines[i];
        if (m->operator_hash == op)
            least = WEFT_MIN(least, m->seconds / roofline(s, m->flops, m->bytes));
    }
    return least;
}

double weft_times_least(const weft_times *t, const char *op)
{
    uint64_t hash = weft_times_operator(op);
    double measured = INFINITY, rates = INFINITY;
    for (size_t i = 0; i < t->setting_count; i++) {
        const time_setting *s = &t->settings[i];
        double thread = s->threads / s->flops;
        rates = WEFT_MIN(rates, thread);
        measured = WEFT_MIN(measured, thread * least_ratio(t, s, hash));
    }
    return isinf(measured) ? rates : measured;
}
