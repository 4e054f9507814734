/* Adds the nodes of layers to a graph: products, activations, and those that join layers.
 * Parameters are named "<layer>/weight" and so on. */
#include <math.h>
#include <stdlib.h>

#include "models/models.h"
#include "weft/optim.h"

/* The leaf "<layer>/<name>" of the layer whose weights this layer shares. ARGUMENT: the leaf has
 * another shape. */
static weft_value shared_leaf(weft_model_builder *net, const weft_layer *layer, const char *name,
                              const weft_shape *shape)
{
    char have[128], want[128], *full = weft_graph_format(net->graph, "%s/%s", layer->share, name);
    weft_value found = full ? weft_graph_find(net->graph, full) : WEFT_NO_VALUE;
    free(full);
    if (found == WEFT_NO_VALUE)
        return weft_graph_stick(net->graph,
                                weft_fail(WEFT_ERR_ARGUMENT,
                                          "layer '%s' shares the weights of '%s', which has no %s",
                                          layer->name, layer->share, name));
    const weft_shape *there = &weft_value_type(net->graph, found)->shape;
    if (weft_shape_equal(there, shape)) return found;
    return weft_graph_stick(
        net->graph,
        weft_fail(WEFT_ERR_ARGUMENT,
                  "layer '%s' shares the %s of '%s', which is %s there; here it would be %s",
                  layer->name, name, layer->share, weft_shape_text(there, have, sizeof(have)),
                  weft_shape_text(shape, want, sizeof(want))));
}

weft_value weft_layer_leaf(weft_model_builder *net, const weft_layer *layer, const char *name,
                           weft_value_kind kind, weft_shape shape, weft_init init)
{
    if (layer->share && kind == WEFT_VALUE_PARAM) return shared_leaf(net, layer, name, &shape);
    char *full = weft_graph_format(net->graph, "%s/%s", layer->name, name);
    weft_value made = weft_graph_leaf(net->graph, kind, full, net->graph->real, &shape, init);
    free(full);
    return made;
}

/* An embedding alone reads tokens; lengths are one number a sample. */
static weft_status check_numbers(const weft_model_builder *net, const char *layer,
                                 const weft_value *in, int count)
{
    for (int i = 0; i < count; i++)
        for (int k = 0; k < net->options->inputs && in[i] != WEFT_NO_VALUE; k++)
            if (net->values.ports[k].value == in[i] && net->options->input[k].values > 0 &&
                net->options->input[k].shape.rank > 0)
                return weft_fail(WEFT_ERR_ARGUMENT,
                                 "layer '%s' reads numbers, and not the tokens of the input '%s'; "
                                 "let an embedding layer read them, or give the data as float32",
                                 layer, net->options->input[k].name);
    return WEFT_OK;
}

weft_value weft_layer_emit(weft_model_builder *net, const char *layer, const char *suffix,
                           const char *op, const weft_value *in, int count, const weft_attr *attrs,
                           int attr_count)
{
    weft_status status = check_numbers(net, layer, in, count);
    if (status != WEFT_OK) return weft_graph_stick(net->graph, status);
    return weft_layer_emit_any(net, layer, suffix, op, in, count, attrs, attr_count);
}

weft_value weft_layer_emit_any(weft_model_builder *net, const char *layer, const char *suffix,
                               const char *op, const weft_value *in, int count,
                               const weft_attr *attrs, int attr_count)
{
    char *full = weft_graph_format(net->graph, "%s%s%s", layer, *suffix ? "/" : "", suffix);
    weft_value made = weft_graph_node(net->graph, op, full, in, count, attrs, attr_count);
    free(full);
    return made;
}

weft_shape weft_layer_shape(const weft_model_builder *net, weft_value x)
{
    return x == WEFT_NO_VALUE ? (weft_shape){0} : weft_value_type(net->graph, x)->shape;
}

weft_init weft_layer_weight_init(const weft_layer *layer, int64_t fan_in)
{
    double n = (double)WEFT_MAX(fan_in, (int64_t)1);
    if (layer->deviation > 0) return (weft_init){WEFT_INIT_NORMAL, layer->deviation};
    return layer->he ? (weft_init){WEFT_INIT_NORMAL, sqrt(2 / n)}
                     : (weft_init){WEFT_INIT_UNIFORM, 1 / sqrt(n)};
}

