/* Defines the convolution of x [b, c, ...] with w [o, c / groups, ...] over 1 to 3 spatial
 * dimensions, with stride, padding, dilation and groups, and its gradients. */
#include "ops/ops.h"

/* The shape [first, second, spatial dimensions]. */
static weft_shape with_space(int64_t first, int64_t second, int dims, const int64_t *space)
{
    weft_shape shape = {2 + dims, {first, second}};
    for (int i = 0; i < dims; i++) shape.dim[2 + i] = space[i];
    return shape;
}

/* Reads the numbers of an attribute. A missing number becomes 0, which is never valid. */
static void numbers_of(const weft_node *node, const char *attr, int dims, int64_t *out)
{
    for (int i = 0; i < dims; i++) out[i] = weft_node_int(node, attr, i, 0);
}

/* Checks x against the weight, and computes the spatial dimensions of the output. */
static weft_status conv_check(const weft_node *node, const weft_shape *x, const weft_shape *w,
                              int64_t *out)
{
    int64_t groups = weft_node_int(node, "groups", 0, 1);
    if (x->rank != w->rank)
        return weft_node_fail(node,
                              "the tensor [batch, channels, ...] has %d dimensions and the weight "
                              "[out, in / groups, ...] %d, they must have as many",
                              x->rank, w->rank);
    if (groups < 1 || x->dim[1] % groups || w->dim[0] % groups)
        return weft_node_fail(node,
                              "the tensor has %lld channels and the weight makes %lld; both must "
                              "be multiples of groups, which is %lld",
                              (long long)x->dim[1], (long long)w->dim[0], (long long)groups);
    if (w->dim[1] * groups != x->dim[1])
        return weft_node_fail(node,
                              "the weight reads %lld channels in each of %lld groups, the tensor "
                              "has %lld for each",
                              (long long)w->dim[1], (long long)groups,
                              (long long)(x->dim[1] / groups));
    weft_window window = weft_node_window(node, x->rank - 2);
    for (int i = 0; i < window.dims; i++) window.kernel[i] = w->dim[2 + i];
    return weft_window_check(node, &window, &x->dim[2], out);
}

static weft_status conv_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    WEFT_TRY(weft_expect_space(g, node, 0, "the tensor"));
    WEFT_TRY(weft_expect_space(g, node, 1, "the weight"));
    const weft_shape *x = &weft_in(g, node, 0)->shape, *w = &weft_in(g, node, 1)->shape;
    int64_t size[WEFT_MAX_SPACE];
    WEFT_TRY(conv_check(node, x, w, size));
    out[0] =
        (weft_type){weft_node_float(g, node), with_space(x->dim[0], w->dim[0], x->rank - 2, size)};
    return WEFT_OK;
}

/* The dimensions of x do not follow from the shape of dy if a stride leaves a remainder, so conv_dx
 * has them as attribute "size". */
static weft_status conv_dx_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    WEFT_TRY(weft_expect_space(g, node, 0, "dy"));
    WEFT_TRY(weft_expect_space(g, node, 1, "the weight"));
    const weft_shape *dy = &weft_in(g, node, 0)->shape, *w = &weft_in(g, node, 1)->shape;
    int64_t groups = weft_node_int(node, "groups", 0, 1), in[WEFT_MAX_SPACE], size[WEFT_MAX_SPACE];
    int dims = dy->rank - 2;
    numbers_of(node, "size", dims, in);
    weft_shape x = with_space(dy->dim[0], w->dim[1] * groups, dims, in);
    WEFT_TRY(conv_check(node, &x, w, size));
    weft_type want = {weft_node_float(g, node), with_space(dy->dim[0], w->dim[0], dims, size)};
    WEFT_TRY(weft_expect_like(g, node, 0, "dy", &want));
    out[0] = (weft_type){want.dtype, x};
    return WEFT_OK;
}

static weft_status conv_dw_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    WEFT_TRY(weft_expect_space(g, node, 0, "the tensor"));
    WEFT_TRY(weft_expect_space(g, node, 1, "dy"));
    const weft_shape *x = &weft_in(g, node, 0)->shape, *dy = &weft_in(g, node, 1)->shape;
    int64_t groups = weft_node_int(node, "groups", 0, 1), kernel[WEFT_MAX_SPACE],
            size[WEFT_MAX_SPACE];
    int dims = dy->rank - 2;
    numbers_of(node, "kernel", dims, kernel);
    weft_shape w = with_space(dy->dim[1], groups > 0 ? x->dim[1] / groups : 0, dims, kernel);
    WEFT_TRY(conv_check(node, x, &w, size));
    weft_type want = {weft_node_float(g, node), with_space(x->dim[0], w.dim[0], dims, size)};
    WEFT_TRY(weft_expect_like(g, node, 1, "dy", &want));
    out[0] = (weft_type){want.dtype, w};
    return WEFT_OK;
}

/* An attribute with the spatial dimensions of a shape. */
static weft_attr space_of(const char *name, const weft_shape *shape)
{
    weft_attr attr = {.name = name, .count = shape->rank - 2};
    for (int i = 0; i < attr.count; i++) attr.ints[i] = shape->dim[2 + i];
    return attr;
}

