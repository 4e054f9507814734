/* Finds the nodes that read each value, and the nodes that might be fused with a node. */
#include "graph/graph.h"

weft_status weft_readers_find(const weft_graph *g, weft_readers *out)
{
    int *fill = NULL;
    *out = (weft_readers){0};
    weft_status status = WEFT_OK;
    WEFT_TRY_GOTO(WEFT_NEW(&out->first, g->value_count + 1), done);
    WEFT_TRY_GOTO(WEFT_NEW(&fill, g->value_count), done);
    /* A node that reads a value twice counts once: fill[v] is one more than the index of the last
     * node that was counted for v. */
    for (size_t n = 0; n < g->node_count; n++)
        for (int i = 0; i < g->nodes[n]->in_count; i++) {
            weft_value v = g->nodes[n]->in[i];
            out->first[v + 1] += fill[v] != (int)n + 1;
            fill[v] = (int)n + 1;
        }
    for (size_t v = 0; v < g->value_count; v++) {
        out->first[v + 1] += out->first[v];
        fill[v] = out->first[v];
    }
    WEFT_TRY_GOTO(WEFT_NEW(&out->node, out->first[g->value_count]), done);
    for (size_t n = 0; n < g->node_count; n++)
        for (int i = 0; i < g->nodes[n]->in_count; i++) {
            weft_value v = g->nodes[n]->in[i];
            if (fill[v] > out->first[v] && out->node[fill[v] - 1] == (int)n) continue;
            out->node[fill[v]++] = (int)n;
        }
done:
    free(fill);
    if (status != WEFT_OK) weft_readers_free(out);
    return status;
}

void weft_readers_free(weft_readers *r)
{
    free(r->first);
    free(r->node);
    *r = (weft_readers){0};
}

static void each_reader(const weft_readers *r, weft_value v, void (*each)(void *user, int node),
                        void *user)
{
    for (int i = r->first[v]; i < r->first[v + 1]; i++) each(user, r->node[i]);
}

void weft_readers_adjoining(const weft_graph *g, const weft_readers *r, const weft_node *node,
                            void (*each)(void *user, int node), void *user)
{
    for (int o = 0; o < node->out_count; o++) each_reader(r, node->out + o, each, user);
    for (int i = 0; i < node->in_count; i++) {
        const weft_value_info *info = &g->values[node->in[i]];
        if (info->kind == WEFT_VALUE_RESULT && info->type.shape.rank > 0)
            each_reader(r, node->in[i], each, user);
    }
}
