/* The pass of states that carry over from batch to batch (truncated back-propagation through time):
 * a recurrence begins with what the last batch has left, of which row b was the part of a sequence
 * before that of row b. */
#include "graph/carry.h"

#include "graph/map.h"

/* Whether a recurrence begins with zeros: behind the operands that it needs there are at most
 * lengths. */
static bool begins_with_zeros(const weft_graph *g, const weft_node *node)
{
    int more = node->in_count - node->op->min_inputs;
    return more == 0 || (more == 1 && weft_in(g, node, node->in_count - 1)->dtype == WEFT_I32);
}

static weft_status carry(weft_graph_mapper *m, const weft_node *node, weft_value *out)
{
    static const char *const what[] = {"h", "c"};
    weft_value in[WEFT_MAX_LABELS], first;
    int count = 0, least = node->op->min_inputs, *recurrences = m->user;
    if (weft_node_int(node, "reverse", 0, 0) != 0)
        return weft_fail(WEFT_ERR_UNSUPPORTED,
                         "--carry-state: '%s' begins with the last position of a sample, which the "
                         "next sample does not continue; leave the option, or `bidirectional` of "
                         "the layer, out",
                         node->name);
    for (int i = 0; i < least; i++) in[count++] = m->value[node->in[i]];
    for (int i = 0; i < node->op->carried; i++) {
        char *name = weft_graph_format(m->to, "%s/%s", node->name, what[i]);
        in[count++] = weft_graph_own_leaf(m->to, m->from, name, weft_out(m->from, node, 1 + i),
                                          WEFT_ROLE_CARRIED, WEFT_NO_VALUE);
        free(name);
    }
    for (int i = least; i < node->in_count; i++) in[count++] = m->value[node->in[i]];
    weft_node as_carried = *node;
    as_carried.in_count = count;
    WEFT_TRY(weft_graph_map_node(m, &as_carried, in, node->attrs, node->attr_count, node->phase,
                                 &first));
    for (int o = 0; o < node->out_count; o++) out[o] = first + o;
    ++*recurrences;
    return weft_graph_status(m->to);
}

static weft_status map_node(weft_graph_mapper *m, int n, weft_value *out)
{
    const weft_node *node = m->from->nodes[n];
    return node->op->carried && begins_with_zeros(m->from, node) ? carry(m, node, out)
                                                                 : weft_graph_map_copy(m, n, out);
}

weft_status weft_graph_carry(weft_graph *graph, weft_value *const *values, int count)
{
    static const weft_graph_pass pass = {.node = map_node};
    weft_graph *carrying = NULL;
    weft_value *map;
    int recurrences = 0;
    WEFT_TRY(WEFT_NEW(&map, graph->value_count));
    weft_status status = weft_graph_map(graph, &pass, &recurrences, NULL, -1, &carrying, map);
    if (status == WEFT_OK && recurrences == 0)
        status = weft_fail(WEFT_ERR_UNSUPPORTED,
                           "--carry-state: the model has no recurrent layer whose state could "
                           "carry over from batch to batch; give a model with lstm or gru layers, "
                           "or leave it out");
    for (int i = 0; i < count && status == WEFT_OK; i++)
        if (*values[i] != WEFT_NO_VALUE) *values[i] = map[*values[i]];
    if (status == WEFT_OK) weft_graph_swap(graph, carrying);
    weft_graph_destroy(&carrying);
    free(map);
    return status;
}

weft_status weft_graph_carry_next(weft_graph *g)
{
    const weft_attr one = WEFT_ATTR_REAL("factor", 1);
    size_t nodes = g->node_count;
    weft_graph_set_phase(g, WEFT_PHASE_UPDATE);
    for (size_t n = 0; n < nodes; n++) {
        const weft_node *node = g->nodes[n];
        for (int i = 0; i < node->op->carried && node->in_count > node->op->min_inputs + i; i++) {
            weft_value leaf = node->in[node->op->min_inputs + i], last = node->out + 1 + i;
            if (g->values[leaf].role != WEFT_ROLE_CARRIED) continue;
            char *name = weft_graph_format(g, "%s/next", g->values[leaf].name);
            weft_graph_assign(g, leaf, weft_graph_node(g, "scale", name, &last, 1, &one, 1));
            free(name);
        }
    }
    weft_graph_set_phase(g, WEFT_PHASE_FORWARD);
    return weft_graph_status(g);
}
