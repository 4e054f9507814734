/* maxpool, avgpool, global_avgpool over [b, c, h, w], and their gradients. */
#include "ops/ops.h"

static weft_status expect_rank(const weft_graph *g, const weft_node *node, const char *what,
                               int rank)
{
    WEFT_TRY(weft_expect_real(g, node, 0, what, rank));
    if (weft_in(g, node, 0)->shape.rank == rank) return WEFT_OK;
    return weft_node_fail(node, "%s must have %d dimensions", what, rank);
}

static weft_status pool_window(const weft_graph *g, weft_node *node, int64_t *size)
{
    WEFT_TRY(expect_rank(g, node, "the tensor", 4));
    const weft_shape *x = &weft_in(g, node, 0)->shape;
    if (!weft_node_attr(node, "kernel")) return weft_node_fail(node, "needs attribute 'kernel'");
    weft_window w = weft_node_window(node);
    if (!weft_node_attr(node, "stride")) { /* windows side by side */
        WEFT_TRY(
            weft_node_set(node, &(weft_attr)WEFT_ATTR_PAIR("stride", w.kernel[0], w.kernel[1])));
        w = weft_node_window(node);
    }
    return weft_window_check(node, &w, &x->dim[2], size);
}

static weft_type pooled(const weft_graph *g, const weft_node *node, const int64_t *size)
{
    weft_type type = *weft_in(g, node, 0);
    type.shape.dim[2] = size[0];
    type.shape.dim[3] = size[1];
    return type;
}

/* Output 1 says which element won; only maxpool_grad reads it, in whatever form the device
 * likes. */
static weft_status maxpool_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    int64_t size[2];
    WEFT_TRY(pool_window(g, node, size));
    out[0] = pooled(g, node, size);
    out[1] = out[0];
    out[1].dtype = WEFT_I32;
    node->out_count = 2;
    return WEFT_OK;
}

static weft_status avgpool_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    int64_t size[2];
    WEFT_TRY(pool_window(g, node, size));
    out[0] = pooled(g, node, size);
    return WEFT_OK;
}

static weft_attr size_of(const weft_graph *g, const weft_node *node)
{
    const weft_shape *x = &weft_in(g, node, 0)->shape;
    return (weft_attr)WEFT_ATTR_PAIR("size", x->dim[2], x->dim[3]);
}

static void pool_gradient(weft_graph *g, const weft_node *node, const weft_value *in, int count,
                          const char *op, weft_value *dx)
{
    weft_attr attrs[WEFT_MAX_ATTRS + 1];
    for (int i = 0; i < node->attr_count; i++) attrs[i] = node->attrs[i];
    attrs[node->attr_count] = size_of(g, node);
    dx[0] = weft_emit(g, node, "dx", op, in, count, attrs, node->attr_count + 1);
}

static void maxpool_gradient(weft_graph *g, const weft_node *node, const weft_value *dy,
                             const bool *want, weft_value *dx)
{
    (void)want;
    pool_gradient(g, node, (weft_value[]){dy[0], node->out + 1}, 2, "maxpool_grad", dx);
}

static void avgpool_gradient(weft_graph *g, const weft_node *node, const weft_value *dy,
                             const bool *want, weft_value *dx)
{
    (void)want;
    pool_gradient(g, node, dy, 1, "avgpool_grad", dx);
}

static void global_gradient(weft_graph *g, const weft_node *node, const weft_value *dy,
                            const bool *want, weft_value *dx)
{
    (void)want;
    weft_attr size = size_of(g, node);
    dx[0] = weft_emit(g, node, "dx", "global_avgpool_grad", dy, 1, &size, 1);
}

static weft_status grad_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    WEFT_TRY(expect_rank(g, node, "dy", 4));
    int64_t in[2] = {weft_node_int(node, "size", 0, 0), weft_node_int(node, "size", 1, 0)}, size[2];
    weft_window w = weft_node_window(node);
    WEFT_TRY(weft_window_check(node, &w, in, size));
    out[0] = *weft_in(g, node, 0);
    if (out[0].shape.dim[2] != size[0] || out[0].shape.dim[3] != size[1])
        return weft_node_fail(node, "dy does not have the shape of the pooled tensor");
    weft_type index = out[0];
    index.dtype = WEFT_I32;
    if (node->in_count > 1) WEFT_TRY(weft_expect_like(g, node, 1, "the index", &index));
    out[0].shape.dim[2] = in[0];
    out[0].shape.dim[3] = in[1];
    return WEFT_OK;
}

static weft_status global_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    WEFT_TRY(expect_rank(g, node, "the tensor", 4));
    out[0] = weft_type_like(weft_in(g, node, 0), 2);
    return WEFT_OK;
}

