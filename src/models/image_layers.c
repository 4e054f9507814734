/* Layers of images that are made of several operators: normalisation of groups of channels, and
 * enlarging. */
#include "models/models.h"

/* A tensor of equal numbers, shaped [size]. */
static weft_value filled(weft_model_builder *net, const char *layer, const char *suffix,
                         int64_t size, double number)
{
    const weft_attr attrs[] = {WEFT_ATTR_REAL("value", number), WEFT_ATTR_INT("shape", size),
                               WEFT_ATTR_INT("dtype", net->graph->real)};
    return weft_layer_emit(net, layer, suffix, "constant", NULL, 0, attrs, 3);
}

static weft_value reshaped(weft_model_builder *net, const char *layer, const char *suffix,
                           weft_value x, const weft_shape *to)
{
    weft_attr attr = {.name = "shape", .count = to->rank};
    for (int d = 0; d < to->rank; d++) attr.ints[d] = to->dim[d];
    return weft_layer_emit(net, layer, suffix, "reshape", &x, 1, &attr, 1);
}

/* Scales and shifts each channel. */
static weft_value scale_channels(weft_model_builder *net, weft_value x, const weft_layer *layer)
{
    weft_shape in = weft_layer_shape(net, x), one = {.rank = in.rank - 1};
    const weft_shape channels = weft_shape_of(1, (int64_t[]){in.dim[1]});
    const weft_attr axis = WEFT_ATTR_INT("axis", 1);
    for (int d = 0; d < one.rank; d++) one.dim[d] = d == 0 ? in.dim[1] : 1;
    weft_value gamma = weft_layer_leaf(net, layer, "gamma", WEFT_VALUE_PARAM, channels,
                                       (weft_init){WEFT_INIT_CONSTANT, 1});
    weft_value beta = weft_layer_leaf(net, layer, "beta", WEFT_VALUE_PARAM, channels,
                                      (weft_init){WEFT_INIT_CONSTANT, 0});
    gamma = reshaped(net, layer->name, "each", gamma, &one);
    x = weft_layer_emit(net, layer->name, "scaled", "mul", (weft_value[]){x, gamma}, 2, NULL, 0);
    return weft_layer_emit(net, layer->name, "", "bias", (weft_value[]){x, beta}, 2, &axis, 1);
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
    weft_value from[] = {reshaped(net, name, "rows", x, &rows),
                         filled(net, name, "ones", rows.dim[2], 1),
                         filled(net, name, "zeros", rows.dim[2], 0)};
    x = weft_layer_emit(net, name, "normalised", "layer_norm", from, 3, NULL, 0);
    return scale_channels(net, reshaped(net, name, "channels", x, &in), layer);
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

weft_value weft_layer_upsample(weft_model_builder *net, weft_value x, const weft_layer *layer)
{
    const weft_attr two = {.ints = {2, 2, 2}};
    int dims = weft_layer_space(net, x, layer, "upsample");
    weft_attr scale = weft_layer_sides(net, layer, "scale", &layer->scale, dims, &two);
    /* One dimension after the other: first each element becomes a row of equal ones. */
    for (int d = 0; d < dims; d++) {
        weft_shape in = weft_layer_shape(net, x), out = in;
        weft_attr attrs[] = {WEFT_ATTR_INT("axes", 3 + d), {.name = "shape", .count = in.rank + 1}};
        if (x == WEFT_NO_VALUE) break;
        for (int k = 0; k <= in.rank; k++)
            attrs[1].ints[k] = k == 3 + d ? scale.ints[d] : in.dim[k < 3 + d ? k : k - 1];
        out.dim[2 + d] *= scale.ints[d];
        x = weft_layer_emit(net, layer->name, "rows", "broadcast", &x, 1, attrs, 2);
        x = reshaped(net, layer->name, d + 1 < dims ? "side" : "", x, &out);
    }
    return x;
}
