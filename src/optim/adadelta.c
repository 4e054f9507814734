/* Adadelta (Zeiler 2012): the mean square of the steps stands for the learning rate, which is
 * usually 1. */
#include "optim/rule.h"

enum { RHO, EPSILON };
static const weft_rule_key keys[] = {
    {"rho", 0.9, 0, WEFT_ALMOST_ONE, false}, {"epsilon", 1e-6, 1e-30, 1, false}, {.name = NULL}};

static weft_value root(const weft_rule *r, weft_value x)
{
    return weft_rule_unary(r, "sqrt",
                           weft_rule_binary(r, "add", x, weft_rule_number(r, r->keys[EPSILON])));
}

static void update(weft_rule *r)
{
    weft_value g = weft_rule_decayed(r);
    weft_value squares = weft_rule_moment(r, "squares"), steps = weft_rule_moment(r, "steps");
    weft_value next = weft_rule_average(r, squares, weft_rule_binary(r, "mul", g, g), r->keys[RHO]);
    weft_value ratio = weft_rule_binary(r, "div", root(r, steps), root(r, next));
    weft_value step = weft_rule_binary(r, "mul", ratio, g);
    weft_graph_assign(r->graph, squares, next);
    weft_graph_assign(
        r->graph, steps,
        weft_rule_average(r, steps, weft_rule_binary(r, "mul", step, step), r->keys[RHO]));
    weft_rule_move(r, r->w, step);
}

const weft_optimizer weft_optimizer_adadelta = {.name = "adadelta",
                                                .summary =
                                                    "Adadelta, whose learning rate is usually 1",
                                                .form = "adadelta[:rho=0.9,epsilon=1e-6]",
                                                .keys = keys,
                                                .adaptive = true,
                                                .update = update};
