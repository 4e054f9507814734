/* batch_norm, its gradient and global pooling, channel by channel over plain or channel-blocked
 * memory; a thread has whole blocks of channels, so the sums have a fixed order. */
#include <math.h>

#include "device/cpu/cpu.h"
#include "device/cpu/simd.h"

enum { WIDEST = 16 }; /* channels in one block at the most */

/* One channel block at a time: `lanes` channels lie side by side when blocked. */
typedef struct norm_job {
    const cpu_loop *k;
    cpu_planes p;
    int64_t blocks;
    double total; /* of the sample weights */
    int64_t samples;
    double epsilon, momentum;
} norm_job;

static double share(const norm_job *j, const float *weights, int64_t b)
{
    double part = j->total > 0 ? (double)weights[b] / j->total : 1.0 / (double)j->p.batch_count;
    return part / (double)j->p.inner;
}

static int64_t lanes_of(const cpu_planes *p, int64_t block)
{
    return WEFT_MIN(p->block, p->channel_count - block * p->block);
}

WEFT_CLONES static void sum_plane(const float *x, const cpu_planes *p, int64_t lanes, double *sum)
{
    if (p->block == 1) {
        double s = 0;
        for (int64_t i = 0; i < p->inner; i++) s += (double)x[i * p->step];
        sum[0] = s;
        return;
    }
    for (int64_t l = 0; l < lanes; l++) sum[l] = 0;
    for (int64_t i = 0; i < p->inner; i++)
        for (int64_t l = 0; l < lanes; l++) sum[l] += (double)x[i * p->step + l];
}

WEFT_CLONES static void square_plane(const float *x, const cpu_planes *p, int64_t lanes,
                                     const double *mean, double *sum)
{
    for (int64_t l = 0; l < lanes; l++) sum[l] = 0;
    for (int64_t i = 0; i < p->inner; i++)
        for (int64_t l = 0; l < lanes; l++) {
            double d = (double)x[i * p->step + l] - mean[l];
            sum[l] += d * d;
        }
}

/* y = x * a + b on one plane. */
WEFT_CLONES static void affine_plane(const float *x, float *y, const cpu_planes *p, int64_t lanes,
                                     const float *a, const float *b)
{
    for (int64_t i = 0; i < p->inner; i++)
        for (int64_t l = 0; l < lanes; l++) y[i * p->step + l] = x[i * p->step + l] * a[l] + b[l];
}

static void statistics(const norm_job *j, int64_t block, double *mean, double *variance)
{
    const cpu_planes *p = &j->p;
    const float *x = j->k->in[0], *weights = j->k->in[3];
    int64_t lanes = lanes_of(p, block);
    double part[WIDEST];
    for (int64_t l = 0; l < lanes; l++) mean[l] = variance[l] = 0;
    for (int64_t b = 0; b < p->batch_count; b++) {
        sum_plane(x + b * p->batch + block * p->channel, p, lanes, part);
        for (int64_t l = 0; l < lanes; l++) mean[l] += share(j, weights, b) * part[l];
    }
    for (int64_t b = 0; b < p->batch_count; b++) {
        square_plane(x + b * p->batch + block * p->channel, p, lanes, mean, part);
        for (int64_t l = 0; l < lanes; l++) variance[l] += share(j, weights, b) * part[l];
    }
}

static void put(float *to, int64_t channel, double value)
{
    to[channel] = (float)value;
}

static void norm_part(void *user, int64_t begin, int64_t end)
{
    const norm_job *j = user;
    const cpu_loop *k = j->k;
    const float *x = k->in[0], *gamma = k->in[1], *beta = k->in[2];
    const float *old_mean = k->in[4], *old_variance = k->in[5];
    float *y = k->out[0];
    double n = (double)(j->samples * j->p.inner), step = j->samples > 0 ? j->momentum : 0;
    for (int64_t block = begin; block < end; block++) {
        double mean[WIDEST], variance[WIDEST];
        float a[WIDEST], b[WIDEST];
        int64_t lanes = lanes_of(&j->p, block);
        statistics(j, block, mean, variance);
        for (int64_t l = 0; l < lanes; l++) {
            int64_t c = block * j->p.block + l;
            double rstd = 1 / sqrt(variance[l] + j->epsilon);
            double unbiased = n > 1 ? variance[l] * n / (n - 1) : variance[l];
            a[l] = (float)(rstd * (double)gamma[c]);
            b[l] = (float)((double)beta[c] - mean[l] * rstd * (double)gamma[c]);
            put(k->out[1], c, mean[l]);
            put(k->out[2], c, rstd);
            put(k->out[3], c, (1 - step) * (double)old_mean[c] + step * mean[l]);
            put(k->out[4], c, (1 - step) * (double)old_variance[c] + step * unbiased);
        }
        for (int64_t s = 0; s < j->p.batch_count; s++) {
            int64_t at = s * j->p.batch + block * j->p.channel;
            affine_plane(x + at, y + at, &j->p, lanes, a, b);
        }
    }
}

