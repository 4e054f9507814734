/* Defines normalisations of the last dimension, and their gradients: layer_norm, y = (x - mean(x))
 * rstd gamma + beta with rstd = 1 / sqrt(var(x) + epsilon) (Ba, Kiros and Hinton 2016), and
 * rms_norm, y = x rstd gamma with rstd = 1 / sqrt(mean(x^2) + epsilon) (Zhang and Sennrich 2019).
 * Each has as many statistics of a row as parameters: (mean, rstd) and (gamma, beta), or rstd and
 * gamma. */
#include "ops/ops.h"

static weft_type rows_of(const weft_type *x)
{
    return weft_type_like(x, x->shape.rank - 1);
}

/* (x, gamma[, beta]) -> (y[, mean], rstd) */
static weft_status norm_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    WEFT_TRY(weft_expect_real(g, node, 0, "the tensor", 1));
    const weft_type *x = weft_in(g, node, 0);
    out[0] = *x;
    for (int i = 1; i < node->in_count; i++) {
        WEFT_TRY(weft_expect(g, node, i, i == 1 ? "gamma" : "beta", weft_node_float(g, node), 1,
                             &x->shape.dim[x->shape.rank - 1]));
        out[i] = rows_of(x);
    }
    node->out_count = node->in_count;
    return WEFT_OK;
}

/* (dy, x, gamma[, mean], rstd) -> (dx, dgamma[, dbeta]) */
static weft_status grad_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    WEFT_TRY(weft_expect_real(g, node, 0, "dy", 1));
    const weft_type *dy = weft_in(g, node, 0);
    weft_type rows = rows_of(dy);
    weft_type vector = {weft_node_float(g, node),
                        weft_shape_of(1, &dy->shape.dim[dy->shape.rank - 1])};
    int last = node->in_count - 1;
    WEFT_TRY(weft_expect_like(g, node, 1, "the tensor", dy));
    WEFT_TRY(weft_expect_like(g, node, 2, "gamma", &vector));
    for (int i = 3; i <= last; i++)
        WEFT_TRY(weft_expect_like(g, node, i, i == last ? "rstd" : "the mean", &rows));
    node->out_count = node->in_count - 2;
    out[0] = *dy;
    for (int i = 1; i < node->out_count; i++) out[i] = vector;
    return WEFT_OK;
}

static void norm_gradient(weft_graph *g, const weft_node *node, const weft_value *dy,
                          const bool *want, weft_value *dx)
{
    (void)want;
    int count = node->in_count;
    weft_value in[5] = {dy[0], node->in[0], node->in[1]};
    for (int i = 1; i < count; i++) {
        in[2 + i] = node->out + i;
        if (dy[i] == WEFT_NO_VALUE) continue;
        (void)weft_graph_stick(
            g, weft_fail(WEFT_ERR_UNSUPPORTED,
                         "node '%s': the loss depends on the %s of %s, through which it has no "
                         "gradient; compute it with reduce_mean",
                         node->name, i == count - 1 ? "rstd" : "mean", node->op->name));
        return;
    }
    char *op = weft_graph_format(g, "%s_grad", node->op->name);
    weft_value first = op ? weft_emit(g, node, "dx", op, in, count + 2, NULL, 0) : WEFT_NO_VALUE;
    free(op);
    if (first == WEFT_NO_VALUE) return;
    for (int i = 0; i < count; i++) dx[i] = first + i;
}

/* Adds the labels of `count` parameters, which are as long as the last of `rank` dimensions. */
static void add_vectors(weft_text *text, int count, int rank)
{
    for (int i = 0; i < count; i++) weft_text_add(text, ", !d%d", rank - 1);
}

/* Adds the labels of `count` statistics, of which each row has one. */
static void add_rows(weft_text *text, int count, int rank)
{
    for (int i = 0; i < count; i++) {
        weft_text_add(text, ", ");
        weft_labels_dims(text, rank - 1, rank);
    }
}

static void norm_labels(const weft_graph *g, const weft_node *node, weft_text *text)
{
    int rank = weft_in(g, node, 0)->shape.rank, count = node->in_count - 1;
    weft_labels_dims(text, rank, rank - 1);
    add_vectors(text, count, rank);
    weft_text_add(text, " -> ");
    weft_labels_dims(text, rank, rank - 1);
    add_rows(text, count, rank);
}

static void grad_labels(const weft_graph *g, const weft_node *node, weft_text *text)
{
    int rank = weft_in(g, node, 0)->shape.rank, count = node->in_count - 3;
    weft_labels_dims(text, rank, rank - 1);
    weft_text_add(text, ", ");
    weft_labels_dims(text, rank, rank - 1);
    add_vectors(text, 1, rank);
    add_rows(text, count, rank);
    weft_text_add(text, " -> ");
    weft_labels_dims(text, rank, rank - 1);
    add_vectors(text, count, rank);
}

static double norm_flops(const weft_graph *g, const weft_node *node)
{
    return 8.0 * (double)weft_shape_elements(&weft_in(g, node, 0)->shape);
}

static double half_flops(const weft_graph *g, const weft_node *node)
{
    return norm_flops(g, node) / 2;
}

WEFT_OPERATOR(layer_norm, "normalises the last dimension", 3, 3, .attrs = WEFT_ATTRS("epsilon"),
              .narrow = 1, .narrow_out = 1, .shape = norm_shape, .gradient = norm_gradient,
              .labels = norm_labels, .flops = norm_flops);
WEFT_OPERATOR(layer_norm_grad, "gradient of layer_norm, from (dy, x, gamma, mean, rstd)", 5, 5,
              .narrow = 3, .narrow_out = 1, .shape = grad_shape, .labels = grad_labels,
              .flops = norm_flops);
WEFT_OPERATOR(rms_norm, "divides the last dimension by its root mean square, times gamma", 2, 2,
              .attrs = WEFT_ATTRS("epsilon"), .narrow = 1, .narrow_out = 1, .shape = norm_shape,
              .gradient = norm_gradient, .labels = norm_labels, .flops = half_flops);
WEFT_OPERATOR(rms_norm_grad, "gradient of rms_norm, from (dy, x, gamma, rstd)", 4, 4, .narrow = 3,
              .narrow_out = 1, .shape = grad_shape, .labels = grad_labels, .flops = norm_flops);
