/* Defines the operators maxpool, avgpool and global_avgpool over [b, c, ...] with 1 to 3 spatial
 * dimensions, and their gradients. */
#include "ops/ops.h"

/* The window over the spatial dimensions of the first operand. */
static weft_window window_of(const weft_graph *g, const weft_node *node)
{
    return weft_node_window(node, weft_in(g, node, 0)->shape.rank - 2);
}

static weft_status pool_window(const weft_graph *g, weft_node *node, int64_t *size)
{
    WEFT_TRY(weft_expect_space(g, node, 0, "the tensor"));
    const weft_shape *x = &weft_in(g, node, 0)->shape;
    if (!weft_node_attr(node, "kernel")) return weft_node_fail(node, "needs attribute 'kernel'");
    if (!weft_node_attr(node, "stride")) { /* adjacent windows */
        weft_attr stride = *weft_node_attr(node, "kernel");
        stride.name = "stride";
        WEFT_TRY(weft_node_set(node, &stride));
    }
    weft_window w = window_of(g, node);
    return weft_window_check(node, &w, &x->dim[2], size);
}

static weft_type pooled(const weft_graph *g, const weft_node *node, const int64_t *size)
{
    weft_type type = *weft_in(g, node, 0);
    for (int i = 2; i < type.shape.rank; i++) type.shape.dim[i] = size[i - 2];
    return type;
}

/* Output 1 is the index of each maximum, in a format of the device's own; only maxpool_grad reads
 * it. */
static weft_status maxpool_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    int64_t size[WEFT_MAX_SPACE];
    WEFT_TRY(pool_window(g, node, size));
    out[0] = pooled(g, node, size);
    out[1] = out[0];
    out[1].dtype = WEFT_I32;
    node->out_count = 2;
    return WEFT_OK;
}

static weft_status avgpool_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    int64_t size[WEFT_MAX_SPACE];
    WEFT_TRY(pool_window(g, node, size));
    out[0] = pooled(g, node, size);
    return WEFT_OK;
}

static weft_attr size_of(const weft_graph *g, const weft_node *node)
{
    const weft_shape *x = &weft_in(g, node, 0)->shape;
    weft_attr size = {.name = "size", .count = x->rank - 2};
    for (int i = 0; i < size.count; i++) size.ints[i] = x->dim[2 + i];
    return size;
}

static void pool_gradient(weft_graph *g, const weft_node *node, const weft_value *in, int count,
                          const char *op, weft_value *dx)
{
    weft_attr size = size_of(g, node);
    dx[0] = weft_emit_with(g, node, "dx", op, in, count, &size);
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
    WEFT_TRY(weft_expect_space(g, node, 0, "dy"));
    weft_window w = window_of(g, node);
    int64_t in[WEFT_MAX_SPACE], size[WEFT_MAX_SPACE];
    for (int i = 0; i < w.dims; i++) in[i] = weft_node_int(node, "size", i, 0);
    WEFT_TRY(weft_window_check(node, &w, in, size));
    out[0] = *weft_in(g, node, 0);
    for (int i = 0; i < w.dims; i++)
        if (out[0].shape.dim[2 + i] != size[i])
            return weft_node_fail(node, "dy does not have the shape of the pooled tensor");
    weft_type index = out[0];
    index.dtype = WEFT_I32;
    if (node->in_count > 1) WEFT_TRY(weft_expect_like(g, node, 1, "the index", &index));
    for (int i = 0; i < w.dims; i++) out[0].shape.dim[2 + i] = in[i];
    return WEFT_OK;
}

static weft_status global_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    WEFT_TRY(weft_expect_space(g, node, 0, "the tensor"));
    out[0] = weft_type_like(weft_in(g, node, 0), 2);
    return WEFT_OK;
}

