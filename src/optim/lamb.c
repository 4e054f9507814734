/* LAMB (You et al. 2020): Adam's step with weight decay, with a rate for each tensor that is
 * proportional to the norm of the tensor over that of the step. */
#include "optim/rule.h"

enum { BETA1, BETA2, EPSILON };
static const weft_rule_key keys[] = {{"beta1", 0.9, 0, WEFT_ALMOST_ONE, false},
                                     {"beta2", 0.999, 0, WEFT_ALMOST_ONE, false},
                                     {"epsilon", 1e-6, 1e-30, 1, false},
                                     {.name = NULL}};

static void update(weft_rule *r)
{
    weft_value m = weft_rule_moment(r, "m"), v = weft_rule_moment(r, "v"), g = r->gradient;
    weft_value m_next = weft_rule_average(r, m, g, r->keys[BETA1]);
    weft_value v_next = weft_rule_average(r, v, weft_rule_binary(r, "mul", g, g), r->keys[BETA2]);
    weft_value mean = weft_rule_binary(r, "mul", m_next, weft_rule_correction(r, r->keys[BETA1]));
    weft_value square = weft_rule_binary(r, "mul", v_next, weft_rule_correction(r, r->keys[BETA2]));
    weft_value root = weft_rule_binary(r, "add", weft_rule_unary(r, "sqrt", square),
                                       weft_rule_number(r, r->keys[EPSILON]));
    weft_value step = weft_rule_binary(r, "div", mean, root);
    if (r->options->weight_decay != 0)
        step = weft_rule_binary(r, "add", step, weft_rule_scale(r, r->w, r->options->weight_decay));
    weft_value w = weft_rule_norm(r, r->w), u = weft_rule_norm(r, step);
    weft_value both = weft_rule_binary(r, "mul", w, u), one = weft_rule_number(r, 1);
    weft_value ratio = weft_rule_node(
        r, "where", (weft_value[]){both, weft_rule_binary(r, "div", w, u), one}, 3, NULL, 0);
    weft_graph_assign(r->graph, m, m_next);
    weft_graph_assign(r->graph, v, v_next);
    weft_rule_move(r, r->w, weft_rule_binary(r, "mul", step, ratio));
}

const weft_optimizer weft_optimizer_lamb = {
    .name = "lamb",
    .summary = "Adam with a rate for each tensor, for large batches",
    .form = "lamb[:beta1=0.9,beta2=0.999,epsilon=1e-6]",
    .keys = keys,
    .need = WEFT_NEEDS_NORM,
    .adaptive = true,
    .update = update};
