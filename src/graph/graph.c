#include "graph/graph.h"

#include <math.h>
#include <stdio.h>

#include "base/registry.h"

weft_status weft_graph_create(weft_context *context, weft_dtype real, weft_graph **out)
{
    WEFT_NEED(context, out);
    if (real != WEFT_F32 && real != WEFT_F64 && real != WEFT_BF16)
        return weft_fail(WEFT_ERR_ARGUMENT, "a graph computes in f32, f64 or bf16, not in type %d",
                         (int)real);
    weft_graph *graph;
    WEFT_TRY(WEFT_NEW(&graph, 1));
    *graph = (weft_graph){.context = context,
                          .real = real == WEFT_F64 ? WEFT_F64 : WEFT_F32,
                          .mixed = real == WEFT_BF16,
                          .origin = -1,
                          .step = WEFT_NO_VALUE,
                          .micro = WEFT_NO_VALUE,
                          .rate = WEFT_NO_VALUE,
                          .part_norm = WEFT_NO_VALUE,
                          .whole_norm = WEFT_NO_VALUE};
    *out = graph;
    return WEFT_OK;
}

static void node_destroy(weft_node *node)
{
    if (!node) return;
    free(node->name);
    weft_node_free_attrs(node);
    free(node);
}

/* The first result of a node has its name. */
static bool has_own_name(const weft_graph *g, weft_value v)
{
    int node = g->values[v].node;
    return node < 0 || g->nodes[node]->out != v;
}

void weft_graph_destroy(weft_graph **graph)
{
    if (!graph || !*graph) return;
    weft_graph *g = *graph;
    for (size_t i = 0; i < g->value_count; i++)
        if (has_own_name(g, (weft_value)i)) free(g->values[i].name);
    for (size_t i = 0; i < g->node_count; i++) node_destroy(g->nodes[i]);
    weft_names_free(&g->leaves);
    free(g->nodes);
    free(g->values);
    free(g);
    *graph = NULL;
}

weft_status weft_graph_status(const weft_graph *graph)
{
    WEFT_NEED(graph);
    return weft_error_raise(&graph->error);
}

weft_value weft_graph_stick(weft_graph *graph, weft_status status)
{
    weft_error_catch(&graph->error, status);
    return WEFT_NO_VALUE;
}

bool weft_graph_has(const weft_graph *g, weft_value v)
{
    return weft_check_index("graph", "value", v, (long long)g->value_count) == WEFT_OK;
}

/* Whether a call may add to the graph: it has not failed, and each of the values is one of it. A
 * value that is not makes it fail. */
static bool takes(weft_graph *g, const char *function, const weft_value *values, int count)
{
    WEFT_NEED_ELSE_AS(false, "graph", g);
    for (int i = 0; i < count && g->error.status == WEFT_OK; i++)
        if (values[i] < 0 || (size_t)values[i] >= g->value_count)
            (void)weft_graph_stick(
                g, weft_fail(WEFT_ERR_ARGUMENT,
                             "%s: the value %d is not in this graph, which has 0 to %d", function,
                             (int)values[i], (int)g->value_count - 1));
    return g->error.status == WEFT_OK;
}

weft_dtype weft_graph_real(const weft_graph *graph)
{
    WEFT_NEED_ELSE(WEFT_F32, graph);
    return graph->real;
}

/* Refuses a shape with too many dimensions, an empty dimension, or more than 2^40 elements, so that
 * sizes in bytes fit in a signed 64-bit number. */
static weft_status check_type(const char *name, const weft_type *type)
{
    int64_t count = 1;
    if (type->shape.rank < 0 || type->shape.rank > WEFT_MAX_RANK)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "the tensor '%s' of the graph has %d dimensions, at most %d are possible",
                         name, type->shape.rank, WEFT_MAX_RANK);
    for (int i = 0; i < type->shape.rank; i++) {
        int64_t dim = type->shape.dim[i];
        if (dim < 1)
            return weft_fail(
                WEFT_ERR_ARGUMENT,
                "in the tensor '%s' of the graph dimension %d is %lld, must be at least 1", name, i,
                (long long)dim);
        if (dim > ((int64_t)1 << 40) / count)
            return weft_fail(WEFT_ERR_ARGUMENT,
                             "the tensor '%s' of the graph has more than 2^40 elements, at most "
                             "2^40 are possible",
                             name);
        count *= dim;
    }
    return WEFT_OK;
}

