/* Defines the operators of an optimizer step: sgd, adam, schedule, counter, accumulate, and
 * clipping by the global norm. None is differentiable. */
#include "ops/ops.h"

/* (w, g, [momentum,] lr) -> (w, [momentum]) */
static weft_status sgd_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    WEFT_TRY(weft_expect_real(g, node, 0, "the parameter", 0));
    const weft_type *w = weft_in(g, node, 0);
    for (int i = 1; i + 1 < node->in_count; i++)
        WEFT_TRY(weft_expect_like(g, node, i, "gradient or momentum", w));
    WEFT_TRY(weft_expect_scalar(g, node, node->in_count - 1, "the learning rate",
                                weft_node_float(g, node)));
    node->out_count = node->in_count - 2;
    for (int i = 0; i < node->out_count; i++) out[i] = *w;
    return WEFT_OK;
}

/* (w, g, m, v, lr, steps that m and v have seen) -> (w, m, v) */
static weft_status adam_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    WEFT_TRY(weft_expect_real(g, node, 0, "the parameter", 0));
    const weft_type *w = weft_in(g, node, 0);
    for (int i = 1; i < 4; i++) WEFT_TRY(weft_expect_like(g, node, i, "gradient or moment", w));
    WEFT_TRY(weft_expect_scalar(g, node, 4, "the learning rate", weft_node_float(g, node)));
    WEFT_TRY(weft_expect_scalar(g, node, 5, "the age of the moments", WEFT_I32));
    node->out_count = 3;
    for (int i = 0; i < 3; i++) out[i] = *w;
    return WEFT_OK;
}

/* (step[, measurements]) -> (learning rate[, measurements]); between two steps the caller changes
 * the measurements */
static weft_status schedule_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    WEFT_TRY(weft_expect_scalar(g, node, 0, "the step", WEFT_I32));
    out[0] = (weft_type){weft_node_float(g, node), {0, {0}}};
    node->out_count = node->in_count;
    if (node->in_count == 1) return WEFT_OK;
    out[1] = *weft_in(g, node, 1);
    if (out[1].dtype != WEFT_F64 || out[1].shape.rank != 1)
        return weft_node_fail(node, "the measurements must be a vector of f64");
    return WEFT_OK;
}

static void schedule_labels(const weft_graph *g, const weft_node *node, weft_text *text)
{
    (void)g;
    weft_text_add(text, "%s", node->in_count == 1 ? " -> " : ", !m -> , !m");
}

static weft_status counter_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    WEFT_TRY(weft_expect_scalar(g, node, 0, "the step", WEFT_I32));
    out[0] = *weft_in(g, node, 0);
    return WEFT_OK;
}

/* (sum so far, addend, keep) -> sum so far + addend, or the addend alone if keep is 0 */
static weft_status accumulate_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    WEFT_TRY(weft_expect_real(g, node, 0, "the sum", 0));
    WEFT_TRY(weft_expect_like(g, node, 1, "the addend", weft_in(g, node, 0)));
    WEFT_TRY(weft_expect_scalar(g, node, 2, "keep", weft_node_float(g, node)));
    out[0] = *weft_in(g, node, 0);
    return WEFT_OK;
}

/* (places of a stack, addend, index of the micro-batch) -> places with the addend; see
 * weft_tree_push for the stack of subtree sums */
static weft_status accumulate_tree_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    WEFT_TRY(weft_expect_real(g, node, 0, "a sum", 0));
    node->out_count = node->in_count - 2;
    if (node->out_count > WEFT_MAX_OUTPUTS)
        return weft_node_fail(node, "has %d places, at most %d are possible", node->out_count,
                              WEFT_MAX_OUTPUTS);
    for (int i = 0; i < node->in_count - 1; i++) {
        WEFT_TRY(weft_expect_like(g, node, i, "a sum or addend", weft_in(g, node, 0)));
        if (i < node->out_count) out[i] = *weft_in(g, node, 0);
    }
    return weft_expect_scalar(g, node, node->in_count - 1, "the index", weft_node_float(g, node));
}

/* The type of an exact sum: a vector of digits, see base/exact_sum.c. */
static weft_type exact_type(const weft_graph *g, const weft_node *node)
{
    return (weft_type){weft_node_float(g, node), weft_shape_of(1, (int64_t[]){WEFT_EXACT_DIGITS})};
}

static void sum_squares_labels(const weft_graph *g, const weft_node *node, weft_text *text)
{
    weft_labels_dims(text, weft_in(g, node, 0)->shape.rank, WEFT_MAX_RANK);
    weft_text_add(text, " -> !s");
}

