/* conv2d: x [b, c, h, w] with w [o, c / groups, i, j]; stride, padding, dilation, groups. */
#include "ops/ops.h"

/* Checks x against the weight's shape and gives the output's height and width. */
static weft_status conv_check(const weft_node *node, const weft_shape *x, const weft_shape *w,
                              int64_t *out)
{
    int64_t groups = weft_node_int(node, "groups", 0, 1);
    if (x->rank != 4 || w->rank != 4)
        return weft_node_fail(node, "the tensor must be [batch, channels, height, width] and the "
                                    "weight [out, in / groups, height, width]");
    if (groups < 1 || x->dim[1] % groups || w->dim[0] % groups || w->dim[1] * groups != x->dim[1])
        return weft_node_fail(node,
                              "%lld input channels, %lld output channels and a weight of %lld do "
                              "not fit %lld groups",
                              (long long)x->dim[1], (long long)w->dim[0], (long long)w->dim[1],
                              (long long)groups);
    weft_window window = weft_node_window(node);
    window.kernel[0] = w->dim[2];
    window.kernel[1] = w->dim[3];
    return weft_window_check(node, &window, &x->dim[2], out);
}

static weft_status conv_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    WEFT_TRY(weft_expect_real(g, node, 0, "the tensor", 4));
    WEFT_TRY(weft_expect_real(g, node, 1, "the weight", 4));
    const weft_shape *x = &weft_in(g, node, 0)->shape, *w = &weft_in(g, node, 1)->shape;
    int64_t size[2];
    WEFT_TRY(conv_check(node, x, w, size));
    out[0] = (weft_type){weft_node_float(g, node),
                         weft_shape_of(4, (int64_t[]){x->dim[0], w->dim[0], size[0], size[1]})};
    return WEFT_OK;
}

/* The height and width of x cannot be found from dy where a stride leaves a rest, so the
 * gradient carries them in "size". */
static weft_status conv_dx_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    WEFT_TRY(weft_expect_real(g, node, 0, "dy", 4));
    WEFT_TRY(weft_expect_real(g, node, 1, "the weight", 4));
    const weft_shape *dy = &weft_in(g, node, 0)->shape, *w = &weft_in(g, node, 1)->shape;
    int64_t groups = weft_node_int(node, "groups", 0, 1), size[2];
    weft_shape x = weft_shape_of(4, (int64_t[]){dy->dim[0], w->dim[1] * groups,
                                                weft_node_int(node, "size", 0, 0),
                                                weft_node_int(node, "size", 1, 0)});
    WEFT_TRY(conv_check(node, &x, w, size));
    WEFT_TRY(weft_expect(g, node, 0, "dy", weft_node_float(g, node), 4,
                         (int64_t[]){dy->dim[0], w->dim[0], size[0], size[1]}));
    out[0] = (weft_type){weft_node_float(g, node), x};
    return WEFT_OK;
}

static weft_status conv_dw_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    WEFT_TRY(weft_expect_real(g, node, 0, "the tensor", 4));
    WEFT_TRY(weft_expect_real(g, node, 1, "dy", 4));
    const weft_shape *x = &weft_in(g, node, 0)->shape, *dy = &weft_in(g, node, 1)->shape;
    int64_t groups = weft_node_int(node, "groups", 0, 1), size[2];
    weft_shape w = weft_shape_of(4, (int64_t[]){dy->dim[1], groups > 0 ? x->dim[1] / groups : 0,
                                                weft_node_int(node, "kernel", 0, 0),
                                                weft_node_int(node, "kernel", 1, 0)});
    WEFT_TRY(conv_check(node, x, &w, size));
    WEFT_TRY(weft_expect(g, node, 1, "dy", weft_node_float(g, node), 4,
                         (int64_t[]){x->dim[0], w.dim[0], size[0], size[1]}));
    out[0] = (weft_type){weft_node_float(g, node), w};
    return WEFT_OK;
}

