#include <stdio.h>

#include "graph/graph.h"

const weft_attr *weft_node_attr(const weft_node *node, const char *name)
{
    for (int i = 0; i < node->attr_count; i++)
        if (*node->attrs[i].name == *name && strcmp(node->attrs[i].name, name) == 0)
            return &node->attrs[i];
    return NULL;
}

int64_t weft_node_int(const weft_node *node, const char *name, int i, int64_t otherwise)
{
    const weft_attr *attr = weft_node_attr(node, name);
    return attr && i < attr->count ? attr->ints[i] : otherwise;
}

double weft_node_real(const weft_node *node, const char *name, double otherwise)
{
    const weft_attr *attr = weft_node_attr(node, name);
    return attr && attr->count == 0 ? attr->real : otherwise;
}

weft_window weft_node_window(const weft_node *node, int dims)
{
    weft_window w = {.dims = dims};
    for (int i = 0; i < dims && i < WEFT_MAX_SPACE; i++) {
        w.kernel[i] = weft_node_int(node, "kernel", i, 1);
        w.stride[i] = weft_node_int(node, "stride", i, 1);
        w.padding[i] = weft_node_int(node, "padding", i, 0);
        w.padding_end[i] = weft_node_int(node, "padding", i + dims, w.padding[i]);
        w.dilation[i] = weft_node_int(node, "dilation", i, 1);
    }
    return w;
}

/* The operator's own string for the name of an attribute; NULL: it takes none of this name. */
static const char *own_name(const weft_op *op, const char *name)
{
    for (int i = 0; op->attrs && op->attrs[i]; i++)
        if (op->attrs[i] == name || strcmp(op->attrs[i], name) == 0) return op->attrs[i];
    return NULL;
}

/* Makes room for another attribute. A node has few, and a graph has many nodes. */
static weft_status make_room(weft_node *node)
{
    size_t wanted = (size_t)node->attr_count + 1;
    if (wanted <= node->attr_capacity) return WEFT_OK;
    weft_attr *attrs = realloc(node->attrs, wanted * sizeof(*attrs));
    if (!attrs) return weft_fail_memory(wanted * sizeof(*attrs));
    node->attrs = attrs;
    node->attr_capacity = wanted;
    return WEFT_OK;
}

weft_status weft_node_set(weft_node *node, const weft_attr *attr)
{
    /* The attribute stores the operator's own string as its name, since the caller's string may not
     * outlive the node. */
    const char *name = own_name(node->op, attr->name);
    if (!name) return weft_node_fail(node, "takes no attribute '%s'", attr->name);
    if (attr->count > WEFT_MAX_INTS || attr->count < -1 - WEFT_MAX_RANK)
        return weft_node_fail(node, "attribute '%s' has %d numbers, at most %d are possible", name,
                              attr->count, WEFT_MAX_INTS);
    for (int i = 0; i < node->attr_count; i++) {
        if (node->attrs[i].name != name) continue;
        node->attrs[i] = *attr;
        node->attrs[i].name = name;
        return WEFT_OK;
    }
    WEFT_TRY(make_room(node));
    node->attrs[node->attr_count] = *attr;
    node->attrs[node->attr_count++].name = name;
    return WEFT_OK;
}

void weft_node_parameters(const weft_node *node, double parameters[2])
{
    const weft_element *e = node->op->element;
    for (int i = 0; i < 2; i++)
        parameters[i] = e->attrs[i] ? weft_node_real(node, e->attrs[i], e->values[i]) : 0;
}

weft_status weft_node_fail(const weft_node *node, const char *format, ...)
{
    char text[sizeof((weft_error){0}.message)];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    return weft_fail(WEFT_ERR_ARGUMENT, "node '%s' (%s): %s", node->name ? node->name : "?",
                     node->op->name, text);
}

