/* Multiplies panels by a micro-kernel, which holds a block of the result in registers over all
 * steps (Goto and van de Geijn 2008; sums over several pairs of panels: Georganas et al., arXiv
 * 1906.06440). Compiled with contraction, so that a product and its addition are one instruction.
 */
#include "device/cpu/panel.h"

#include "device/cpu/onednn.h"
#include "device/cpu/simd.h"

/* A vector fills a register of AVX-512, and two of AVX2. */
enum { LANES = 16 };
typedef float lanes __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

#define ADD_F32(sum, x, y) ((sum) += *(const float *)(const void *)(x) * *(y))

#define NAME(x) x##_any
#define TARGET WEFT_CLONES
#define INSIDE
#define VECTORS 1
#define ADD ADD_F32
#include "device/cpu/panel_block.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

/* AVX-512 has twice as many registers: no sum waits for its addition before, and each word of a
 * serves two vectors. */
#define WIDE_TARGET "avx512f,avx512bw,avx512dq,avx512vl,fma"

#define NAME(x) x##_wide
#define TARGET __attribute__((target(WIDE_TARGET)))
#define INSIDE TARGET
#define VECTORS 2
#define ADD ADD_F32
#include "device/cpu/panel_block.h"

#define NAME(x) x##_bf16
#define TARGET __attribute__((target(WIDE_TARGET ",avx512bf16")))
#define INSIDE TARGET
#define VECTORS 2
#define ADD(sum, x, y)                                                                             \
    ((sum) = (lanes)_mm512_dpbf16_ps((__m512)(sum), (__m512bh)_mm512_set1_epi32((int)*(x)),        \
                                     (__m512bh)_mm512_loadu_ps((y))))
#include "device/cpu/panel_block.h"

#else
#define product_wide product_any
#define product_bf16 product_any
#endif

panel_shape panel_shape_of(bool narrow)
{
    if (narrow)
        return onednn_has_avx512(true)
                   ? (panel_shape){PANEL_AVX512_BF16, PANEL_MOST_ROWS, 2 * LANES}
                   : (panel_shape){PANEL_NONE, 0, 0};
    return onednn_has_avx512(false) ? (panel_shape){PANEL_AVX512, PANEL_MOST_ROWS, 2 * LANES}
                                    : (panel_shape){PANEL_ANY, 6, LANES};
}

void panel_multiply(const panel_product *p)
{
    switch (p->shape.set) {
    case PANEL_AVX512: product_wide(p); break;
    case PANEL_AVX512_BF16: product_bf16(p); break;
    default: product_any(p); break;
    }
}
