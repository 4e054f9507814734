/* Makes clones of nodes with bf16 values. */
#include "device/widen.h"

#include "base/target_clones.h"

enum { ALIGNED = 64 };

size_t weft_widen_bytes(const weft_shape *shape)
{
    size_t bytes = (size_t)weft_shape_elements(shape) * sizeof(float);
    return (bytes + ALIGNED - 1) / ALIGNED * ALIGNED;
}

weft_widen_way weft_widen_operand(const weft_group *group, int k)
{
    if (weft_value_type(group->graph, group->in[k])->dtype == WEFT_BF16) return WEFT_WIDEN_FROM;
    for (int n = 0; n < group->count; n++)
        for (int i = 0; i < group->node[n]->in_count; i++)
            if (group->node[n]->in[i] == group->in[k] &&
                weft_node_rounds(group->graph, group->node[n], i))
                return WEFT_WIDEN_ROUND;
    return WEFT_WIDEN_NOT;
}

static bool is_narrow(const weft_graph *g, const weft_node *node)
{
    bool any = false;
    for (int i = 0; i < node->in_count; i++) any = any || weft_in(g, node, i)->dtype == WEFT_BF16;
    for (int o = 0; o < node->out_count; o++) any = any || weft_out(g, node, o)->dtype == WEFT_BF16;
    return any;
}

bool weft_widen_needs(const weft_group *group)
{
    bool any = false;
    for (int n = 0; n < group->count; n++) {
        if (!weft_operator_computes(group->node[n]->op)) return false;
        any = any || is_narrow(group->graph, group->node[n]);
    }
    return any;
}

/* The values of the clone that stand for those of the group: its operands, and the outputs of the
 * nodes that were added. */
typedef struct pairing {
    weft_value from[2 * WEFT_GROUP_VALUES + WEFT_GROUP_NODES * WEFT_MAX_OUTPUTS];
    weft_value to[2 * WEFT_GROUP_VALUES + WEFT_GROUP_NODES * WEFT_MAX_OUTPUTS];
    int count;
} pairing;

static void pair(pairing *p, weft_value from, weft_value to)
{
    p->from[p->count] = from;
    p->to[p->count++] = to;
}

static weft_value find(const pairing *p, weft_value from)
{
    for (int i = 0; i < p->count; i++)
        if (p->from[i] == from) return p->to[i];
    return WEFT_NO_VALUE;
}

static void add_leaves(const weft_group *group, weft_graph *clone, pairing *p)
{
    for (int k = 0; k < group->in_count; k++) {
        const weft_type *type = weft_value_type(group->graph, group->in[k]);
        weft_dtype dtype = type->dtype == WEFT_BF16 ? WEFT_F32 : type->dtype;
        char *name = weft_graph_format(clone, "%d", k);
        pair(p, group->in[k],
             weft_graph_leaf(clone, WEFT_VALUE_INPUT, name, dtype, &type->shape, (weft_init){0}));
        free(name);
    }
}

static weft_status add_node(const weft_node *node, weft_graph *clone, pairing *p)
{
    weft_value *in;
    WEFT_TRY(WEFT_NEW(&in, node->in_count));
    for (int i = 0; i < node->in_count; i++) in[i] = find(p, node->in[i]);
    weft_value first = weft_graph_node(clone, node->op->name, node->name, in, node->in_count,
                                       node->attrs, node->attr_count);
    free(in);
    for (int o = 0; o < node->out_count; o++) pair(p, node->out + o, first + o);
    return weft_graph_status(clone);
}

/* Adds the nodes in the order of their graph; *clone lists them in that of the group. */
static weft_status add_nodes(const weft_group *group, weft_graph *graph, pairing *p,
                             weft_group *clone)
{
    bool done[WEFT_GROUP_NODES] = {false};
    for (int n = 0; n < group->count; n++) {
        int next = -1;
        for (int i = 0; i < group->count; i++)
            if (!done[i] && (next < 0 || group->node[i]->out < group->node[next]->out)) next = i;
        done[next] = true;
        WEFT_TRY(add_node(group->node[next], graph, p));
        clone->node[next] = graph->nodes[graph->node_count - 1];
    }
    return WEFT_OK;
}

weft_status weft_widen_make(const weft_group *group, weft_group *clone)
{
    weft_graph *graph;
    pairing *p = NULL;
    WEFT_TRY(weft_graph_create(group->graph->context, WEFT_F32, &graph));
    *clone = (weft_group){.graph = graph,
                          .count = group->count,
                          .in_count = group->in_count,
                          .out_count = group->out_count};
    weft_status status = WEFT_NEW(&p, 1);
    if (status == WEFT_OK) {
        add_leaves(group, graph, p);
        status = add_nodes(group, graph, p, clone);
    }
    for (int k = 0; k < group->in_count && status == WEFT_OK; k++)
        clone->in[k] = find(p, group->in[k]);
    for (int k = 0; k < group->out_count && status == WEFT_OK; k++)
        clone->out[k] = find(p, group->out[k]);
    free(p);
    if (status == WEFT_OK && weft_widen_needs(clone)) /* a constant with an attribute of bf16 */
        status = weft_node_fail(group->node[0], "has no form in f32");
    if (status != WEFT_OK) weft_widen_free(clone);
    return status;
}

void weft_widen_free(weft_group *clone)
{
    weft_graph *graph = (weft_graph *)(uintptr_t)clone->graph;
    weft_graph_destroy(&graph);
    clone->graph = NULL;
}

static WEFT_CLONES void widen_from_clones(const uint16_t *narrow, float *wide, int64_t count)
{
    for (int64_t i = 0; i < count; i++) wide[i] = weft_wide_of(narrow[i]);
}

void weft_widen_from(const uint16_t *narrow, float *wide, int64_t count)
{
    widen_from_clones(narrow, wide, count);
}

static WEFT_CLONES void widen_to_clones(const float *wide, uint16_t *narrow, int64_t count)
{
    for (int64_t i = 0; i < count; i++) narrow[i] = weft_narrow_of(wide[i]);
}

void weft_widen_to(const float *wide, uint16_t *narrow, int64_t count)
{
    widen_to_clones(wide, narrow, count);
}

static WEFT_CLONES void widen_round_clones(const float *from, float *to, int64_t count)
{
    for (int64_t i = 0; i < count; i++) to[i] = weft_wide_of(weft_narrow_of(from[i]));
}

void weft_widen_round(const float *from, float *to, int64_t count)
{
    widen_round_clones(from, to, count);
}