/* The graph takes the name, unless it fails. */
static weft_status value_add(weft_graph *g, char *name, const weft_type *type, weft_value_kind kind,
                             int node)
{
    WEFT_TRY(check_type(name, type));
    WEFT_TRY(WEFT_GROW(&g->values, &g->value_capacity, g->value_count));
    weft_value_info info = {.name = name,
                            .type = *type,
                            .kind = kind,
                            .node = node,
                            .assigned = WEFT_NO_VALUE,
                            .next_of = WEFT_NO_VALUE,
                            .exported = WEFT_NO_VALUE,
                            .gradient = WEFT_NO_VALUE,
                            .gradient_of = WEFT_NO_VALUE,
                            .role_of = WEFT_NO_VALUE,
                            .whole = type->shape};
    g->values[g->value_count++] = info;
    return WEFT_OK;
}

static weft_status check_leaf(weft_value_kind kind, const char *name, weft_dtype dtype,
                              const weft_shape *shape, const weft_init *init)
{
    if (!name || !*name || !shape)
        return weft_fail(WEFT_ERR_ARGUMENT, "a leaf needs a name and a shape");
    if ((int)kind < WEFT_VALUE_INPUT || kind > WEFT_VALUE_STATE)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "the leaf '%s' has the kind %d, must be input, parameter or state (0 to "
                         "%d)",
                         name, (int)kind, WEFT_VALUE_STATE);
    if (!weft_dtype_known(dtype))
        return weft_fail(WEFT_ERR_ARGUMENT, "the leaf '%s' has the type %d, must be from 0 to %d",
                         name, (int)dtype, WEFT_DTYPE_COUNT - 1);
    if (kind == WEFT_VALUE_INPUT) return WEFT_OK;
    if ((int)init->kind < WEFT_INIT_CONSTANT || init->kind > WEFT_INIT_NORMAL ||
        !isfinite(init->scale))
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "the leaf '%s' has the initial value of kind %d and scale %g, must be a "
                         "kind from 0 to %d and a finite scale",
                         name, (int)init->kind, init->scale, WEFT_INIT_NORMAL);
    return WEFT_OK;
}

weft_value weft_graph_leaf(weft_graph *g, weft_value_kind kind, const char *name, weft_dtype dtype,
                           const weft_shape *shape, weft_init init)
{
    if (!takes(g, __func__, NULL, 0)) return WEFT_NO_VALUE;
    weft_status wrong = check_leaf(kind, name, dtype, shape, &init);
    if (wrong != WEFT_OK) return weft_graph_stick(g, wrong);
    if (weft_graph_find(g, name) != WEFT_NO_VALUE)
        return weft_graph_stick(
            g,
            weft_fail(WEFT_ERR_ARGUMENT, "two leaves are named '%s'; give one another name", name));
    weft_type type = {dtype, *shape};
    char *own = NULL;
    weft_status status = weft_strdup(name, &own);
    if (status == WEFT_OK) status = value_add(g, own, &type, kind, -1);
    if (status != WEFT_OK) free(own);
    if (status != WEFT_OK) return weft_graph_stick(g, status);
    weft_value_info *leaf = &g->values[g->value_count - 1];
    status = weft_names_add(&g->leaves, leaf->name, (int)g->value_count - 1);
    if (status != WEFT_OK) return weft_graph_stick(g, status);
    leaf->init = init;
    leaf->weight = kind == WEFT_VALUE_PARAM;
    leaf->domain = shape->rank > 2 && dtype == g->real ? 2 : 0;
    leaf->role = kind == WEFT_VALUE_INPUT   ? WEFT_ROLE_DATA
                 : kind == WEFT_VALUE_PARAM ? WEFT_ROLE_PARAMETER
                                            : WEFT_ROLE_STATISTIC;
    return (weft_value)g->value_count - 1;
}

void weft_graph_set_domain(weft_graph *g, weft_value input, int dim)
{
    if (input >= 0 && (size_t)input < g->value_count) g->values[input].domain = dim;
}

bool weft_operator_has(const weft_context *context, const char *name, const char *attr)
{
    const weft_entry *entry = weft_registry_look(context, WEFT_KIND_OPERATOR, name, strlen(name));
    const char *const *attrs = entry ? ((const weft_op *)entry->ops)->attrs : NULL;
    while (attrs && *attrs && strcmp(*attrs, attr) != 0) attrs++;
    return attrs && *attrs;
}

bool weft_operator_is_transfer(const weft_context *context, const char *name)
{
    WEFT_NEED_ELSE(false, context, name);
    const weft_entry *entry = weft_registry_look(context, WEFT_KIND_OPERATOR, name, strlen(name));
    return entry && ((const weft_op *)entry->ops)->transfer;
}

