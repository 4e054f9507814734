/* Loops over the channels of tensors, and their layouts. */
#include "device/cpu/planes.h"

WEFT_INLINE void cpu_sum_plane_of(const void *x, const cpu_planes *p, int64_t lanes, double *sum,
                                  bool narrow)
{
    if (p->block == 1) {
        double s = 0;
        for (int64_t i = 0; i < p->inner; i++) s += (double)cpu_get(x, i * p->step, narrow);
        sum[0] = s;
        return;
    }
    for (int64_t l = 0; l < lanes; l++) sum[l] = 0;
    for (int64_t i = 0; i < p->inner; i++)
        for (int64_t l = 0; l < lanes; l++) sum[l] += (double)cpu_get(x, i * p->step + l, narrow);
}
CPU_PRECISIONS(, cpu_sum_plane, p->narrow,
               (const void *x, const cpu_planes *p, int64_t lanes, double *sum), x, p, lanes, sum)

WEFT_INLINE void cpu_affine_plane_of(const void *x, void *y, const cpu_planes *p, int64_t lanes,
                                     const cpu_affine *a, bool narrow)
{
    for (int64_t i = 0; i < p->inner; i++)
        for (int64_t l = 0; l < lanes; l++) {
            float d = cpu_get(x, i * p->step + l, narrow) - a->mean[l] - a->low[l];
            cpu_put(y, i * p->step + l, narrow, d * a->scale[l] + a->shift[l]);
        }
}
CPU_PRECISIONS(, cpu_affine_plane, p->narrow,
               (const void *x, void *y, const cpu_planes *p, int64_t lanes, const cpu_affine *a), x,
               y, p, lanes, a)

WEFT_INLINE void cpu_square_plane_of(const void *x, const cpu_planes *p, int64_t lanes,
                                     const float *mean, double *sum, bool narrow)
{
    for (int64_t l = 0; l < lanes; l++) sum[l] = 0;
    for (int64_t i = 0; i < p->inner; i++)
        for (int64_t l = 0; l < lanes; l++) {
            double d = (double)cpu_get(x, i * p->step + l, narrow) - (double)mean[l];
            sum[l] += d * d;
        }
}
CPU_PRECISIONS(, cpu_square_plane, p->narrow,
               (const void *x, const cpu_planes *p, int64_t lanes, const float *mean, double *sum),
               x, p, lanes, mean, sum)

WEFT_INLINE void cpu_grad_sums_of(const void *dy, const void *x, const cpu_planes *p, int64_t lanes,
                                  const float *mean, double *sum, double *sum_x, bool narrow)
{
    for (int64_t i = 0; i < p->inner; i++)
        for (int64_t l = 0; l < lanes; l++) {
            int64_t at = i * p->step + l;
            double g = (double)cpu_get(dy, at, narrow);
            sum[l] += g;
            sum_x[l] += g * ((double)cpu_get(x, at, narrow) - (double)mean[l]);
        }
}
CPU_PRECISIONS(, cpu_grad_sums, p->narrow,
               (const void *dy, const void *x, const cpu_planes *p, int64_t lanes,
                const float *mean, double *sum, double *sum_x),
               dy, x, p, lanes, mean, sum, sum_x)

WEFT_INLINE void cpu_grad_plane_of(const void *dy, const void *x, void *dx, const cpu_planes *p,
                                   int64_t lanes, const float *mean, const float *scale,
                                   const float *base, const float *slope, bool narrow)
{
    for (int64_t i = 0; i < p->inner; i++)
        for (int64_t l = 0; l < lanes; l++) {
            int64_t at = i * p->step + l;
            float g = cpu_get(dy, at, narrow), d = cpu_get(x, at, narrow) - mean[l];
            cpu_put(dx, at, narrow, scale[l] * (g - base[l] - d * slope[l]));
        }
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
