/* Declares helpers for the cpu device's loops over elements. */
#ifndef WEFT_DEVICE_CPU_SIMD_H
#define WEFT_DEVICE_CPU_SIMD_H

#include "base/target_clones.h"
#include "device/cpu/cpu.h"

/* Between these two calls, subnormal numbers count as zero in the calling thread. Decaying moments
 * of an optimizer become subnormal, and a pass over subnormal numbers takes about twice as long. */
#if defined(__x86_64__)
#include <xmmintrin.h>
static inline unsigned weft_flush_subnormals(void)
{
    unsigned old = _mm_getcsr();
    _mm_setcsr(old | 0x8040);
    return old;
}
static inline void weft_restore_subnormals(unsigned old)
{
    _mm_setcsr(old);
}
#else
static inline unsigned weft_flush_subnormals(void)
{
    return 0;
}
static inline void weft_restore_subnormals(unsigned old)
{
    (void)old;
}
#endif

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

/* Vectors of 8 numbers, at any address (one register with AVX2, two with SSE2), and the results of
 * their comparisons. */
enum { WEFT_LANES = 8 };
typedef float weft_lanes __attribute__((vector_size(32), aligned(4), may_alias));
typedef int32_t weft_mask __attribute__((vector_size(32), aligned(4), may_alias));

/* Creates a kernel that runs `fn` over the elements in memory order. All operands with the shape
 * and type of the first operand get one layout; other operands, such as scalars, are plain. */
weft_status cpu_flat_make(weft_device *device, const weft_group *group, cpu_loop_fn fn,
                          const weft_layout *const *in, weft_kernel **out) WEFT_NODISCARD;

#endif
