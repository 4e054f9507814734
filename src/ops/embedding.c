/* Defines the operator embedding, which selects rows of a table [v, d] by integers. An index out of
 * range gives a row of NaN and reads no memory outside of the table; the run's check of finite
 * losses reports it. */
#include "ops/ops.h"

static weft_status embedding_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    const weft_type *ids = weft_in(g, node, 0);
    WEFT_TRY(weft_expect_real(g, node, 1, "the table", 2));
    const weft_shape *table = &weft_in(g, node, 1)->shape;
    if (ids->dtype != WEFT_I32 || ids->shape.rank < 1 || ids->shape.rank >= WEFT_MAX_RANK ||
        table->rank != 2)
        return weft_node_fail(node, "needs i32 indices of 1 to %d dimensions and a table of 2",
                              WEFT_MAX_RANK - 1);
    out[0] = (weft_type){weft_node_float(g, node), ids->shape};
    out[0].shape.dim[out[0].shape.rank++] = table->dim[1];
    return WEFT_OK;
}

static weft_status grad_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    const weft_type *ids = weft_in(g, node, 0), *dy = weft_in(g, node, 1);
    if (ids->dtype != WEFT_I32 || dy->shape.rank != ids->shape.rank + 1)
        return weft_node_fail(node, "needs i32 indices and dy with one more dimension");
    weft_type like = {weft_node_float(g, node), ids->shape};
    like.shape.dim[like.shape.rank++] = dy->shape.dim[dy->shape.rank - 1];
    WEFT_TRY(weft_expect_like(g, node, 1, "dy", &like));
    out[0] = (weft_type){weft_node_float(g, node),
                         weft_shape_of(2, (int64_t[]){weft_node_int(node, "count", 0, 0),
                                                      like.shape.dim[like.shape.rank - 1]})};
    return WEFT_OK;
}

static void embedding_gradient(weft_graph *g, const weft_node *node, const weft_value *dy,
                               const bool *want, weft_value *dx)
{
    if (!want[1]) return;
    weft_attr count = WEFT_ATTR_INT("count", weft_in(g, node, 1)->shape.dim[0]);
    dx[1] = weft_emit(g, node, "dw", "embedding_grad", (weft_value[]){node->in[0], dy[0]}, 2,
                      &count, 1);
}

static void embedding_labels(const weft_graph *g, const weft_node *node, weft_text *text)
{
    int rank = weft_in(g, node, 0)->shape.rank;
    weft_labels_dims(text, rank, rank);
    weft_text_add(text, ", !v e -> ");
    weft_labels_dims(text, rank, rank);
    weft_text_add(text, " e");
}

static void grad_labels(const weft_graph *g, const weft_node *node, weft_text *text)
{
    int rank = weft_in(g, node, 0)->shape.rank;
    weft_labels_dims(text, rank, rank);
    weft_text_add(text, ", ");
    weft_labels_dims(text, rank, rank);
    weft_text_add(text, " e -> !v e");
}

const weft_op weft_op_embedding = {.name = "embedding",
                                   .summary = "rows of a table, from (indices, table)",
                                   .min_inputs = 2,
                                   .max_inputs = 2,
                                   .shape = embedding_shape,
                                   .gradient = embedding_gradient,
                                   .labels = embedding_labels};
const weft_op weft_op_embedding_grad = {.name = "embedding_grad",
                                        .summary = "gradient of embedding, from (indices, dy)",
                                        .min_inputs = 2,
                                        .max_inputs = 2,
                                        .attrs = WEFT_ATTRS("count"),
                                        .shape = grad_shape,
                                        .labels = grad_labels};
