/* Finds which inputs of a model have lengths: those that lead to a layer that reads another input
 * as the number of positions that count. */
#include "models/models.h"

typedef struct search {
    const weft_graph *graph;
    const weft_model_values *values;
    weft_input *input;
    int inputs;
    bool *seen; /* [nodes] */
} search;

/* The index of the data's input that is fed to a value; -1: none. */
static int input_of(const search *s, weft_value v)
{
    for (int i = 0; i < s->values->count; i++) {
        const weft_port *p = &s->values->ports[i];
        if (p->role != WEFT_PORT_FEATURES || p->value != v) continue;
        for (int k = 0; k < s->inputs; k++)
            if (strcmp(s->input[k].name, p->name) == 0 || s->inputs == 1) return k;
    }
    return -1;
}

/* Marks all inputs of real numbers that lead to a value and have as many positions. */
static void mark(search *s, weft_value v, int64_t positions, int lengths)
{
    int k = input_of(s, v), node = s->graph->values[v].node;
    if (k >= 0 && s->input[k].values == 0 && s->input[k].shape.rank > 0 &&
        s->input[k].shape.dim[0] == positions)
        s->input[k].lengths = lengths + 1;
    if (node < 0 || s->seen[node]) return;
    s->seen[node] = true;
    const weft_node *n = s->graph->nodes[node];
    for (int i = 0; i < n->in_count; i++) mark(s, n->in[i], positions, lengths);
}

/* Marks what leads to the sequences of a node that reads lengths. */
static void mark_node(search *s, const weft_node *n)
{
    const weft_shape *x = &weft_in(s->graph, n, 0)->shape;
    for (int i = 1; i < n->in_count && x->rank > 2; i++) {
        int k = input_of(s, n->in[i]);
        if (k < 0 || s->input[k].values == 0 || s->input[k].shape.rank > 0) continue;
        memset(s->seen, 0, (size_t)s->graph->node_count * sizeof(*s->seen));
        mark(s, n->in[0], x->dim[1], k);
    }
}

weft_status weft_model_find_lengths(weft_context *context, const weft_model_options *options,
                                    const weft_bytes *text, weft_input *input, int inputs)
{
    weft_graph *graph = NULL;
    weft_model_values values;
    weft_model_options o = *options;
    search s = {.values = &values, .input = input, .inputs = inputs};
    o.training = false;
    WEFT_TRY(weft_graph_create(context, WEFT_F32, &graph));
    weft_status status = weft_build_model(graph, &o, text, &values);
    s.graph = graph;
    if (status == WEFT_OK) status = WEFT_NEW(&s.seen, graph->node_count);
    for (size_t n = 0; status == WEFT_OK && n < graph->node_count; n++)
        mark_node(&s, graph->nodes[n]);
    free(s.seen);
    weft_graph_destroy(&graph);
    return status;
}
