/* Helpers for the loops of this device. */
#ifndef WEFT_DEVICE_CPU_SIMD_H
#define WEFT_DEVICE_CPU_SIMD_H

#include "base/target_clones.h"
#include "device/cpu/cpu.h"

/* Decaying moments become subnormal, and a pass over subnormal numbers takes about twice as long.
 * Between these two calls they count as zero in the calling thread. */
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

/* A kernel whose operands all have the layout of the first one (scalars are plain). */
weft_status cpu_flat_make(weft_device *device, const weft_group *group, cpu_loop_fn fn,
                          const weft_layout *const *in, weft_kernel **out) WEFT_NODISCARD;

#endif
