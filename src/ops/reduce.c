/* Defines the operators reduce_sum, reduce_mean and reduce_max over axes, and broadcast, which
 * their gradients need. */
#include "ops/ops.h"

static bool reduced(const weft_node *node, int axis)
{
    const weft_attr *axes = weft_node_attr(node, "axes");
    for (int i = 0; axes && i < axes->count; i++)
        if (axes->ints[i] == axis) return true;
    return false;
}

static weft_status check_axes(const weft_node *node, int rank)
{
    const weft_attr *axes = weft_node_attr(node, "axes");
    if (!axes || axes->count < 1) return weft_node_fail(node, "needs attribute 'axes'");
    for (int i = 0; i < axes->count; i++)
        if (axes->ints[i] < 0 || axes->ints[i] >= rank)
            return weft_node_fail(node, "axis %lld, the tensor has %d dimensions",
                                  (long long)axes->ints[i], rank);
    return WEFT_OK;
}

/* The shape that remains of `full` after the axes are summed over. */
static weft_shape rest(const weft_node *node, const weft_shape *full)
{
    weft_shape shape = {0};
    bool keep = weft_node_int(node, "keep", 0, 0) != 0;
    for (int i = 0; i < full->rank; i++) {
        if (!reduced(node, i))
            shape.dim[shape.rank++] = full->dim[i];
        else if (keep)
            shape.dim[shape.rank++] = 1;
    }
    return shape;
}

static weft_status reduce_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    WEFT_TRY(weft_expect_real(g, node, 0, "the tensor", 1));
    const weft_type *x = weft_in(g, node, 0);
    WEFT_TRY(check_axes(node, x->shape.rank));
    out[0] = (weft_type){weft_node_float(g, node), rest(node, &x->shape)};
    return WEFT_OK;
}

static weft_status broadcast_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    const weft_attr *shape = weft_node_attr(node, "shape");
    WEFT_TRY(weft_expect_real(g, node, 0, "the tensor", 0));
    if (!shape || shape->count > WEFT_MAX_RANK)
        return weft_node_fail(node, "needs attribute 'shape'");
    out[0] = (weft_type){weft_node_float(g, node), weft_shape_of(shape->count, shape->ints)};
    WEFT_TRY(check_axes(node, shape->count));
    weft_type in = {weft_node_float(g, node), rest(node, &out[0].shape)};
    return weft_expect_like(g, node, 0, "the tensor", &in);
}

static weft_value spread(weft_graph *g, const weft_node *node, weft_value dy)
{
    const weft_shape *x = &weft_in(g, node, 0)->shape;
    weft_attr attrs[] = {*weft_node_attr(node, "axes"),
                         WEFT_ATTR_INT("keep", weft_node_int(node, "keep", 0, 0)),
                         {.name = "shape", .count = x->rank}};
    for (int i = 0; i < x->rank; i++) attrs[2].ints[i] = x->dim[i];
    return weft_emit(g, node, "dx", "broadcast", &dy, 1, attrs, 3);
}

static void sum_gradient(weft_graph *g, const weft_node *node, const weft_value *dy,
                         const bool *want, weft_value *dx)
{
    (void)want;
    dx[0] = spread(g, node, dy[0]);
}

static void mean_gradient(weft_graph *g, const weft_node *node, const weft_value *dy,
                          const bool *want, weft_value *dx)
{
    (void)want;
    double share = (double)weft_shape_elements(&weft_out(g, node, 0)->shape) /
                   (double)weft_shape_elements(&weft_in(g, node, 0)->shape);
    weft_attr factor = WEFT_ATTR_REAL("factor", share);
    dx[0] = spread(g, node, weft_emit(g, node, "dmean", "scale", dy, 1, &factor, 1));
}

