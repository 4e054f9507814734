/* Adds layers that normalise: over the batch, over the last dimension, and over groups of channels.
 */
#include "models/models.h"

/* Adds gamma and beta, by which a normalised value is scaled and shifted. */
static void add_parameters(weft_model_builder *net, const weft_layer *layer, weft_shape shape,
                           weft_value out[2])
{
    out[0] = weft_layer_leaf(net, layer, "gamma", WEFT_VALUE_PARAM, shape,
                             (weft_init){WEFT_INIT_CONSTANT, 1});
    out[1] = weft_layer_leaf(net, layer, "beta", WEFT_VALUE_PARAM, shape,
                             (weft_init){WEFT_INIT_CONSTANT, 0});
}

weft_value weft_layer_emit_norm(weft_model_builder *net, const weft_layer *layer,
                                const char *suffix, const char *op, const weft_value *in, int count)
{
    const weft_attr epsilon = WEFT_ATTR_REAL("epsilon", layer->epsilon);
    return weft_layer_emit(net, layer->name, suffix, op, in, count, &epsilon, layer->epsilon > 0);
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
static weft_value by_batch(weft_model_builder *net, const weft_layer *layer, weft_value x,
                           const weft_value *leaves, weft_value *running)
{
    const char *name = layer->name;
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
    return weft_layer_emit_norm(
        net, layer, "", "batch_norm",
        (weft_value[]){x, gamma, beta, weights, net->counts, mean, variance}, 7);
}

weft_value weft_layer_batch_norm(weft_model_builder *net, weft_value x, const weft_layer *layer)
{
    weft_shape in = weft_layer_shape(net, x);
    weft_shape channels = weft_shape_of(1, (int64_t[]){in.rank > 1 ? in.dim[1] : 1});
    const weft_init one = {WEFT_INIT_CONSTANT, 1}, zero = {WEFT_INIT_CONSTANT, 0};
    weft_value leaves[4];
    add_parameters(net, layer, channels, leaves);
    leaves[2] = weft_layer_leaf(net, layer, "mean", WEFT_VALUE_STATE, channels, zero);
    leaves[3] = weft_layer_leaf(net, layer, "variance", WEFT_VALUE_STATE, channels, one);
    weft_value running, y = by_batch(net, layer, x, leaves, &running);
    if (y == WEFT_NO_VALUE) return y;
    weft_graph_assign(net->graph, leaves[2], running);
    weft_graph_assign(net->graph, leaves[3], running + 1);
    return y;
}

weft_value weft_layer_layer_norm(weft_model_builder *net, weft_value x, const weft_layer *layer)
{
    weft_shape shape = weft_layer_shape(net, x);
    weft_shape last = weft_shape_of(1, (int64_t[]){shape.rank > 0 ? shape.dim[shape.rank - 1] : 1});
    weft_value in[3] = {x};
    add_parameters(net, layer, last, &in[1]);
    return weft_layer_emit_norm(net, layer, "", "layer_norm", in, 3);
}

/* A tensor of equal numbers, shaped [size]. */
static weft_value filled(weft_model_builder *net, const char *layer, const char *suffix,
                         int64_t size, double number)
{
    const weft_attr attrs[] = {WEFT_ATTR_REAL("value", number), WEFT_ATTR_INT("shape", size),
                               WEFT_ATTR_INT("dtype", net->graph->real)};
    return weft_layer_emit(net, layer, suffix, "constant", NULL, 0, attrs, 3);
}

/* Scales and shifts each channel. */
static weft_value scale_channels(weft_model_builder *net, weft_value x, const weft_layer *layer)
{
    weft_shape in = weft_layer_shape(net, x), one = {.rank = in.rank - 1};
    const weft_shape channels = weft_shape_of(1, (int64_t[]){in.dim[1]});
    const weft_attr axis = WEFT_ATTR_INT("axis", 1);
    for (int d = 0; d < one.rank; d++) one.dim[d] = d == 0 ? in.dim[1] : 1;
    weft_value own[2];
    add_parameters(net, layer, channels, own);
    own[0] = weft_layer_reshaped(net, layer->name, "each", own[0], &one);
    x = weft_layer_emit(net, layer->name, "scaled", "mul", (weft_value[]){x, own[0]}, 2, NULL, 0);
    return weft_layer_emit(net, layer->name, "", "bias", (weft_value[]){x, own[1]}, 2, &axis, 1);
}

/* A group of channels of a sample becomes a row of layer_norm. */
static weft_value normalise(weft_model_builder *net, weft_value x, const weft_layer *layer,
                            int64_t groups)
{
    const char *name = layer->name;
    weft_shape in = weft_layer_shape(net, x);
    if (x == WEFT_NO_VALUE) return x;
    if (in.rank < 2 || groups < 1 || in.dim[1] % groups)
        return weft_graph_stick(
            net->graph,
            weft_fail(WEFT_ERR_ARGUMENT,
                      "layer '%s' has %lld groups, and what it reads %lld channels, "
                      "which must be a multiple of them",
                      name, (long long)groups, (long long)(in.rank < 2 ? 0 : in.dim[1])));
    const weft_shape rows = {3, {in.dim[0], groups, weft_shape_elements(&in) / in.dim[0] / groups}};
    weft_value from[] = {weft_layer_reshaped(net, name, "rows", x, &rows),
                         filled(net, name, "ones", rows.dim[2], 1),
                         filled(net, name, "zeros", rows.dim[2], 0)};
    x = weft_layer_emit_norm(net, layer, "normalised", "layer_norm", from, 3);
    return scale_channels(net, weft_layer_reshaped(net, name, "channels", x, &in), layer);
}

weft_value weft_layer_group_norm(weft_model_builder *net, weft_value x, const weft_layer *layer)
{
    return normalise(net, x, layer, layer->groups);
}

weft_value weft_layer_instance_norm(weft_model_builder *net, weft_value x, const weft_layer *layer)
{
    weft_shape in = weft_layer_shape(net, x);
    return normalise(net, x, layer, in.rank > 1 ? in.dim[1] : 0);
}
