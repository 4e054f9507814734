/* Adds the nodes of layers to a graph. Parameters are named "<layer>/weight" and so on. */
#include <math.h>
#include <stdio.h>

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

/* Weights are uniform in +-1/sqrt(fan in), or normal with deviation sqrt(2 / fan in) (He et al.
 * 2015) or another one if the layer requests that. */
static weft_init weight_init(const weft_layer *layer, int64_t fan_in)
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

static weft_value add_bias(weft_model_builder *net, weft_value x, const weft_layer *layer,
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

static int64_t otherwise(int64_t value, int64_t other)
{
    return value ? value : other;
}

weft_attr weft_layer_sides(weft_model_builder *net, const weft_layer *layer, const char *key,
                           const weft_numbers *given, int dims, const weft_attr *other)
{
    weft_attr attr = {.name = key, .count = dims};
    if (given->count > 1 && given->count != dims)
        (void)weft_graph_stick(
            net->graph, weft_fail(WEFT_ERR_ARGUMENT,
                                  "layer '%s': %s has %d numbers, but what it reads %d dimension%s "
                                  "of space; give as many, or one for all",
                                  layer->name, key, given->count, dims, weft_plural(dims)));
    for (int i = 0; i < dims; i++)
        attr.ints[i] = given->count == 0 ? other->ints[i] : given->at[given->count > 1 ? i : 0];
    return attr;
}

static weft_attr all_of(int64_t number)
{
    return (weft_attr){.ints = {number, number, number}};
}

int weft_layer_space(weft_model_builder *net, weft_value x, const weft_layer *layer,
                     const char *type)
{
    weft_shape in = weft_layer_shape(net, x);
    if (in.rank > 2 && in.rank <= 2 + WEFT_MAX_SPACE) return in.rank - 2;
    if (x != WEFT_NO_VALUE)
        (void)weft_graph_stick(
            net->graph,
            weft_fail(WEFT_ERR_ARGUMENT,
                      "layer '%s' (%s) needs samples [channels, ...] with 1 to %d "
                      "dimensions of space, such as images [channels, height, width]; "
                      "here they have %d dimension%s",
                      layer->name, type, WEFT_MAX_SPACE, in.rank - 1, weft_plural(in.rank - 1)));
    return 0;
}

/* Input and output channels of a convolution must be multiples of its groups. */
static weft_status check_groups(const weft_layer *layer, int64_t channels, int64_t groups)
{
    char near[48];
    int64_t below = layer->filters / groups * groups, most = groups;
    if (channels % groups) {
        while (channels % most || layer->filters % most) most--; /* 1 divides both */
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "layer '%s' has %lld groups and reads %lld channel%s: the channels that "
                         "it reads must be a multiple of its groups, as its filters must; give "
                         "groups: %lld",
                         layer->name, (long long)groups, (long long)channels, weft_plural(channels),
                         (long long)most);
    }
    if (layer->filters % groups == 0) return WEFT_OK;
    (void)snprintf(near, sizeof(near), "%lld or ", (long long)below);
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "layer '%s' has %lld groups and %lld filter%s: filters must be a multiple of "
                     "groups, as the %lld channels that it reads are; give filters: %s%lld",
                     layer->name, (long long)groups, (long long)layer->filters,
                     weft_plural(layer->filters), (long long)channels, below > 0 ? near : "",
                     (long long)(below + groups));
}

weft_value weft_layer_conv(weft_model_builder *net, weft_value x, const weft_layer *layer)
{
    weft_shape in = weft_layer_shape(net, x);
    int64_t groups = otherwise(layer->groups, 1);
    int dims = weft_layer_space(net, x, layer, "conv");
    if (dims == 0) return WEFT_NO_VALUE;
    weft_status cut = check_groups(layer, in.dim[1], groups);
    if (cut != WEFT_OK) return weft_graph_stick(net->graph, cut);
    const weft_attr three = all_of(3), one = all_of(1), none = all_of(0);
    weft_attr kernel = weft_layer_sides(net, layer, "kernel", &layer->kernel, dims, &three);
    weft_attr attrs[] = {weft_layer_sides(net, layer, "stride", &layer->stride, dims, &one),
                         weft_layer_sides(net, layer, "padding", &layer->padding, dims, &none),
                         weft_layer_sides(net, layer, "dilation", &layer->dilation, dims, &one),
                         WEFT_ATTR_INT("groups", groups)};
    weft_shape shape = {2 + dims, {layer->filters, in.dim[1] / groups}};
    int64_t fan_in = shape.dim[1];
    for (int i = 0; i < dims; i++) {
        shape.dim[2 + i] = kernel.ints[i];
        if (fan_in < (int64_t)1 << 40) fan_in *= kernel.ints[i]; /* leaf refuses more */
    }
    weft_value w =
        weft_layer_leaf(net, layer, "weight", WEFT_VALUE_PARAM, shape, weight_init(layer, fan_in));
    weft_value y = weft_layer_emit(net, layer->name, "", "conv", (weft_value[]){x, w}, 2, attrs, 4);
    return add_bias(net, y, layer, layer->filters, fan_in, 1);
}

