/* Implements convolution, pooling and their gradients. */
#include "device/reference/reference.h"

/* The sizes of a convolution or pooling. There are always three spatial dimensions: dimensions of
 * size 1 are added in front of fewer ones. */
typedef struct conv {
    int64_t batch, in, out, x[WEFT_MAX_SPACE], y[WEFT_MAX_SPACE], k[WEFT_MAX_SPACE], plane;
    int64_t groups, in_group, out_group;
    weft_window window;
} conv;

static void space_of(const weft_shape *shape, int64_t *out)
{
    int missing = WEFT_MAX_SPACE + 2 - shape->rank;
    for (int i = 0; i < WEFT_MAX_SPACE; i++) out[i] = i < missing ? 1 : shape->dim[2 + i - missing];
}

/* The node's window, extended by dimensions of size 1 without padding in front. */
static weft_window window_of(const weft_ref *a, int dims)
{
    weft_window own = weft_node_window(a->node, dims), w = {.dims = WEFT_MAX_SPACE};
    int missing = WEFT_MAX_SPACE - dims;
    for (int i = 0; i < WEFT_MAX_SPACE; i++) {
        w.kernel[i] = i < missing ? 1 : own.kernel[i - missing];
        w.stride[i] = i < missing ? 1 : own.stride[i - missing];
        w.dilation[i] = i < missing ? 1 : own.dilation[i - missing];
        w.padding[i] = i < missing ? 0 : own.padding[i - missing];
    }
    return w;
}

static conv sizes_of(const weft_ref *a, const weft_shape *x, const weft_shape *y)
{
    conv c = {.window = window_of(a, x->rank - 2)};
    space_of(x, c.x);
    space_of(y, c.y);
    c.plane = c.x[0] * c.x[1] * c.x[2];
    return c;
}

static conv conv_sizes(const weft_ref *a, const weft_shape *x, const weft_shape *weight,
                       const weft_shape *y)
{
    conv c = sizes_of(a, x, y);
    space_of(weight, c.k);
    c.batch = x->dim[0];
    c.in = x->dim[1];
    c.out = y->dim[1];
    c.groups = weft_node_int(a->node, "groups", 0, 1);
    c.in_group = c.in / c.groups;
    c.out_group = c.out / c.groups;
    return c;
}

/* The input position that kernel element k reads for output position o, along dimension `side`; -1:
 * in the padding. */
static int64_t position(const conv *c, int side, int64_t o, int64_t k)
{
    const weft_window *w = &c->window;
    int64_t at = o * w->stride[side] - w->padding[side] + k * w->dilation[side];
    return at >= 0 && at < c->x[side] ? at : -1;
}

/* Runs `body` for each element of the window at output position (od, oh, ow), without padding.
 * `at`: index in the plane of x; `kernel`: index in the window. */
#define FOR_WINDOW(c, od_, oh_, ow_, at, kernel, body)                                             \
    for (int64_t kd_ = 0, kernel = 0; kd_ < (c)->k[0]; kd_++) {                                    \
        int64_t d_ = position(c, 0, od_, kd_);                                                     \
        for (int64_t kh_ = 0; kh_ < (c)->k[1]; kh_++) {                                            \
            int64_t h_ = position(c, 1, oh_, kh_);                                                 \
            for (int64_t kw_ = 0; kw_ < (c)->k[2]; kw_++, kernel++) {                              \
                int64_t w_ = position(c, 2, ow_, kw_);                                             \
                if (d_ < 0 || h_ < 0 || w_ < 0) continue;                                          \
                int64_t at = (d_ * (c)->x[1] + h_) * (c)->x[2] + w_;                               \
                body;                                                                              \
            }                                                                                      \
        }                                                                                          \
    }

/* Runs `body` for each pair of an element of x (index xi) and an element of the weight (index wi)
 * that contribute to the output of sample b, channel o, at position (od, oh, ow). */
#define FOR_CONV(c, b, o, od_, oh_, ow_, xi, wi, body)                                             \
    for (int64_t i_ = 0; i_ < (c)->in_group; i_++) {                                               \
        int64_t channel_ = (o) / (c)->out_group * (c)->in_group + i_;                              \
        int64_t plane_ = ((b) * (c)->in + channel_) * (c)->plane;                                  \
        int64_t weight_ = ((o) * (c)->in_group + i_) * (c)->k[0] * (c)->k[1] * (c)->k[2];          \
        FOR_WINDOW(c, od_, oh_, ow_, at_, kernel_, {                                               \
            int64_t xi = plane_ + at_;                                                             \
            int64_t wi = weight_ + kernel_;                                                        \
            body;                                                                                  \
        })                                                                                         \
    }

#define FOR_OUTPUT(c, b, o, od, oh, ow, yi)                                                        \
    for (int64_t b = 0, yi = 0; b < (c)->batch; b++)                                               \
        for (int64_t o = 0; o < (c)->out; o++)                                                     \
            for (int64_t od = 0; od < (c)->y[0]; od++)                                             \
                for (int64_t oh = 0; oh < (c)->y[1]; oh++)                                         \
                    for (int64_t ow = 0; ow < (c)->y[2]; ow++, yi++)

static void conv_forward(const weft_ref *a)
{
    conv c = conv_sizes(a, in_shape(a, 0), in_shape(a, 1), out_shape(a, 0));
    const real *x = a->in[0], *w = a->in[1];
    real *y = a->out[0];
    FOR_OUTPUT (&c, b, o, od, oh, ow, yi) {
        double sum = 0;
        FOR_CONV(&c, b, o, od, oh, ow, xi, wi, sum += (double)x[xi] * (double)w[wi])
        y[yi] = (real)sum;
    }
}