static void conv_gradient(weft_graph *g, const weft_node *node, const weft_value *dy,
                          const bool *want, weft_value *dx)
{
    const weft_shape *w = &weft_in(g, node, 1)->shape;
    if (want[1]) {
        weft_attr kernel = space_of("kernel", w);
        dx[1] = weft_emit_with(g, node, "dw", "conv_dw", (weft_value[]){node->in[0], dy[0]}, 2,
                               &kernel);
    }
    const weft_shape *x = &weft_in(g, node, 0)->shape; /* adding a node may move the values */
    if (want[0]) {
        weft_attr size = space_of("size", x);
        dx[0] =
            weft_emit_with(g, node, "dx", "conv_dx", (weft_value[]){dy[0], node->in[1]}, 2, &size);
    }
}

/* conv_dx is linear in both operands, and the operators of conv are its gradients: with dy of conv
 * and conv_dx exchanged. */
static void conv_dx_gradient(weft_graph *g, const weft_node *node, const weft_value *dy,
                             const bool *want, weft_value *dx)
{
    static const char *const names[] = {"stride", "padding", "dilation", "groups"};
    weft_attr attrs[WEFT_COUNT(names) + 1];
    int count = 0;
    for (size_t i = 0; i < WEFT_COUNT(names); i++) {
        const weft_attr *attr = weft_node_attr(node, names[i]);
        if (attr) attrs[count++] = *attr;
    }
    attrs[count] = space_of("kernel", &weft_in(g, node, 1)->shape);
    weft_value from[] = {dy[0], node->in[1]}, both[] = {dy[0], node->in[0]};
    if (want[0]) dx[0] = weft_emit(g, node, "dx", "conv", from, 2, attrs, count);
    if (want[1]) dx[1] = weft_emit(g, node, "dw", "conv_dw", both, 2, attrs, count + 1);
}

/* Groups couple input channels to output channels, so neither dimension may be split alone. */
static bool grouped(const weft_node *node)
{
    return weft_node_int(node, "groups", 0, 1) > 1;
}

static void conv_labels(const weft_graph *g, const weft_node *node, weft_text *text)
{
    weft_labels_space(text,
                      grouped(node) ? "b !c S~, !o !cg !K -> b !o S" : "b c S~, o c !K -> b o S",
                      weft_in(g, node, 0)->shape.rank - 2);
}

static void conv_dx_labels(const weft_graph *g, const weft_node *node, weft_text *text)
{
    weft_labels_space(text,
                      grouped(node) ? "b !o S, !o !cg !K -> b !c S~" : "b o S, o c !K -> b c S~",
                      weft_in(g, node, 0)->shape.rank - 2);
}

static void conv_dw_labels(const weft_graph *g, const weft_node *node, weft_text *text)
{
    weft_labels_space(text,
                      grouped(node) ? "b !c S~, b !o S -> !o !cg !K" : "b c S~, b o S -> o c !K",
                      weft_in(g, node, 0)->shape.rank - 2);
}

static weft_window conv_window(const weft_graph *g, const weft_node *node)
{
    weft_window window = weft_node_window(node, weft_in(g, node, 0)->shape.rank - 2);
    bool dw = weft_node_attr(node, "kernel") != NULL;
    for (int i = 0; i < window.dims && !dw; i++)
        window.kernel[i] = weft_in(g, node, 1)->shape.dim[2 + i];
    return window;
}

static double conv_work(const weft_shape *dy, const weft_shape *w)
{
    int64_t each = weft_shape_elements(w) / w->dim[0]; /* products for each element of the result */
    return 2.0 * (double)weft_shape_elements(dy) * (double)each;
}

static double conv_flops(const weft_graph *g, const weft_node *node)
{
    return conv_work(&weft_out(g, node, 0)->shape, &weft_in(g, node, 1)->shape);
}

static double conv_dx_flops(const weft_graph *g, const weft_node *node)
{
    return conv_work(&weft_in(g, node, 0)->shape, &weft_in(g, node, 1)->shape);
}

static double conv_dw_flops(const weft_graph *g, const weft_node *node)
{
    return conv_work(&weft_in(g, node, 1)->shape, &weft_out(g, node, 0)->shape);
}

WEFT_OPERATOR(conv,
              "convolution (cross-correlation) over 1 to 3 dimensions, with "
              "stride, padding, dilation and groups",
              2, 2, .before = "conv2d",
              .attrs = WEFT_ATTRS("stride", "padding", "dilation", "groups"), .narrow = 3,
              .narrow_out = 1, .narrows = true, .shape = conv_shape, .gradient = conv_gradient,
              .labels = conv_labels, .flops = conv_flops, .window = conv_window);
WEFT_OPERATOR(conv_dx,
              "gradient of conv for its tensor, from (dy, w); the transposed convolution of dy", 2,
              2, .before = "conv2d_dx",
              .attrs = WEFT_ATTRS("stride", "padding", "dilation", "groups", "size"), .narrow = 3,
              .narrow_out = 1, .narrows = true, .shape = conv_dx_shape,
              .gradient = conv_dx_gradient, .labels = conv_dx_labels, .flops = conv_dx_flops,
              .dims = "size", .dims_from = 2, .window = conv_window);
WEFT_OPERATOR(conv_dw, "gradient of conv for its weight, from (x, dy)", 2, 2, .before = "conv2d_dw",
              .attrs = WEFT_ATTRS("stride", "padding", "dilation", "groups", "kernel"), .narrow = 3,
              .narrows = true, .shape = conv_dw_shape, .labels = conv_dw_labels,
              .flops = conv_dw_flops, .window = conv_window);
