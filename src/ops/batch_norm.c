/* Defines batch normalization: each channel of [b, c, ...] is normalised over the batch and all
 * positions.
 *
 *   counts = batch_count(weights)
 *   mean = batch_mean(x, weights, counts), variance = batch_variance(x, weights, counts, mean)
 *   y = batch_norm(x, gamma, beta, weights, counts, mean, variance)
 *
 * Statistics are sums over the batch and the positions. Ranks that split the batch or the positions
 * add c numbers for the mean, and then c for the variance about it; all other values stay split.
 * The gradient adds c numbers for gamma and c for beta. One message with the sums of x and of its
 * square would not do, since it loses a variance that is small compared to the mean.
 *
 * Samples are weighted, so that padding (weight zero) changes neither the statistics nor the
 * gradient. Running statistics follow Ioffe and Szegedy (2015); the running variance is unbiased,
 * as in other frameworks. */
#include "graph/map.h"
#include "ops/ops.h"

enum { COUNTS = 3 };

extern const weft_op weft_op_batch_running;

/* --- shapes --- */

/* Checks that operands `first` to `last` are vectors of c numbers. */
static weft_status check_channels(const weft_graph *g, const weft_node *node, int64_t c, int first,
                                  int last)
{
    for (int i = first; i <= last; i++)
        WEFT_TRY(weft_expect(g, node, i, "a channel vector", weft_node_float(g, node), 1, &c));
    return WEFT_OK;
}

static weft_status check_counts(const weft_graph *g, const weft_node *node, int i)
{
    return weft_expect(g, node, i, "the counts of the batch", weft_node_float(g, node), 1,
                       (int64_t[]){COUNTS});
}

/* Checks the sample weights, which are operand `first`, and the counts after them. Sets attribute
 * `positions`, since a part of the tensor must know the number of positions of the whole. */
static weft_status check_batch(const weft_graph *g, weft_node *node, int first)
{
    const weft_shape *x = &weft_in(g, node, 0)->shape;
    int64_t positions = weft_shape_elements(x) / (x->dim[0] * x->dim[1]);
    WEFT_TRY(
        weft_expect(g, node, first, "the sample weights", weft_node_float(g, node), 1, &x->dim[0]));
    WEFT_TRY(check_counts(g, node, first + 1));
    if (weft_node_attr(node, "positions")) return WEFT_OK;
    return weft_node_set(node, &(weft_attr)WEFT_ATTR_INT("positions", positions));
}

static weft_type channels_of(const weft_graph *g, const weft_node *node)
{
    return (weft_type){weft_node_float(g, node),
                       weft_shape_of(1, &weft_in(g, node, 0)->shape.dim[1])};
}

static weft_status count_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    WEFT_TRY(weft_expect(g, node, 0, "the sample weights", weft_node_float(g, node), 1,
                         weft_in(g, node, 0)->shape.dim));
    out[0] = (weft_type){weft_node_float(g, node), weft_shape_of(1, (int64_t[]){COUNTS})};
    return WEFT_OK;
}

static weft_status statistic_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    WEFT_TRY(weft_expect_real(g, node, 0, "the tensor", 2));
    WEFT_TRY(check_batch(g, node, 1));
    out[0] = channels_of(g, node);
    return check_channels(g, node, out[0].shape.dim[0], 3, node->in_count - 1);
}

static weft_status norm_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    WEFT_TRY(weft_expect_real(g, node, 0, "the tensor", 2));
    out[0] = *weft_in(g, node, 0);
    WEFT_TRY(check_channels(g, node, out[0].shape.dim[1], 1, 2));
    WEFT_TRY(check_batch(g, node, 3));
    return check_channels(g, node, out[0].shape.dim[1], 5, 6);
}

/* (mean, variance, counts, running mean, running variance) -> (running mean, running variance) */
static weft_status running_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    WEFT_TRY(weft_expect_real(g, node, 0, "the mean", 1));
    int64_t c = weft_in(g, node, 0)->shape.dim[0];
    WEFT_TRY(check_channels(g, node, c, 0, 1));
    WEFT_TRY(check_counts(g, node, 2));
    WEFT_TRY(check_channels(g, node, c, 3, 4));
    if (weft_node_int(node, "positions", 0, 0) < 1)
        return weft_node_fail(node, "needs attribute 'positions', how many a channel has");
    out[0] = out[1] = (weft_type){weft_node_float(g, node), weft_shape_of(1, &c)};
    node->out_count = 2;
    return WEFT_OK;
}

