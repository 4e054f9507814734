/* Answers questions about the values and nodes of a graph. */
#include "graph/graph.h"

int weft_graph_value_count(const weft_graph *g)
{
    WEFT_NEED_ELSE_AS(0, "graph", g);
    return (int)g->value_count;
}
int weft_graph_node_count(const weft_graph *g)
{
    WEFT_NEED_ELSE_AS(0, "graph", g);
    return (int)g->node_count;
}
const char *weft_graph_value_name(const weft_graph *g, weft_value v)
{
    WEFT_NEED_ELSE_AS(NULL, "graph", g);
    if (!weft_graph_has(g, v)) return NULL;
    return g->values[v].name;
}
weft_type weft_graph_value_type(const weft_graph *g, weft_value v)
{
    WEFT_NEED_ELSE_AS((weft_type){0}, "graph", g);
    if (!weft_graph_has(g, v)) return (weft_type){0};
    return g->values[v].type;
}
weft_value_kind weft_graph_value_kind(const weft_graph *g, weft_value v)
{
    WEFT_NEED_ELSE_AS(WEFT_VALUE_INPUT, "graph", g);
    if (!weft_graph_has(g, v)) return WEFT_VALUE_INPUT;
    return g->values[v].kind;
}
const char *weft_graph_node_op(const weft_graph *g, int node)
{
    WEFT_NEED_ELSE_AS(NULL, "graph", g);
    WEFT_CHECK_INDEX_ELSE(NULL, node, g->node_count);
    return g->nodes[node]->op->name;
}
const char *weft_graph_node_name(const weft_graph *g, int node)
{
    WEFT_NEED_ELSE_AS(NULL, "graph", g);
    WEFT_CHECK_INDEX_ELSE(NULL, node, g->node_count);
    return g->nodes[node]->name;
}

int weft_graph_node_inputs(const weft_graph *g, int node, const weft_value **inputs)
{
    WEFT_NEED_ELSE_AS(0, "graph, inputs", g, inputs);
    WEFT_CHECK_INDEX_ELSE(0, node, g->node_count);
    *inputs = g->nodes[node]->in;
    return g->nodes[node]->in_count;
}

int weft_graph_node_outputs(const weft_graph *g, int node, weft_value *first)
{
    WEFT_NEED_ELSE_AS(0, "graph, first", g, first);
    WEFT_CHECK_INDEX_ELSE(0, node, g->node_count);
    *first = g->nodes[node]->out;
    return g->nodes[node]->out_count;
}
