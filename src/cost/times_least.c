/* A lower bound of the estimates of an operator. An estimate is a mean of logarithms of measured
 * times, each scaled by the ratio of two rooflines. So relative to its own roofline no estimate is
 * below the least measurement of the operator in the setting that it takes, which may be any. */
#include <math.h>

#include "cost/times_internal.h"

/* The least ratio of a measured time to its roofline; INFINITY: the operator was not measured.
 * *most: raised to the greatest. */
static double least_ratio(const weft_times *t, const time_setting *s, uint64_t op, double *most)
{
    double least = INFINITY;
    for (size_t i = s->begin; i < s->end; i++) {
        const time_line *m = &t->lines[i];
        double ratio = m->seconds / roofline(s, m->flops, m->bytes);
        if (m->operator_hash != op) continue;
        least = WEFT_MIN(least, ratio);
        *most = WEFT_MAX(*most, ratio);
    }
    return least;
}

double weft_times_evenness(const weft_times *t, const char *op)
{
    uint64_t hash = weft_times_operator(op);
    double least = INFINITY, most = 0;
    for (size_t i = 0; i < t->setting_count; i++)
        least = WEFT_MIN(least, least_ratio(t, &t->settings[i], hash, &most));
    return isinf(least) ? 1 : least / most;
}

double weft_times_least(const weft_times *t, const char *op)
{
    uint64_t hash = weft_times_operator(op);
    double measured = INFINITY, rates = INFINITY, most = 0;
    for (size_t i = 0; i < t->setting_count; i++) {
        const time_setting *s = &t->settings[i];
        double thread = s->threads / s->flops;
        rates = WEFT_MIN(rates, thread);
        measured = WEFT_MIN(measured, thread * least_ratio(t, s, hash, &most));
    }
    return isinf(measured) ? rates : measured;
}
