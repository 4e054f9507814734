/* Maps a graph to another one by a pass. */
#include "graph/map.h"

weft_status weft_graph_map_leaf(const weft_graph_mapper *m, weft_value v, const char *name,
                                const weft_shape *shape, weft_value *out)
{
    const weft_value_info *info = &m->from->values[v];
    *out = weft_graph_leaf(m->to, info->kind, name, info->type.dtype, shape, info->init);
    WEFT_TRY(weft_graph_status(m->to));
    weft_value_info *made = &m->to->values[*out];
    made->domain = info->domain;
    made->role = info->role;
    made->want_gradient = info->want_gradient;
    return WEFT_OK;
}

weft_status weft_graph_map_attrs(const weft_node *node, weft_node *part)
{
    enum { MORE = 4 }; /* that passes add */
    *part = *node;
    part->attrs = NULL;
    part->attr_capacity = 0;
    WEFT_TRY(WEFT_NEW(&part->attrs, node->attr_count + MORE));
    part->attr_capacity = (size_t)node->attr_count + MORE;
    for (int i = 0; i < node->attr_count; i++) part->attrs[i] = node->attrs[i];
    return WEFT_OK;
}

weft_status weft_graph_map_node(const weft_graph_mapper *m, const weft_node *node,
                                const weft_value *in, const weft_attr *attrs, int attr_count,
                                weft_phase phase, weft_value *first)
{
    weft_graph_set_phase(m->to, phase);
    *first =
        weft_graph_node(m->to, node->op->name, node->name, in, node->in_count, attrs, attr_count);
    WEFT_TRY(weft_graph_status(m->to));
    m->to->nodes[m->to->values[*first].node]->recomputed = node->recomputed;
    return WEFT_OK;
}

weft_status weft_graph_map_copy(weft_graph_mapper *m, int n, weft_value *out)
{
    const weft_node *node = m->from->nodes[n];
    weft_value *in, first = WEFT_NO_VALUE;
    WEFT_TRY(WEFT_NEW(&in, node->in_count));
    for (int i = 0; i < node->in_count; i++) in[i] = m->value[node->in[i]];
    weft_status status =
        weft_graph_map_node(m, node, in, node->attrs, node->attr_count, node->phase, &first);
    for (int o = 0; o < node->out_count && status == WEFT_OK; o++) out[o] = first + o;
    free(in);
    return status;
}

static weft_status map_leaf(weft_graph_mapper *m, const weft_graph_pass *pass, weft_value v)
{
    const weft_value_info *info = &m->from->values[v];
    if (pass->leaf) return pass->leaf(m, v, &m->value[v]);
    return weft_graph_map_leaf(m, v, info->name, &info->type.shape, &m->value[v]);
}

/* New nodes have the phase of the original, and what stands for its origin as theirs. */
static weft_status map_node(weft_graph_mapper *m, const weft_graph_pass *pass, int n)
{
    const weft_node *node = m->from->nodes[n];
    size_t before = m->to->node_count;
    m->to->origin = node->origin < 0 ? -1 : m->node[node->origin];
    weft_graph_set_phase(m->to, node->phase);
    weft_value *out = &m->value[node->out];
    WEFT_TRY(pass->node ? pass->node(m, n, out) : weft_graph_map_copy(m, n, out));
    m->to->origin = -1;
    WEFT_TRY(weft_graph_status(m->to));
    if (m->to->node_count > before && m->node[n] < 0) m->node[n] = (int)m->to->node_count - 1;
    return WEFT_OK;
}

static weft_value stands_for(const weft_graph_mapper *m, weft_value v)
{
    return v == WEFT_NO_VALUE ? WEFT_NO_VALUE : m->value[v];
}