static weft_status global_grad_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    WEFT_TRY(expect_rank(g, node, "dy", 2));
    out[0] = weft_type_like(weft_in(g, node, 0), 4);
    out[0].shape.dim[2] = weft_node_int(node, "size", 0, 0);
    out[0].shape.dim[3] = weft_node_int(node, "size", 1, 0);
    return WEFT_OK;
}

static void maxpool_labels(const weft_graph *g, const weft_node *node, weft_text *text)
{
    (void)g;
    (void)node;
    weft_text_add(text, "b c h~ w~ -> b c h w, b c h w");
}

static void avgpool_labels(const weft_graph *g, const weft_node *node, weft_text *text)
{
    (void)g;
    (void)node;
    weft_text_add(text, "b c h~ w~ -> b c h w");
}

static void grad_labels(const weft_graph *g, const weft_node *node, weft_text *text)
{
    (void)g;
    weft_text_add(text,
                  node->in_count > 1 ? "b c h w, b c h w -> b c h~ w~" : "b c h w -> b c h~ w~");
}

static void global_labels(const weft_graph *g, const weft_node *node, weft_text *text)
{
    (void)g;
    (void)node;
    weft_text_add(text, "b c !h !w -> b c");
}

static void global_grad_labels(const weft_graph *g, const weft_node *node, weft_text *text)
{
    (void)g;
    (void)node;
    weft_text_add(text, "b c -> b c !h !w");
}

static weft_window window_of(const weft_graph *g, const weft_node *node)
{
    (void)g;
    return weft_node_window(node);
}

static double pool_flops(const weft_graph *g, const weft_node *node)
{
    weft_window w = weft_node_window(node);
    double windows = (double)WEFT_MIN(weft_shape_elements(&weft_in(g, node, 0)->shape),
                                      weft_shape_elements(&weft_out(g, node, 0)->shape));
    return windows * (double)(w.kernel[0] * w.kernel[1]);
}

static double global_flops(const weft_graph *g, const weft_node *node)
{
    return (double)weft_shape_elements(&weft_in(g, node, 0)->shape);
}

const weft_op weft_op_maxpool = {.name = "maxpool",
                                 .summary = "largest element of each window",
                                 .min_inputs = 1,
                                 .max_inputs = 1,
                                 .attrs = WEFT_ATTRS("kernel", "stride", "padding"),
                                 .shape = maxpool_shape,
                                 .gradient = maxpool_gradient,
                                 .labels = maxpool_labels,
                                 .flops = pool_flops,
                                 .window = window_of};
const weft_op weft_op_maxpool_grad = {.name = "maxpool_grad",
                                      .summary = "gradient of maxpool, from (dy, index)",
                                      .min_inputs = 2,
                                      .max_inputs = 2,
                                      .attrs = WEFT_ATTRS("kernel", "stride", "padding", "size"),
                                      .shape = grad_shape,
                                      .labels = grad_labels,
                                      .flops = pool_flops,
                                      .dims = "size",
                                      .dims_from = 2,
                                      .window = window_of};
const weft_op weft_op_avgpool = {.name = "avgpool",
                                 .summary = "mean of each window, padding not counted",
                                 .min_inputs = 1,
                                 .max_inputs = 1,
                                 .attrs = WEFT_ATTRS("kernel", "stride", "padding"),
                                 .shape = avgpool_shape,
                                 .gradient = avgpool_gradient,
                                 .labels = avgpool_labels,
                                 .flops = pool_flops,
                                 .window = window_of};
const weft_op weft_op_avgpool_grad = {.name = "avgpool_grad",
                                      .summary = "gradient of avgpool",
                                      .min_inputs = 1,
                                      .max_inputs = 1,
                                      .attrs = WEFT_ATTRS("kernel", "stride", "padding", "size"),
                                      .shape = grad_shape,
                                      .labels = grad_labels,
                                      .flops = pool_flops,
                                      .dims = "size",
                                      .dims_from = 2,
                                      .window = window_of};
const weft_op weft_op_global_avgpool = {.name = "global_avgpool",
                                        .summary = "mean over height and width",
                                        .min_inputs = 1,
                                        .max_inputs = 1,
                                        .shape = global_shape,
                                        .gradient = global_gradient,
                                        .labels = global_labels,
                                        .flops = global_flops};
const weft_op weft_op_global_avgpool_grad = {.name = "global_avgpool_grad",
                                             .summary = "gradient of global_avgpool",
                                             .min_inputs = 1,
                                             .max_inputs = 1,
                                             .attrs = WEFT_ATTRS("size"),
                                             .shape = global_grad_shape,
                                             .labels = global_grad_labels,
                                             .dims = "size",
                                             .dims_from = 2};
