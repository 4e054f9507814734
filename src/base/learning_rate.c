/* The schedules of the learning rate; a new one is a function and a row. */
#include "base/learning_rate.h"

#include <math.h>

#include "base/base.h"

static const double PI = 3.14159265358979323846;

static double constant(const weft_learning_rate *r, double step, double done)
{
    (void)step;
    (void)done;
    return r->base;
}

static double by_steps(const weft_learning_rate *r, double step, double done)
{
    (void)done;
    return r->base * pow(r->gamma, floor((step - (double)r->warmup) / (double)r->every));
}

static double cosine(const weft_learning_rate *r, double step, double done)
{
    (void)step;
    return r->floor + (r->base - r->floor) * 0.5 * (1 + cos(PI * done));
}

static double linear(const weft_learning_rate *r, double step, double done)
{
    (void)step;
    return r->base + (r->floor - r->base) * done;
}

/* Vaswani et al. 2017: from the end of the warm-up on with the inverse square root of the step. */
static double inverse_sqrt(const weft_learning_rate *r, double step, double done)
{
    (void)done;
    double warmup = r->warmup > 0 ? (double)r->warmup : 1;
    return r->base * sqrt(warmup / (step + 1));
}

static double between(double from, double to, double share)
{
    return to + (from - to) * 0.5 * (1 + cos(PI * share));
}

/* Smith and Topin 2018, with the defaults of PyTorch's OneCycleLR: for 30 % of the steps up from a
 * 25th of the rate, then down to a 10,000th of that, each along half a cosine. */
static double one_cycle(const weft_learning_rate *r, double step, double done)
{
    (void)step;
    const double up = 0.3, first = r->base / 25, last = first / 1e4;
    return done < up ? between(first, r->base, done / up)
                     : between(r->base, last, (done - up) / (1 - up));
}

const weft_rate_schedule weft_rate_schedules[] = {
    {"constant", "the same rate in every step", NULL, false, constant},
    {"step", "drops by a factor every so many steps", "decay-every,gamma", false, by_steps},
    {"cosine", "falls along half a cosine", "lr-floor", true, cosine},
    {"linear", "falls along a line", "lr-floor", true, linear},
    {"inverse-sqrt", "falls with the root of the step", NULL, false, inverse_sqrt},
    {"one-cycle", "rises for 30 % of the steps, then falls almost to 0", NULL, true, one_cycle},
};
const int weft_rate_schedule_count = WEFT_COUNT(weft_rate_schedules);

double weft_learning_rate_step(const weft_learning_rate *r, int64_t step)
{
    double s = r->at + r->pace * (double)(step - r->step), whole = round(s);
    return fabs(s - whole) < 1e-6 ? whole : s;
}

double weft_learning_rate_at(const weft_learning_rate *r, int64_t step)
{
    double s = weft_learning_rate_step(r, step), warmup = (double)r->warmup, done = 1;
    if (s < warmup) return r->base * fmin((s + 1) / warmup, 1);
    if (r->total > r->warmup) done = fmin((s - warmup) / ((double)r->total - warmup), 1);
    return weft_rate_schedules[r->kind].rate(r, s, done);
}
