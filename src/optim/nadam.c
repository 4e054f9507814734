/* NAdam (Dozat 2016): Adam with Nesterov's momentum, whose coefficient grows to beta1, as PyTorch
 * defines it. Weight decay is an L2 term. */
#include "optim/rule.h"

enum { BETA1, BETA2, EPSILON, DECAY };
static const weft_rule_key keys[] = {{"beta1", 0.9, 0, WEFT_ALMOST_ONE, false},
                                     {"beta2", 0.999, 0, WEFT_ALMOST_ONE, false},
                                     {"epsilon", 1e-8, 1e-30, 1, false},
                                     {"momentum_decay", 0.004, 0, 1, false},
                                     {.name = NULL}};

/* The coefficient beta1 (1 - 0.96^(decay t) / 2) of step t, an f64 scalar. */
static weft_value coefficient(const weft_rule *r, weft_value t)
{
    weft_value power =
        weft_rule_binary(r, "pow", weft_rule_exact(r, 0.96), weft_rule_scale(r, t, r->keys[DECAY]));
    weft_value half = weft_rule_scale(r, power, 0.5);
    return weft_rule_scale(r, weft_rule_binary(r, "sub", weft_rule_exact(r, 1), half),
                           r->keys[BETA1]);
}

/* Adds the factors of the gradient and of the momentum in a step, once for all parameters. The
 * state is 1 minus the product of all coefficients, since states begin at zero. */
static void add_factors(weft_rule *r)
{
    weft_value t = weft_rule_steps(r), one = weft_rule_exact(r, 1);
    weft_value state = weft_rule_shared(r, "rest"), now = coefficient(r, t);
    weft_value next = coefficient(r, weft_rule_binary(r, "add", t, one));
    weft_value product = weft_rule_binary(r, "mul", weft_rule_binary(r, "sub", one, state), now);
    weft_value rest = weft_rule_binary(r, "sub", one, product);
    weft_graph_assign(r->graph, state, rest);
    weft_value later = weft_rule_binary(r, "sub", one, weft_rule_binary(r, "mul", product, next));
    weft_value gradient = weft_rule_binary(r, "div", weft_rule_binary(r, "sub", one, now), rest);
    r->shared[0] = weft_rule_real(r, gradient);
    r->shared[1] = weft_rule_real(r, weft_rule_binary(r, "div", next, later));
}

static void update(weft_rule *r)
{
    if (r->shared[0] == WEFT_NO_VALUE) add_factors(r);
    weft_value g = weft_rule_decayed(r);
    weft_value m = weft_rule_moment(r, "m"), v = weft_rule_moment(r, "v");
    weft_value m_next = weft_rule_average(r, m, g, r->keys[BETA1]);
    weft_value v_next = weft_rule_average(r, v, weft_rule_binary(r, "mul", g, g), r->keys[BETA2]);
    weft_value corrected =
        weft_rule_binary(r, "mul", v_next, weft_rule_correction(r, r->keys[BETA2]));
    weft_value root = weft_rule_binary(r, "add", weft_rule_unary(r, "sqrt", corrected),
                                       weft_rule_number(r, r->keys[EPSILON]));
    weft_value direction = weft_rule_binary(r, "add", weft_rule_binary(r, "mul", g, r->shared[0]),
                                            weft_rule_binary(r, "mul", m_next, r->shared[1]));
    weft_graph_assign(r->graph, m, m_next);
    weft_graph_assign(r->graph, v, v_next);
    weft_rule_move(r, r->w, weft_rule_binary(r, "div", direction, root));
}

const weft_optimizer weft_optimizer_nadam = {
    .name = "nadam",
    .summary = "Adam with Nesterov's momentum",
    .form = "nadam[:beta1=0.9,beta2=0.999,epsilon=1e-8,momentum_decay=0.004]",
    .keys = keys,
    .adaptive = true,
    .update = update};
