/* Decides which nodes can be fused into a primitive as its post-operations (bias, batch
 * normalization with given statistics, residual addition, activation), or beside it (bias
 * gradient). A relu is a pass after the primitive, since oneDNN's makes 0 of NaN, which would hide
 * that a run has failed. */
#include "device/cpu/cpu.h"

bool cpu_single_of_any(const weft_group *group)
{
    return group->count == 1;
}

bool cpu_one_type(const weft_group *group)
{
    const weft_graph *g = group->graph;
    const weft_node *node = group->node[0];
    weft_dtype dtype = weft_out(g, node, 0)->dtype;
    bool same = cpu_single_of_any(group);
    for (int i = 0; i < node->in_count; i++)
        same = same && (weft_in(g, node, i)->dtype == dtype ||
                        !weft_dtype_is_float(weft_in(g, node, i)->dtype));
    return same;
}

/* Whether a value is of the type that it has where those with a bit of `may` are bf16. */
static bool fits(const weft_type *t, bool narrow, unsigned may, int i)
{
    bool is = narrow && may >> i & 1 && t->shape.rank > 0;
    return !weft_dtype_is_float(t->dtype) || t->dtype == (is ? WEFT_BF16 : WEFT_F32);
}

bool cpu_one_precision(const weft_group *group)
{
    const weft_graph *g = group->graph;
    const weft_node *node = group->node[0];
    bool narrow = false, fit = group->count == 1 && node->in_count < 32;
    for (int i = 0; i < node->in_count; i++)
        narrow = narrow || weft_in(g, node, i)->dtype == WEFT_BF16;
    for (int i = 0; i < node->in_count; i++)
        fit = fit && fits(weft_in(g, node, i), narrow, node->op->narrow, i);
    for (int o = 0; o < node->out_count; o++)
        fit = fit && fits(weft_out(g, node, o), narrow, node->op->narrow_out, o);
    return fit;
}

bool cpu_single(const weft_group *group)
{
    const weft_node *node = group->node[0];
    return group->count == 1 &&
           (!node->op->takes[0] || weft_out(group->graph, node, 0)->dtype == WEFT_F32);
}

/* Each function adds a node that reads `tail` to the chain; false if the primitive cannot run it at
 * this place of the order bias, normalisation, addition, activation. */

static bool take_bias(const weft_group *group, const weft_node *node, weft_value tail,
                      onednn_function function, cpu_chain *chain)
{
    (void)function;
    if (node->in[0] != tail || chain->bias != WEFT_NO_VALUE || chain->norm ||
        chain->addend != WEFT_NO_VALUE)
        return false;
    const weft_shape *s = &weft_in(group->graph, node, 0)->shape;
    const weft_type *bias = weft_in(group->graph, node, 1);
    if (bias->shape.rank != 1 || bias->dtype != WEFT_F32) return false;
    int wanted = chain->rank > 2 ? 1 : s->rank - 1;
    if (weft_node_int(node, "axis", 0, 1) != wanted) return false;
    chain->bias = node->in[1];
    return true;
}

static bool take_norm(const weft_group *group, const weft_node *node, weft_value tail,
                      onednn_function function, cpu_chain *chain)
{
    (void)function;
    if (node->in[0] != tail || chain->norm || chain->addend != WEFT_NO_VALUE) return false;
    if (weft_in(group->graph, node, 0)->shape.rank != chain->rank) return false;
    for (int i = 1; i < 5; i++)
        if (weft_in(group->graph, node, i)->dtype != WEFT_F32) return false;
    for (int i = 1; i < 5; i++) /* each vector must be a separate operand */
        for (int j = 0; j < i; j++)
            if (node->in[i] == node->in[j]) return false;
    chain->norm = node;
    return true;
}

static bool take_addend(const weft_group *group, const weft_node *node, weft_value tail,
                        onednn_function function, cpu_chain *chain)
{
    (void)function;
    if (chain->addend != WEFT_NO_VALUE || (node->in[0] == tail) == (node->in[1] == tail))
        return false;
    for (int i = 0; i < 2; i++) /* neither is repeated along a dimension */
        if (!weft_shape_equal(&weft_in(group->graph, node, i)->shape,
                              &weft_out(group->graph, node, 0)->shape))
            return false;
    chain->addend = node->in[node->in[0] == tail];
    return true;
}

static bool take_activation(const weft_group *group, const weft_node *node, weft_value tail,
                            onednn_function function, cpu_chain *chain)
{
    (void)group;
    if (node->in[0] != tail) return false;
    chain->relu = function == ONEDNN_NO_FUNCTION;
    chain->activation = function;
    return true;
}

/* Operators that may follow a primitive. A relu is no function of oneDNN. */
static const struct {
    const char *op;
    bool (*take)(const weft_group *group, const weft_node *node, weft_value tail,
                 onednn_function function, cpu_chain *chain);
    onednn_function function;
} links[] = {
    {"bias", take_bias, ONEDNN_NO_FUNCTION},
    {"batch_norm_infer", take_norm, ONEDNN_NO_FUNCTION},
    {"add", take_addend, ONEDNN_NO_FUNCTION},
    {"relu", take_activation, ONEDNN_NO_FUNCTION},
    {"gelu", take_activation, ONEDNN_GELU},
    {"silu", take_activation, ONEDNN_SILU},
    {"sigmoid", take_activation, ONEDNN_SIGMOID},
    {"tanh", take_activation, ONEDNN_TANH},
};