/* Links the values of the new graph as the originals are linked. */
static void link_value(const weft_graph_mapper *m, weft_value v)
{
    const weft_value_info *info = &m->from->values[v];
    bool other = m->next && m->next[v] != WEFT_NO_VALUE;
    weft_value made = m->value[v], assigned = other ? m->next[v] : stands_for(m, info->assigned),
               exported = stands_for(m, info->exported);
    if (made == WEFT_NO_VALUE) return;
    if (info->kind != WEFT_VALUE_RESULT) m->to->values[made].role_of = stands_for(m, info->role_of);
    m->to->values[made].gradient = stands_for(m, info->gradient);
    m->to->values[made].gradient_of = stands_for(m, info->gradient_of);
    if (assigned != WEFT_NO_VALUE) weft_graph_assign(m->to, made, assigned);
    if (exported != WEFT_NO_VALUE) weft_graph_export_gradient(m->to, made, exported);
}

/* Marks the values that the wanted ones need, and all parameters and statistics, which files of
 * weights contain. */
static void mark_needed(const weft_graph *g, const weft_value *wanted, int count, bool *needed)
{
    for (size_t v = 0; v < g->value_count; v++)
        needed[v] = count < 0 || g->values[v].role == WEFT_ROLE_PARAMETER ||
                    g->values[v].role == WEFT_ROLE_STATISTIC;
    for (int i = 0; i < count; i++) needed[wanted[i]] = true;
    for (size_t n = g->node_count; n-- > 0;) {
        const weft_node *node = g->nodes[n];
        bool any = false;
        for (int o = 0; o < node->out_count; o++) any = any || needed[node->out + o];
        for (int i = 0; i < node->in_count && any; i++) needed[node->in[i]] = true;
    }
}

static weft_status map_all(weft_graph_mapper *m, const weft_graph_pass *pass, const bool *needed)
{
    const weft_graph *g = m->from;
    for (size_t v = 0; v < g->value_count; v++) m->value[v] = WEFT_NO_VALUE;
    m->to->differentiated = g->differentiated;
    m->to->mixed = g->mixed;
    m->to->bf16_weights = g->bf16_weights;
    m->to->wide_weights = g->wide_weights;
    m->to->seed = g->seed;
    if (pass->begin) WEFT_TRY(pass->begin(m));
    for (size_t v = 0; v < g->value_count; v++)
        if (g->values[v].kind != WEFT_VALUE_RESULT && needed[v])
            WEFT_TRY(map_leaf(m, pass, (weft_value)v));
    for (size_t n = 0; n < g->node_count; n++) {
        bool any = false;
        m->node[n] = -1;
        for (int o = 0; o < g->nodes[n]->out_count; o++) any = any || needed[g->nodes[n]->out + o];
        if (any) WEFT_TRY(map_node(m, pass, (int)n));
    }
    if (pass->link) return pass->link(m);
    for (size_t v = 0; v < g->value_count; v++) link_value(m, (weft_value)v);
    m->to->step = stands_for(m, g->step);
    m->to->micro = stands_for(m, g->micro);
    m->to->part_norm = stands_for(m, g->part_norm);
    m->to->whole_norm = stands_for(m, g->whole_norm);
    m->to->rate = stands_for(m, g->rate);
    return weft_graph_status(m->to);
}

weft_status weft_graph_map(const weft_graph *graph, const weft_graph_pass *pass, void *user,
                           const weft_value *wanted, int count, weft_graph **out, weft_value *map)
{
    weft_graph_mapper m = {.from = graph, .value = map, .user = user};
    bool *needed = NULL;
    WEFT_TRY(weft_graph_status(graph));
    weft_status status = weft_graph_create(graph->context, graph->real, &m.to);
    if (status == WEFT_OK) status = WEFT_NEW(&needed, graph->value_count);
    if (status == WEFT_OK) status = WEFT_NEW(&m.node, graph->node_count);
    if (status == WEFT_OK) {
        mark_needed(graph, wanted, count, needed);
        status = map_all(&m, pass, needed);
    }
    free(needed);
    free(m.node);
    if (status == WEFT_OK)
        *out = m.to;
    else
        weft_graph_destroy(&m.to);
    return status;
}
