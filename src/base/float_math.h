/* Defines functions of float for loops that the compiler vectorises. */
#ifndef WEFT_BASE_FLOAT_MATH_H
#define WEFT_BASE_FLOAT_MATH_H

#include <stdint.h>
#include <string.h>

/* Functions for loops that the compiler vectorises, which WEFT_CLONES functions inline. */
#define WEFT_INLINE static inline __attribute__((always_inline))

/* exp(x) - 1 = scale (1 + e) - 1 for x = n log 2 + rest, with scale 2^n: returns e = exp(rest) - 1
 * as a Taylor polynomial of degree 7, whose relative error is below 1e-8 since the rest is at most
 * half of log 2. x is from -87 to 88, or NaN. */
WEFT_INLINE float weft_exp_rest(float x, float *scale)
{
    const float to_integer = 12582912; /* 1.5 * 2^23: the last bits of a sum are its integer */
    float sum = x * 1.44269504f + to_integer, n = sum - to_integer;
    /* log 2 in two parts, of which n times the first is exact */
    float rest = (x - n * 0.693359375f) + n * 2.12194440e-4f, e = 1.0f / 5040;
    int32_t bits;
    memcpy(&bits, &sum, sizeof(bits));
    bits = (int32_t)(((uint32_t)bits + 127) << 23);
    memcpy(scale, &bits, sizeof(bits));
    e = e * rest + 1.0f / 720;
    e = e * rest + 1.0f / 120;
    e = e * rest + 1.0f / 24;
    e = e * rest + 1.0f / 6;
    e = e * rest + 0.5f;
    e = e * rest + 1;
    return e * rest;
}
/* exp(x) with an error below 2 units in the last place, for x up to 88; below -87 the result is 0.
 * NaN stays NaN. */
WEFT_INLINE float weft_exp(float x)
{
    float scale, e = weft_exp_rest(x, &scale);
    return x < -87 ? 0 : scale + scale * e;
}
/* x, but at most `limit` in amount; NaN stays NaN. */
WEFT_INLINE float weft_within(float x, float limit)
{
    x = x > limit ? limit : x;
    return x < -limit ? -limit : x;
}
WEFT_INLINE float weft_sigmoid(float x)
{
    float scale, e = weft_exp_rest(weft_within(-x, 87), &scale);
    return x < -87 ? 0 : 1 / (1 + (scale + scale * e));
}
WEFT_INLINE float weft_tanh(float x)
{
    float scale, e = weft_exp_rest(weft_within(2 * x, 40), &scale);
    float less = scale * e + (scale - 1); /* exp(2 x) - 1 */
    return less / (less + 2);
}

#endif
