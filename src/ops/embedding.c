/* Defines the operators gather, which selects along an axis of a tensor by integers, and embedding,
 * which selects rows of a table: gather along axis 0. An index out of range gives NaN, or 0 in a
 * tensor of integers, and reads no memory outside of the tensor; the run's check of finite losses
 * reports it. */
#include "ops/ops.h"

static int axis_of(const weft_node *node)
{
    return (int)weft_node_int(node, "axis", 0, 0);
}

/* The shape of `x` with the dimensions of `by` in the place of `count` dimensions at `axis`. */
static bool replace_dims(const weft_shape *x, int axis, int count, const weft_shape *by,
                         weft_shape *out)
{
    if (axis < 0 || axis + count > x->rank || x->rank - count + by->rank > WEFT_MAX_RANK)
        return false;
    *out = (weft_shape){.rank = x->rank - count + by->rank};
    for (int d = 0; d < out->rank; d++)
        out->dim[d] = d < axis              ? x->dim[d]
                      : d < axis + by->rank ? by->dim[d - axis]
                                            : x->dim[d - by->rank + count];
    return true;
}

/* (indices, x) -> x with the dimensions of the indices in the place of the axis */
static weft_status gather_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    const weft_type *ids = weft_in(g, node, 0);
    const weft_shape *x = &weft_in(g, node, 1)->shape;
    out[0] = (weft_type){.dtype = weft_in(g, node, 1)->dtype};
    if (!replace_dims(x, axis_of(node), 1, &ids->shape, &out[0].shape))
        return weft_node_fail(node,
                              "needs indices, and an axis of the tensor, which has %d dimensions; "
                              "the result has at most %d",
                              x->rank, WEFT_MAX_RANK);
    return WEFT_OK;
}

/* (indices, table) -> rows of the table */
static weft_status embedding_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    const weft_shape *ids = &weft_in(g, node, 0)->shape;
    if (ids->rank < 1 || ids->rank >= WEFT_MAX_RANK || weft_in(g, node, 1)->shape.rank != 2)
        return weft_node_fail(node, "needs indices of 1 to %d dimensions and a table of 2",
                              WEFT_MAX_RANK - 1);
    return gather_shape(g, node, out);
}

/* (indices, dy) -> dx, which has `count` along the axis */
static weft_status grad_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    const weft_type *ids = weft_in(g, node, 0), *dy = weft_in(g, node, 1);
    weft_shape count = weft_shape_of(1, (int64_t[]){weft_node_int(node, "count", 0, 0)}), like;
    WEFT_TRY(weft_expect_real(g, node, 1, "dy", 1));
    out[0] = (weft_type){.dtype = dy->dtype};
    if (count.dim[0] < 1 ||
        !replace_dims(&dy->shape, axis_of(node), ids->shape.rank, &count, &out[0].shape) ||
        !replace_dims(&out[0].shape, axis_of(node), 1, &ids->shape, &like))
        return weft_node_fail(node, "needs indices, dy with their dimensions at 'axis', and "
                                    "'count', the size of that axis");
    return weft_expect_like(g, node, 1, "dy", &(weft_type){dy->dtype, like});
}

static void gradient(weft_graph *g, const weft_node *node, const weft_value *dy, const bool *want,
                     weft_value *dx)
{
    int axis = axis_of(node);
    if (!want[1]) return;
    weft_attr attrs[] = {WEFT_ATTR_INT("count", weft_in(g, node, 1)->shape.dim[axis]),
                         WEFT_ATTR_INT("axis", axis)};
    dx[1] = weft_emit(g, node, "dw", "embedding_grad", (weft_value[]){node->in[0], dy[0]}, 2, attrs,
                      axis > 0 ? 2 : 1);
}

/* Appends the labels of the tensor, with those of the indices in the place of the axis if `by`. */
static void tensor_labels(weft_text *text, int rank, int axis, int indices, bool by)
{
    for (int d = 0; d < rank; d++) {
        const char *space = d ? " " : "";
        if (d != axis)
            weft_text_add(text, rank == 2 && axis == 0 ? "%se" : "%se%d", space, d);
        else if (!by)
            weft_text_add(text, "%s!v", space);
        for (int i = 0; i < indices && d == axis && by; i++)
            weft_text_add(text, "%sd%d", d + i ? " " : "", i);
    }
}

static void labels_of(const weft_graph *g, const weft_node *node, weft_text *text, bool gradient)
{
    int indices = weft_in(g, node, 0)->shape.rank;
    int rank = gradient ? weft_out(g, node, 0)->shape.rank : weft_in(g, node, 1)->shape.rank;
    weft_labels_dims(text, indices, indices);
    weft_text_add(text, ", ");
    tensor_labels(text, rank, axis_of(node), indices, gradient);
    weft_text_add(text, " -> ");
    tensor_labels(text, rank, axis_of(node), indices, !gradient);
}

static void gather_labels(const weft_graph *g, const weft_node *node, weft_text *text)
{
    labels_of(g, node, text, false);
}

static void grad_labels(const weft_graph *g, const weft_node *node, weft_text *text)
{
    labels_of(g, node, text, true);
}

WEFT_OPERATOR(gather, "selects along an axis, from (indices, tensor)", 2, 2,
              .attrs = WEFT_ATTRS("axis"), .takes = {WEFT_INDEX_TYPES, WEFT_ALL_TYPES},
              .shape = gather_shape, .gradient = gradient, .labels = gather_labels);
WEFT_OPERATOR(embedding, "rows of a table, from (indices, table)", 2, 2,
              .takes = {WEFT_INDEX_TYPES, WEFT_REAL_TYPES}, .narrow_out = 1, .narrows = true,
              .shape = embedding_shape, .gradient = gradient, .labels = gather_labels);
WEFT_OPERATOR(embedding_grad, "gradient of gather and embedding, from (indices, dy)", 2, 2,
              .attrs = WEFT_ATTRS("count", "axis"), .takes = {WEFT_INDEX_TYPES, WEFT_REAL_TYPES},
              .narrow = 2, .shape = grad_shape, .labels = grad_labels);