static bool take_link(const weft_group *group, const weft_node *node, weft_value tail,
                      cpu_chain *chain)
{
    if (chain->relu || chain->activation != ONEDNN_NO_FUNCTION) return false;
    for (size_t i = 0; i < WEFT_COUNT(links); i++)
        if (strcmp(links[i].op, node->op->name) == 0)
            return links[i].take(group, node, tail, links[i].function, chain);
    return false;
}

bool cpu_chain_of(const weft_group *group, cpu_chain *out)
{
    const weft_shape *result = &weft_out(group->graph, group->node[0], 0)->shape;
    bool image = group->node[0]->op->window != NULL;
    cpu_chain chain = {.bias = WEFT_NO_VALUE,
                       .addend = WEFT_NO_VALUE,
                       .activation = ONEDNN_NO_FUNCTION,
                       .channels = result->dim[image ? 1 : result->rank - 1],
                       .rank = image ? result->rank : 2};
    weft_value tail = group->node[0]->out;
    for (int i = 1; i < group->count; i++) {
        if (!take_link(group, group->node[i], tail, &chain)) return false;
        tail = group->node[i]->out;
    }
    /* The addend has the layout of the result, so the same value cannot be another operand. */
    const weft_node *main_node = group->node[0];
    if (chain.addend != WEFT_NO_VALUE &&
        (weft_value_type(group->graph, chain.addend)->dtype !=
             weft_value_type(group->graph, tail)->dtype ||
         chain.addend == main_node->in[0] || chain.addend == main_node->in[1] ||
         chain.addend == chain.bias))
        return false;
    *out = chain;
    return group->out_count == 1 && group->out[0] == tail;
}

bool cpu_chain_is_simple(const weft_group *group)
{
    cpu_chain chain;
    return cpu_chain_of(group, &chain) && !chain.norm && chain.addend == WEFT_NO_VALUE &&
           chain.activation == ONEDNN_NO_FUNCTION;
}

weft_status cpu_loop_take_bias(weft_device *device, const weft_group *group, cpu_loop *k,
                               bool *relu)
{
    cpu_chain chain;
    (void)cpu_chain_of(group, &chain);
    *relu = chain.relu;
    if (chain.bias == WEFT_NO_VALUE) return WEFT_OK;
    k->bias_at = weft_group_in(group, chain.bias) + 1;
    return weft_layout_plain(device, weft_value_type(group->graph, chain.bias),
                             &k->head.in[k->bias_at - 1]);
}

/* Operators that are computed beside a primitive: sums over all dimensions but the channel. */
static const char *const sums[] = {"reduce_sum"};

bool cpu_with_bias_sum(const weft_group *group, int dy, int channel)
{
    if (group->count != 2 || group->out_count != 2) return false;
    const weft_node *sum = group->node[1];
    const weft_attr *axes = weft_node_attr(sum, "axes");
    size_t known = 0;
    while (known < WEFT_COUNT(sums) && strcmp(sums[known], sum->op->name) != 0) known++;
    if (known == WEFT_COUNT(sums) || sum->in[0] != group->node[0]->in[dy] ||
        weft_node_int(sum, "keep", 0, 0))
        return false;
    int rank = weft_in(group->graph, sum, 0)->shape.rank;
    bool over_channel = false;
    for (int i = 0; i < axes->count; i++) over_channel = over_channel || axes->ints[i] == channel;
    return !over_channel && axes->count == rank - 1;
}

/* The descriptor of a vector with one number for each channel, with the rank of the result. */
static weft_status channel_vector(weft_device *device, const cpu_chain *chain, cpu_md *out)
{
    int64_t dim[WEFT_MAX_RANK] = {1, chain->channels, 1, 1, 1, 1};
    return cpu_md_plain(device, WEFT_F32, chain->rank, dim, out);
}

weft_status cpu_chain_tail(weft_device *device, const cpu_chain *chain, cpu_md addend,
                           onednn_tail *out)
{
    *out = (onednn_tail){.addend = addend, .function = chain->activation};
    return chain->norm ? channel_vector(device, chain, &out->vector) : WEFT_OK;
}

static void relu_after(const cpu_primitive *k, const void *x, void *y)
{
    (void)x;
    cpu_relu(k->device->threads, k->result, y, k->head.out[0]->bytes);
}

weft_status cpu_chain_finish(const weft_group *group, const cpu_chain *chain, weft_kernel *kernel)
{
    cpu_primitive *k = (cpu_primitive *)kernel;
    cpu_md vector;
    k->result = cpu_chain_type(group)->dtype;
    if (chain->relu) k->after = relu_after;
    if (!chain->norm) return WEFT_OK;
    WEFT_TRY(channel_vector(k->device, chain, &vector));
    k->fold.channels = chain->channels;
    k->fold.epsilon = weft_node_real(chain->norm, "epsilon", 1e-5);
    for (int i = 0; i < 4; i++) {
        int operand = weft_group_in(group, chain->norm->in[i + 1]);
        const weft_type *type = weft_value_type(group->graph, group->in[operand]);
        k->fold.operand[i] = operand;
        WEFT_TRY(weft_layout_plain(k->device, type, &kernel->in[operand]));
    }
    k->fold.offset = (kernel->scratch + 63) / 64 * 64;
    kernel->scratch = k->fold.offset + 2 * (size_t)chain->channels * sizeof(float);
    WEFT_TRY(cpu_primitive_add(k, ONEDNN_SCALE, vector, CPU_SCALE, 0));
    return cpu_primitive_add(k, ONEDNN_SHIFT, vector, CPU_SHIFT, 0);
}
