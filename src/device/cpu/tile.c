/* Multiplies small matrices (tiles) by a micro-kernel, which holds a block of the result in
 * registers (Goto and van de Geijn 2008). Compiled with contraction, so that a product and its
 * addition are one instruction where the processor has it. Each element of the result is a sum in
 * the order of k, whatever the block. */
#include "device/cpu/tile.h"

#include "device/cpu/simd.h"

/* A vector fills a register of AVX-512, and half of one fills a register of AVX2. */
typedef float wide_lanes __attribute__((vector_size(4 * TILE_COLUMNS), aligned(4), may_alias));
typedef uint32_t wide_bits __attribute__((vector_size(4 * TILE_COLUMNS), aligned(4), may_alias));
typedef float half_lanes __attribute__((vector_size(2 * TILE_COLUMNS), aligned(4), may_alias));
typedef uint32_t half_bits __attribute__((vector_size(2 * TILE_COLUMNS), aligned(4), may_alias));
typedef float tile_number __attribute__((may_alias)); /* or a pair of bf16 numbers */

/* A loop over the rows or vectors of a block: sums are in registers only if it is unrolled. */
#ifdef __clang__
#define EACH(i, count) _Pragma("clang loop unroll(full)") for (int i = 0; i < (count); i++)
#else
#define EACH(i, count) _Pragma("GCC unroll 11") for (int i = 0; i < (count); i++)
#endif

/* --- f32 --- */

#define SINGLE_STEP(vector, sum, a, b) sum += *(a) * *(const vector *)(b)

#define TILE(name) single_##name
#define TILE_TARGET
#define TILE_VECTOR half_lanes
#define TILE_STEP(sum, a, b) SINGLE_STEP(half_lanes, sum, a, b)
#include "device/cpu/tile_block.h"

static void multiply(const tile_product *p)
{
    single_plain(p);
}

/* --- pairs of bf16 numbers --- */

/* A bf16 number is the upper half of an f32 number; the first of a pair is the lower half. */
WEFT_INLINE float half_of(const tile_number *pair, int second)
{
    uint32_t bits;
    float x;
    memcpy(&bits, pair, sizeof(bits));
    bits = second ? bits & 0xffff0000 : bits << 16;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

#define PAIRS_STEP(vector, vector_bits, sum, a, b)                                                 \
    do {                                                                                           \
        vector_bits pair = *(const vector_bits *)(b);                                              \
        sum += half_of(a, 0) * (vector)(pair << 16);                                               \
        sum += half_of(a, 1) * (vector)(pair & 0xffff0000);                                        \
    } while (0)

#define TILE(name) pairs_##name
#define TILE_TARGET
#define TILE_VECTOR half_lanes
#define TILE_STEP(sum, a, b) PAIRS_STEP(half_lanes, half_bits, sum, a, b)
#include "device/cpu/tile_block.h"

static void multiply_pairs(const tile_product *p)
{
    pairs_plain(p);
}

/* --- versions for instructions that the processor may have --- */

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

/* By an attribute, since clang compiles no clones (WEFT_CLONES). */
#define FMA_TARGET __attribute__((target("avx2,fma")))

FMA_TARGET static void multiply_fma(const tile_product *p)
{
    single_plain(p);
}

FMA_TARGET static void multiply_pairs_fma(const tile_product *p)
{
    pairs_plain(p);
}

static bool has_fma(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

#define WIDE_TARGET __attribute__((target("avx512f,fma")))
#define TILE(name) wide_single_##name
#define TILE_TARGET WIDE_TARGET
#define TILE_VECTOR wide_lanes
#define TILE_STEP(sum, a, b) SINGLE_STEP(wide_lanes, sum, a, b)
#include "device/cpu/tile_block.h"

WIDE_TARGET static void multiply_wide(const tile_product *p)
{
    wide_single_wide(p);
}

#define TILE(name) wide_pairs_##name
#define TILE_TARGET WIDE_TARGET
#define TILE_VECTOR wide_lanes
#define TILE_STEP(sum, a, b) PAIRS_STEP(wide_lanes, wide_bits, sum, a, b)
#include "device/cpu/tile_block.h"

WIDE_TARGET static void multiply_pairs_wide(const tile_product *p)
{
    wide_pairs_wide(p);
}

#define DOT_TARGET __attribute__((target("avx512f,avx512vl,avx512bf16,fma")))
#define TILE(name) dot_##name
#define TILE_TARGET DOT_TARGET
#define TILE_VECTOR wide_lanes
#define TILE_STEP(sum, a, b)                                                                       \
    sum = (wide_lanes)_mm512_dpbf16_ps((__m512)(sum),                                              \
                                       (__m512bh)_mm512_castps_si512(_mm512_set1_ps(*(a))),        \
                                       (__m512bh)_mm512_loadu_si512(b))
#include "device/cpu/tile_block.h"

DOT_TARGET static void multiply_dot(const tile_product *p)
{
    dot_wide(p);
}

static bool is_wide(void)
{
    return __builtin_cpu_supports("avx512f");
}
#else
static void multiply_fma(const tile_product *p)
{
    multiply(p);
}

static void multiply_pairs_fma(const tile_product *p)
{
    multiply_pairs(p);
}

static bool has_fma(void)
{
    return false;
}

static void multiply_wide(const tile_product *p)
{
    multiply(p);
}

static void multiply_pairs_wide(const tile_product *p)
{
    multiply_pairs(p);
}

static void multiply_dot(const tile_product *p)
{
    multiply_pairs(p);
}

static bool is_wide(void)
{
    return false;
}
#endif

void tile_multiply_plain(const tile_product *p)
{
    if (has_fma())
        (p->of == TILE_SINGLE ? multiply_fma : multiply_pairs_fma)(p);
    else
        (p->of == TILE_SINGLE ? multiply : multiply_pairs)(p);
}

void tile_multiply(const tile_product *p)
{
    if (p->of == TILE_PAIRS_DOT)
        multiply_dot(p);
    else if (is_wide())
        (p->of == TILE_SINGLE ? multiply_wide : multiply_pairs_wide)(p);
    else
        tile_multiply_plain(p);
}
