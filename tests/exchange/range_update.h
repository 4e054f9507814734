/* A range update that tests can compute by hand: plain gradient descent. */
#ifndef WEFT_TESTS_RANGE_UPDATE_H
#define WEFT_TESTS_RANGE_UPDATE_H

#include "weft/status.h"

typedef struct descent {
    double lr;
    int64_t count; /* elements, of f64 */
} descent;

/* w -= lr rate g */
static inline weft_status descend(void *user, void *parameters, const void *gradient, double rate)
{
    const descent *d = user;
    double *w = parameters;
    const double *g = gradient;
    for (int64_t i = 0; i < d->count; i++) w[i] -= d->lr * rate * g[i];
    return WEFT_OK;
}

#endif