static void conv_dx(const weft_ref *a)
{
    conv c = conv_sizes(a, out_shape(a, 0), in_shape(a, 1), in_shape(a, 0));
    const real *dy = a->in[0], *w = a->in[1];
    real *dx = a->out[0];
    memset(dx, 0, (size_t)out_size(a, 0) * sizeof(real));
    FOR_OUTPUT (&c, b, o, od, oh, ow, yi) {
        FOR_CONV(&c, b, o, od, oh, ow, xi, wi, dx[xi] += dy[yi] * w[wi])
    }
}

static void conv_dw(const weft_ref *a)
{
    conv c = conv_sizes(a, in_shape(a, 0), out_shape(a, 0), in_shape(a, 1));
    const real *x = a->in[0], *dy = a->in[1];
    real *dw = a->out[0];
    memset(dw, 0, (size_t)out_size(a, 0) * sizeof(real));
    FOR_OUTPUT (&c, b, o, od, oh, ow, yi) {
        FOR_CONV(&c, b, o, od, oh, ow, xi, wi, dw[wi] += dy[yi] * x[xi])
    }
}

/* The sizes of pooling, in which each channel of a sample is a plane. `full` is the shape of the
 * input, `pooled` that of the result. */
static conv pool_sizes(const weft_ref *a, const weft_shape *full, const weft_shape *pooled)
{
    conv c = sizes_of(a, full, pooled);
    c.batch = full->dim[0] * full->dim[1];
    c.out = 1;
    for (int i = 0; i < WEFT_MAX_SPACE; i++) c.k[i] = c.window.kernel[i];
    return c;
}

/* The index of a maximum is relative to its plane. */
static void maxpool(const weft_ref *a)
{
    conv c = pool_sizes(a, in_shape(a, 0), out_shape(a, 0));
    const real *x = a->in[0];
    real *y = a->out[0];
    int32_t *index = a->out[1];
    FOR_OUTPUT (&c, b, o, od, oh, ow, yi) {
        (void)o;
        int64_t best = -1;
        const real *plane = x + b * c.plane;
        FOR_WINDOW(&c, od, oh, ow, at, kernel, {
            (void)kernel;
            if (best < 0 || plane[at] > plane[best] || plane[at] != plane[at]) best = at;
        })
        y[yi] = plane[best];
        index[yi] = (int32_t)best;
    }
}

static void maxpool_grad(const weft_ref *a)
{
    conv c = pool_sizes(a, out_shape(a, 0), in_shape(a, 0));
    const real *dy = a->in[0];
    const int32_t *index = a->in[1];
    real *dx = a->out[0];
    memset(dx, 0, (size_t)out_size(a, 0) * sizeof(real));
    FOR_OUTPUT (&c, b, o, od, oh, ow, yi) {
        (void)o;
        (void)od;
        (void)oh;
        (void)ow;
        dx[b * c.plane + index[yi]] += dy[yi];
    }
}

static void avgpool(const weft_ref *a)
{
    conv c = pool_sizes(a, in_shape(a, 0), out_shape(a, 0));
    const real *x = a->in[0];
    real *y = a->out[0];
    FOR_OUTPUT (&c, b, o, od, oh, ow, yi) {
        (void)o;
        double sum = 0;
        int64_t count = 0;
        FOR_WINDOW(&c, od, oh, ow, at, kernel, {
            (void)kernel;
            sum += (double)x[b * c.plane + at];
            count++;
        })
        y[yi] = (real)(sum / (double)count);
    }
}

static void avgpool_grad(const weft_ref *a)
{
    conv c = pool_sizes(a, out_shape(a, 0), in_shape(a, 0));
    const real *dy = a->in[0];
    real *dx = a->out[0];
    memset(dx, 0, (size_t)out_size(a, 0) * sizeof(real));
    FOR_OUTPUT (&c, b, o, od, oh, ow, yi) {
        (void)o;
        int64_t count = 0;
        FOR_WINDOW(&c, od, oh, ow, at, kernel, {
            (void)kernel;
            count += at >= 0;
        })
        real share = dy[yi] / (real)count;
        FOR_WINDOW(&c, od, oh, ow, at, kernel, {
            (void)kernel;
            dx[b * c.plane + at] += share;
        })
    }
}

static void global_avgpool(const weft_ref *a)
{
    const real *x = a->in[0];
    real *y = a->out[0];
    int64_t plane = in_size(a, 0) / out_size(a, 0);
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
    int64_t plane = out_size(a, 0) / in_size(a, 0);
    for (int64_t i = 0; i < out_size(a, 0); i++) dx[i] = dy[i / plane] / (real)plane;
}

const weft_ref_entry WEFT_REF_TABLE(window)[] = {
    {"conv", conv_forward, 0},
    {"conv_dx", conv_dx, 0},
    {"conv_dw", conv_dw, 0},
    {"maxpool", maxpool, 0},
    {"maxpool_grad", maxpool_grad, 0},
    {"avgpool", avgpool, 0},
    {"avgpool_grad", avgpool_grad, 0},
    {"global_avgpool", global_avgpool, 0},
    {"global_avgpool_grad", global_avgpool_grad, 0},
    {NULL, NULL, 0},
};