weft_status weft_graph_check_samples(const weft_graph *g, int64_t samples, const char *remedy)
{
    for (size_t n = 0; n < g->node_count; n++) {
        const weft_node *node = g->nodes[n];
        char text[80];
        if (!node->op->gradient) continue; /* a statistic, which the node of the layer reads */
        if (node->op->least_values <= samples * weft_node_int(node, "positions", 0, 1)) continue;
        weft_shape in = weft_in(g, node, 0)->shape;
        in.dim[0] = samples;
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "layer '%s' (%s): expected more than %d value per channel when training, "
                         "got %s; %s",
                         node->name, node->op->name, node->op->least_values - 1,
                         weft_shape_text(&in, text, sizeof(text)), remedy);
    }
    return WEFT_OK;
}

weft_cost weft_graph_node_cost(const weft_graph *graph, int index)
{
    WEFT_NEED_ELSE((weft_cost){0}, graph);
    WEFT_CHECK_INDEX_ELSE((weft_cost){0}, index, graph->node_count);
    const weft_node *node = graph->nodes[index];
    weft_cost cost = {0, 0};
    if (node->op->view == WEFT_VIEW_WHOLE) return cost;
    for (int i = 0; i < node->in_count; i++) {
        bool counted = false;
        for (int j = 0; j < i; j++) counted = counted || node->in[j] == node->in[i];
        if (!counted) cost.bytes += (double)weft_type_bytes(weft_in(graph, node, i));
    }
    for (int i = 0; i < node->out_count; i++)
        cost.bytes += (double)weft_type_bytes(weft_out(graph, node, i));
    cost.flops = node->op->flops ? node->op->flops(graph, node)
                                 : (double)weft_shape_elements(&weft_out(graph, node, 0)->shape);
    return cost;
}

/* The integers of a tensor are its dimensions, its type, and the address of its elements. */
static void set_data(weft_attr *attr, const void *data)
{
    attr->ints[-attr->count] = (int64_t)(intptr_t)data;
}

weft_attr weft_attr_tensor(const char *name, const weft_type *type, const void *data)
{
    weft_attr attr = {.name = name, .count = -1};
    WEFT_NEED_ELSE_AS(attr, "name, type, data", name, type, data);
    if (!*name || type->shape.rank < 0 || type->shape.rank > WEFT_MAX_RANK) return attr;
    attr.count = -1 - type->shape.rank;
    for (int d = 0; d < type->shape.rank; d++) attr.ints[d] = type->shape.dim[d];
    attr.ints[type->shape.rank] = type->dtype;
    set_data(&attr, data);
    return attr;
}

weft_attr weft_attr_text(const char *name, const char *text)
{
    WEFT_NEED_ELSE_AS(((weft_attr){.name = name, .count = -1}), "name, text", name, text);
    weft_type type = {WEFT_U8, weft_shape_of(1, (int64_t[]){(int64_t)strlen(text) + 1})};
    return weft_attr_tensor(name, &type, text);
}

const void *weft_attr_data(const weft_attr *attr, weft_type *type)
{
    WEFT_NEED_ELSE_AS(NULL, "attr", attr);
    int rank = -1 - attr->count;
    if (rank < 0 || rank > WEFT_MAX_RANK) return NULL;
    if (type) *type = (weft_type){(weft_dtype)attr->ints[rank], weft_shape_of(rank, attr->ints)};
    return (const void *)(intptr_t)attr->ints[rank + 1];
}

static weft_status check_tensor(const weft_node *node, const weft_attr *attr)
{
    int64_t elements = 1;
    weft_type type = {WEFT_F32, {0, {0}}};
    const char *text = weft_attr_data(attr, &type);
    bool fits = text && weft_dtype_name(type.dtype);
    for (int d = 0; d < type.shape.rank && fits; d++) {
        int64_t dim = type.shape.dim[d];
        fits = dim >= 1 && dim <= ((int64_t)1 << 40) / elements;
        elements *= fits ? dim : 1;
    }
    if (!fits)
        return weft_node_fail(node,
                              "attribute '%s' is no tensor: it needs elements, a type, and at most "
                              "%d dimensions, each at least 1",
                              attr->name, WEFT_MAX_RANK);
    return WEFT_OK;
}