static void conv_gradient(weft_graph *g, const weft_node *node, const weft_value *dy,
                          const bool *want, weft_value *dx)
{
    weft_attr attrs[WEFT_MAX_ATTRS + 1];
    int count = node->attr_count;
    const weft_shape *w = &weft_in(g, node, 1)->shape;
    for (int i = 0; i < count; i++) attrs[i] = node->attrs[i];
    if (want[1]) {
        attrs[count] = (weft_attr)WEFT_ATTR_PAIR("kernel", w->dim[2], w->dim[3]);
        dx[1] = weft_emit(g, node, "dw", "conv2d_dw", (weft_value[]){node->in[0], dy[0]}, 2, attrs,
                          count + 1);
    }
    const weft_shape *x = &weft_in(g, node, 0)->shape; /* adding a node may move the values */
    if (want[0]) {
        attrs[count] = (weft_attr)WEFT_ATTR_PAIR("size", x->dim[2], x->dim[3]);
        dx[0] = weft_emit(g, node, "dx", "conv2d_dx", (weft_value[]){dy[0], node->in[1]}, 2, attrs,
                          count + 1);
    }
}

/* Groups tie the channels of both sides together, so neither may be split alone. */
static bool grouped(const weft_node *node)
{
    return weft_node_int(node, "groups", 0, 1) > 1;
}

static void conv_labels(const weft_graph *g, const weft_node *node, weft_text *text)
{
    (void)g;
    weft_text_add(text, grouped(node) ? "b !c h~ w~, !o !cg !i !j -> b !o h w"
                                      : "b c h~ w~, o c !i !j -> b o h w");
}

static void conv_dx_labels(const weft_graph *g, const weft_node *node, weft_text *text)
{
    (void)g;
    weft_text_add(text, grouped(node) ? "b !o h w, !o !cg !i !j -> b !c h~ w~"
                                      : "b o h w, o c !i !j -> b c h~ w~");
}

static void conv_dw_labels(const weft_graph *g, const weft_node *node, weft_text *text)
{
    (void)g;
    weft_text_add(text, grouped(node) ? "b !c h~ w~, b !o h w -> !o !cg !i !j"
                                      : "b c h~ w~, b o h w -> o c !i !j");
}

static weft_window conv_window(const weft_graph *g, const weft_node *node)
{
    weft_window window = weft_node_window(node);
    bool dw = weft_node_attr(node, "kernel") != NULL;
    for (int i = 0; i < 2 && !dw; i++) window.kernel[i] = weft_in(g, node, 1)->shape.dim[2 + i];
    return window;
}

static double conv_work(const weft_shape *dy, const weft_shape *w)
{
    return 2.0 * (double)weft_shape_elements(dy) * (double)(w->dim[1] * w->dim[2] * w->dim[3]);
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

const weft_op weft_op_conv2d = {.name = "conv2d",
                                .summary = "2-D convolution (cross-correlation) with stride, "
                                           "padding, dilation and groups",
                                .min_inputs = 2,
                                .max_inputs = 2,
                                .attrs = WEFT_ATTRS("stride", "padding", "dilation", "groups"),
                                .shape = conv_shape,
                                .gradient = conv_gradient,
                                .labels = conv_labels,
                                .flops = conv_flops,
                                .window = conv_window};
const weft_op weft_op_conv2d_dx = {
    .name = "conv2d_dx",
    .summary = "gradient of conv2d for its tensor, from (dy, w)",
    .min_inputs = 2,
    .max_inputs = 2,
    .attrs = WEFT_ATTRS("stride", "padding", "dilation", "groups", "size"),
    .shape = conv_dx_shape,
    .labels = conv_dx_labels,
    .flops = conv_dx_flops,
    .dims = "size",
    .dims_from = 2,
    .window = conv_window};
const weft_op weft_op_conv2d_dw = {
    .name = "conv2d_dw",
    .summary = "gradient of conv2d for its weight, from (x, dy)",
    .min_inputs = 2,
    .max_inputs = 2,
    .attrs = WEFT_ATTRS("stride", "padding", "dilation", "groups", "kernel"),
    .shape = conv_dw_shape,
    .labels = conv_dw_labels,
    .flops = conv_dw_flops,
    .window = conv_window};
