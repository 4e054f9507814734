/* Prints graphs as text and as Graphviz dot. */
#include "base/registry.h"
#include "graph/graph.h"

static void add_type(weft_text *text, const weft_type *type)
{
    char shape[128];
    weft_text_add(text, "%s%s", weft_dtype_name(type->dtype),
                  weft_shape_text(&type->shape, shape, sizeof(shape)));
}

/* Adds a text, or the first elements of a tensor. */
static void add_tensor(weft_text *text, const weft_attr *attr)
{
    weft_type type;
    const void *data = weft_attr_data(attr, &type);
    int64_t count = weft_shape_elements(&type.shape);
    if (type.dtype == WEFT_U8 && type.shape.rank == 1 && !((const char *)data)[count - 1]) {
        weft_text_add(text, "'%s'", (const char *)data);
        return;
    }
    add_type(text, &type);
    for (int64_t i = 0; i < WEFT_MIN(count, (int64_t)4); i++) {
        char real[32];
        double number = weft_number_get(type.dtype, data, i);
        weft_text_add(text, "%s%s", i ? "," : "{", weft_real_text(number, real, sizeof(real)));
    }
    weft_text_add(text, count > 4 ? ",...}" : "}");
}

void weft_node_attrs_text(const weft_node *node, weft_text *text)
{
    for (int i = 0; i < node->attr_count; i++) {
        const weft_attr *attr = &node->attrs[i];
        char real[32];
        weft_text_add(text, " %s=", attr->name);
        if (attr->count < 0) {
            add_tensor(text, attr);
            continue;
        }
        if (attr->count == 0)
            weft_text_add(text, "%s", weft_real_text(attr->real, real, sizeof(real)));
        for (int j = 0; j < attr->count; j++)
            weft_text_add(text, "%s%lld", j ? "," : "", (long long)attr->ints[j]);
    }
}

weft_status weft_graph_text(const weft_graph *g, char **out)
{
    WEFT_NEED_AS("graph, out", g, out);
    static const char *const kinds[] = {"input", "param", "state", "result"};
    weft_text text = {0};
    for (size_t v = 0; v < g->value_count; v++) {
        const weft_value_info *info = &g->values[v];
        if (info->kind == WEFT_VALUE_RESULT) continue;
        weft_text_add(&text, "%%%zu = %s '%s' ", v, kinds[info->kind], info->name);
        add_type(&text, &info->type);
        if (info->kind == WEFT_VALUE_STATE)
            weft_text_add(&text, "  # %s", weft_role_name((int)info->role));
        if (info->role_of != WEFT_NO_VALUE) weft_text_add(&text, " of %%%d", (int)info->role_of);
        weft_text_add(&text, "\n");
    }
    for (size_t n = 0; n < g->node_count; n++) {
        const weft_node *node = g->nodes[n];
        for (int i = 0; i < node->out_count; i++)
            weft_text_add(&text, "%s%%%d", i ? ", " : "", (int)node->out + i);
        weft_text_add(&text, " = %s(", node->op->name);
        for (int i = 0; i < node->in_count; i++)
            weft_text_add(&text, "%s%%%d", i ? ", " : "", (int)node->in[i]);
        weft_text_add(&text, ")");
        weft_node_attrs_text(node, &text);
        weft_text_add(&text, " : ");
        for (int i = 0; i < node->out_count; i++) {
            if (i) weft_text_add(&text, ", ");
            add_type(&text, weft_out(g, node, i));
        }
        weft_text_add(&text, "  # %s%s [", node->name,
                      node->phase == WEFT_PHASE_UPDATE ? ", update" : "");
        node->op->labels(g, node, &text);
        weft_text_add(&text, "]\n");
    }
    for (size_t v = 0; v < g->value_count; v++)
        if (g->values[v].assigned != WEFT_NO_VALUE)
            weft_text_add(&text, "'%s' <- %%%d\n", g->values[v].name, (int)g->values[v].assigned);
    for (size_t v = 0; v < g->value_count; v++)
        if (g->values[v].exported != WEFT_NO_VALUE)
            weft_text_add(&text, "gradient of '%s' = %%%d\n", g->values[v].name,
                          (int)g->values[v].exported);
    return weft_text_take(&text, out);
}

