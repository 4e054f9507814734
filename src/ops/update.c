/* What an optimiser step is made of: sgd, adam, schedule, counter, accumulate, and the pieces of
 * clipping by the global norm. None is differentiable. */
#include "ops/ops.h"

/* (w, g, [momentum,] lr) -> (w, [momentum]) */
static weft_status sgd_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    WEFT_TRY(weft_expect_real(g, node, 0, "the parameter", 0));
    const weft_type *w = weft_in(g, node, 0);
    for (int i = 1; i + 1 < node->in_count; i++)
        WEFT_TRY(weft_expect_like(g, node, i, "gradient or momentum", w));
    WEFT_TRY(weft_expect_scalar(g, node, node->in_count - 1, "the learning rate", g->real));
    node->out_count = node->in_count - 2;
    for (int i = 0; i < node->out_count; i++) out[i] = *w;
    return WEFT_OK;
}

/* (w, g, m, v, lr, step) -> (w, m, v) */
static weft_status adam_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    WEFT_TRY(weft_expect_real(g, node, 0, "the parameter", 0));
    const weft_type *w = weft_in(g, node, 0);
    for (int i = 1; i < 4; i++) WEFT_TRY(weft_expect_like(g, node, i, "gradient or moment", w));
    WEFT_TRY(weft_expect_scalar(g, node, 4, "the learning rate", g->real));
    WEFT_TRY(weft_expect_scalar(g, node, 5, "the step", WEFT_I32));
    node->out_count = 3;
    for (int i = 0; i < 3; i++) out[i] = *w;
    return WEFT_OK;
}

/* step -> learning rate */
static weft_status schedule_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    WEFT_TRY(weft_expect_scalar(g, node, 0, "the step", WEFT_I32));
    out[0] = (weft_type){g->real, {0, {0}}};
    return WEFT_OK;
}

static weft_status counter_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    WEFT_TRY(weft_expect_scalar(g, node, 0, "the step", WEFT_I32));
    out[0] = *weft_in(g, node, 0);
    return WEFT_OK;
}

/* (sum so far, addend, keep): the addend alone where keep is 0 */
static weft_status accumulate_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    WEFT_TRY(weft_expect_real(g, node, 0, "the sum", 0));
    WEFT_TRY(weft_expect_like(g, node, 1, "the addend", weft_in(g, node, 0)));
    WEFT_TRY(weft_expect_scalar(g, node, 2, "keep", g->real));
    out[0] = *weft_in(g, node, 0);
    return WEFT_OK;
}

static weft_status sum_squares_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    WEFT_TRY(weft_expect_real(g, node, 0, "the tensor", 0));
    out[0] = weft_type_like(weft_in(g, node, 0), 0);
    return WEFT_OK;
}

static weft_status clip_shape(const weft_graph *g, weft_node *node, weft_type *out)
{
    WEFT_TRY(weft_expect_scalar(g, node, 0, "the squared norm", g->real));
    out[0] = *weft_in(g, node, 0);
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

const weft_op weft_op_sgd = {.name = "sgd",
                             .summary = "stochastic gradient descent with momentum, Nesterov's or "
                                        "not, and weight decay",
                             .min_inputs = 3,
                             .max_inputs = 4,
                             .attrs = WEFT_ATTRS("momentum", "nesterov", "decay"),
                             .shape = sgd_shape,
                             .labels = weft_labels_elementwise,
                             .flops = sgd_flops,
                             .in_place = {1u << 0, 1u << 2}};
const weft_op weft_op_adam = {
    .name = "adam",
    .summary = "Adam (Kingma and Ba 2015); kind 1: AdamW (Loshchilov and Hutter 2019)",
    .min_inputs = 6,
    .max_inputs = 6,
    .attrs = WEFT_ATTRS("kind", "beta1", "beta2", "epsilon", "decay"),
    .shape = adam_shape,
    .labels = weft_labels_elementwise,
    .flops = adam_flops,
    .in_place = {1u << 0, 1u << 2, 1u << 3}};
const weft_op weft_op_schedule = {
    .name = "schedule",
    .summary = "learning rate of a step: constant, step or cosine, after a linear warm-up",
    .min_inputs = 1,
    .max_inputs = 1,
    .attrs = WEFT_ATTRS("kind", "base", "warmup", "total", "every", "gamma", "floor"),
    .shape = schedule_shape,
    .labels = weft_labels_elementwise};
const weft_op weft_op_counter = {.name = "counter",
                                 .summary = "the step plus one",
                                 .min_inputs = 1,
                                 .max_inputs = 1,
                                 .shape = counter_shape,
                                 .labels = weft_labels_elementwise,
                                 .in_place = {1}};
const weft_op weft_op_accumulate = {.name = "accumulate",
                                    .summary =
                                        "keep times a sum plus an addend; keep 0 starts anew",
                                    .min_inputs = 3,
                                    .max_inputs = 3,
                                    .shape = accumulate_shape,
                                    .labels = weft_labels_elementwise,
                                    .in_place = {1},
                                    .linear = 3};
const weft_op weft_op_sum_squares = {.name = "sum_squares",
                                     .summary = "sum of the squares of all elements",
                                     .min_inputs = 1,
                                     .max_inputs = 1,
                                     .shape = sum_squares_shape,
                                     .labels = weft_labels_elementwise,
                                     .flops = sum_flops};
const weft_op weft_op_clip_factor = {
    .name = "clip_factor",
    .summary = "min(1, max_norm / sqrt(x)): what clips a gradient of squared norm x",
    .min_inputs = 1,
    .max_inputs = 1,
    .attrs = WEFT_ATTRS("max_norm"),
    .shape = clip_shape,
    .labels = weft_labels_elementwise};
