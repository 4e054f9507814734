/* Defines the operator bias, which adds a vector along one axis. The gradient of the vector is a
 * sum over all other axes. */
#include "ops/ops.h"

static int bias_axis(const weft_graph *g, const weft_node *node)
{
    int rank = weft_in(g, node, 0)->shape.rank;
    return (int)weft_node_int(node, "axis", 0, rank > 1 ? 1 : 0);
}

static weft_status bias_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    WEFT_TRY(weft_expect_real(g, node, 0, "the tensor", 1));
    const weft_type *x = weft_in(g, node, 0);
    int axis = bias_axis(g, node);
    if (axis < 0 || axis >= x->shape.rank)
        return weft_node_fail(node, "axis %d, the tensor has %d dimensions", axis, x->shape.rank);
    WEFT_TRY(weft_node_set(node, &(weft_attr)WEFT_ATTR_INT("axis", axis)));
    WEFT_TRY(weft_expect(g, node, 1, "the bias", weft_node_float(g, node), 1, &x->shape.dim[axis]));
    out[0] = *x;
    return WEFT_OK;
}

static void bias_gradient(weft_graph *g, const weft_node *node, const weft_value *dy,
                          const bool *want, weft_value *dx)
{
    dx[0] = dy[0];
    if (!want[1]) return;
    weft_attr axes = {.name = "axes"};
    int axis = bias_axis(g, node), rank = weft_in(g, node, 0)->shape.rank;
    for (int i = 0; i < rank; i++)
        if (i != axis) axes.ints[axes.count++] = i;
    dx[1] = rank == 1 ? dy[0] : weft_emit(g, node, "db", "reduce_sum", dy, 1, &axes, 1);
}

static void bias_labels(const weft_graph *g, const weft_node *node, weft_text *text)
{
    int rank = weft_in(g, node, 0)->shape.rank;
    weft_labels_dims(text, rank, rank);
    weft_text_add(text, ", d%d -> ", bias_axis(g, node));
    weft_labels_dims(text, rank, rank);
}

const weft_op weft_op_bias = {.name = "bias",
                              .summary = "adds a vector along one axis (1 unless said)",
                              .min_inputs = 2,
                              .max_inputs = 2,
                              .attrs = WEFT_ATTRS("axis"),
                              .shape = bias_shape,
                              .gradient = bias_gradient,
                              .labels = bias_labels,
                              .in_place = {1}};
