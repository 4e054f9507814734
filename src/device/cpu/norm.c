/* Implements batch normalisation with given statistics (inference), global average pooling and its
 * gradient, as loops over channel planes. */
#include <math.h>

#include "device/cpu/planes.h"

typedef struct norm_job {
    const cpu_loop *k;
    cpu_planes p;
    double epsilon;
} norm_job;

static void infer_part(void *user, int64_t begin, int64_t end)
{
    const norm_job *j = user;
    const cpu_loop *k = j->k;
    const float *gamma = k->in[1], *beta = k->in[2], *mean = k->in[3], *variance = k->in[4];
    for (int64_t block = begin; block < end; block++) {
        cpu_affine a = {0};
        int64_t lanes = lanes_of(&j->p, block), c = block * j->p.block;
        for (int64_t l = 0; l < lanes; l++) {
            double rstd = 1 / sqrt((double)variance[c + l] + j->epsilon);
            a.mean[l] = mean[c + l];
            a.scale[l] = (float)(rstd * (double)gamma[c + l]);
            a.shift[l] = beta[c + l];
        }
        for (int64_t s = 0; s < j->p.batch_count; s++) {
            int64_t at = s * j->p.batch + block * j->p.channel;
            cpu_affine_plane(cpu_element(k->in[0], at, j->p.narrow),
                             cpu_element(k->out[0], at, j->p.narrow), &j->p, lanes, &a);
        }
    }
}

static void infer_loop(const cpu_loop *k)
{
    norm_job j = {.k = k, .p = k->planes};
    j.epsilon = weft_node_real(k->group.node[0], "epsilon", 1e-5);
    weft_parallel(k->threads, blocks_of(&j.p), 1, infer_part, &j);
}

static void mean_part(void *user, int64_t begin, int64_t end)
{
    const norm_job *j = user;
    bool narrow = j->p.narrow;
    for (int64_t block = begin; block < end; block++) {
        int64_t lanes = lanes_of(&j->p, block), c = block * j->p.block;
        for (int64_t b = 0; b < j->p.batch_count; b++) {
            double sum[WIDEST];
            int64_t at = b * j->p.batch + block * j->p.channel;
            cpu_sum_plane(cpu_element(j->k->in[0], at, narrow), &j->p, lanes, sum);
            for (int64_t l = 0; l < lanes; l++)
                cpu_put(j->k->out[0], b * j->p.channel_count + c + l, narrow,
                        (float)(sum[l] / (double)j->p.inner));
        }
    }
}

static void mean_loop(const cpu_loop *k)
{
    norm_job j = {.k = k, .p = k->planes};
    weft_parallel(k->threads, blocks_of(&j.p), 1, mean_part, &j);
}

WEFT_INLINE void spread_part_of(void *user, int64_t begin, int64_t end, bool narrow)
{
    const norm_job *j = user;
    float factor = 1.0f / (float)j->p.inner;
    for (int64_t block = begin; block < end; block++) {
        int64_t lanes = lanes_of(&j->p, block), c = block * j->p.block;
        for (int64_t b = 0; b < j->p.batch_count; b++) {
            float from[WIDEST];
            int64_t at = b * j->p.batch + block * j->p.channel;
            void *to = cpu_element(j->k->out[0], at, narrow);
            for (int64_t l = 0; l < lanes; l++)
                from[l] = cpu_get(j->k->in[0], b * j->p.channel_count + c + l, narrow) * factor;
            for (int64_t i = 0; i < j->p.inner; i++)
                for (int64_t l = 0; l < lanes; l++) cpu_put(to, i * j->p.step + l, narrow, from[l]);
        }
    }
}
CPU_PRECISIONS(static, spread_part, ((const norm_job *)user)->p.narrow,
               (void *user, int64_t begin, int64_t end), user, begin, end)

static void spread_loop(const cpu_loop *k)
{
    norm_job j = {.k = k, .p = k->planes};
    weft_parallel(k->threads, blocks_of(&j.p), 1, spread_part, &j);
}

/* Creates the kernel for the gradient of global pooling. Its operand is a matrix, so no operand
 * suggests a layout for the result. The result has channel blocks if all blocks are full, since the
 * gradient of the preceding convolution reads it in that layout. */
static weft_status spread_make(weft_device *device, const weft_group *group,
                               const weft_layout *const *in, weft_kernel **out)
{
    (void)in;
    const weft_type *type = weft_out(group->graph, group->node[0], 0);
    const weft_layout *layout;
    cpu_md plain, md;
    WEFT_TRY(cpu_md_of_type(device, type, &plain));
    md = plain;
    if (type->shape.dim[1] % WIDEST == 0)
        WEFT_TRY(onednn_md_blocked(cpu_onednn(device), type, &md));
    WEFT_TRY(cpu_layout_of(device, md, plain, false, &layout));
    cpu_loop *k;
    WEFT_TRY(cpu_loop_make(device, group, spread_loop, &k));
    k->head.out[0] = layout;
    (void)cpu_planes_of(type, layout, &k->planes);
    weft_status status =
        weft_layout_plain(device, weft_in(group->graph, group->node[0], 0), &k->head.in[0]);
    if (status != WEFT_OK) {
        k->head.ops->destroy(&k->head);
        return status;
    }
    *out = &k->head;
    return WEFT_OK;
}

static weft_status planes_make(weft_device *device, const weft_group *group, cpu_loop_fn fn,
                               const weft_layout *const *in, weft_kernel **out)
{
    weft_value first = group->node[0]->in[0];
    const weft_layout *layout;
    cpu_planes planes;
    cpu_loop *k;
    WEFT_TRY(cpu_planes_choose(device, group, first, in, &planes, &layout));
    WEFT_TRY(cpu_loop_make(device, group, fn, &k));
    k->planes = planes;
    weft_status status = cpu_planes_lay(device, group, first, layout, &k->head);
    if (status != WEFT_OK) {
        k->head.ops->destroy(&k->head);
        return status;
    }
    weft_kernel_unread_size(group, &k->head);
    *out = &k->head;
    return WEFT_OK;
}

#define PLANES(name)                                                                               \
    static weft_status name##_make(weft_device *device, const weft_group *group,                   \
                                   const weft_layout *const *in, weft_kernel **out)                \
    {                                                                                              \
        return planes_make(device, group, name##_loop, in, out);                                   \
    }
PLANES(infer)
PLANES(mean)

const cpu_entry cpu_norm_entries[] = {
    {"batch_norm_infer", "loop", cpu_one_precision, infer_make, NULL, CPU_ANY},
    {"global_avgpool", "loop", cpu_one_precision, mean_make, NULL, CPU_ANY},
    {"global_avgpool_grad", "loop", cpu_one_precision, spread_make, NULL, CPU_ANY},
    {.op = NULL},
};
