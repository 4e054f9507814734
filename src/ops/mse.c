/* Defines the loss mse: the loss of a sample is the mean of its squared errors, and the losses of
 * samples are weighted as in softmax.c. */
#include "ops/ops.h"

/* (prediction [b, ...], target [b, ...], weights [b]) -> (loss, prediction). The second result
 * is the prediction, which on each rank is complete, and not a partial sum. */
static weft_status mse_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    WEFT_TRY(weft_expect_real(g, node, 0, "the prediction", 1));
    const weft_type *x = weft_in(g, node, 0);
    WEFT_TRY(weft_expect_like(g, node, 1, "the target", x));
    WEFT_TRY(
        weft_expect(g, node, 2, "the sample weights", weft_node_float(g, node), 1, x->shape.dim));
    out[0] = weft_type_like(x, 0);
    out[1] = *x;
    node->out_count = 2;
    return WEFT_OK;
}

/* (prediction, target, weights, dloss) -> gradient of the prediction */
static weft_status mse_grad_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    WEFT_TRY(mse_shape(g, node, out));
    node->out_count = 1;
    out[0] = out[1];
    return weft_expect_scalar(g, node, 3, "dloss", weft_node_float(g, node));
}

/* The loss is symmetric in prediction and target, so one operator computes both gradients. The
 * gradient of the second result (`said`) is added to that of the prediction. */
static void mse_gradient(weft_graph *g, const weft_node *node, const weft_value *dy,
                         const bool *want, weft_value *dx)
{
    weft_value x = node->out + 1, t = node->in[1], w = node->in[2], loss = dy[0],
               dprediction = dy[1];
    if (loss != WEFT_NO_VALUE && want[0])
        dx[0] = weft_emit(g, node, "dx", "mse_grad", (weft_value[]){x, t, w, loss}, 4, NULL, 0);
    if (loss != WEFT_NO_VALUE && want[1])
        dx[1] = weft_emit(g, node, "dt", "mse_grad", (weft_value[]){t, x, w, loss}, 4, NULL, 0);
    if (dprediction == WEFT_NO_VALUE || !want[0]) return;
    dx[0] = loss == WEFT_NO_VALUE
                ? dprediction
                : weft_emit(g, node, "sum", "add", (weft_value[]){dx[0], dprediction}, 2, NULL, 0);
}

/* Appends the labels of the inputs. The loss of a sample is a mean over its numbers, so the
 * dimensions after the batch are never split. */
static void add_rows(const weft_graph *g, const weft_node *node, weft_text *text)
{
    int rank = weft_in(g, node, 0)->shape.rank;
    weft_labels_dims(text, rank, 1);
    weft_text_add(text, ", ");
    weft_labels_dims(text, rank, 1);
    weft_text_add(text, ", d0");
}

static void mse_labels(const weft_graph *g, const weft_node *node, weft_text *text)
{
    add_rows(g, node, text);
    weft_text_add(text, " -> , ");
    weft_labels_dims(text, weft_in(g, node, 0)->shape.rank, 1);
}

static void mse_grad_labels(const weft_graph *g, const weft_node *node, weft_text *text)
{
    add_rows(g, node, text);
    weft_text_add(text, ", -> ");
    weft_labels_dims(text, weft_in(g, node, 0)->shape.rank, 1);
}

static double flops(const weft_graph *g, const weft_node *node)
{
    return 4.0 * (double)weft_shape_elements(&weft_in(g, node, 0)->shape);
}

WEFT_OPERATOR(mse, "weighted sum of each sample's mean squared error; also gives the prediction", 3,
              3, .shape = mse_shape, .gradient = mse_gradient, .labels = mse_labels,
              .flops = flops);
WEFT_OPERATOR(mse_grad, "gradient of mse, from (x, target, weights, dloss)", 4, 4,
              .shape = mse_grad_shape, .labels = mse_grad_labels, .flops = flops);
