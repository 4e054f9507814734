/* Defines layer normalization, which normalises the last dimension (Ba, Kiros and Hinton 2016), and
 * its gradient. */
#include "ops/ops.h"

static weft_type rows_of(const weft_type *x)
{
    return weft_type_like(x, x->shape.rank - 1);
}

/* (x, gamma, beta) -> (y, mean, rstd) */
static weft_status norm_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    WEFT_TRY(weft_expect_real(g, node, 0, "the tensor", 1));
    const weft_type *x = weft_in(g, node, 0);
    for (int i = 1; i < 3; i++)
        WEFT_TRY(weft_expect(g, node, i, "gamma or beta", weft_node_float(g, node), 1,
                             &x->shape.dim[x->shape.rank - 1]));
    out[0] = *x;
    out[1] = out[2] = rows_of(x);
    node->out_count = 3;
    return WEFT_OK;
}

/* (dy, x, gamma, mean, rstd) -> (dx, dgamma, dbeta) */
static weft_status grad_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    WEFT_TRY(weft_expect_real(g, node, 0, "dy", 1));
    const weft_type *dy = weft_in(g, node, 0);
    weft_type rows = rows_of(dy);
    weft_type vector = {weft_node_float(g, node),
                        weft_shape_of(1, &dy->shape.dim[dy->shape.rank - 1])};
    WEFT_TRY(weft_expect_like(g, node, 1, "the tensor", dy));
    WEFT_TRY(weft_expect_like(g, node, 2, "gamma", &vector));
    WEFT_TRY(weft_expect_like(g, node, 3, "the mean", &rows));
    WEFT_TRY(weft_expect_like(g, node, 4, "rstd", &rows));
    out[0] = *dy;
    out[1] = out[2] = vector;
    node->out_count = 3;
    return WEFT_OK;
}

static void norm_gradient(weft_graph *g, const weft_node *node, const weft_value *dy,
                          const bool *want, weft_value *dx)
{
    (void)want;
    if (dy[1] != WEFT_NO_VALUE || dy[2] != WEFT_NO_VALUE) {
        (void)weft_graph_stick(
            g, weft_fail(WEFT_ERR_UNSUPPORTED,
                         "node '%s': the loss depends on the mean or rstd of layer_norm, through "
                         "which it has no gradient; compute them with reduce_mean",
                         node->name));
        return;
    }
    weft_value in[] = {dy[0], node->in[0], node->in[1], node->out + 1, node->out + 2};
    weft_value first = weft_emit(g, node, "dx", "layer_norm_grad", in, 5, NULL, 0);
    if (first == WEFT_NO_VALUE) return;
    for (int i = 0; i < 3; i++) dx[i] = first + i;
}

static void norm_labels(const weft_graph *g, const weft_node *node, weft_text *text)
{
    int rank = weft_in(g, node, 0)->shape.rank;
    weft_labels_dims(text, rank, rank - 1);
    weft_text_add(text, ", !d%d, !d%d -> ", rank - 1, rank - 1);
    weft_labels_dims(text, rank, rank - 1);
    for (int i = 0; i < 2; i++) {
        weft_text_add(text, ", ");
        weft_labels_dims(text, rank - 1, rank);
    }
}

static void grad_labels(const weft_graph *g, const weft_node *node, weft_text *text)
{
    int rank = weft_in(g, node, 0)->shape.rank, last = rank - 1;
    for (int i = 0; i < 2; i++) {
        weft_labels_dims(text, rank, last);
        weft_text_add(text, ", ");
    }
    weft_text_add(text, "!d%d, ", last);
    weft_labels_dims(text, last, rank);
    weft_text_add(text, ", ");
    weft_labels_dims(text, last, rank);
    weft_text_add(text, " -> ");
    weft_labels_dims(text, rank, last);
    weft_text_add(text, ", !d%d, !d%d", last, last);
}

static double norm_flops(const weft_graph *g, const weft_node *node)
{
    return 8.0 * (double)weft_shape_elements(&weft_in(g, node, 0)->shape);
}

const weft_op weft_op_layer_norm = {.name = "layer_norm",
                                    .summary = "normalises the last dimension",
                                    .min_inputs = 3,
                                    .max_inputs = 3,
                                    .attrs = WEFT_ATTRS("epsilon"),
                                    .shape = norm_shape,
                                    .gradient = norm_gradient,
                                    .labels = norm_labels,
                                    .flops = norm_flops};
const weft_op weft_op_layer_norm_grad = {
    .name = "layer_norm_grad",
    .summary = "gradient of layer_norm, from (dy, x, gamma, mean, rstd)",
    .min_inputs = 5,
    .max_inputs = 5,
    .shape = grad_shape,
    .labels = grad_labels,
    .flops = norm_flops};
