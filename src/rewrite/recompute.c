/* The pass of recomputation (gradient checkpointing, Chen et al. 2016). The forward nodes are cut
 * into about sqrt(layers) segments, and only the values that cross their boundaries are kept.
 * Backward recomputes the other values when it first needs them. The result is an ordinary graph.
 */
#include <math.h>

#include "graph/map.h"
#include "rewrite/rewrite.h"

typedef struct recomputation {
    const weft_graph *from;
    weft_value *again; /* of each forward value: its recomputed value, or WEFT_NO_VALUE */
    int *segment;      /* of each node */
    bool *kept;        /* of each value: kept from forward to backward */
} recomputation;

static bool is_forward(const recomputation *c, weft_value v)
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
static void cut_segments(recomputation *c)
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

/* The value that backward reads instead of forward value v. */
static weft_status second(weft_graph_mapper *m, weft_value v, weft_value *out)
{
    recomputation *c = m->user;
    const weft_graph *g = m->from;
    *out = m->value[v];
    if (!is_forward(c, v) || c->kept[v]) return WEFT_OK;
    if (c->again[v] == WEFT_NO_VALUE) {
        int n = g->values[v].node, origin = m->to->origin;
        const weft_node *node = g->nodes[n];
        weft_value in[WEFT_MAX_LABELS], first;
        if (node->in_count > WEFT_MAX_LABELS)
            return weft_node_fail(node, "has more than %d inputs", WEFT_MAX_LABELS);
        for (int i = 0; i < node->in_count; i++) WEFT_TRY(second(m, node->in[i], &in[i]));
        m->to->origin = m->node[n];
        WEFT_TRY(weft_graph_map_node(m, node, in, node->attrs, node->attr_count,
                                     WEFT_PHASE_BACKWARD, &first));
        m->to->origin = origin;
        m->to->nodes[m->to->values[first].node]->recomputed = true;
        for (int o = 0; o < node->out_count; o++) c->again[node->out + o] = first + o;
    }
    *out = c->again[v];
    return WEFT_OK;
}

static weft_status map_node(weft_graph_mapper *m, int n, weft_value *out)
{
    const weft_node *node = m->from->nodes[n];
    weft_value in[WEFT_MAX_LABELS], first;
    if (node->in_count > WEFT_MAX_LABELS)
        return weft_node_fail(node, "has more than %d inputs", WEFT_MAX_LABELS);
    for (int i = 0; i < node->in_count; i++) {
        in[i] = m->value[node->in[i]];
        if (node->phase == WEFT_PHASE_BACKWARD) WEFT_TRY(second(m, node->in[i], &in[i]));
    }
    WEFT_TRY(weft_graph_map_node(m, node, in, node->attrs, node->attr_count, node->phase, &first));
    for (int o = 0; o < node->out_count; o++) out[o] = first + o;
    return WEFT_OK;
}

static weft_status prepare(recomputation *c)
{
    WEFT_TRY(WEFT_NEW(&c->again, c->from->value_count));
    WEFT_TRY(WEFT_NEW(&c->segment, c->from->node_count));
    WEFT_TRY(WEFT_NEW(&c->kept, c->from->value_count));
    for (size_t v = 0; v < c->from->value_count; v++) c->again[v] = WEFT_NO_VALUE;
    cut_segments(c);
    return WEFT_OK;
}

weft_status weft_graph_recompute(const weft_graph *graph, weft_graph **out, weft_value *map)
{
    static const weft_graph_pass pass = {.node = map_node};
    WEFT_NEED(graph, out, map);
    recomputation c = {.from = graph};
    weft_status status = prepare(&c);
    if (status == WEFT_OK) status = weft_graph_map(graph, &pass, &c, NULL, -1, out, map);
    free(c.again);
    free(c.segment);
    free(c.kept);
    return status;
}
