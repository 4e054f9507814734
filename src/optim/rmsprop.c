/* RMSprop (Tieleman and Hinton 2012), centered (Graves 2013) or not, with or without momentum, as
 * PyTorch defines it. */
#include "optim/rule.h"

enum { ALPHA, EPSILON, MOMENTUM, CENTERED };
static const weft_rule_key keys[] = {{"alpha", 0.99, 0, WEFT_ALMOST_ONE, false},
                                     {"epsilon", 1e-8, 1e-30, 1, false},
                                     {"momentum", 0, 0, WEFT_ALMOST_ONE, false},
                                     {"centered", 0, 0, 1, true},
                                     {.name = NULL}};

static void update(weft_rule *r)
{
    weft_value g = weft_rule_decayed(r), v = weft_rule_moment(r, "v");
    weft_value square = weft_rule_binary(r, "mul", g, g);
    weft_value v_next = weft_rule_average(r, v, square, r->keys[ALPHA]), variance = v_next;
    weft_graph_assign(r->graph, v, v_next);
    if (r->keys[CENTERED] != 0) {
        weft_value mean = weft_rule_moment(r, "mean");
        weft_value next = weft_rule_average(r, mean, g, r->keys[ALPHA]);
        weft_graph_assign(r->graph, mean, next);
        variance = weft_rule_binary(r, "sub", v_next, weft_rule_binary(r, "mul", next, next));
    }
    weft_value root = weft_rule_binary(r, "add", weft_rule_unary(r, "sqrt", variance),
                                       weft_rule_number(r, r->keys[EPSILON]));
    weft_value direction = weft_rule_binary(r, "div", g, root);
    if (r->keys[MOMENTUM] != 0) {
        weft_value m = weft_rule_moment(r, "momentum");
        direction = weft_rule_binary(r, "add", weft_rule_scale(r, m, r->keys[MOMENTUM]), direction);
        weft_graph_assign(r->graph, m, direction);
    }
    weft_rule_move(r, r->w, direction);
}

const weft_optimizer weft_optimizer_rmsprop = {
    .name = "rmsprop",
    .summary = "divides the gradient by the root of its mean square",
    .form = "rmsprop[:alpha=0.99,epsilon=1e-8,momentum=0,centered=0]",
    .keys = keys,
    .adaptive = true,
    .update = update};