weft_value weft_layer_conv_transpose(weft_model_builder *net, weft_value x, const weft_layer *layer)
{
    weft_shape in = weft_layer_shape(net, x);
    int64_t groups = otherwise(layer->groups, 1);
    int dims = weft_layer_space(net, x, layer, "conv_transpose");
    if (dims == 0) return WEFT_NO_VALUE;
    weft_status cut = check_groups(layer, in.dim[1], groups);
    if (cut != WEFT_OK) return weft_graph_stick(net->graph, cut);
    const weft_attr two = all_of(2), one = all_of(1), none = all_of(0);
    weft_attr kernel = weft_layer_sides(net, layer, "kernel", &layer->kernel, dims, &two);
    weft_attr attrs[] = {weft_layer_sides(net, layer, "stride", &layer->stride, dims, &kernel),
                         weft_layer_sides(net, layer, "padding", &layer->padding, dims, &none),
                         weft_layer_sides(net, layer, "dilation", &layer->dilation, dims, &one),
                         WEFT_ATTR_INT("groups", groups),
                         {.name = "size", .count = dims}};
    weft_shape shape = {2 + dims, {in.dim[1], layer->filters / groups}};
    int64_t fan_in = shape.dim[1];
    for (int i = 0; i < dims; i++) {
        shape.dim[2 + i] = kernel.ints[i];
        if (fan_in < (int64_t)1 << 40) fan_in *= kernel.ints[i]; /* leaf refuses more */
        attrs[4].ints[i] = (in.dim[2 + i] - 1) * attrs[0].ints[i] - 2 * attrs[1].ints[i] +
                           attrs[2].ints[i] * (kernel.ints[i] - 1) + 1;
    }
    weft_value w =
        weft_layer_leaf(net, layer, "weight", WEFT_VALUE_PARAM, shape, weight_init(layer, fan_in));
    weft_value y =
        weft_layer_emit(net, layer->name, "", "conv_dx", (weft_value[]){x, w}, 2, attrs, 5);
    return add_bias(net, y, layer, layer->filters, fan_in, 1);
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
                                   weight_init(layer, fan_in));
    /* dense_dx multiplies with the transposed weight. */
    weft_value y = weft_layer_emit(net, layer->name, "", turned ? "dense_dx" : "dense",
                                   (weft_value[]){x, w}, 2, NULL, 0);
    return add_bias(net, y, layer, layer->filters, fan_in, last);
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

static weft_value pool(weft_model_builder *net, weft_value x, const weft_layer *layer,
                       const char *op)
{
    const weft_attr two = all_of(2), none = all_of(0);
    int dims = weft_layer_space(net, x, layer, op);
    weft_attr kernel = weft_layer_sides(net, layer, "kernel", &layer->kernel, dims, &two);
    weft_attr attrs[] = {kernel,
                         weft_layer_sides(net, layer, "stride", &layer->stride, dims, &kernel),
                         weft_layer_sides(net, layer, "padding", &layer->padding, dims, &none)};
    return weft_layer_emit(net, layer->name, "", op, &x, 1, attrs, 3);
}

weft_value weft_layer_maxpool(weft_model_builder *net, weft_value x, const weft_layer *layer)
{
    return pool(net, x, layer, "maxpool");
}

weft_value weft_layer_avgpool(weft_model_builder *net, weft_value x, const weft_layer *layer)
{
    return pool(net, x, layer, "avgpool");
}

weft_value weft_layer_global_avgpool(weft_model_builder *net, weft_value x, const weft_layer *layer)
{
    return weft_layer_emit(net, layer->name, "", "global_avgpool", &x, 1, NULL, 0);
}

/* The weights of the samples of the batch, and their counts. A sample with a weight for each of its
 * positions has the sum of these. */
