/* The learning rate as a function of the step of its schedule. The optimizer's node and the
 * messages of a resumed run compute it alike. */
#ifndef WEFT_BASE_LEARNING_RATE_H
#define WEFT_BASE_LEARNING_RATE_H

#include <math.h>
#include <stdint.h>

/* The fields of weft_optimizer_options, with which they agree. */
typedef struct weft_learning_rate {
    int kind;
    double base, gamma, floor;
    int64_t warmup, total, every;
    int64_t step;    /* of the run, which is step `at` of the schedule */
    double at, pace; /* pace: steps of the schedule in a step of the run */
} weft_learning_rate;

/* The step of the schedule at a step of the run. Sums of a pace that is no whole number are
 * rounded, and may miss a whole number by that much. */
static inline double weft_learning_rate_step(const weft_learning_rate *r, int64_t step)
{
    double s = r->at + r->pace * (double)(step - r->step), whole = round(s);
    return fabs(s - whole) < 1e-6 ? whole : s;
}

static inline double weft_learning_rate_at(const weft_learning_rate *r, int64_t step)
{
    double s = weft_learning_rate_step(r, step), warmup = (double)r->warmup;
    if (s < warmup) return r->base * fmin((s + 1) / warmup, 1);
    if (r->kind == 1) return r->base * pow(r->gamma, floor((s - warmup) / (double)r->every));
    if (r->kind != 2) return r->base;
    double done = r->total > r->warmup ? (s - warmup) / ((double)r->total - warmup) : 1;
    return r->floor +
           (r->base - r->floor) * 0.5 * (1 + cos(3.14159265358979323846 * fmin(done, 1)));
}

#endif