static void add_exact_labels(const weft_graph *g, const weft_node *node, weft_text *text)
{
    (void)g;
    (void)node;
    weft_text_add(text, "!s, !s -> !s");
}

static void clip_labels(const weft_graph *g, const weft_node *node, weft_text *text)
{
    (void)g;
    (void)node;
    weft_text_add(text, "!s -> ");
}

static weft_status sum_squares_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    WEFT_TRY(weft_expect_real(g, node, 0, "the tensor", 0));
    out[0] = exact_type(g, node);
    return WEFT_OK;
}

static weft_status add_exact_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    out[0] = exact_type(g, node);
    WEFT_TRY(weft_expect_like(g, node, 0, "a sum", &out[0]));
    return weft_expect_like(g, node, 1, "a sum", &out[0]);
}

static weft_status clip_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    weft_type sum = exact_type(g, node);
    WEFT_TRY(weft_expect_like(g, node, 0, "the squared norm", &sum));
    out[0] = (weft_type){weft_node_float(g, node), {0, {0}}};
    return WEFT_OK;
}

static double adam_flops(const weft_graph *g, const weft_node *node)
{
    return 14.0 * (double)weft_shape_elements(&weft_in(g, node, 0)->shape);
}

static double sgd_flops(const weft_graph *g, const weft_node *node)
{
    return 4.0 * (double)weft_shape_elements(&weft_in(g, node, 0)->shape);
}

static double sum_flops(const weft_graph *g, const weft_node *node)
{
    return 2.0 * (double)weft_shape_elements(&weft_in(g, node, 0)->shape);
}

WEFT_OPERATOR(sgd,
              "stochastic gradient descent with momentum, Nesterov's or "
              "not, and weight decay",
              3, 4, .attrs = WEFT_ATTRS("momentum", "nesterov", "decay"), .shape = sgd_shape,
              .labels = weft_labels_elementwise, .narrow = 1u << 0 | 1u << 2, .flops = sgd_flops,
              .in_place = {1u << 0, 1u << 2});
WEFT_OPERATOR(adam, "Adam (Kingma and Ba 2015); kind 1: AdamW (Loshchilov and Hutter 2019)", 6, 6,
              .attrs = WEFT_ATTRS("kind", "beta1", "beta2", "epsilon", "decay"),
              .shape = adam_shape, .labels = weft_labels_elementwise,
              .narrow = 1u << 0 | 1u << 2 | 1u << 3, .flops = adam_flops,
              .in_place = {1u << 0, 1u << 2, 1u << 3});
WEFT_OPERATOR(schedule, "learning rate of a step by a schedule, after a linear warm-up", 1, 2,
              .attrs = WEFT_ATTRS("kind", "base", "warmup", "total", "every", "gamma", "floor",
                                  "step", "at", "pace", "key0", "key1", "key2", "key3"),
              .shape = schedule_shape, .labels = schedule_labels, .in_place = {0, 1u << 1});
WEFT_OPERATOR(counter, "the step plus one", 1, 1, .shape = counter_shape,
              .labels = weft_labels_elementwise, .in_place = {1});
WEFT_OPERATOR(accumulate, "a sum plus an addend; micro-batch 0 starts anew", 3, 3,
              .shape = accumulate_shape, .labels = weft_labels_elementwise, .in_place = {1},
              .linear = 3);
WEFT_OPERATOR(accumulate_tree,
              "adds up micro-batches in a fixed binary tree, on a stack of subtrees", 3, -1,
              .attrs = WEFT_ATTRS("leaves", "first"), .shape = accumulate_tree_shape,
              .labels = weft_labels_elementwise, .in_place = WEFT_EACH_IN_PLACE);
WEFT_OPERATOR(sum_squares, "sum of the squares of all elements, not rounded", 1, 1,
              .shape = sum_squares_shape, .labels = sum_squares_labels, .flops = sum_flops);
WEFT_OPERATOR(addend_squares,
              "sum_squares of each addend, where a tensor is a sum over ranks of the data axis", 1,
              1, .shape = sum_squares_shape, .labels = sum_squares_labels, .addends = 1,
              .flops = sum_flops);
WEFT_OPERATOR(add_exact, "sum of two sums that are not rounded", 2, 2, .shape = add_exact_shape,
              .labels = add_exact_labels, .linear = 3);
WEFT_OPERATOR(exact_sqrt, "the square root of a sum that is not rounded, such as a norm", 1, 1,
              .shape = clip_shape, .labels = clip_labels);
WEFT_OPERATOR(clip_factor, "min(1, max_norm / sqrt(x)): what clips a gradient of squared norm x", 1,
              1, .attrs = WEFT_ATTRS("max_norm"), .shape = clip_shape, .labels = clip_labels);