weft_status weft_graph_show(const weft_graph *g, const char *pass, weft_text *text)
{
    char *graph = NULL;
    if (!text) return WEFT_OK;
    WEFT_TRY(weft_graph_text(g, &graph));
    weft_text_add(text, "# after %s: %zu nodes\n%s\n", pass, g->node_count, graph);
    free(graph);
    return WEFT_OK;
}

weft_status weft_graph_dot(const weft_graph *g, char **out)
{
    WEFT_NEED_AS("graph, out", g, out);
    static const char *const fills[] = {"#cfe8ff", "#ffe2b8", "#e6dcf5", "#ffffff"};
    weft_text text = {0};
    weft_text_add(&text, "digraph weft {\n  rankdir=TB;\n"
                         "  node [shape=box, style=filled, fontname=\"sans-serif\"];\n");
    for (size_t v = 0; v < g->value_count; v++) {
        const weft_value_info *info = &g->values[v];
        if (info->kind == WEFT_VALUE_RESULT) continue;
        weft_text_add(&text, "  v%zu [shape=ellipse, fillcolor=\"%s\", label=\"%s\\n", v,
                      fills[info->kind], info->name);
        add_type(&text, &info->type);
        weft_text_add(&text, "\"];\n");
    }
    for (size_t n = 0; n < g->node_count; n++) {
        const weft_node *node = g->nodes[n];
        weft_text_add(&text, "  n%zu [fillcolor=\"%s\", label=\"%s\\n%s\"];\n", n,
                      node->phase == WEFT_PHASE_UPDATE ? "#d8f0d0" : "#ffffff", node->op->name,
                      node->name);
        for (int i = 0; i < node->in_count; i++) {
            const weft_value_info *in = &g->values[node->in[i]];
            if (in->node < 0)
                weft_text_add(&text, "  v%d -> n%zu;\n", (int)node->in[i], n);
            else
                weft_text_add(&text, "  n%d -> n%zu;\n", in->node, n);
        }
    }
    for (size_t v = 0; v < g->value_count; v++)
        if (g->values[v].assigned != WEFT_NO_VALUE && g->values[g->values[v].assigned].node >= 0)
            weft_text_add(&text, "  n%d -> v%zu [style=dashed];\n",
                          g->values[g->values[v].assigned].node, v);
    weft_text_add(&text, "}\n");
    return weft_text_take(&text, out);
}

weft_status weft_operator_text(const weft_context *context, const char *name, char **out)
{
    WEFT_NEED_AS("context, op, out", context, name, out);
    const weft_entry *entry;
    weft_text text = {0};
    WEFT_TRY(weft_registry_find(context, WEFT_KIND_OPERATOR, name, strlen(name), &entry));
    const weft_op *op = entry->ops;
    weft_text_add(&text, "%d", op->min_inputs);
    if (op->max_inputs < 0) weft_text_add(&text, " or more");
    if (op->max_inputs > op->min_inputs) weft_text_add(&text, " to %d", op->max_inputs);
    weft_text_add(&text, op->max_inputs == 1 ? " operand" : " operands");
    for (int i = 0; op->attrs && op->attrs[i]; i++)
        weft_text_add(&text, "%s%s", i ? ", " : "; attributes ", op->attrs[i]);
    for (int i = 0; i < (int)WEFT_COUNT(op->takes) && op->takes[0]; i++) {
        char types[128];
        if (op->takes[i] == 0 || (op->max_inputs > 0 && i >= op->max_inputs)) continue;
        weft_text_add(&text, "%s %s", i ? " and" : "; of types",
                      weft_types_text(op->takes[i], types, sizeof(types)));
    }
    weft_text_add(&text, "%s%s%s.", op->element ? "; element by element" : "",
                  op->transfer ? "; moves values between ranks" : "",
                  op->gradient ? "; differentiable" : "");
    return weft_text_take(&text, out);
}
