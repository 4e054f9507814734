/* The transforms of Winograd's F(4x4, 3x3) along one dimension, of 16 channels at once. */
#ifndef WEFT_DEVICE_CPU_WINOGRAD_POINTS_H
#define WEFT_DEVICE_CPU_WINOGRAD_POINTS_H

#include "device/cpu/simd.h"

enum { LANES = 16 };
typedef float lanes __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t words __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

/* Polynomials are evaluated at 0, A, -A, B, -B and infinity. The divisors of Lagrange's formula are
 * 2 A^2 (A^2 - B^2) = -3/2 and 2 B^2 (B^2 - A^2) = 6. */
static const float A = 0.70710678f, B = 1.41421356f; /* A * B = 1 */
static const float OVER_A = -2.0f / 3, OVER_B = 1.0f / 6;

/* The kernel's polynomial at the six points, from g[0], g[s] and g[2 s], to t[0], t[u], ... */
WEFT_INLINE void weight_points(const lanes *g, int s, lanes *t, int u)
{
    const lanes even_a = (g[0] + 0.5f * g[2 * s]) * OVER_A, odd_a = A * g[s] * OVER_A;
    const lanes even_b = (g[0] + 2 * g[2 * s]) * OVER_B, odd_b = B * g[s] * OVER_B;
    t[0] = g[0];
    t[u] = even_a + odd_a;
    t[2 * u] = even_a - odd_a;
    t[3 * u] = even_b + odd_b;
    t[4 * u] = even_b - odd_b;
    t[5 * u] = g[2 * s];
}

/* In place: each six numbers become the polynomial's at the six points. */
WEFT_INLINE void input_points(lanes *d, int s)
{
    const lanes even_a = d[4 * s] - 2 * d[2 * s], odd_a = A * d[3 * s] - B * d[s];
    const lanes even_b = d[4 * s] - 0.5f * d[2 * s], odd_b = B * d[3 * s] - A * d[s];
    d[0] = d[0] - 2.5f * d[2 * s] + d[4 * s];
    d[5 * s] = d[s] - 2.5f * d[3 * s] + d[5 * s];
    d[s] = even_a + odd_a;
    d[2 * s] = even_a - odd_a;
    d[3 * s] = even_b + odd_b;
    d[4 * s] = even_b - odd_b;
}

/* In place: the first four of each six numbers become the results. */
WEFT_INLINE void result_points(lanes *m, int s)
{
    const lanes even_a = m[s] + m[2 * s], odd_a = m[s] - m[2 * s];
    const lanes even_b = m[3 * s] + m[4 * s], odd_b = m[3 * s] - m[4 * s];
    m[0] = m[0] + even_a + even_b;
    m[s] = A * odd_a + B * odd_b;
    m[2 * s] = 0.5f * even_a + 2 * even_b;
    m[3 * s] = 0.5f * A * odd_a + 2 * B * odd_b + m[5 * s];
}

/* The transposed transforms, for the gradient of the weight: of four gradients of results to six
 * points, from d[0], d[s], ... to t[0], t[u], ... */
WEFT_INLINE void grad_points(const lanes *d, int s, lanes *t, int u)
{
    const lanes even_a = d[0] + 0.5f * d[2 * s], odd_a = A * (d[s] + 0.5f * d[3 * s]);
    const lanes even_b = d[0] + 2 * d[2 * s], odd_b = B * (d[s] + 2 * d[3 * s]);
    t[0] = d[0];
    t[u] = even_a + odd_a;
    t[2 * u] = even_a - odd_a;
    t[3 * u] = even_b + odd_b;
    t[4 * u] = even_b - odd_b;
    t[5 * u] = d[3 * s];
}

/* In place: the first three of each six products become the gradients of three weights. */
WEFT_INLINE void weight_grad_points(lanes *m, int s)
{
    const lanes even_a = (m[s] + m[2 * s]) * OVER_A, odd_a = (m[s] - m[2 * s]) * OVER_A;
    const lanes even_b = (m[3 * s] + m[4 * s]) * OVER_B, odd_b = (m[3 * s] - m[4 * s]) * OVER_B;
    m[0] = m[0] + even_a + even_b;
    m[s] = A * odd_a + B * odd_b;
    m[2 * s] = 0.5f * even_a + 2 * even_b + m[5 * s];
}

#endif
