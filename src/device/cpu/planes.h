/* Loops over the channels of tensors [b, c, ...] in plain or channel-blocked memory. A thread has
 * whole blocks of channels, so the order of sums is fixed. */
#ifndef WEFT_DEVICE_CPU_PLANES_H
#define WEFT_DEVICE_CPU_PLANES_H

#include "device/cpu/cpu.h"
#include "device/cpu/simd.h"

enum { WIDEST = 16 }; /* most channels of a block, which are adjacent: its `lanes` */

static inline int64_t lanes_of(const cpu_planes *p, int64_t block)
{
    return WEFT_MIN(p->block, p->channel_count - block * p->block);
}

static inline int64_t blocks_of(const cpu_planes *p)
{
    return (p->channel_count + p->block - 1) / p->block;
}

/* Sums one plane for each channel. */
void cpu_sum_plane(const float *x, const cpu_planes *p, int64_t lanes, double *sum);

/* y = (x - mean - low) * scale + shift on one plane. The difference is formed first, since x *
 * scale + shift' cancels where x is near the mean. low: the part of the mean that does not fit into
 * a float. */
typedef struct cpu_affine {
    float mean[WIDEST], low[WIDEST], scale[WIDEST], shift[WIDEST];
} cpu_affine;
void cpu_affine_plane(const float *x, float *y, const cpu_planes *p, int64_t lanes,
                      const cpu_affine *a);

/* The layout for the tensors of a group, with its planes: that of operand `first` if it is
 * suitable. The loops do not write padding, so a blocked layout whose last block is not full is
 * replaced by the plain one. */
weft_status cpu_planes_choose(weft_device *device, const weft_group *group, weft_value first,
                              const weft_layout *const *in, cpu_planes *planes,
                              const weft_layout **out) WEFT_NODISCARD;
/* Gives operands with the shape of `first` this layout; the others are plain. */
weft_status cpu_planes_lay(weft_device *device, const weft_group *group, weft_value first,
                           const weft_layout *layout, weft_kernel *kernel) WEFT_NODISCARD;

#endif