/* Whether a layer shares the table of an embedding, which selects rows by integers: these rows are
 * then the weights of its outputs. */
static bool shares_table(const weft_model_builder *net, const weft_layer *layer)
{
    const weft_graph *g = net->graph;
    for (size_t n = 0; layer->share && n < g->node_count; n++)
        if (strcmp(g->nodes[n]->name, layer->share) == 0)
            return !weft_dtype_is_float(weft_in(g, g->nodes[n], 0)->dtype);
    return false;
}

weft_value weft_layer_add_bias(weft_model_builder *net, weft_value x, const weft_layer *layer,
                               int64_t units, int64_t fan_in, int64_t axis)
{
    if (layer->no_bias || shares_table(net, layer)) return x;
    weft_init init = {WEFT_INIT_UNIFORM, 1 / sqrt((double)WEFT_MAX(fan_in, (int64_t)1))};
    if (layer->he || layer->deviation > 0) init = (weft_init){WEFT_INIT_CONSTANT, 0};
    weft_value b = weft_layer_leaf(net, layer, "bias", WEFT_VALUE_PARAM,
                                   weft_shape_of(1, (int64_t[]){units}), init);
    weft_attr attr = WEFT_ATTR_INT("axis", axis);
    return weft_layer_emit(net, layer->name, "add_bias", "bias", (weft_value[]){x, b}, 2, &attr, 1);
}

weft_value weft_layer_linear(weft_model_builder *net, weft_value x, const weft_layer *layer)
{
    weft_shape in = weft_layer_shape(net, x);
    int last = WEFT_MAX(in.rank, 2) - 1;
    int64_t fan_in = in.rank >= 2 ? in.dim[last] : 1;
    bool turned = shares_table(net, layer);
    int64_t sizes[] = {fan_in, layer->filters}, turned_sizes[] = {layer->filters, fan_in};
    weft_value w = weft_layer_leaf(net, layer, "weight", WEFT_VALUE_PARAM,
                                   weft_shape_of(2, turned ? turned_sizes : sizes),
                                   weft_layer_weight_init(layer, fan_in));
    /* dense_dx multiplies with the transposed weight. */
    weft_value y = weft_layer_emit(net, layer->name, "", turned ? "dense_dx" : "dense",
                                   (weft_value[]){x, w}, 2, NULL, 0);
    return weft_layer_add_bias(net, y, layer, layer->filters, fan_in, last);
}

weft_value weft_layer_dense(weft_model_builder *net, weft_value x, const weft_layer *layer)
{
    if (weft_layer_shape(net, x).rank > 2) {
        char *name = weft_graph_format(net->graph, "%s/flatten", layer->name);
        x = weft_layer_flatten(net, x, &(weft_layer){.name = name});
        free(name);
    }
    return weft_layer_linear(net, x, layer);
}

weft_value weft_layer_dropout(weft_model_builder *net, weft_value x, const weft_layer *layer)
{
    if (layer->rate == 0) return x;
    weft_attr attrs[] = {WEFT_ATTR_REAL("rate", layer->rate),
                         WEFT_ATTR_INT("seed", (int64_t)net->options->seed),
                         WEFT_ATTR_INT("stream", net->layers++)};
    weft_value in[] = {x, weft_graph_step(net->graph),
                       weft_model_builder_input(net, WEFT_PORT_POSITION)};
    return weft_layer_emit(net, layer->name, "", "dropout", in, 3, attrs, 3);
}

weft_value weft_layer_cast(weft_model_builder *net, weft_value x, const weft_layer *layer)
{
    weft_dtype dtype = net->graph->real;
    (void)weft_dtype_parse(layer->dtype, &dtype); /* else it is "real" */
    weft_attr attr = WEFT_ATTR_INT("dtype", dtype);
    return weft_layer_emit_any(net, layer->name, "", "cast", &x, 1, &attr, 1);
}