/* Equal largest elements share the gradient, as in PyTorch. */
static void max_gradient(weft_graph *g, const weft_node *node, const weft_value *dy,
                         const bool *want, weft_value *dx)
{
    (void)want;
    weft_attr axes[] = {*weft_node_attr(node, "axes"),
                        WEFT_ATTR_INT("keep", weft_node_int(node, "keep", 0, 0))};
    weft_value largest[] = {node->in[0], spread(g, node, node->out)};
    weft_attr real = WEFT_ATTR_INT("dtype", weft_in(g, node, 0)->dtype);
    weft_value where = weft_emit(g, node, "largest", "equal", largest, 2, NULL, 0);
    where = weft_emit(g, node, "is_largest", "cast", &where, 1, &real, 1);
    weft_value share[] = {dy[0], weft_emit(g, node, "count", "reduce_sum", &where, 1, axes, 2)};
    share[0] = weft_emit(g, node, "share", "div", share, 2, NULL, 0);
    weft_value in[] = {where, spread(g, node, share[0])};
    dx[0] = weft_emit(g, node, "dx", "mul", in, 2, NULL, 0);
}

static void broadcast_gradient(weft_graph *g, const weft_node *node, const weft_value *dy,
                               const bool *want, weft_value *dx)
{
    (void)want;
    weft_attr attrs[] = {*weft_node_attr(node, "axes"),
                         WEFT_ATTR_INT("keep", weft_node_int(node, "keep", 0, 0))};
    dx[0] = weft_emit(g, node, "dx", "reduce_sum", dy, 1, attrs, 2);
}

static void side(const weft_node *node, weft_text *text, int rank, bool full, bool whole)
{
    bool keep = weft_node_int(node, "keep", 0, 0) != 0, first = true;
    for (int i = 0; i < rank; i++) {
        if (!full && reduced(node, i) && !keep) continue;
        const char *name = !full && reduced(node, i) ? "!one" : "d";
        weft_text_add(text, "%s%s%s%d", first ? "" : " ",
                      full && whole && reduced(node, i) ? "!" : "", name, i);
        first = false;
    }
}

static void reduce_labels(const weft_graph *g, const weft_node *node, weft_text *text)
{
    int rank = weft_in(g, node, 0)->shape.rank;
    /* Only a sum is a sum of those of parts. */
    side(node, text, rank, true, !(node->op->linear & 1));
    weft_text_add(text, " -> ");
    side(node, text, rank, false, false);
}

static void broadcast_labels(const weft_graph *g, const weft_node *node, weft_text *text)
{
    int rank = weft_out(g, node, 0)->shape.rank;
    side(node, text, rank, false, false);
    weft_text_add(text, " -> ");
    side(node, text, rank, true, false);
}

static double reduce_flops(const weft_graph *g, const weft_node *node)
{
    return (double)weft_shape_elements(&weft_in(g, node, 0)->shape);
}

WEFT_OPERATOR(reduce_sum, "sum over axes", 1, 1, .attrs = WEFT_ATTRS("axes", "keep"), .narrow = 1,
              .shape = reduce_shape, .gradient = sum_gradient, .labels = reduce_labels,
              .flops = reduce_flops, .linear = 1);
WEFT_OPERATOR(reduce_mean, "mean over axes", 1, 1, .attrs = WEFT_ATTRS("axes", "keep"), .narrow = 1,
              .shape = reduce_shape, .gradient = mean_gradient, .labels = reduce_labels,
              .flops = reduce_flops);
WEFT_OPERATOR(reduce_max, "largest element over axes", 1, 1, .attrs = WEFT_ATTRS("axes", "keep"),
              .narrow = 1, .narrow_out = 1, .shape = reduce_shape, .gradient = max_gradient,
              .labels = reduce_labels, .flops = reduce_flops);
WEFT_OPERATOR(broadcast, "repeats a tensor along axes that it lacks", 1, 1,
              .attrs = WEFT_ATTRS("axes", "keep", "shape"), .narrow = 1, .narrow_out = 1,
              .shape = broadcast_shape, .gradient = broadcast_gradient, .labels = broadcast_labels,
              .dims = "shape");