static weft_status global_grad_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    const weft_attr *size = weft_node_attr(node, "size");
    WEFT_TRY(weft_expect_real(g, node, 0, "dy", 2));
    if (weft_in(g, node, 0)->shape.rank != 2)
        return weft_node_fail(node, "dy must have 2 dimensions");
    if (!size || size->count < 1 || size->count > WEFT_MAX_SPACE)
        return weft_node_fail(node, "size must have 1 to %d numbers", WEFT_MAX_SPACE);
    out[0] = weft_type_like(weft_in(g, node, 0), 2 + size->count);
    for (int i = 0; i < size->count; i++) out[0].shape.dim[2 + i] = size->ints[i];
    return WEFT_OK;
}

static void maxpool_labels(const weft_graph *g, const weft_node *node, weft_text *text)
{
    weft_labels_space(text, "b c S~ -> b c S, b c S", weft_in(g, node, 0)->shape.rank - 2);
}

static void avgpool_labels(const weft_graph *g, const weft_node *node, weft_text *text)
{
    weft_labels_space(text, "b c S~ -> b c S", weft_in(g, node, 0)->shape.rank - 2);
}

static void grad_labels(const weft_graph *g, const weft_node *node, weft_text *text)
{
    weft_labels_space(text, node->in_count > 1 ? "b c S, b c S -> b c S~" : "b c S -> b c S~",
                      weft_in(g, node, 0)->shape.rank - 2);
}

static void global_labels(const weft_graph *g, const weft_node *node, weft_text *text)
{
    weft_labels_space(text, "b c !S -> b c", weft_in(g, node, 0)->shape.rank - 2);
}

static void global_grad_labels(const weft_graph *g, const weft_node *node, weft_text *text)
{
    weft_labels_space(text, "b c -> b c !S", weft_out(g, node, 0)->shape.rank - 2);
}

static double pool_flops(const weft_graph *g, const weft_node *node)
{
    weft_window w = window_of(g, node);
    double windows = (double)WEFT_MIN(weft_shape_elements(&weft_in(g, node, 0)->shape),
                                      weft_shape_elements(&weft_out(g, node, 0)->shape));
    for (int i = 0; i < w.dims; i++) windows *= (double)w.kernel[i];
    return windows;
}

static double global_flops(const weft_graph *g, const weft_node *node)
{
    return (double)weft_shape_elements(&weft_in(g, node, 0)->shape);
}

WEFT_OPERATOR(maxpool, "largest element of each window", 1, 1,
              .attrs = WEFT_ATTRS("kernel", "stride", "padding"), .opaque = 1u << 1, .narrow = 1,
              .narrow_out = 1, .shape = maxpool_shape, .gradient = maxpool_gradient,
              .labels = maxpool_labels, .flops = pool_flops, .window = window_of);
WEFT_OPERATOR(maxpool_grad, "gradient of maxpool, from (dy, index)", 2, 2,
              .attrs = WEFT_ATTRS("kernel", "stride", "padding", "size"), .narrow = 1,
              .narrow_out = 1, .shape = grad_shape, .labels = grad_labels, .flops = pool_flops,
              .dims = "size", .dims_from = 2, .window = window_of);
WEFT_OPERATOR(avgpool, "mean of each window, padding not counted", 1, 1,
              .attrs = WEFT_ATTRS("kernel", "stride", "padding"), .narrow = 1, .narrow_out = 1,
              .shape = avgpool_shape, .gradient = avgpool_gradient, .labels = avgpool_labels,
              .flops = pool_flops, .window = window_of);
WEFT_OPERATOR(avgpool_grad, "gradient of avgpool", 1, 1,
              .attrs = WEFT_ATTRS("kernel", "stride", "padding", "size"), .narrow = 1,
              .narrow_out = 1, .shape = grad_shape, .labels = grad_labels, .flops = pool_flops,
              .dims = "size", .dims_from = 2, .window = window_of);
WEFT_OPERATOR(global_avgpool, "mean over all dimensions of space", 1, 1, .narrow = 1,
              .narrow_out = 1, .shape = global_shape, .gradient = global_gradient,
              .labels = global_labels, .flops = global_flops);
WEFT_OPERATOR(global_avgpool_grad, "gradient of global_avgpool", 1, 1, .attrs = WEFT_ATTRS("size"),
              .narrow = 1, .narrow_out = 1, .shape = global_grad_shape,
              .labels = global_grad_labels, .dims = "size", .dims_from = 2);
