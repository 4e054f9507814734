/* Loops over the channels of tensors, and their layouts. */
#include "device/cpu/planes.h"

/* Runs statements for each number of a plane: channel l of a position, at `at`. For bf16 numbers
 * the number of channels is a constant where a block is full, so that a position is a vector; f32
 * numbers are faster without. In a plain plane neighbours are a vector. */
#define EACH_NUMBER(p, lanes, statements)                                                          \
    do {                                                                                           \
        if (narrow && (lanes) == WIDEST) {                                                         \
            for (int64_t i = 0; i < (p)->inner; i++)                                               \
                for (int64_t l = 0, at = i * (p)->step; l < WIDEST; l++, at++) statements;         \
        } else if ((p)->block == 1 && (p)->step == 1) {                                            \
            for (int64_t at = 0, l = 0; at < (p)->inner; at++) statements;                         \
        } else {                                                                                   \
            for (int64_t i = 0; i < (p)->inner; i++)                                               \
                for (int64_t l = 0, at = i * (p)->step; l < (lanes); l++, at++) statements;        \
        }                                                                                          \
    } while (0)

WEFT_INLINE void cpu_sum_plane_of(const void *x, const cpu_planes *p, int64_t lanes, double *sum,
                                  bool narrow)
{
    for (int64_t l = 0; l < lanes; l++) sum[l] = 0;
    EACH_NUMBER(p, lanes, sum[l] += (double)cpu_get(x, at, narrow));
}
CPU_PRECISIONS(, cpu_sum_plane, p->narrow,
               (const void *x, const cpu_planes *p, int64_t lanes, double *sum), x, p, lanes, sum)

WEFT_INLINE void cpu_affine_plane_of(const void *x, void *y, const cpu_planes *p, int64_t lanes,
                                     const cpu_affine *a, bool narrow)
{
    EACH_NUMBER(p, lanes, {
        float d = cpu_get(x, at, narrow) - a->mean[l] - a->low[l];
        cpu_put(y, at, narrow, d * a->scale[l] + a->shift[l]);
    });
}
CPU_PRECISIONS(, cpu_affine_plane, p->narrow,
               (const void *x, void *y, const cpu_planes *p, int64_t lanes, const cpu_affine *a), x,
               y, p, lanes, a)

WEFT_INLINE void cpu_square_plane_of(const void *x, const cpu_planes *p, int64_t lanes,
                                     const float *mean, double *sum, bool narrow)
{
    for (int64_t l = 0; l < lanes; l++) sum[l] = 0;
    EACH_NUMBER(p, lanes, {
        double d = (double)cpu_get(x, at, narrow) - (double)mean[l];
        sum[l] += d * d;
    });
}
CPU_PRECISIONS(, cpu_square_plane, p->narrow,
               (const void *x, const cpu_planes *p, int64_t lanes, const float *mean, double *sum),
               x, p, lanes, mean, sum)

WEFT_INLINE void cpu_grad_sums_of(const void *dy, const void *x, const cpu_planes *p, int64_t lanes,
                                  const float *mean, double *sum, double *sum_x, bool narrow)
{
    EACH_NUMBER(p, lanes, {
        double g = (double)cpu_get(dy, at, narrow);
        sum[l] += g;
        sum_x[l] += g * ((double)cpu_get(x, at, narrow) - (double)mean[l]);
    });
}
CPU_PRECISIONS(, cpu_grad_sums, p->narrow,
               (const void *dy, const void *x, const cpu_planes *p, int64_t lanes,
                const float *mean, double *sum, double *sum_x),
               dy, x, p, lanes, mean, sum, sum_x)

WEFT_INLINE void cpu_grad_plane_of(const void *dy, const void *x, void *dx, const cpu_planes *p,
                                   int64_t lanes, const float *mean, const float *scale,
                                   const float *base, const float *slope, bool narrow)
{
    EACH_NUMBER(p, lanes, {
        float g = cpu_get(dy, at, narrow);
        float d = cpu_get(x, at, narrow) - mean[l];
        cpu_put(dx, at, narrow, scale[l] * (g - base[l] - d * slope[l]));
    });
}
CPU_PRECISIONS(, cpu_grad_plane, p->narrow,
               (const void *dy, const void *x, void *dx, const cpu_planes *p, int64_t lanes,
                const float *mean, const float *scale, const float *base, const float *slope),
               dy, x, dx, p, lanes, mean, scale, base, slope)

weft_status cpu_planes_choose(weft_device *device, const weft_group *group, weft_value first,
                              const weft_layout *const *in, cpu_planes *planes,
                              const weft_layout **out)
{
    const weft_type *type = weft_value_type(group->graph, first);
    int at = weft_group_in(group, first);
    *out = at < 0 ? NULL : in[at];
    bool fits = cpu_planes_of(type, *out, planes) && planes->block <= WIDEST &&
                planes->channel_count % planes->block == 0;
    if (*out && fits) return WEFT_OK;
    WEFT_TRY(weft_layout_plain(device, type, out));
    (void)cpu_planes_of(type, *out, planes);
    return WEFT_OK;
}

weft_status cpu_planes_lay(weft_device *device, const weft_group *group, weft_value first,
                           const weft_layout *layout, weft_kernel *kernel)
{
    const weft_graph *g = group->graph;
    const weft_type *type = weft_value_type(g, first);
    for (int side = 0; side < 2; side++) {
        int count = side ? group->out_count : group->in_count;
        for (int i = 0; i < count; i++) {
            const weft_type *t = weft_value_type(g, side ? group->out[i] : group->in[i]);
            const weft_layout **at = side ? &kernel->out[i] : &kernel->in[i];
            *at = layout;
            if (!weft_shape_equal(&t->shape, &type->shape))
                WEFT_TRY(weft_layout_plain(device, t, at));
        }
    }
    return WEFT_OK;
}