weft_status weft_node_keep_tensors(weft_node *node)
{
    for (int i = 0; i < node->attr_count; i++) {
        weft_attr *attr = &node->attrs[i];
        weft_type type;
        void *own = NULL;
        if (attr->count >= 0) continue;
        weft_status status = check_tensor(node, attr);
        const void *data = weft_attr_data(attr, &type);
        if (status == WEFT_OK) status = weft_new_bytes(&own, 1, weft_type_bytes(&type));
        if (status != WEFT_OK) {
            node->attr_count = i; /* the others are the caller's */
            return status;
        }
        memcpy(own, data, weft_type_bytes(&type));
        set_data(attr, own);
    }
    return WEFT_OK;
}

void weft_node_free_attrs(weft_node *node)
{
    for (int i = 0; i < node->attr_count; i++)
        if (node->attrs[i].count < 0)
            free((void *)(uintptr_t)weft_attr_data(&node->attrs[i], NULL));
    free(node->attrs);
}

const weft_attr *weft_graph_node_attr(const weft_graph *graph, int index, const char *name)
{
    WEFT_NEED_ELSE_AS(NULL, "graph, attr", graph, name);
    WEFT_CHECK_INDEX_ELSE(NULL, index, graph->node_count);
    return weft_node_attr(graph->nodes[index], name);
}

int weft_graph_node_ints(const weft_graph *graph, int index, const char *name, const int64_t **ints)
{
    WEFT_NEED_ELSE_AS(0, "graph, attr, ints", graph, name, ints);
    WEFT_CHECK_INDEX_ELSE(0, index, graph->node_count);
    const weft_attr *attr = weft_node_attr(graph->nodes[index], name);
    *ints = attr ? attr->ints : NULL;
    return attr ? attr->count : 0;
}

weft_dtype weft_node_float(const weft_graph *g, const weft_node *node)
{
    weft_dtype dtype = (weft_dtype)weft_node_int(node, "dtype", 0, WEFT_DTYPE_COUNT);
    for (int i = 0; i < node->in_count && dtype == WEFT_DTYPE_COUNT; i++)
        if (weft_dtype_is_float(weft_in(g, node, i)->dtype)) dtype = weft_in(g, node, i)->dtype;
    return dtype == WEFT_DTYPE_COUNT ? g->real : dtype;
}

unsigned weft_operator_takes(const weft_op *op, int i)
{
    unsigned types = 0;
    for (int k = 0; k <= WEFT_MIN(i, (int)WEFT_COUNT(op->takes) - 1); k++)
        if (op->takes[k]) types = op->takes[k];
    return types ? types : WEFT_REAL_TYPES;
}

const char *weft_types_text(unsigned types, char *text, size_t room)
{
    size_t used = 0;
    *text = '\0';
    for (int t = 0; t < WEFT_DTYPE_COUNT && used < room; t++)
        if (types >> t & 1)
            used += (size_t)snprintf(text + used, room - used, "%s%s", used ? ", " : "",
                                     weft_dtype_name((weft_dtype)t));
    return text;
}

weft_status weft_node_check_types(const weft_graph *g, const weft_node *node)
{
    char types[128];
    for (int i = 0; i < node->in_count && node->op->takes[0]; i++) {
        unsigned takes = weft_operator_takes(node->op, i);
        weft_dtype dtype = weft_in(g, node, i)->dtype;
        if (!(takes >> dtype & 1))
            return weft_node_fail(node, "operand %d is %s, must be of type %s", i,
                                  weft_dtype_name(dtype),
                                  weft_types_text(takes, types, sizeof(types)));
    }
    return WEFT_OK;
}
