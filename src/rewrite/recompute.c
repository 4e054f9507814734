/* Rewrites a graph for recomputation of activations (gradient checkpointing, Chen et al. 2016). The
 * forward nodes are cut into about sqrt(layers) segments, and only the values that cross their
 * boundaries are kept. Backward recomputes the other values when it first needs them. The result is
 * an ordinary graph. */
#include <math.h>

#include "rewrite/rewrite.h"

typedef struct copier {
    const weft_graph *from;
    weft_graph *to;
    weft_value *map;        /* of each value: its forward value in the new graph */
    weft_value *recomputed; /* of each forward value: its recomputed value, or WEFT_NO_VALUE */
    int *segment;           /* of each node */
    int *node;              /* of each node: its index in the new graph */
    bool *kept;             /* of each value: kept from forward to backward */
} copier;

static bool is_forward(const copier *c, weft_value v)
{
    int n = c->from->values[v].node;
    return n >= 0 && c->from->nodes[n]->phase == WEFT_PHASE_FORWARD;
}

/* A layer begins with a node that reads a weight. */
static bool begins_layer(const weft_graph *g, const weft_node *node)
{
    for (int i = 0; i < node->in_count; i++)
        if (g->values[node->in[i]].kind == WEFT_VALUE_PARAM &&
            g->values[node->in[i]].type.shape.rank > 1)
            return true;
    return false;
}

static double layer_bytes(const weft_graph *g, const weft_node *node)
{
    return begins_layer(g, node) ? (double)weft_type_bytes(weft_out(g, node, 0)) : 0;
}

/* Cuts the forward nodes into segments of whole layers with about equal bytes, and finds the values
 * that are kept. */
static void cut_segments(copier *c)
{
    const weft_graph *g = c->from;
    double total = 0, sum = 0;
    int layers = 0, at = 0;
    for (size_t n = 0; n < g->node_count; n++) {
        if (g->nodes[n]->phase != WEFT_PHASE_FORWARD) continue;
        layers += begins_layer(g, g->nodes[n]);
        total += layer_bytes(g, g->nodes[n]);
    }
    int segments = (int)ceil(sqrt((double)layers));
    for (size_t n = 0; n < g->node_count; n++) {
        const weft_node *node = g->nodes[n];
        if (node->phase != WEFT_PHASE_FORWARD) continue;
        if (begins_layer(g, node) && sum >= total * (at + 1) / segments) at++;
        c->segment[n] = at;
        sum += layer_bytes(g, node);
    }
    for (size_t n = 0; n < g->node_count; n++) {
        const weft_node *node = g->nodes[n];
        for (int i = 0; i < node->in_count && node->phase == WEFT_PHASE_FORWARD; i++)
            if (is_forward(c, node->in[i]) &&
                c->segment[g->values[node->in[i]].node] != c->segment[n])
                c->kept[node->in[i]] = true;
    }
    /* All values of the last segment are kept, since backward needs them first. */
    for (size_t v = 0; v < g->value_count; v++)
        if (is_forward(c, (weft_value)v) && c->segment[g->values[v].node] == at) c->kept[v] = true;
}

static weft_status add(copier *c, const weft_node *node, const weft_value *in, weft_phase phase,
                       int origin, weft_value *first)
{
    weft_graph_set_phase(c->to, phase);
    c->to->origin = origin;
    *first = weft_graph_node(c->to, node->op->name, node->name, in, node->in_count, node->attrs,
                             node->attr_count);
    c->to->origin = -1;
    return weft_graph_status(c->to);
}

/* The value that backward reads instead of forward value v. */
static weft_status second(copier *c, weft_value v, weft_value *out)
{
    const weft_graph *g = c->from;
    if (!is_forward(c, v) || c->kept[v]) {
        *out = c->map[v];
        return WEFT_OK;
    }
    if (c->recomputed[v] == WEFT_NO_VALUE) {
        const weft_node *node = g->nodes[g->values[v].node];
        weft_value in[WEFT_MAX_LABELS], first;
        if (node->in_count > WEFT_MAX_LABELS)
            return weft_node_fail(node, "has more than %d inputs", WEFT_MAX_LABELS);
        for (int i = 0; i < node->in_count; i++) WEFT_TRY(second(c, node->in[i], &in[i]));
        WEFT_TRY(add(c, node, in, WEFT_PHASE_BACKWARD, c->node[g->values[v].node], &first));
        c->to->nodes[c->to->values[first].node]->recomputed = true;
        for (int o = 0; o < node->out_count; o++) c->recomputed[node->out + o] = first + o;
    }
    *out = c->recomputed[v];
    return WEFT_OK;
}

