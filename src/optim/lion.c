/* Lion (Chen et al. 2023): the sign of an average of gradient and momentum; decoupled weight decay.
 */
#include "optim/rule.h"

enum { BETA1, BETA2 };
static const weft_rule_key keys[] = {{"beta1", 0.9, 0, WEFT_ALMOST_ONE, false},
                                     {"beta2", 0.99, 0, WEFT_ALMOST_ONE, false},
                                     {.name = NULL}};

static void update(weft_rule *r)
{
    weft_value m = weft_rule_moment(r, "m");
    weft_value mixed = weft_rule_average(r, m, r->gradient, r->keys[BETA1]);
    weft_rule_move(r, weft_rule_shrunk(r), weft_rule_unary(r, "sign", mixed));
    weft_graph_assign(r->graph, m, weft_rule_average(r, m, r->gradient, r->keys[BETA2]));
}

const weft_optimizer weft_optimizer_lion = {.name = "lion",
                                            .summary =
                                                "steps of one size by the sign of a momentum",
                                            .form = "lion[:beta1=0.9,beta2=0.99]",
                                            .keys = keys,
                                            .adaptive = true,
                                            .update = update};
