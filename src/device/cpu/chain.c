/* Which neighbours a primitive can take in: bias, activation and residual addition behind it, or
 * the bias gradient beside it. */
#include "device/cpu/cpu.h"

bool cpu_single(const weft_group *group)
{
    return group->count == 1;
}

static dnnl_alg_kind_t activation_of(const weft_node *node)
{
    static const struct {
        const char *op;
        dnnl_alg_kind_t alg;
    } known[] = {
        {"relu", dnnl_eltwise_relu},
        {"gelu", dnnl_eltwise_gelu_erf},
        {"sigmoid", dnnl_eltwise_logistic},
        {"tanh", dnnl_eltwise_tanh},
    };
    for (size_t i = 0; i < WEFT_COUNT(known); i++)
        if (strcmp(known[i].op, node->op->name) == 0) return known[i].alg;
    return dnnl_alg_kind_undef;
}

/* Takes one link whose input is `tail`; the order of the links is that of the primitive: bias,
 * addition, activation. */
static bool take_link(const weft_group *group, const weft_node *node, weft_value tail,
                      cpu_chain *chain)
{
    bool activated = chain->activation != dnnl_alg_kind_undef;
    bool added = chain->addend != WEFT_NO_VALUE;
    if (activated) return false;
    if (strcmp(node->op->name, "bias") == 0) {
        if (node->in[0] != tail || chain->bias != WEFT_NO_VALUE || added) return false;
        const weft_shape *s = &weft_in(group->graph, node, 0)->shape;
        int wanted = s->rank == 4 ? 1 : s->rank - 1;
        if (weft_node_int(node, "axis", 0, 1) != wanted) return false;
        chain->bias = node->in[1];
        return true;
    }
    if (strcmp(node->op->name, "add") == 0) {
        if (added || (node->in[0] == tail) == (node->in[1] == tail)) return false;
        chain->addend = node->in[node->in[0] == tail];
        return true;
    }
    chain->activation = node->in[0] == tail ? activation_of(node) : dnnl_alg_kind_undef;
    return chain->activation != dnnl_alg_kind_undef;
}

bool cpu_chain_of(const weft_group *group, cpu_chain *out)
{
    cpu_chain chain = {WEFT_NO_VALUE, WEFT_NO_VALUE, dnnl_alg_kind_undef};
    weft_value tail = group->node[0]->out;
    for (int i = 1; i < group->count; i++) {
        if (!take_link(group, group->node[i], tail, &chain)) return false;
        tail = group->node[i]->out;
    }
    /* The addend lies as the result does, so it cannot be another operand too. */
    const weft_node *main_node = group->node[0];
    if (chain.addend != WEFT_NO_VALUE &&
        (chain.addend == main_node->in[0] || chain.addend == main_node->in[1] ||
         chain.addend == chain.bias))
        return false;
    *out = chain;
    return group->out_count == 1 && group->out[0] == tail;
}

bool cpu_with_bias_sum(const weft_group *group, int dy, int channel)
{
    if (group->count != 2 || group->out_count != 2) return false;
    const weft_node *sum = group->node[1];
    const weft_attr *axes = weft_node_attr(sum, "axes");
    if (strcmp(sum->op->name, "reduce_sum") != 0 || sum->in[0] != group->node[0]->in[dy] ||
        weft_node_int(sum, "keep", 0, 0))
        return false;
    int rank = weft_in(group->graph, sum, 0)->shape.rank;
    bool over_channel = false;
    for (int i = 0; i < axes->count; i++) over_channel = over_channel || axes->ints[i] == channel;
    return !over_channel && axes->count == rank - 1;
}
