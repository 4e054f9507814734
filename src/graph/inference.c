/* The pass of inference. A model builds one graph, that of training; each operator that acts in
 * training alone says itself what stands for its nodes in prediction. A second map leaves out what
 * no longer has a reader. */
#include "graph/inference.h"

#include "graph/map.h"

static weft_status map_node(weft_graph_mapper *m, int n, weft_value *out)
{
    const weft_op *op = m->from->nodes[n]->op;
    return op->inference ? op->inference(m, n, out) : weft_graph_map_copy(m, n, out);
}

/* Maps a graph and the wanted values. */
static weft_status map_wanted(const weft_graph *graph, const weft_graph_pass *pass,
                              weft_value *wanted, int count, weft_graph **out)
{
    weft_value *map = NULL;
    WEFT_TRY(WEFT_NEW(&map, graph->value_count));
    weft_status status = weft_graph_map(graph, pass, NULL, wanted, count, out, map);
    for (int i = 0; i < count && status == WEFT_OK; i++) wanted[i] = map[wanted[i]];
    free(map);
    return status;
}

weft_status weft_graph_infer(weft_graph *graph, weft_value *const *wanted, int count)
{
    static const weft_graph_pass pass = {.node = map_node}, copy = {0};
    weft_graph *inferring = NULL, *needed = NULL;
    weft_value *values = NULL;
    WEFT_TRY(WEFT_NEW(&values, count));
    for (int i = 0; i < count; i++) values[i] = *wanted[i];
    weft_status status = map_wanted(graph, &pass, values, count, &inferring);
    if (status == WEFT_OK) status = map_wanted(inferring, &copy, values, count, &needed);
    for (int i = 0; i < count && status == WEFT_OK; i++) *wanted[i] = values[i];
    if (status == WEFT_OK) weft_graph_swap(graph, needed);
    weft_graph_destroy(&inferring);
    weft_graph_destroy(&needed);
    free(values);
    return status;
}
