/* Gives the constants of the optimizers' moving averages, computed in double and rounded once by
 * the device's kernels, so that a beta or momentum near 1 keeps its meaning in single precision. */
#ifndef WEFT_BASE_MOVING_AVERAGE_H
#define WEFT_BASE_MOVING_AVERAGE_H

#include <float.h>
#include <math.h>

#include "base/base.h"

/* The decay of x by a factor beta while y is added, as keep x + (y - drop x). For a beta near 1,
 * 1 - beta has all its digits as a number of its own, but beta itself loses them when it is
 * rounded; a beta near 0 is the factor. */
typedef struct weft_decay {
    double keep, drop;
} weft_decay;

static inline weft_decay weft_decay_of(double beta)
{
    return beta < 0.5 ? (weft_decay){0, -beta} : (weft_decay){1, 1 - beta};
}

/* 1 - beta^t, the weight that the first t steps of a moving average add up to. */
static inline double weft_decay_weight(double beta, double t)
{
    return -expm1(t * log(beta));
}

/* The smallest denominator of an Adam step whose moments are of type `dtype`; root: the bias
 * correction of the root of the second moment. Squares below the smallest normal number are lost
 * as 0, and without this bound a tiny epsilon would make a step of any size, or 0 / 0, of them. */
static inline double weft_adam_least(double root, weft_dtype dtype)
{
    return root * sqrt(dtype == WEFT_F64 ? DBL_MIN : (double)FLT_MIN);
}

#endif
