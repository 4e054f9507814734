/* Convolution and pooling. */
#include "device/reference/reference.h"

/* Sizes of a convolution, with the loops that all three directions share. */
typedef struct conv {
    int64_t batch, in, out, h, w, oh, ow, kh, kw, groups, in_group, out_group;
    weft_window window;
} conv;

static conv conv_sizes(const weft_ref *a, const weft_shape *x, const weft_shape *weight,
                       const weft_shape *y)
{
    conv c = {.batch = x->dim[0],
              .in = x->dim[1],
              .out = y->dim[1],
              .h = x->dim[2],
              .w = x->dim[3],
              .oh = y->dim[2],
              .ow = y->dim[3],
              .kh = weight->dim[2],
              .kw = weight->dim[3],
              .groups = weft_node_int(a->node, "groups", 0, 1),
              .window = weft_node_window(a->node)};
    c.in_group = c.in / c.groups;
    c.out_group = c.out / c.groups;
    return c;
}

/* Input position of kernel element k for output position o along one side; -1 in the padding. */
static int64_t position(const weft_window *w, int side, int64_t o, int64_t k, int64_t size)
{
    int64_t at = o * w->stride[side] - w->padding[side] + k * w->dilation[side];
    return at >= 0 && at < size ? at : -1;
}

static int64_t weight_at(const conv *c, int64_t o, int64_t i, int64_t kh, int64_t kw)
{
    return ((o * c->in_group + i) * c->kh + kh) * c->kw + kw;
}

/* Calls body for every triple (x element, weight element, y element) of sample b and output
 * channel o at one output position. */
#define FOR_WINDOW(c, b, o, oh_, ow_, xi, wi, body)                                                \
    for (int64_t i_ = 0; i_ < (c)->in_group; i_++)                                                 \
        for (int64_t kh_ = 0; kh_ < (c)->kh; kh_++)                                                \
            for (int64_t kw_ = 0; kw_ < (c)->kw; kw_++) {                                          \
                int64_t h_ = position(&(c)->window, 0, oh_, kh_, (c)->h);                          \
                int64_t w_ = position(&(c)->window, 1, ow_, kw_, (c)->w);                          \
                if (h_ < 0 || w_ < 0) continue;                                                    \
                int64_t channel_ = (o) / (c)->out_group * (c)->in_group + i_;                      \
                int64_t xi = (((b) * (c)->in + channel_) * (c)->h + h_) * (c)->w + w_;             \
                int64_t wi = weight_at(c, o, i_, kh_, kw_);                                        \
                body;                                                                              \
            }

#define FOR_OUTPUT(c, b, o, oh, ow, yi)                                                            \
    for (int64_t b = 0, yi = 0; b < (c)->batch; b++)                                               \
        for (int64_t o = 0; o < (c)->out; o++)                                                     \
            for (int64_t oh = 0; oh < (c)->oh; oh++)                                               \
                for (int64_t ow = 0; ow < (c)->ow; ow++, yi++)

static void conv2d(const weft_ref *a)
{
    conv c = conv_sizes(a, in_shape(a, 0), in_shape(a, 1), out_shape(a, 0));
    const real *x = a->in[0], *w = a->in[1];
    real *y = a->out[0];
    FOR_OUTPUT (&c, b, o, oh, ow, yi) {
        double sum = 0;
        FOR_WINDOW(&c, b, o, oh, ow, xi, wi, sum += (double)x[xi] * (double)w[wi])
        y[yi] = (real)sum;
    }
}

static void conv2d_dx(const weft_ref *a)
{
    conv c = conv_sizes(a, out_shape(a, 0), in_shape(a, 1), in_shape(a, 0));
    const real *dy = a->in[0], *w = a->in[1];
    real *dx = a->out[0];
    memset(dx, 0, (size_t)out_size(a, 0) * sizeof(real));
    FOR_OUTPUT (&c, b, o, oh, ow, yi) {
        FOR_WINDOW(&c, b, o, oh, ow, xi, wi, dx[xi] += dy[yi] * w[wi])
    }
}

static void conv2d_dw(const weft_ref *a)
{
    conv c = conv_sizes(a, in_shape(a, 0), out_shape(a, 0), in_shape(a, 1));
    const real *x = a->in[0], *dy = a->in[1];
    real *dw = a->out[0];
    memset(dw, 0, (size_t)out_size(a, 0) * sizeof(real));
    FOR_OUTPUT (&c, b, o, oh, ow, yi) {
        FOR_WINDOW(&c, b, o, oh, ow, xi, wi, dw[wi] += dy[yi] * x[xi])
    }
}

