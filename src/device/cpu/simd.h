/* Declares helpers for the cpu device's loops over elements. */
#ifndef WEFT_DEVICE_CPU_SIMD_H
#define WEFT_DEVICE_CPU_SIMD_H

#include "base/float_math.h"
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

/* Vectors of 8 numbers, at any address (one register with AVX2, two with SSE2), and the results of
 * their comparisons. */
enum { WEFT_LANES = 8 };
typedef float weft_lanes __attribute__((vector_size(32), aligned(4), may_alias));
typedef int32_t weft_mask __attribute__((vector_size(32), aligned(4), may_alias));

/* Defines the function `name`, by its body name_of, which has a last parameter `narrow` more: it is
 * a constant in both versions of the body, of which `condition` chooses. linkage: static, or
 * nothing. Versions are static in any case, since gcc exports the clones of a function that is not,
 * even if it is hidden. */
#define CPU_PRECISIONS(linkage, name, condition, parameters, ...)                                  \
    static WEFT_CLONES void name##_single parameters                                               \
    {                                                                                              \
        name##_of(__VA_ARGS__, false);                                                             \
    }                                                                                              \
    static WEFT_CLONES void name##_narrow parameters                                               \
    {                                                                                              \
        name##_of(__VA_ARGS__, true);                                                              \
    }                                                                                              \
    linkage void name parameters                                                                   \
    {                                                                                              \
        ((condition) ? name##_narrow : name##_single)(__VA_ARGS__);                                \
    }

/* Creates a kernel that runs `fn` over the elements in memory order. All operands with the shape
 * and type of the first operand get one layout; other operands, such as scalars, are plain. */
weft_status cpu_flat_make(weft_device *device, const weft_group *group, cpu_loop_fn fn,
                          const weft_layout *const *in, weft_kernel **out) WEFT_NODISCARD;

#endif
