/* Reverse-mode differentiation: walks the nodes backwards, lets each operator add nodes for the
 * gradients of its inputs, and sums contributions to the same value. */
#include <stdio.h>

#include "graph/graph.h"

typedef struct autodiff {
    weft_graph *graph;
    weft_value *dy; /* [values] gradient of each value of the forward graph */
    bool *active;   /* the value depends on a leaf that needs a gradient */
    size_t values, nodes;
} autodiff;

static bool is_real(const weft_graph *g, weft_value v)
{
    return weft_dtype_is_float(g->values[v].type.dtype);
}

static void mark_active(autodiff *a)
{
    const weft_graph *g = a->graph;
    for (size_t v = 0; v < a->values; v++)
        a->active[v] = is_real(g, (weft_value)v) &&
                       (g->values[v].kind == WEFT_VALUE_PARAM || g->values[v].want_gradient);
    for (size_t n = 0; n < a->nodes; n++) {
        const weft_node *node = g->nodes[n];
        bool any = false;
        for (int i = 0; i < node->in_count; i++) any = any || a->active[node->in[i]];
        for (int i = 0; i < node->out_count; i++)
            a->active[node->out + i] = any && is_real(g, node->out + i);
    }
}

/* A gradient has the type of its value. */
static weft_value same_type(autodiff *a, weft_value value, weft_value gradient)
{
    weft_graph *g = a->graph;
    weft_dtype dtype = g->values[value].type.dtype;
    if (g->values[gradient].type.dtype == dtype) return gradient;
    weft_attr attr = WEFT_ATTR_INT("dtype", dtype);
    char *name = weft_graph_format(g, "%s/grad", g->values[value].name);
    weft_value cast = weft_graph_node(g, "cast", name, &gradient, 1, &attr, 1);
    free(name);
    return cast;
}

static void contribute(autodiff *a, weft_value value, weft_value gradient)
{
    if (gradient == WEFT_NO_VALUE) return;
    gradient = same_type(a, value, gradient);
    weft_value *sum = &a->dy[value];
    if (*sum == WEFT_NO_VALUE) {
        *sum = gradient;
        return;
    }
    char *name = weft_graph_format(a->graph, "%s/grad_sum", a->graph->values[value].name);
    *sum = weft_graph_node(a->graph, "add", name, (weft_value[]){*sum, gradient}, 2, NULL, 0);
    free(name);
}

static weft_status visit(autodiff *a, const weft_node *node)
{
    weft_graph *g = a->graph;
    bool reached = false;
    weft_value dy[WEFT_MAX_OUTPUTS];
    for (int i = 0; i < node->out_count; i++) {
        dy[i] = a->dy[node->out + i];
        reached = reached || (dy[i] != WEFT_NO_VALUE && a->active[node->out + i]);
    }
    if (!reached) return WEFT_OK;
    if (!node->op->gradient)
        return weft_fail(WEFT_ERR_UNSUPPORTED, "node '%s': operator %s has no gradient", node->name,
                         node->op->name);
    weft_value *dx;
    bool *want;
    WEFT_TRY(WEFT_NEW(&dx, node->in_count));
    weft_status status = WEFT_NEW(&want, node->in_count);
    if (status != WEFT_OK) {
        free(dx);
        return status;
    }
    for (int i = 0; i < node->in_count; i++) {
        dx[i] = WEFT_NO_VALUE;
        want[i] = a->active[node->in[i]];
    }
    g->origin = g->values[node->out].node;
    node->op->gradient(g, node, dy, want, dx);
    for (int i = 0; i < node->in_count; i++)
        if (want[i]) contribute(a, node->in[i], dx[i]);
    g->origin = -1;
    free(want);
    free(dx);
    return weft_graph_status(g);
}

static weft_status run(autodiff *a, weft_value loss)
{
    weft_graph *g = a->graph;
    for (size_t v = 0; v < a->values; v++) a->dy[v] = WEFT_NO_VALUE;
    mark_active(a);
    weft_graph_set_phase(g, WEFT_PHASE_BACKWARD);
    weft_dtype dtype = g->values[loss].type.dtype;
    a->dy[loss] =
        weft_graph_node(g, "constant", "loss/grad", NULL, 0,
                        (weft_attr[]){WEFT_ATTR_REAL("value", 1.0), WEFT_ATTR_INT("dtype", dtype)},
                        dtype == g->real ? 1 : 2);
    for (size_t n = a->nodes; n-- > 0;) WEFT_TRY(visit(a, g->nodes[n]));
    for (size_t v = 0; v < a->values; v++) {
        weft_value_info *leaf = &g->values[v];
        if (leaf->kind == WEFT_VALUE_RESULT || !a->active[v] || a->dy[v] == WEFT_NO_VALUE) continue;
        leaf->gradient = a->dy[v];
        if (leaf->kind == WEFT_VALUE_PARAM) g->values[a->dy[v]].gradient_of = (weft_value)v;
    }
    return weft_graph_status(g);
}

weft_status weft_graph_differentiate(weft_graph *g, weft_value loss)
{
    WEFT_NEED_AS("graph", g);
    WEFT_TRY(weft_graph_status(g));
    if (!weft_graph_has(g, loss)) return WEFT_ERR_ARGUMENT;
    if (g->values[loss].type.shape.rank != 0 || !is_real(g, loss))
        return weft_fail(WEFT_ERR_ARGUMENT, "only a real scalar can be differentiated");
    autodiff a = {.graph = g, .values = g->value_count, .nodes = g->node_count};
    weft_status status = WEFT_OK;
    weft_phase phase = g->phase;
    WEFT_TRY_GOTO(WEFT_NEW(&a.dy, a.values), done);
    WEFT_TRY_GOTO(WEFT_NEW(&a.active, a.values), done);
    WEFT_TRY_GOTO(run(&a, loss), done);
    g->differentiated = true;
done:
    weft_graph_set_phase(g, phase);
    free(a.dy);
    free(a.active);
    return status;
}

weft_value weft_graph_gradient(const weft_graph *g, weft_value leaf)
{
    WEFT_NEED_ELSE_AS(WEFT_NO_VALUE, "graph", g);
    if (g->error.status != WEFT_OK || !weft_graph_has(g, leaf)) return WEFT_NO_VALUE;
    return g->values[leaf].gradient;
}

void weft_graph_want_gradient(weft_graph *g, weft_value input)
{
    WEFT_NEED_VOID_AS("graph", g);
    if (g->error.status != WEFT_OK) return;
    if (weft_graph_has(g, input))
        g->values[input].want_gradient = true;
    else
        (void)weft_graph_stick(g, weft_fail_within(WEFT_ERR_ARGUMENT, "%s", __func__));
}
