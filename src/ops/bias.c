/* Defines the operator bias, which adds a tensor along some adjacent axes: a vector for each
 * channel, or a table for each position and channel. The gradient of the addend is a sum over all
 * other axes. */
#include "graph/incremental.h"
#include "ops/ops.h"

static int bias_axis(const weft_graph *g, const weft_node *node)
{
    int rank = weft_in(g, node, 0)->shape.rank;
    return (int)weft_node_int(node, "axis", 0, rank > 1 ? 1 : 0);
}

/* The bias must have the dimensions of the tensor from the axis on, one or more of them. */
static weft_status bias_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    WEFT_TRY(weft_expect_real(g, node, 0, "the tensor", 1));
    const weft_type *x = weft_in(g, node, 0);
    int axis = bias_axis(g, node), axes = weft_in(g, node, 1)->shape.rank;
    if (axis < 0 || axis >= x->shape.rank)
        return weft_node_fail(node, "axis %d, the tensor has %d dimensions", axis, x->shape.rank);
    WEFT_TRY(weft_node_set(node, &(weft_attr)WEFT_ATTR_INT("axis", axis)));
    axes = WEFT_MIN(WEFT_MAX(axes, 1), x->shape.rank - axis);
    WEFT_TRY(
        weft_expect(g, node, 1, "the bias", weft_node_float(g, node), axes, &x->shape.dim[axis]));
    out[0] = *x;
    return WEFT_OK;
}

static void bias_gradient(weft_graph *g, const weft_node *node, const weft_value *dy,
                          const bool *want, weft_value *dx)
{
    dx[0] = dy[0];
    if (!want[1]) return;
    weft_attr others = {.name = "axes"};
    int axis = bias_axis(g, node), end = axis + weft_in(g, node, 1)->shape.rank;
    int rank = weft_in(g, node, 0)->shape.rank;
    for (int i = 0; i < rank; i++)
        if (i < axis || i >= end) others.ints[others.count++] = i;
    dx[1] = others.count == 0 ? dy[0] : weft_emit(g, node, "db", "reduce_sum", dy, 1, &others, 1);
}

static void bias_labels(const weft_graph *g, const weft_node *node, weft_text *text)
{
    int rank = weft_in(g, node, 0)->shape.rank, axis = bias_axis(g, node);
    weft_labels_dims(text, rank, rank);
    for (int i = 0; i < weft_in(g, node, 1)->shape.rank; i++)
        weft_text_add(text, "%sd%d", i ? " " : ", ", axis + i);
    weft_text_add(text, " -> ");
    weft_labels_dims(text, rank, rank);
}

/* Adds the row of the table that belongs to the position, if the bias is one for each position. */
static weft_status bias_one_position(weft_incremental *s, const weft_graph *g,
                                     const weft_node *node, const weft_value *in, weft_value *out)
{
    const weft_shape *table = &weft_in(g, node, 1)->shape;
    weft_value operands[] = {in[0], in[1]};
    const char *op = "bias";
    if (bias_axis(g, node) == 1) {
        if (table->rank != 2)
            return weft_incremental_refuse(node, "adds a number to each position");
        operands[1] = weft_emit(s->graph, node, "row", "embedding",
                                (weft_value[]){s->positions, in[1]}, 2, NULL, 0);
        s->limited = true;
        op = "add";
    }
    bool same = op[0] == 'b';
    out[0] = weft_graph_node(s->graph, op, node->name, operands, 2, node->attrs,
                             same ? node->attr_count : 0);
    return weft_graph_status(s->graph);
}

WEFT_OPERATOR(bias,
              "adds a vector along one axis, or a tensor along several (from 1 on unless said)", 2,
              2, .attrs = WEFT_ATTRS("axis"), .narrow = 1, .narrow_out = 1, .shape = bias_shape,
              .gradient = bias_gradient, .labels = bias_labels, .one_position = bias_one_position,
              .in_place = {1});
