/* Stochastic gradient descent with momentum, Nesterov's or not, as an operator of its own. */
#include "optim/rule.h"

static void update(weft_rule *r)
{
    const weft_optimizer_options *o = r->options;
    weft_attr attrs[] = {WEFT_ATTR_REAL("momentum", o->momentum),
                         WEFT_ATTR_REAL("decay", o->weight_decay),
                         WEFT_ATTR_INT("nesterov", o->nesterov)};
    if (o->momentum == 0) {
        weft_value in[] = {r->w, r->gradient, r->lr};
        weft_graph_assign(r->graph, r->w, weft_rule_node(r, "sgd", in, 3, attrs, 3));
        return;
    }
    weft_value m = weft_rule_moment(r, "momentum"), in[] = {r->w, r->gradient, m, r->lr};
    weft_value next = weft_rule_node(r, "sgd", in, 4, attrs, 3);
    weft_graph_assign(r->graph, r->w, next);
    weft_graph_assign(r->graph, m, next + 1);
}

const weft_optimizer weft_optimizer_sgd = {.name = "sgd",
                                           .summary = "stochastic gradient descent with momentum",
                                           .reads = "momentum,nesterov",
                                           .update = update};
