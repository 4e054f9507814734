/* Defines the operators softmax over the last dimension, and softmax_xent, the cross entropy of
 * softmax with integer labels.
 *
 * The loss is a weighted sum over samples. The sample weights of a step add up to 1, and padding
 * has weight 0, so the loss is the mean over the real samples of the whole batch. This holds for
 * any division of the batch, and makes padding, accumulation and data parallelism exact. A sample
 * of weight 0 may have any label.
 *
 * With the attribute `smoothing` s, the target of a sample is the distribution with 1 - s at its
 * label plus s/c at each of the c classes (Szegedy et al. 2016). */
#include "graph/map.h"
#include "ops/ops.h"

static void softmax_gradient(weft_graph *g, const weft_node *node, const weft_value *dy,
                             const bool *want, weft_value *dx)
{
    (void)want;
    dx[0] = weft_emit(g, node, "dx", "softmax_grad", (weft_value[]){node->out, dy[0]}, 2, NULL, 0);
}

static weft_status softmax_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    WEFT_TRY(weft_expect_real(g, node, 0, "the tensor", 1));
    return weft_shape_same(g, node, out);
}

static void softmax_labels(const weft_graph *g, const weft_node *node, weft_text *text)
{
    int rank = weft_out(g, node, 0)->shape.rank;
    for (int i = 0; i < node->in_count; i++) {
        weft_text_add(text, "%s", i ? ", " : "");
        weft_labels_dims(text, rank, rank - 1);
    }
    weft_text_add(text, " -> ");
    weft_labels_dims(text, rank, rank - 1);
}

static weft_status check_smoothing(const weft_node *node)
{
    double smoothing = weft_node_real(node, "smoothing", 0);
    if (smoothing >= 0 && smoothing < 1) return WEFT_OK;
    return weft_node_fail(node, "the smoothing is %g, must be from 0 up to but not including 1",
                          smoothing);
}

/* (logits [..., c], labels [...], weights [...]) -> (loss, probabilities [..., c]) */
static weft_status xent_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    WEFT_TRY(check_smoothing(node));
    WEFT_TRY(weft_expect_real(g, node, 0, "the logits", 2));
    const weft_type *x = weft_in(g, node, 0);
    weft_type rows = weft_type_like(x, x->shape.rank - 1), labels = rows;
    labels.dtype = WEFT_I32;
    WEFT_TRY(weft_expect_like(g, node, 1, "the labels", &labels));
    WEFT_TRY(weft_expect_like(g, node, 2, "the sample weights", &rows));
    out[0] = weft_type_like(x, 0);
    out[1] = *x;
    node->out_count = 2;
    return WEFT_OK;
}

static weft_status xent_grad_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    WEFT_TRY(check_smoothing(node));
    WEFT_TRY(weft_expect_real(g, node, 0, "the probabilities", 2));
    const weft_type *p = weft_in(g, node, 0);
    weft_type rows = weft_type_like(p, p->shape.rank - 1), labels = rows;
    labels.dtype = WEFT_I32;
    WEFT_TRY(weft_expect_like(g, node, 1, "the labels", &labels));
    WEFT_TRY(weft_expect_like(g, node, 2, "the sample weights", &rows));
    WEFT_TRY(weft_expect_scalar(g, node, 3, "dloss", weft_node_float(g, node)));
    out[0] = *p;
    return WEFT_OK;
}

/* The gradient of the second result, the probabilities, is added to that of the loss. */
static void xent_gradient(weft_graph *g, const weft_node *node, const weft_value *dy,
                          const bool *want, weft_value *dx)
{
    weft_value p = node->out + 1, in[] = {p, node->in[1], node->in[2], dy[0]}, through;
    if (!want[0]) return;
    if (dy[0] != WEFT_NO_VALUE) dx[0] = weft_emit_same(g, node, "dx", "softmax_xent_grad", in, 4);
    if (dy[1] == WEFT_NO_VALUE) return;
    through = weft_emit(g, node, "dx", "softmax_grad", (weft_value[]){p, dy[1]}, 2, NULL, 0);
    dx[0] = dy[0] == WEFT_NO_VALUE
                ? through
                : weft_emit(g, node, "sum", "add", (weft_value[]){dx[0], through}, 2, NULL, 0);
}

/* The loss of a prediction is that of its label alone. */
static weft_status xent_inference(weft_graph_mapper *m, int n, weft_value *out)
{
    const weft_node *node = m->from->nodes[n];
    weft_value in[3];
    for (int i = 0; i < 3; i++) in[i] = m->value[node->in[i]];
    WEFT_TRY(weft_graph_map_node(m, node, in, NULL, 0, node->phase, &out[0]));
    out[1] = out[0] + 1;
    return WEFT_OK;
}

static void add_rows(const weft_graph *g, const weft_node *node, weft_text *text)
{
    int rank = weft_in(g, node, 0)->shape.rank;
    weft_labels_dims(text, rank, rank - 1);
    for (int i = 0; i < 2; i++) {
        weft_text_add(text, ", ");
        weft_labels_dims(text, rank - 1, rank);
    }
}

static void xent_labels(const weft_graph *g, const weft_node *node, weft_text *text)
{
    int rank = weft_in(g, node, 0)->shape.rank;
    add_rows(g, node, text);
    weft_text_add(text, " -> , ");
    weft_labels_dims(text, rank, rank - 1);
}

static void xent_grad_labels(const weft_graph *g, const weft_node *node, weft_text *text)
{
    int rank = weft_in(g, node, 0)->shape.rank;
    add_rows(g, node, text);
    weft_text_add(text, ", -> ");
    weft_labels_dims(text, rank, rank - 1);
}

static double row_flops(const weft_graph *g, const weft_node *node)
{
    return 6.0 * (double)weft_shape_elements(&weft_in(g, node, 0)->shape);
}

WEFT_OPERATOR(softmax, "exp(x) / sum(exp(x)) over the last dimension", 1, 1, .shape = softmax_shape,
              .gradient = softmax_gradient, .labels = softmax_labels, .flops = row_flops);
WEFT_OPERATOR(softmax_grad, "gradient of softmax, from (y, dy)", 2, 2, .shape = softmax_shape,
              .labels = softmax_labels, .flops = row_flops);
WEFT_OPERATOR(softmax_xent,
              "weighted sum of -log softmax(logits)[label]; also gives the probabilities", 3, 3,
              .attrs = WEFT_ATTRS("smoothing"), .shape = xent_shape, .gradient = xent_gradient,
              .labels = xent_labels, .flops = row_flops, .inference = xent_inference);
WEFT_OPERATOR(softmax_xent_grad,
              "gradient of softmax_xent, from (probabilities, labels, weights, dloss)", 4, 4,
              .attrs = WEFT_ATTRS("smoothing"), .shape = xent_grad_shape,
              .labels = xent_grad_labels, .flops = row_flops);