static weft_status check_count(const weft_node *node)
{
    const weft_op *op = node->op;
    if (node->in_count < op->min_inputs || (op->max_inputs >= 0 && node->in_count > op->max_inputs))
        return weft_node_fail(node, "has %d inputs, takes %d%s", node->in_count, op->min_inputs,
                              op->max_inputs < 0                ? " or more"
                              : op->max_inputs > op->min_inputs ? " and a few optional ones"
                                                                : "");
    return WEFT_OK;
}

static weft_status check_inputs(const weft_graph *g, const weft_node *node)
{
    for (int i = 0; i < node->in_count; i++)
        if (node->in[i] < 0 || (size_t)node->in[i] >= g->value_count)
            return weft_node_fail(node, "input %d does not exist in this graph", i);
    return WEFT_OK;
}

static weft_status node_make(const weft_graph *g, const char *op, const char *name,
                             const weft_value *inputs, int input_count, const weft_attr *attrs,
                             int attr_count, weft_node *node)
{
    const weft_entry *entry;
    WEFT_TRY(weft_registry_find(g->context, WEFT_KIND_OPERATOR, op, strlen(op), &entry));
    node->op = entry->ops;
    WEFT_TRY(weft_strdup(name ? name : op, &node->name));
    node->in_count = input_count;
    WEFT_TRY(check_count(node));
    node->in = (weft_value *)(void *)(node + 1);
    for (int i = 0; i < input_count; i++) node->in[i] = inputs[i];
    node->phase = g->phase;
    node->origin = g->origin;
    weft_status status = attr_count > 0 ? WEFT_NEW(&node->attrs, attr_count) : WEFT_OK;
    node->attr_capacity = status == WEFT_OK ? (size_t)attr_count : 0;
    for (int i = 0; i < attr_count && status == WEFT_OK; i++)
        status = weft_node_set(node, &attrs[i]);
    if (status != WEFT_OK) node->attr_count = 0; /* tensors are the caller's */
    WEFT_TRY(status);
    WEFT_TRY(weft_node_keep_tensors(node));
    return check_inputs(g, node);
}

static weft_status node_add(weft_graph *g, weft_node *node)
{
    weft_type out[WEFT_MAX_OUTPUTS] = {{0}};
    node->out_count = 1;
    node->out = (weft_value)g->value_count;
    WEFT_TRY(weft_node_check_types(g, node));
    WEFT_TRY(weft_node_types(g, node, out));
    WEFT_TRY(WEFT_GROW(&g->nodes, &g->node_capacity, g->node_count));
    for (int i = 0; i < node->out_count; i++) {
        char *name = node->name;
        if (i > 0) WEFT_TRY(weft_format(&name, "%s.%d", node->name, i));
        weft_status status = value_add(g, name, &out[i], WEFT_VALUE_RESULT, (int)g->node_count);
        if (status != WEFT_OK && i > 0) free(name);
        WEFT_TRY(status);
    }
    g->nodes[g->node_count++] = node;
    return WEFT_OK;
}

weft_value weft_graph_node(weft_graph *g, const char *op, const char *name,
                           const weft_value *inputs, int input_count, const weft_attr *attrs,
                           int attr_count)
{
    if (!takes(g, __func__, NULL, 0)) return WEFT_NO_VALUE;
    weft_node *node = NULL;
    size_t values = g->value_count;
    weft_status status = WEFT_OK;
    if (!op || input_count < 0 || attr_count < 0 || (input_count > 0 && !inputs) ||
        (attr_count > 0 && !attrs))
        status = weft_fail(WEFT_ERR_ARGUMENT,
                           "a node needs the name of an operator, and lists of its %d inputs and "
                           "%d attributes, counts from 0",
                           input_count, attr_count);
    if (status == WEFT_OK)
        status = weft_new_bytes(&node, 1,
                                sizeof(*node) + (size_t)WEFT_MAX(input_count, 1) * sizeof(*inputs));
    if (status == WEFT_OK)
        status = node_make(g, op, name, inputs, input_count, attrs, attr_count, node);
    if (status == WEFT_OK) status = node_add(g, node);
    if (status == WEFT_OK) return node->out;
    while (g->value_count > values + 1) free(g->values[--g->value_count].name);
    g->value_count = values;
    node_destroy(node);
    return weft_graph_stick(g, status);
}

char *weft_graph_format(weft_graph *g, const char *format, ...)
{
    char *name = NULL;
    va_list arguments;
    va_start(arguments, format);
    int size = vasprintf(&name, format, arguments);
    va_end(arguments);
    if (size >= 0) return name;
    (void)weft_graph_stick(g, weft_fail_memory(strlen(format)));
    return NULL;
}

