/* Defines root mean square normalization of the last dimension (Zhang and Sennrich 2019), and its
 * gradient: y = x gamma / sqrt(mean(x^2) + epsilon). */
#include "ops/ops.h"

static weft_type rows_of(const weft_type *x)
{
    return weft_type_like(x, x->shape.rank - 1);
}

/* (x, gamma) -> (y, rstd) */
static weft_status norm_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    WEFT_TRY(weft_expect_real(g, node, 0, "the tensor", 1));
    const weft_type *x = weft_in(g, node, 0);
    WEFT_TRY(weft_expect(g, node, 1, "gamma", weft_node_float(g, node), 1,
                         &x->shape.dim[x->shape.rank - 1]));
    out[0] = *x;
    out[1] = rows_of(x);
    node->out_count = 2;
    return WEFT_OK;
}

/* (dy, x, gamma, rstd) -> (dx, dgamma) */
static weft_status grad_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    WEFT_TRY(weft_expect_real(g, node, 0, "dy", 1));
    const weft_type *dy = weft_in(g, node, 0);
    weft_type rows = rows_of(dy);
    weft_type vector = {weft_node_float(g, node),
                        weft_shape_of(1, &dy->shape.dim[dy->shape.rank - 1])};
    WEFT_TRY(weft_expect_like(g, node, 1, "the tensor", dy));
    WEFT_TRY(weft_expect_like(g, node, 2, "gamma", &vector));
    WEFT_TRY(weft_expect_like(g, node, 3, "rstd", &rows));
    out[0] = *dy;
    out[1] = vector;
    node->out_count = 2;
    return WEFT_OK;
}

static void norm_gradient(weft_graph *g, const weft_node *node, const weft_value *dy,
                          const bool *want, weft_value *dx)
{
    (void)want;
    if (dy[1] != WEFT_NO_VALUE) {
        (void)weft_graph_stick(g, weft_fail(WEFT_ERR_UNSUPPORTED,
                                            "node '%s': the loss depends on the rstd of rms_norm, "
                                            "through which it has no gradient; compute it with "
                                            "reduce_mean",
                                            node->name));
        return;
    }
    weft_value in[] = {dy[0], node->in[0], node->in[1], node->out + 1};
    weft_value first = weft_emit(g, node, "dx", "rms_norm_grad", in, 4, NULL, 0);
    if (first == WEFT_NO_VALUE) return;
    for (int i = 0; i < 2; i++) dx[i] = first + i;
}

static void norm_labels(const weft_graph *g, const weft_node *node, weft_text *text)
{
    int rank = weft_in(g, node, 0)->shape.rank, last = rank - 1;
    weft_labels_dims(text, rank, last);
    weft_text_add(text, ", !d%d -> ", last);
    weft_labels_dims(text, rank, last);
    weft_text_add(text, ", ");
    weft_labels_dims(text, last, rank);
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
    weft_text_add(text, " -> ");
    weft_labels_dims(text, rank, last);
    weft_text_add(text, ", !d%d", last);
}

static double norm_flops(const weft_graph *g, const weft_node *node)
{
    return 4.0 * (double)weft_shape_elements(&weft_in(g, node, 0)->shape);
}

static double grad_flops(const weft_graph *g, const weft_node *node)
{
    return 2 * norm_flops(g, node);
}

const weft_op weft_op_rms_norm = {
    .name = "rms_norm",
    .summary = "divides the last dimension by its root mean square, times gamma",
    .min_inputs = 2,
    .max_inputs = 2,
    .attrs = WEFT_ATTRS("epsilon"),
    .shape = norm_shape,
    .gradient = norm_gradient,
    .labels = norm_labels,
    .flops = norm_flops};
const weft_op weft_op_rms_norm_grad = {.name = "rms_norm_grad",
                                       .summary = "gradient of rms_norm, from (dy, x, gamma, rstd)",
                                       .min_inputs = 4,
                                       .max_inputs = 4,
                                       .shape = grad_shape,
                                       .labels = grad_labels,
                                       .flops = grad_flops};
