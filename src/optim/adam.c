/* Adam (Kingma and Ba 2015) and AdamW (Loshchilov and Hutter 2019), as an operator of their own. */
#include "optim/rule.h"

static void update(weft_rule *r, int kind)
{
    const weft_optimizer_options *o = r->options;
    weft_value m = weft_rule_moment(r, "m"), v = weft_rule_moment(r, "v");
    weft_value in[] = {r->w, r->gradient, m, v, r->lr, weft_rule_age(r)};
    weft_attr attrs[] = {WEFT_ATTR_INT("kind", kind), WEFT_ATTR_REAL("beta1", o->beta1),
                         WEFT_ATTR_REAL("beta2", o->beta2), WEFT_ATTR_REAL("epsilon", o->epsilon),
                         WEFT_ATTR_REAL("decay", o->weight_decay)};
    weft_value next = weft_rule_node(r, "adam", in, 6, attrs, 5);
    weft_graph_assign(r->graph, r->w, next);
    weft_graph_assign(r->graph, m, next + 1);
    weft_graph_assign(r->graph, v, next + 2);
}

static void adam_update(weft_rule *r)
{
    update(r, 0);
}
static void adamw_update(weft_rule *r)
{
    update(r, 1);
}

const weft_optimizer weft_optimizer_adam = {.name = "adam",
                                            .summary = "Adam; weight decay is an L2 term",
                                            .reads = "beta1,beta2,epsilon",
                                            .update = adam_update};
const weft_optimizer weft_optimizer_adamw = {.name = "adamw",
                                             .summary = "Adam with decoupled weight decay",
                                             .reads = "beta1,beta2,epsilon",
                                             .update = adamw_update};