weft_value weft_graph_unary(weft_graph *g, const char *op, const char *name, weft_value x)
{
    return weft_graph_node(g, op, name, &x, 1, NULL, 0);
}

static void link_next(weft_graph *g, weft_value leaf, weft_value next)
{
    weft_value *first = &g->values[next].next_of;
    g->values[leaf].assigned = next;
    if (*first == WEFT_NO_VALUE || leaf < *first) *first = leaf;
}

void weft_graph_assign(weft_graph *g, weft_value state, weft_value next)
{
    if (!takes(g, __func__, &state, 1)) return;
    weft_value_info *info = &g->values[state];
    if (info->kind != WEFT_VALUE_PARAM && info->kind != WEFT_VALUE_STATE)
        (void)weft_graph_stick(g, weft_fail(WEFT_ERR_ARGUMENT,
                                            "'%s' is neither a parameter nor a state, so it "
                                            "cannot be assigned",
                                            info->name));
    else if (info->assigned != WEFT_NO_VALUE)
        (void)weft_graph_stick(
            g, weft_fail(WEFT_ERR_ARGUMENT, "'%s' is assigned twice in one step", info->name));
    else if (next < 0 || (size_t)next >= g->value_count)
        (void)weft_graph_stick(
            g, weft_fail(WEFT_ERR_ARGUMENT,
                         "'%s' is assigned a value that this graph does not have", info->name));
    else if (g->values[next].type.dtype != info->type.dtype)
        (void)weft_graph_stick(
            g,
            weft_fail(WEFT_ERR_ARGUMENT, "'%s' is %s, and is assigned '%s', which is %s; cast it",
                      info->name, weft_dtype_name(info->type.dtype), g->values[next].name,
                      weft_dtype_name(g->values[next].type.dtype)));
    else
        link_next(g, state, next);
}

void weft_graph_export_gradient(weft_graph *g, weft_value parameter, weft_value gradient)
{
    if (!takes(g, __func__, &parameter, 1)) return;
    weft_value_info *info = &g->values[parameter];
    if (info->kind != WEFT_VALUE_PARAM || info->exported != WEFT_NO_VALUE || gradient < 0 ||
        (size_t)gradient >= g->value_count || g->values[gradient].node < 0 ||
        info->type.dtype != g->values[gradient].type.dtype ||
        !weft_shape_equal(&info->type.shape, &g->values[gradient].type.shape))
        (void)weft_graph_stick(
            g,
            weft_fail(
                WEFT_ERR_ARGUMENT,
                "'%s': an exported gradient belongs to a parameter, has its shape, and is made by "
                "a node, and one only",
                info->name));
    else
        info->exported = gradient;
}

void weft_graph_set_part(weft_graph *g, weft_value value, const weft_shape *whole,
                         const int64_t *start)
{
    if (g->error.status != WEFT_OK) return;
    g->values[value].whole = *whole;
    for (int d = 0; d < whole->rank; d++) g->values[value].start[d] = start[d];
}

void weft_graph_set_flat(weft_graph *g, weft_value leaf, weft_value like, const weft_shape *part,
                         int64_t begin)
{
    if (g->error.status != WEFT_OK) return;
    weft_value_info *info = &g->values[leaf];
    info->flat = true;
    info->like = like;
    info->flat_shape = *part;
    info->flat_begin = begin;
}

const char *weft_phase_name(weft_phase phase)
{
    static const char *const names[] = {"forward", "backward", "update"};
    return names[phase];
}

void weft_graph_set_phase(weft_graph *g, weft_phase phase)
{
    if (!takes(g, __func__, NULL, 0)) return;
    if ((int)phase < WEFT_PHASE_FORWARD || phase > WEFT_PHASE_UPDATE)
        (void)weft_graph_stick(g, weft_fail(WEFT_ERR_ARGUMENT,
                                            "nodes cannot be added in the phase %d, must be "
                                            "FORWARD, BACKWARD or UPDATE (0 to %d)",
                                            (int)phase, WEFT_PHASE_UPDATE));
    else
        g->phase = phase;
}

weft_value weft_graph_find(const weft_graph *g, const char *leaf)
{
    WEFT_NEED_ELSE_AS(WEFT_NO_VALUE, "graph, leaf", g, leaf);
    int found = weft_names_find(&g->leaves, leaf);
    return found < 0 ? WEFT_NO_VALUE : (weft_value)found;
}
