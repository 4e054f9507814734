/* Loops over channels: tensors [b, c, ...] in plain or channel-blocked memory. A thread has whole
 * blocks of channels, so the sums have a fixed order. */
#ifndef WEFT_DEVICE_CPU_PLANES_H
#define WEFT_DEVICE_CPU_PLANES_H

#include "device/cpu/cpu.h"
#include "device/cpu/simd.h"

enum { WIDEST = 16 }; /* channels in one block at the most: `lanes` that lie side by side */

static inline int64_t lanes_of(const cpu_planes *p, int64_t block)
{
    return WEFT_MIN(p->block, p->channel_count - block * p->block);
}

static inline int64_t blocks_of(const cpu_planes *p)
{
    return (p->channel_count + p->block - 1) / p->block;
}

/* The sum of each channel of one plane. */
void cpu_sum_plane(const float *x, const cpu_planes *p, int64_t lanes, double *sum);

/* y = (x - mean - low) * scale + shift on one plane: the difference first, since x * scale + shift'
 * loses what the mean has in common with x. low: what of the mean does not fit into a float. */
typedef struct cpu_affine {
    float mean[WIDEST], low[WIDEST], scale[WIDEST], shift[WIDEST];
} cpu_affine;
void cpu_affine_plane(const float *x, float *y, const cpu_planes *p, int64_t lanes,
                      const cpu_affine *a);

/* The layout in which the tensors of a group can lie, with its planes: that of operand `first` if
 * it is one of these. In a blocked layout of which the last block is not full the padding of the
 * result must be zeroed: the loops do not write it, so such layouts are taken as plain. */
weft_status cpu_planes_choose(weft_device *device, const weft_group *group, weft_value first,
                              const weft_layout *const *in, cpu_planes *planes,
                              const weft_layout **out) WEFT_NODISCARD;
/* Operands shaped like `first` lie like that, the others plain. */
weft_status cpu_planes_lay(weft_device *device, const weft_group *group, weft_value first,
                           const weft_layout *layout, weft_kernel *kernel) WEFT_NODISCARD;

#endif