/* (dy, x, mean, variance) -> (dgamma, dbeta) */
static weft_status sums_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    WEFT_TRY(weft_expect_real(g, node, 0, "dy", 2));
    WEFT_TRY(weft_expect_like(g, node, 1, "the tensor", weft_in(g, node, 0)));
    out[0] = out[1] = channels_of(g, node);
    node->out_count = 2;
    return check_channels(g, node, out[0].shape.dim[0], 2, 3);
}

/* (dy, x, gamma, weights, counts, mean, variance, dgamma, dbeta) -> dx */
static weft_status dx_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    WEFT_TRY(weft_expect_real(g, node, 0, "dy", 2));
    out[0] = *weft_in(g, node, 0);
    WEFT_TRY(weft_expect_like(g, node, 1, "the tensor", &out[0]));
    WEFT_TRY(check_channels(g, node, out[0].shape.dim[1], 2, 2));
    WEFT_TRY(check_batch(g, node, 3));
    return check_channels(g, node, out[0].shape.dim[1], 5, 8);
}

/* (x, gamma, beta, mean, variance) -> y */
static weft_status infer_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    WEFT_TRY(weft_expect_real(g, node, 0, "the tensor", 2));
    out[0] = *weft_in(g, node, 0);
    return check_channels(g, node, out[0].shape.dim[1], 1, 4);
}

/* dx includes the dependence through mean and variance, so operators batch_mean and batch_variance
 * need no gradient of their own. */
static void norm_gradient(weft_graph *g, const weft_node *node, const weft_value *dy,
                          const bool *want, weft_value *dx)
{
    const weft_value *in = node->in;
    weft_value sums = weft_emit_same(g, node, "sums", "batch_norm_sums",
                                     (weft_value[]){dy[0], in[0], in[5], in[6]}, 4);
    if (sums == WEFT_NO_VALUE) return;
    if (want[0])
        dx[0] = weft_emit_same(
            g, node, "dx", "batch_norm_dx",
            (weft_value[]){dy[0], in[0], in[1], in[3], in[4], in[5], in[6], sums, sums + 1}, 9);
    dx[1] = sums;
    dx[2] = sums + 1;
}

/* The node that keeps running statistics of these of the batch, or NULL. */
static const weft_node *running_of(const weft_graph *g, weft_value mean, weft_value variance)
{
    for (size_t n = (size_t)g->values[mean].node; n < g->node_count; n++) {
        const weft_node *node = g->nodes[n];
        if (node->op == &weft_op_batch_running && node->in[0] == mean && node->in[1] == variance)
            return node;
    }
    return NULL;
}

/* Prediction uses the running statistics in the place of those of its batch, where there are any.
 */
static weft_status norm_inference(weft_graph_mapper *m, int n, weft_value *out)
{
    const weft_node *node = m->from->nodes[n];
    const weft_node *running = running_of(m->from, node->in[5], node->in[6]);
    if (!running) return weft_graph_map_copy(m, n, out);
    weft_value in[5];
    for (int i = 0; i < 3; i++) in[i] = m->value[node->in[i]];
    for (int i = 3; i < 5; i++) in[i] = m->value[running->in[i]];
    const weft_attr *epsilon = weft_node_attr(node, "epsilon");
    out[0] =
        weft_graph_node(m->to, "batch_norm_infer", node->name, in, 5, epsilon, epsilon ? 1 : 0);
    return weft_graph_status(m->to);
}

/* --- labels: the channel is a label of its own, so channels may be split --- */

static void add_tensor(weft_text *text, int rank)
{
    weft_text_add(text, "b c");
    for (int i = 2; i < rank; i++) weft_text_add(text, " d%d", i);
}

/* Appends a signature: `tensors` operands with the labels of the first one, then the text `rest`,
 * then with `tensor_out` an output with these labels. */
static void labels(const weft_graph *g, const weft_node *node, weft_text *text, int tensors,
                   const char *rest, bool tensor_out)
{
    int rank = weft_in(g, node, 0)->shape.rank;
    for (int i = 0; i < tensors; i++) {
        weft_text_add(text, "%s", i ? ", " : "");
        add_tensor(text, rank);
    }
    weft_text_add(text, "%s", rest);
    if (tensor_out) add_tensor(text, rank);
}