static weft_status copy_node(copier *c, size_t n)
{
    const weft_node *node = c->from->nodes[n];
    weft_value in[WEFT_MAX_LABELS], first;
    if (node->in_count > WEFT_MAX_LABELS)
        return weft_node_fail(node, "has more than %d inputs", WEFT_MAX_LABELS);
    for (int i = 0; i < node->in_count; i++) {
        in[i] = c->map[node->in[i]];
        if (node->phase == WEFT_PHASE_BACKWARD) WEFT_TRY(second(c, node->in[i], &in[i]));
    }
    int origin = node->origin >= 0 ? c->node[node->origin] : -1;
    WEFT_TRY(add(c, node, in, node->phase, origin, &first));
    c->node[n] = (int)c->to->node_count - 1;
    for (int o = 0; o < node->out_count; o++) c->map[node->out + o] = first + o;
    return WEFT_OK;
}

static weft_status copy_leaves(copier *c)
{
    const weft_graph *g = c->from;
    for (size_t v = 0; v < g->value_count; v++) {
        const weft_value_info *info = &g->values[v];
        if (info->kind == WEFT_VALUE_RESULT) continue;
        c->map[v] = weft_graph_leaf(c->to, info->kind, info->name, info->type.dtype,
                                    &info->type.shape, info->init);
    }
    for (size_t v = 0; v < g->value_count; v++) {
        const weft_value_info *info = &g->values[v];
        weft_value of = info->role_of == WEFT_NO_VALUE ? WEFT_NO_VALUE : c->map[info->role_of];
        if (info->kind == WEFT_VALUE_STATE) weft_graph_set_role(c->to, c->map[v], info->role, of);
        if (info->kind == WEFT_VALUE_INPUT) weft_graph_set_domain(c->to, c->map[v], info->domain);
    }
    c->to->step = g->step == WEFT_NO_VALUE ? WEFT_NO_VALUE : c->map[g->step];
    c->to->micro = g->micro == WEFT_NO_VALUE ? WEFT_NO_VALUE : c->map[g->micro];
    return weft_graph_status(c->to);
}

static void copy_links(copier *c)
{
    const weft_graph *g = c->from;
    for (size_t v = 0; v < g->value_count; v++) {
        const weft_value_info *info = &g->values[v];
        weft_value_info *made = &c->to->values[c->map[v]];
        if (info->gradient != WEFT_NO_VALUE) made->gradient = c->map[info->gradient];
        if (info->gradient_of != WEFT_NO_VALUE) made->gradient_of = c->map[info->gradient_of];
        if (info->assigned != WEFT_NO_VALUE)
            weft_graph_assign(c->to, c->map[v], c->map[info->assigned]);
        if (info->exported != WEFT_NO_VALUE)
            weft_graph_export_gradient(c->to, c->map[v], c->map[info->exported]);
    }
}

static weft_status copy_all(copier *c)
{
    const weft_graph *g = c->from;
    WEFT_TRY(WEFT_NEW(&c->recomputed, g->value_count));
    WEFT_TRY(WEFT_NEW(&c->segment, g->node_count));
    WEFT_TRY(WEFT_NEW(&c->node, g->node_count));
    WEFT_TRY(WEFT_NEW(&c->kept, g->value_count));
    for (size_t v = 0; v < g->value_count; v++) c->recomputed[v] = WEFT_NO_VALUE;
    cut_segments(c);
    WEFT_TRY(copy_leaves(c));
    for (size_t n = 0; n < g->node_count; n++) WEFT_TRY(copy_node(c, n));
    copy_links(c);
    return weft_graph_status(c->to);
}

weft_status weft_graph_recompute(const weft_graph *graph, weft_graph **out, weft_value *map)
{
    WEFT_NEED(graph, out, map);
    copier c = {.from = graph, .map = map};
    WEFT_TRY(weft_graph_status(graph));
    WEFT_TRY(weft_graph_create(graph->context, graph->real, &c.to));
    c.to->differentiated = graph->differentiated;
    weft_status status = copy_all(&c);
    free(c.recomputed);
    free(c.segment);
    free(c.node);
    free(c.kept);
    if (status != WEFT_OK) {
        weft_graph_destroy(&c.to);
        return status;
    }
    *out = c.to;
    return WEFT_OK;
}
