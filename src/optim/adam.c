/* Adam (Kingma and Ba 2015) and AdamW (Loshchilov and Hutter 2019), as an operator of their own. */
#include "optim/rule.h"

void weft_rule_adam(weft_rule *r, bool decoupled, double beta1, double beta2, double epsilon)
{
    weft_value m = weft_rule_moment(r, "m"), v = weft_rule_moment(r, "v");
    weft_value in[] = {r->w, r->gradient, m, v, r->lr, weft_rule_age(r)};
    weft_attr attrs[] = {WEFT_ATTR_INT("kind", decoupled), WEFT_ATTR_REAL("beta1", beta1),
                         WEFT_ATTR_REAL("beta2", beta2), WEFT_ATTR_REAL("epsilon", epsilon),
                         WEFT_ATTR_REAL("decay", r->options->weight_decay)};
    weft_value next = weft_rule_node(r, "adam", in, 6, attrs, 5);
    weft_graph_assign(r->graph, r->w, next);
    weft_graph_assign(r->graph, m, next + 1);
    weft_graph_assign(r->graph, v, next + 2);
}

static void adam_update(weft_rule *r)
{
    weft_rule_adam(r, false, r->options->beta1, r->options->beta2, r->options->epsilon);
}
static void adamw_update(weft_rule *r)
{
    weft_rule_adam(r, true, r->options->beta1, r->options->beta2, r->options->epsilon);
}

const weft_optimizer weft_optimizer_adam = {.name = "adam",
                                            .summary = "Adam; weight decay is an L2 term",
                                            .reads = "beta1,beta2,epsilon",
                                            .adaptive = true,
                                            .update = adam_update};
const weft_optimizer weft_optimizer_adamw = {.name = "adamw",
                                             .summary = "Adam with decoupled weight decay",
                                             .reads = "beta1,beta2,epsilon",
                                             .adaptive = true,
                                             .update = adamw_update};