/* Planes of pooling: batch times channels. `full` has the input's height and width. */
static conv pool_sizes(const weft_ref *a, const weft_shape *full, const weft_shape *pooled)
{
    conv c = {.batch = full->dim[0] * full->dim[1],
              .out = 1,
              .h = full->dim[2],
              .w = full->dim[3],
              .oh = pooled->dim[2],
              .ow = pooled->dim[3],
              .window = weft_node_window(a->node)};
    c.kh = c.window.kernel[0];
    c.kw = c.window.kernel[1];
    return c;
}

#define FOR_POOL(c, b, oh, ow, xi, body)                                                           \
    for (int64_t kh_ = 0; kh_ < (c)->kh; kh_++)                                                    \
        for (int64_t kw_ = 0; kw_ < (c)->kw; kw_++) {                                              \
            int64_t h_ = position(&(c)->window, 0, oh, kh_, (c)->h);                               \
            int64_t w_ = position(&(c)->window, 1, ow, kw_, (c)->w);                               \
            if (h_ < 0 || w_ < 0) continue;                                                        \
            int64_t xi = ((b) * (c)->h + h_) * (c)->w + w_;                                        \
            body;                                                                                  \
        }

/* The index counts within a plane. */
static void maxpool(const weft_ref *a)
{
    conv c = pool_sizes(a, in_shape(a, 0), out_shape(a, 0));
    const real *x = a->in[0];
    real *y = a->out[0];
    int32_t *index = a->out[1];
    FOR_OUTPUT (&c, b, o, oh, ow, yi) {
        (void)o;
        int64_t best = -1;
        FOR_POOL(&c, b, oh, ow, xi, if (best < 0 || x[xi] > x[best] || x[xi] != x[xi]) best = xi)
        y[yi] = x[best];
        index[yi] = (int32_t)(best - b * c.h * c.w);
    }
}

static void maxpool_grad(const weft_ref *a)
{
    conv c = pool_sizes(a, out_shape(a, 0), in_shape(a, 0));
    const real *dy = a->in[0];
    const int32_t *index = a->in[1];
    real *dx = a->out[0];
    memset(dx, 0, (size_t)out_size(a, 0) * sizeof(real));
    FOR_OUTPUT (&c, b, o, oh, ow, yi) {
        (void)o;
        dx[b * c.h * c.w + index[yi]] += dy[yi];
    }
}

static void avgpool(const weft_ref *a)
{
    conv c = pool_sizes(a, in_shape(a, 0), out_shape(a, 0));
    const real *x = a->in[0];
    real *y = a->out[0];
    FOR_OUTPUT (&c, b, o, oh, ow, yi) {
        (void)o;
        double sum = 0;
        int64_t count = 0;
        FOR_POOL(&c, b, oh, ow, xi, (sum += (double)x[xi], count++))
        y[yi] = (real)(sum / (double)count);
    }
}

static void avgpool_grad(const weft_ref *a)
{
    conv c = pool_sizes(a, out_shape(a, 0), in_shape(a, 0));
    const real *dy = a->in[0];
    real *dx = a->out[0];
    memset(dx, 0, (size_t)out_size(a, 0) * sizeof(real));
    FOR_OUTPUT (&c, b, o, oh, ow, yi) {
        (void)o;
        int64_t count = 0;
        FOR_POOL(&c, b, oh, ow, xi, (count += xi >= 0))
        real share = dy[yi] / (real)count;
        FOR_POOL(&c, b, oh, ow, xi, dx[xi] += share)
    }
}

static void global_avgpool(const weft_ref *a)
{
    const real *x = a->in[0];
    real *y = a->out[0];
    int64_t plane = in_shape(a, 0)->dim[2] * in_shape(a, 0)->dim[3];
    for (int64_t i = 0; i < out_size(a, 0); i++) {
        double sum = 0;
        for (int64_t j = 0; j < plane; j++) sum += (double)x[i * plane + j];
        y[i] = (real)(sum / (double)plane);
    }
}

static void global_avgpool_grad(const weft_ref *a)
{
    const real *dy = a->in[0];
    real *dx = a->out[0];
    int64_t plane = out_shape(a, 0)->dim[2] * out_shape(a, 0)->dim[3];
    for (int64_t i = 0; i < out_size(a, 0); i++) dx[i] = dy[i / plane] / (real)plane;
}

const weft_ref_entry WEFT_REF_TABLE(window)[] = {
    {"conv2d", conv2d, 0},
    {"conv2d_dx", conv2d_dx, 0},
    {"conv2d_dw", conv2d_dw, 0},
    {"maxpool", maxpool, 0},
    {"maxpool_grad", maxpool_grad, 0},
    {"avgpool", avgpool, 0},
    {"avgpool_grad", avgpool_grad, 0},
    {"global_avgpool", global_avgpool, 0},
    {"global_avgpool_grad", global_avgpool_grad, 0},
    {NULL, NULL, 0},
};