static norm_job job_of(const cpu_loop *k, const float *weights)
{
    norm_job j = {.k = k, .p = k->planes};
    j.blocks = (j.p.channel_count + j.p.block - 1) / j.p.block;
    for (int64_t b = 0; b < j.p.batch_count; b++) {
        j.total += (double)weights[b];
        j.samples += weights[b] > 0;
    }
    j.epsilon = weft_node_real(k->group.node[0], "epsilon", 1e-5);
    j.momentum = weft_node_real(k->group.node[0], "momentum", 0.1);
    return j;
}

static void norm_loop(const cpu_loop *k)
{
    norm_job j = job_of(k, k->in[3]);
    weft_parallel(k->threads, j.blocks, 1, norm_part, &j);
}

/* Sums of dy and of dy times (x - mean) over one plane. */
WEFT_CLONES static void grad_sums(const float *dy, const float *x, const cpu_planes *p,
                                  int64_t lanes, const float *mean, double *sum, double *sum_x)
{
    for (int64_t i = 0; i < p->inner; i++)
        for (int64_t l = 0; l < lanes; l++) {
            double g = (double)dy[i * p->step + l];
            sum[l] += g;
            sum_x[l] += g * ((double)x[i * p->step + l] - (double)mean[l]);
        }
}

/* dx = scale * (dy - part * (sum + (x - mean) * slope)) on one plane. */
WEFT_CLONES static void grad_plane(const float *dy, const float *x, float *dx, const cpu_planes *p,
                                   int64_t lanes, const float *mean, const float *scale,
                                   const float *base, const float *slope)
{
    for (int64_t i = 0; i < p->inner; i++)
        for (int64_t l = 0; l < lanes; l++) {
            int64_t at = i * p->step + l;
            dx[at] = scale[l] * (dy[at] - base[l] - (x[at] - mean[l]) * slope[l]);
        }
}

static void grad_part(void *user, int64_t begin, int64_t end)
{
    const norm_job *j = user;
    const cpu_loop *k = j->k;
    const float *dy = k->in[0], *x = k->in[1], *gamma = k->in[2], *weights = k->in[3];
    const float *mean = k->in[4], *rstd = k->in[5];
    float *dx = k->out[0];
    for (int64_t block = begin; block < end; block++) {
        double sum[WIDEST] = {0}, sum_x[WIDEST] = {0};
        float scale[WIDEST], base[WIDEST], slope[WIDEST];
        int64_t lanes = lanes_of(&j->p, block), c = block * j->p.block;
        for (int64_t b = 0; b < j->p.batch_count; b++) {
            int64_t at = b * j->p.batch + block * j->p.channel;
            grad_sums(dy + at, x + at, &j->p, lanes, mean + c, sum, sum_x);
        }
        for (int64_t l = 0; l < lanes; l++) {
            put(k->out[1], c + l, sum_x[l] * (double)rstd[c + l]);
            put(k->out[2], c + l, sum[l]);
            scale[l] = gamma[c + l] * rstd[c + l];
        }
        for (int64_t b = 0; b < j->p.batch_count; b++) {
            int64_t at = b * j->p.batch + block * j->p.channel;
            double part = share(j, weights, b);
            for (int64_t l = 0; l < lanes; l++) {
                double r = (double)rstd[c + l];
                base[l] = (float)(part * sum[l]);
                slope[l] = (float)(part * r * r * sum_x[l]);
            }
            grad_plane(dy + at, x + at, dx + at, &j->p, lanes, mean + c, scale, base, slope);
        }
    }
}

static void grad_loop(const cpu_loop *k)
{
    norm_job j = job_of(k, k->in[3]);
    weft_parallel(k->threads, j.blocks, 1, grad_part, &j);
}

static void infer_part(void *user, int64_t begin, int64_t end)
{
    const norm_job *j = user;
    const cpu_loop *k = j->k;
    const float *x = k->in[0], *gamma = k->in[1], *beta = k->in[2], *mean = k->in[3];
    const float *variance = k->in[4];
    float *y = k->out[0];
    for (int64_t block = begin; block < end; block++) {
        float a[WIDEST], b[WIDEST];
        int64_t lanes = lanes_of(&j->p, block), c = block * j->p.block;
        for (int64_t l = 0; l < lanes; l++) {
            double rstd = 1 / sqrt((double)variance[c + l] + j->epsilon);
            a[l] = (float)(rstd * (double)gamma[c + l]);
            b[l] = (float)((double)beta[c + l] - (double)mean[c + l] * rstd * (double)gamma[c + l]);
        }
        for (int64_t s = 0; s < j->p.batch_count; s++) {
            int64_t at = s * j->p.batch + block * j->p.channel;
            affine_plane(x + at, y + at, &j->p, lanes, a, b);
        }
    }
}

static void infer_loop(const cpu_loop *k)
{
    norm_job j = {.k = k, .p = k->planes};
    j.blocks = (j.p.channel_count + j.p.block - 1) / j.p.block;
    j.epsilon = weft_node_real(k->group.node[0], "epsilon", 1e-5);
    weft_parallel(k->threads, j.blocks, 1, infer_part, &j);
}