static void count_batch(weft_model_builder *net)
{
    weft_value weights = weft_model_builder_input(net, WEFT_PORT_WEIGHTS);
    const weft_attr axes = {.name = "axes", .count = 1, .ints = {1}};
    if (weft_layer_shape(net, weights).rank > 1)
        weights = weft_layer_emit(net, "batch", "weights", "reduce_sum", &weights, 1, &axes, 1);
    net->sample_weights = weights;
    net->counts = weft_layer_emit(net, "batch", "count", "batch_count", &weights, 1, NULL, 0);
}

/* Normalises with the statistics of the batch. *running: the next running mean; the value after it
 * is the next running variance. */
static weft_value by_batch(weft_model_builder *net, const char *name, weft_value x,
                           const weft_value *leaves, weft_value *running)
{
    weft_value weights, mean, variance;
    weft_value gamma = leaves[0], beta = leaves[1];
    weft_shape in = weft_layer_shape(net, x);
    int64_t positions = in.rank > 1 ? weft_shape_elements(&in) / (in.dim[0] * in.dim[1]) : 1;
    weft_attr attr = WEFT_ATTR_INT("positions", positions);
    if (net->counts == WEFT_NO_VALUE) count_batch(net);
    weights = net->sample_weights;
    mean = weft_layer_emit(net, name, "batch_mean", "batch_mean",
                           (weft_value[]){x, weights, net->counts}, 3, NULL, 0);
    variance = weft_layer_emit(net, name, "batch_variance", "batch_variance",
                               (weft_value[]){x, weights, net->counts, mean}, 4, NULL, 0);
    *running = weft_layer_emit(net, name, "running", "batch_running",
                               (weft_value[]){mean, variance, net->counts, leaves[2], leaves[3]}, 5,
                               &attr, 1);
    return weft_layer_emit(net, name, "", "batch_norm",
                           (weft_value[]){x, gamma, beta, weights, net->counts, mean, variance}, 7,
                           NULL, 0);
}

weft_value weft_layer_batch_norm(weft_model_builder *net, weft_value x, const weft_layer *layer)
{
    weft_shape in = weft_layer_shape(net, x);
    weft_shape channels = weft_shape_of(1, (int64_t[]){in.rank > 1 ? in.dim[1] : 1});
    const weft_init one = {WEFT_INIT_CONSTANT, 1}, zero = {WEFT_INIT_CONSTANT, 0};
    weft_value leaves[] = {
        weft_layer_leaf(net, layer, "gamma", WEFT_VALUE_PARAM, channels, one),
        weft_layer_leaf(net, layer, "beta", WEFT_VALUE_PARAM, channels, zero),
        weft_layer_leaf(net, layer, "mean", WEFT_VALUE_STATE, channels, zero),
        weft_layer_leaf(net, layer, "variance", WEFT_VALUE_STATE, channels, one)};
    weft_value running, y = by_batch(net, layer->name, x, leaves, &running);
    if (y == WEFT_NO_VALUE) return y;
    weft_graph_assign(net->graph, leaves[2], running);
    weft_graph_assign(net->graph, leaves[3], running + 1);
    return y;
}

weft_value weft_layer_conv_norm(weft_model_builder *net, weft_value x, const char *conv,
                                const char *norm, const weft_layer *how)
{
    weft_layer layer = *how;
    layer.name = conv;
    layer.he = layer.no_bias = true;
    x = weft_layer_conv(net, x, &layer);
    return weft_layer_batch_norm(net, x, &(weft_layer){.name = norm});
}

weft_value weft_layer_layer_norm(weft_model_builder *net, weft_value x, const weft_layer *layer)
{
    weft_shape in = weft_layer_shape(net, x);
    weft_shape last = weft_shape_of(1, (int64_t[]){in.rank > 0 ? in.dim[in.rank - 1] : 1});
    weft_value gamma = weft_layer_leaf(net, layer, "gamma", WEFT_VALUE_PARAM, last,
                                       (weft_init){WEFT_INIT_CONSTANT, 1});
    weft_value beta = weft_layer_leaf(net, layer, "beta", WEFT_VALUE_PARAM, last,
                                      (weft_init){WEFT_INIT_CONSTANT, 0});
    return weft_layer_emit(net, layer->name, "", "layer_norm", (weft_value[]){x, gamma, beta}, 3,
                           NULL, 0);
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
    weft_attr axis = WEFT_ATTR_INT("axis", otherwise(layer->axis, 1));
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