weft_value weft_layer_reshaped(weft_model_builder *net, const char *layer, const char *suffix,
                               weft_value x, const weft_shape *to)
{
    weft_attr attr = {.name = "shape", .count = to->rank};
    for (int d = 0; d < to->rank; d++) attr.ints[d] = to->dim[d];
    return weft_layer_emit(net, layer, suffix, "reshape", &x, 1, &attr, 1);
}

weft_value weft_layer_flatten(weft_model_builder *net, weft_value x, const weft_layer *layer)
{
    weft_shape in = weft_layer_shape(net, x);
    if (in.rank < 2) return x;
    weft_attr shape = WEFT_ATTR_PAIR("shape", in.dim[0], weft_shape_elements(&in) / in.dim[0]);
    return weft_layer_emit(net, layer->name, "", "reshape", &x, 1, &shape, 1);
}

weft_value weft_layer_activation(weft_model_builder *net, weft_value x, const char *op,
                                 const char *name)
{
    return weft_layer_emit(net, name, "", op, &x, 1, NULL, 0);
}

/* A node takes at most WEFT_MAX_OUTPUTS inputs, so more inputs are first concatenated in groups. */
weft_value weft_layer_concat(weft_model_builder *net, const weft_value *x, int count,
                             const weft_layer *layer)
{
    weft_attr axis = WEFT_ATTR_INT("axis", layer->axis ? layer->axis : 1);
    if (count <= WEFT_MAX_OUTPUTS)
        return weft_layer_emit(net, layer->name, "", "concat", x, count, &axis, 1);
    int each = WEFT_MAX_OUTPUTS;
    while ((count + each - 1) / each > WEFT_MAX_OUTPUTS) each *= WEFT_MAX_OUTPUTS;
    weft_value parts[WEFT_MAX_OUTPUTS];
    int n = 0;
    for (int at = 0; at < count; at += each) {
        char *name = weft_graph_format(net->graph, "%s/part%d", layer->name, n);
        weft_layer part = *layer;
        part.name = name;
        parts[n++] = weft_layer_concat(net, x + at, WEFT_MIN(each, count - at), &part);
        free(name);
    }
    return weft_layer_emit(net, layer->name, "", "concat", parts, n, &axis, 1);
}

/* An operator of two layers, whose samples broadcast: one of lower rank gets dimensions of size 1
 * behind that of the batch, which would otherwise be taken for one of a sample. */
static weft_value of_two(weft_model_builder *net, const char *op, weft_value a, weft_value b,
                         const weft_layer *layer)
{
    weft_value in[] = {a, b};
    weft_shape x[] = {weft_layer_shape(net, a), weft_layer_shape(net, b)};
    int low = x[0].rank < x[1].rank ? 0 : 1, lacks = abs(x[0].rank - x[1].rank);
    weft_attr shape = {.name = "shape", .count = x[low].rank + lacks};
    for (int d = 0; d < shape.count; d++)
        shape.ints[d] = d == 0 ? x[low].dim[0] : d <= lacks ? 1 : x[low].dim[d - lacks];
    if (lacks > 0 && x[low].rank > 0)
        in[low] = weft_layer_emit(net, layer->name, "/alike", "reshape", &in[low], 1, &shape, 1);
    return weft_layer_emit(net, layer->name, "", op, in, 2, NULL, 0);
}

weft_value weft_layer_add(weft_model_builder *net, weft_value a, weft_value b,
                          const weft_layer *layer)
{
    return of_two(net, "add", a, b, layer);
}

weft_value weft_layer_mul(weft_model_builder *net, weft_value a, weft_value b,
                          const weft_layer *layer)
{
    return of_two(net, "mul", a, b, layer);
}

weft_status weft_model_builder_images(weft_model_builder *net, const char *model, int64_t side)
{
    char shape[128];
    const weft_shape *s = &net->options->input[0].shape;
    if (s->rank == 3 && s->dim[1] >= side && s->dim[2] >= side) return WEFT_OK;
    return weft_fail(
        WEFT_ERR_ARGUMENT,
        "model %s needs images [channels, height, width] of at least %lld by %lld pixels, "
        "a sample here is %s; mlp takes any shape",
        model, (long long)side, (long long)side, weft_shape_text(s, shape, sizeof(shape)));
}