static void mean_part(void *user, int64_t begin, int64_t end)
{
    const norm_job *j = user;
    const float *x = j->k->in[0];
    float *y = j->k->out[0];
    for (int64_t block = begin; block < end; block++) {
        int64_t lanes = lanes_of(&j->p, block), c = block * j->p.block;
        for (int64_t b = 0; b < j->p.batch_count; b++) {
            double sum[WIDEST];
            sum_plane(x + b * j->p.batch + block * j->p.channel, &j->p, lanes, sum);
            for (int64_t l = 0; l < lanes; l++)
                y[b * j->p.channel_count + c + l] = (float)(sum[l] / (double)j->p.inner);
        }
    }
}

static void mean_loop(const cpu_loop *k)
{
    norm_job j = {.k = k, .p = k->planes};
    j.blocks = (j.p.channel_count + j.p.block - 1) / j.p.block;
    weft_parallel(k->threads, j.blocks, 1, mean_part, &j);
}

static void spread_part(void *user, int64_t begin, int64_t end)
{
    const norm_job *j = user;
    const float *dy = j->k->in[0];
    float *dx = j->k->out[0];
    float factor = 1.0f / (float)j->p.inner;
    for (int64_t block = begin; block < end; block++) {
        int64_t lanes = lanes_of(&j->p, block), c = block * j->p.block;
        for (int64_t b = 0; b < j->p.batch_count; b++) {
            const float *from = dy + b * j->p.channel_count + c;
            float *to = dx + b * j->p.batch + block * j->p.channel;
            for (int64_t i = 0; i < j->p.inner; i++)
                for (int64_t l = 0; l < lanes; l++) to[i * j->p.step + l] = from[l] * factor;
        }
    }
}

static void spread_loop(const cpu_loop *k)
{
    norm_job j = {.k = k, .p = k->planes};
    j.blocks = (j.p.channel_count + j.p.block - 1) / j.p.block;
    weft_parallel(k->threads, j.blocks, 1, spread_part, &j);
}

/* The gradient of global pooling makes a tensor out of rows, so nothing says how it should lie:
 * in blocks of channels where they are full, as the convolutions before it will want it. */
static weft_status spread_make(weft_device *device, const weft_group *group,
                               const weft_layout *const *in, weft_kernel **out)
{
    (void)in;
    const weft_type *type = weft_out(group->graph, group->node[0], 0);
    const weft_layout *layout;
    cpu_md plain, md;
    WEFT_TRY(cpu_md_of_type(device, type, &plain));
    md = plain;
    if (type->shape.dim[1] % WIDEST == 0) WEFT_TRY(cpu_md_blocked(device, type->shape.dim, &md));
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

/* Tensors lie as the first operand does, channel vectors and the rest are plain. In a blocked
 * layout of which the last block is not full the padding of the result must be zeroed: the loops
 * do not write it, so such layouts are taken as plain. */
static weft_status planes_make(weft_device *device, const weft_group *group, cpu_loop_fn fn,
                               const weft_layout *const *in, weft_kernel **out)
{
    const weft_graph *g = group->graph;
    const weft_node *node = group->node[0];
    const weft_type *type = weft_in(g, node, 0);
    const weft_layout *layout = in[weft_group_in(group, node->in[0])];
    cpu_planes planes;
    bool fits = cpu_planes_of(type, layout, &planes) && planes.block <= WIDEST &&
                planes.channel_count % planes.block == 0;
    if (!layout || !fits) WEFT_TRY(weft_layout_plain(device, type, &layout));
    (void)cpu_planes_of(type, layout, &planes);
    WEFT_TRY(cpu_flat_make(device, group, fn, in, out));
    cpu_loop *k = (cpu_loop *)*out;
    k->planes = planes;
    weft_status status = WEFT_OK;
    for (int side = 0; side < 2 && status == WEFT_OK; side++) {
        int count = side ? group->out_count : group->in_count;
        for (int i = 0; i < count && status == WEFT_OK; i++) {
            const weft_type *t = weft_value_type(g, side ? group->out[i] : group->in[i]);
            const weft_layout **at = side ? &k->head.out[i] : &k->head.in[i];
            if (weft_shape_equal(&t->shape, &type->shape))
                *at = layout;
            else
                status = weft_layout_plain(device, t, at);
        }
    }
    if (status != WEFT_OK) k->head.ops->destroy(&k->head);
    return status;
}

#define PLANES(name)                                                                               \
    static weft_status name##_make(weft_device *device, const weft_group *group,                   \
                                   const weft_layout *const *in, weft_kernel **out)                \
    {                                                                                              \
        return planes_make(device, group, name##_loop, in, out);                                   \
    }
PLANES(norm)
PLANES(grad)
PLANES(infer)
PLANES(mean)

const cpu_entry cpu_norm_entries[] = {
    {"batch_norm", cpu_single, norm_make},
    {"batch_norm_grad", cpu_single, grad_make},
    {"batch_norm_infer", cpu_single, infer_make},
    {"global_avgpool", cpu_single, mean_make},
    {"global_avgpool_grad", cpu_single, spread_make},
    {NULL, NULL, NULL},
};
