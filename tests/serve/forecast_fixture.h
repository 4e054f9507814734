/* Batch curves, forecasts and the best fixed setting, for tests of batching policies. */
#ifndef WEFT_TESTS_FORECAST_FIXTURE_H
#define WEFT_TESTS_FORECAST_FIXTURE_H

#include <math.h>
#include <stdio.h>

#include "one_context.h"
#include "support.h"
#include "weft/forecast.h"

/* The batch curve a + b n at 1, 2, 4, ... rows and at `limit`, the sizes at which a model is
 * measured. */
typedef struct curve {
    int sizes;
    int64_t rows[16];
    double time[16];
} curve;

static inline curve linear(double a, double b, int64_t limit)
{
    curve c = {0};
    for (int64_t n = 1;; n = n * 2 > limit ? limit : n * 2) {
        c.rows[c.sizes] = n;
        c.time[c.sizes++] = a + b * (double)n;
        if (n == limit) return c;
    }
}

static inline weft_forecast_options with(const curve *c, int64_t limit, double rate)
{
    weft_forecast_options o;
    weft_forecast_options_init(&o);
    o.limit = limit;
    o.rate = rate;
    o.waiting = 1 << 20;
    o.curve_rows = c->rows;
    o.curve_times = c->time;
    o.curve_sizes = c->sizes;
    o.requests = 20000;
    return o;
}

static inline weft_forecast forecast(const weft_forecast_options *o)
{
    weft_forecast f;
    assert_ok(weft_forecast_run(context, o, NULL, NULL, &f));
    return f;
}

typedef struct goal {
    const char *policy;
    double (*of)(const weft_forecast *f);
} goal;
static inline double mean_of(const weft_forecast *f)
{
    return f->mean;
}
static inline double p95_of(const weft_forecast *f)
{
    return f->p95;
}
static inline double p99_of(const weft_forecast *f)
{
    return f->p99;
}
static inline double best_fixed(weft_forecast_options *o, const goal *g, double single)
{
    double best = INFINITY;
    for (int64_t max = 1; max <= o->limit; max = max * 3 / 2 + 1)
        for (double wait = 0; wait <= 16; wait = wait > 0 ? wait * 2 : 0.25) {
            char policy[64];
            snprintf(policy, sizeof(policy), "fixed:wait=%.3f,max=%lld", wait * single * 1e6,
                     (long long)max);
            o->policy = policy;
            weft_forecast f = forecast(o);
            double cost = g->of(&f);
            if (f.refused == 0 && cost < best) best = cost;
        }
    return best;
}

#endif
