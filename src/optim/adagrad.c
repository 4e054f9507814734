/* Adagrad (Duchi, Hazan and Singer 2011): divides by the root of the sum of all squares. */
#include "optim/rule.h"

enum { EPSILON };
static const weft_rule_key keys[] = {{"epsilon", 1e-10, 1e-30, 1, false}, {.name = NULL}};

static void update(weft_rule *r)
{
    weft_value g = weft_rule_decayed(r), sum = weft_rule_moment(r, "squares");
    weft_value next = weft_rule_binary(r, "add", sum, weft_rule_binary(r, "mul", g, g));
    weft_value root = weft_rule_binary(r, "add", weft_rule_unary(r, "sqrt", next),
                                       weft_rule_number(r, r->keys[EPSILON]));
    weft_graph_assign(r->graph, sum, next);
    weft_rule_move(r, r->w, weft_rule_binary(r, "div", g, root));
}

const weft_optimizer weft_optimizer_adagrad = {
    .name = "adagrad",
    .summary = "divides the gradient by the root of the sum of its squares",
    .form = "adagrad[:epsilon=1e-10]",
    .keys = keys,
    .adaptive = true,
    .update = update};
