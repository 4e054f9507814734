/* batch_norm: normalises each channel of [b, c, ...] over the batch and all positions.
 *
 * Samples count with their weight, so that padding (weight zero) changes neither the statistics
 * nor the gradient. Running statistics follow Ioffe and Szegedy (2015); the running variance is
 * the unbiased one, as other frameworks keep it. */
#include "ops/ops.h"

static weft_status check_channels(const weft_graph *g, const weft_node *node, int first, int last)
{
    const weft_shape *x = &weft_in(g, node, 0)->shape;
    for (int i = first; i <= last; i++)
        WEFT_TRY(weft_expect(g, node, i, "a channel vector", g->real, 1, &x->dim[1]));
    return WEFT_OK;
}

/* (x, gamma, beta, weights, running mean, running variance)
 *   -> (y, mean, rstd, running mean, running variance) */
static weft_status train_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    WEFT_TRY(weft_expect_real(g, node, 0, "the tensor", 2));
    const weft_type *x = weft_in(g, node, 0);
    WEFT_TRY(check_channels(g, node, 1, 2));
    WEFT_TRY(weft_expect(g, node, 3, "the sample weights", g->real, 1, &x->shape.dim[0]));
    WEFT_TRY(check_channels(g, node, 4, 5));
    out[0] = *x;
    for (int i = 1; i < 5; i++) out[i] = (weft_type){g->real, weft_shape_of(1, &x->shape.dim[1])};
    node->out_count = 5;
    return WEFT_OK;
}

/* (dy, x, gamma, weights, mean, rstd) -> (dx, dgamma, dbeta) */
static weft_status grad_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    const weft_type *dy = weft_in(g, node, 0);
    WEFT_TRY(weft_expect_real(g, node, 0, "dy", 2));
    WEFT_TRY(weft_expect_like(g, node, 1, "the tensor", dy));
    WEFT_TRY(check_channels(g, node, 2, 2));
    WEFT_TRY(weft_expect(g, node, 3, "the sample weights", g->real, 1, &dy->shape.dim[0]));
    WEFT_TRY(check_channels(g, node, 4, 5));
    out[0] = *dy;
    for (int i = 1; i < 3; i++) out[i] = (weft_type){g->real, weft_shape_of(1, &dy->shape.dim[1])};
    node->out_count = 3;
    return WEFT_OK;
}

/* (x, gamma, beta, mean, variance) -> y */
static weft_status infer_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    WEFT_TRY(weft_expect_real(g, node, 0, "the tensor", 2));
    WEFT_TRY(check_channels(g, node, 1, 4));
    out[0] = *weft_in(g, node, 0);
    return WEFT_OK;
}

static void train_gradient(weft_graph *g, const weft_node *node, const weft_value *dy,
                           const bool *want, weft_value *dx)
{
    (void)want;
    weft_value in[] = {dy[0], node->in[0], node->in[1], node->in[3], node->out + 1, node->out + 2};
    weft_value first = weft_emit(g, node, "dx", "batch_norm_grad", in, 6, NULL, 0);
    if (first == WEFT_NO_VALUE) return;
    for (int i = 0; i < 3; i++) dx[i] = first + i;
}

/* "b !c d2 d3": the batch and the positions are summed over, but not linearly, so a split of
 * them is not legal; channels are independent of each other. */
static void tensor_labels(weft_text *text, int rank)
{
    weft_text_add(text, "!b c");
    for (int i = 2; i < rank; i++) weft_text_add(text, " !d%d", i);
}

static void train_labels(const weft_graph *g, const weft_node *node, weft_text *text)
{
    int rank = weft_in(g, node, 0)->shape.rank;
    tensor_labels(text, rank);
    weft_text_add(text, ", c, c, !b, c, c -> ");
    tensor_labels(text, rank);
    weft_text_add(text, ", c, c, c, c");
}

static void grad_labels(const weft_graph *g, const weft_node *node, weft_text *text)
{
    int rank = weft_in(g, node, 0)->shape.rank;
    tensor_labels(text, rank);
    weft_text_add(text, ", ");
    tensor_labels(text, rank);
    weft_text_add(text, ", c, !b, c, c -> ");
    tensor_labels(text, rank);
    weft_text_add(text, ", c, c");
}

static void infer_labels(const weft_graph *g, const weft_node *node, weft_text *text)
{
    int rank = weft_in(g, node, 0)->shape.rank;
    weft_text_add(text, "b c");
    for (int i = 2; i < rank; i++) weft_text_add(text, " d%d", i);
    weft_text_add(text, ", c, c, c, c -> b c");
    for (int i = 2; i < rank; i++) weft_text_add(text, " d%d", i);
}

static double norm_flops(const weft_graph *g, const weft_node *node)
{
    return 8.0 * (double)weft_shape_elements(&weft_in(g, node, 0)->shape);
}

const weft_op weft_op_batch_norm = {
    .name = "batch_norm",
    .summary = "normalises channels by weighted batch statistics and updates running ones",
    .min_inputs = 6,
    .max_inputs = 6,
    .attrs = WEFT_ATTRS("epsilon", "momentum"),
    .shape = train_shape,
    .gradient = train_gradient,
    .labels = train_labels,
    .flops = norm_flops,
    .in_place = {0, 0, 0, 1u << 4, 1u << 5},
    .statistics = 0x1e};
const weft_op weft_op_batch_norm_grad = {
    .name = "batch_norm_grad",
    .summary = "gradient of batch_norm, from (dy, x, gamma, weights, mean, rstd)",
    .min_inputs = 6,
    .max_inputs = 6,
    .shape = grad_shape,
    .labels = grad_labels,
    .flops = norm_flops};
const weft_op weft_op_batch_norm_infer = {
    .name = "batch_norm_infer",
    .summary = "normalises channels by given means and variances; not differentiable",
    .min_inputs = 5,
    .max_inputs = 5,
    .attrs = WEFT_ATTRS("epsilon"),
    .shape = infer_shape,
    .labels = infer_labels,
    .flops = norm_flops,
    .in_place = {1}};
