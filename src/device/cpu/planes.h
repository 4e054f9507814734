/* Declares loops over the channels of tensors [b, c, ...] in plain or channel-blocked memory. One
 * thread computes a whole block of channels, so the order of sums does not depend on the number of
 * threads. */
#ifndef WEFT_DEVICE_CPU_PLANES_H
#define WEFT_DEVICE_CPU_PLANES_H

#include "device/cpu/cpu.h"
#include "device/cpu/simd.h"

enum { WIDEST = 16 }; /* most channels of a block; its channels (lanes) are adjacent */

static inline int64_t lanes_of(const cpu_planes *p, int64_t block)
{
    return WEFT_MIN(p->block, p->channel_count - block * p->block);
}

static inline int64_t blocks_of(const cpu_planes *p)
{
    return (p->channel_count + p->block - 1) / p->block;
}

/* Sums one plane of a block of channels: sum[l] is the sum of its channel l. */
void cpu_sum_plane(const void *x, const cpu_planes *p, int64_t lanes, double *sum);

/* y = (x - mean - low) * scale + shift on one plane. `low` is the part of the mean that does not
 * fit into a float. x - mean is computed first, since x * scale plus a constant would lose digits
 * by cancellation where x is near the mean. */
typedef struct cpu_affine {
    float mean[WIDEST], low[WIDEST], scale[WIDEST], shift[WIDEST];
} cpu_affine;
void cpu_affine_plane(const void *x, void *y, const cpu_planes *p, int64_t lanes,
                      const cpu_affine *a);
/* Sums of (x - mean)^2 over one plane. */
void cpu_square_plane(const void *x, const cpu_planes *p, int64_t lanes, const float *mean,
                      double *sum);
/* Adds the sums of dy and of dy * (x - mean) over one plane. */
void cpu_grad_sums(const void *dy, const void *x, const cpu_planes *p, int64_t lanes,
                   const float *mean, double *sum, double *sum_x);
/* dx = scale * (dy - base - (x - mean) * slope) on one plane. */
void cpu_grad_plane(const void *dy, const void *x, void *dx, const cpu_planes *p, int64_t lanes,
                    const float *mean, const float *scale, const float *base, const float *slope);

/* Chooses the layout for the tensors of a group, with its planes: the layout of value `first` if it
 * is suitable, else the plain layout. A blocked layout whose last block is not full is not
 * suitable, since the loops do not write padding. */
weft_status cpu_planes_choose(weft_device *device, const weft_group *group, weft_value first,
                              const weft_layout *const *in, cpu_planes *planes,
                              const weft_layout **out) WEFT_NODISCARD;
/* Sets the layout of all operands that have the shape of `first`; all other operands are plain. */
weft_status cpu_planes_lay(weft_device *device, const weft_group *group, weft_value first,
                           const weft_layout *layout, weft_kernel *kernel) WEFT_NODISCARD;

#endif