static void count_labels(const weft_graph *g, const weft_node *node, weft_text *text)
{
    labels(g, node, text, 0, "b -> !n", false);
}
static void mean_labels(const weft_graph *g, const weft_node *node, weft_text *text)
{
    labels(g, node, text, 1, ", b, !n -> c", false);
}
static void variance_labels(const weft_graph *g, const weft_node *node, weft_text *text)
{
    labels(g, node, text, 1, ", b, !n, c -> c", false);
}
static void norm_labels(const weft_graph *g, const weft_node *node, weft_text *text)
{
    labels(g, node, text, 1, ", c, c, b, !n, c, c -> ", true);
}
static void running_labels(const weft_graph *g, const weft_node *node, weft_text *text)
{
    labels(g, node, text, 0, "c, c, !n, c, c -> c, c", false);
}
static void sums_labels(const weft_graph *g, const weft_node *node, weft_text *text)
{
    labels(g, node, text, 2, ", c, c -> c, c", false);
}
static void dx_labels(const weft_graph *g, const weft_node *node, weft_text *text)
{
    labels(g, node, text, 2, ", c, b, !n, c, c, c, c -> ", true);
}
static void infer_labels(const weft_graph *g, const weft_node *node, weft_text *text)
{
    labels(g, node, text, 1, ", c, c, c, c -> ", true);
}

static double norm_flops(const weft_graph *g, const weft_node *node)
{
    return 4.0 * (double)weft_shape_elements(&weft_in(g, node, 0)->shape);
}

static double sum_flops(const weft_graph *g, const weft_node *node)
{
    return 2.0 * (double)weft_shape_elements(&weft_in(g, node, 0)->shape);
}

/* Bit i of .statistics: input i depends on the whole batch. */
WEFT_OPERATOR(
    batch_count,
    "three numbers of a batch: the sum of its weights, the samples with a weight, all samples", 1,
    1, .shape = count_shape, .labels = count_labels);
WEFT_OPERATOR(batch_mean, "weighted mean of each channel, from (x, weights, counts)", 3, 3,
              .attrs = WEFT_ATTRS("positions"), .narrow = 1, .shape = statistic_shape,
              .labels = mean_labels, .flops = sum_flops, .statistics = 1u << 2);
WEFT_OPERATOR(batch_variance, "weighted variance of each channel, from (x, weights, counts, mean)",
              4, 4, .attrs = WEFT_ATTRS("positions"), .narrow = 1, .shape = statistic_shape,
              .labels = variance_labels, .flops = sum_flops, .statistics = 3u << 2,
              .least_values = 2);
WEFT_OPERATOR(batch_norm,
              "normalises channels by the mean and variance of the batch; differentiated with "
              "these as functions of it",
              7, 7, .attrs = WEFT_ATTRS("epsilon", "positions"), .narrow = 1, .narrow_out = 1,
              .shape = norm_shape, .gradient = norm_gradient, .labels = norm_labels,
              .flops = norm_flops, .statistics = 7u << 4, .least_values = 2,
              .inference = norm_inference);
WEFT_OPERATOR(batch_running,
              "running mean and variance, from the batch's, its counts and the old ones", 5, 5,
              .attrs = WEFT_ATTRS("momentum", "positions"), .shape = running_shape,
              .labels = running_labels, .in_place = {1u << 3, 1u << 4}, .statistics = 7u);
WEFT_OPERATOR(batch_norm_sums, "gradients of gamma and beta, from (dy, x, mean, variance)", 4, 4,
              .attrs = WEFT_ATTRS("epsilon", "positions"), .narrow = 3, .shape = sums_shape,
              .labels = sums_labels, .flops = norm_flops, .statistics = 3u << 2);
WEFT_OPERATOR(batch_norm_dx,
              "gradient of x, from (dy, x, gamma, weights, counts, mean, variance, dgamma, dbeta)",
              9, 9, .attrs = WEFT_ATTRS("epsilon", "positions"), .narrow = 3, .narrow_out = 1,
              .shape = dx_shape, .labels = dx_labels, .flops = norm_flops, .statistics = 31u << 4);
WEFT_OPERATOR(batch_norm_infer,
              "normalises channels by given means and variances; not differentiable", 5, 5,
              .attrs = WEFT_ATTRS("epsilon"), .narrow = 1, .narrow_out = 1, .shape = infer_shape,
              .labels = infer_labels, .flops = norm_flops, .in_place = {1});
