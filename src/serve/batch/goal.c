/* The goal of the adaptive policy, a number to minimize: the mean or a quantile of the latency,
 * optionally under a bound on p99. */
#include <math.h>

#include "serve/batch/adaptive_internal.h"

weft_status weft_goal_parse(const char *name, double slo, weft_goal *out)
{
    static const double quantiles[] = {0, 0.5, 0.95, 0.99};
    int i;
    WEFT_TRY(weft_choose("adaptive: goal", name, "mean,p50,p95,p99", NULL, &i));
    *out = (weft_goal){.slo = slo, .quantile = quantiles[i]};
    return WEFT_OK;
}

/* The element of `x` that would be at index `nth` if `x` were sorted (Hoare's quickselect);
 * reorders `x`. */
static double select_nth(double *x, int n, int nth)
{
    int low = 0, high = n - 1;
    while (low < high) {
        double pivot = x[(low + high) / 2];
        int i = low, j = high;
        while (i <= j) {
            while (x[i] < pivot) i++;
            while (x[j] > pivot) j--;
            if (i > j) break;
            double swap = x[i];
            x[i++] = x[j];
            x[j--] = swap;
        }
        if (nth <= j) {
            high = j;
        } else if (nth >= i) {
            low = i;
        } else {
            break;
        }
    }
    return x[nth];
}

static double mean_of(const double *x, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++) sum += x[i];
    return sum / n;
}

/* If p99 exceeds the bound, the goal's value is p99 times this factor. So such a setting is worse
 * than any setting that keeps the bound, and worse the larger its p99. */
static const double BROKEN = 1e6;

static double bounded(const weft_goal *goal, double value, double p99)
{
    return p99 <= goal->slo ? value : p99 * BROKEN;
}

double weft_goal_seconds(const weft_goal *goal, double value)
{
    return goal->slo > 0 && value > goal->slo * BROKEN ? value / BROKEN : value;
}

static double quantile_of(double *latency, int n, double quantile)
{
    return select_nth(latency, n, (int)(quantile * (n - 1)));
}

double weft_goal_of(const weft_goal *goal, double *latency, int n)
{
    double value =
        goal->quantile > 0 ? quantile_of(latency, n, goal->quantile) : mean_of(latency, n);
    return goal->slo > 0 ? bounded(goal, value, quantile_of(latency, n, 0.99)) : value;
}

void weft_latency_window_clear(weft_latency_window *m)
{
    memset(m, 0, sizeof(*m));
}

void weft_latency_window_add(weft_latency_window *m, double latency)
{
    m->count++;
    m->sum += latency;
    weft_latency_count(m->cells, latency);
}

double weft_goal_measured(const weft_goal *goal, const weft_latency_window *m)
{
    if (m->count == 0) return 0;
    double value = goal->quantile > 0 ? weft_latency_quantile(m->cells, goal->quantile)
                                      : m->sum / (double)m->count;
    return goal->slo > 0 ? bounded(goal, value, weft_latency_quantile(m->cells, 0.99)) : value;
}
