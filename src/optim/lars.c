/* LARS (You, Gitman and Ginsburg 2017): momentum whose rate for each tensor is proportional to the
 * norm of the tensor over that of its gradient. */
#include "optim/rule.h"

enum { MOMENTUM, TRUST };
static const weft_rule_key keys[] = {{"momentum", 0.9, 0, WEFT_ALMOST_ONE, false},
                                     {"trust", 0.001, 1e-12, 1e6, false},
                                     {.name = NULL}};

/* trust |w| / (|g| + weight_decay |w|); 1 where |w| or |g| is zero */
static weft_value ratio(const weft_rule *r)
{
    weft_value w = weft_rule_norm(r, r->w), g = weft_rule_norm(r, r->gradient);
    weft_value below =
        weft_rule_binary(r, "add", g, weft_rule_scale(r, w, r->options->weight_decay));
    weft_value part = weft_rule_scale(r, weft_rule_binary(r, "div", w, below), r->keys[TRUST]);
    weft_value both = weft_rule_binary(r, "mul", w, g), one = weft_rule_number(r, 1);
    return weft_rule_node(r, "where", (weft_value[]){both, part, one}, 3, NULL, 0);
}

static void update(weft_rule *r)
{
    weft_value m = weft_rule_moment(r, "momentum");
    weft_value local = weft_rule_binary(r, "mul", ratio(r), r->lr);
    weft_value step = weft_rule_binary(r, "mul", weft_rule_decayed(r), local);
    weft_value next = weft_rule_binary(r, "add", weft_rule_scale(r, m, r->keys[MOMENTUM]), step);
    weft_graph_assign(r->graph, m, next);
    weft_graph_assign(r->graph, r->w, weft_rule_binary(r, "sub", r->w, next));
}

const weft_optimizer weft_optimizer_lars = {
    .name = "lars",
    .summary = "momentum with a rate for each tensor, for large batches",
    .form = "lars[:momentum=0.9,trust=0.001]",
    .keys = keys,
    .need = WEFT_NEEDS_NORM,
    .update = update};
