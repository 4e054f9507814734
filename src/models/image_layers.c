/* Adds layers of images, and of other samples with dimensions of space: convolutions and pools. */
#include <stdio.h>

#include "models/models.h"

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

/* Attributes of a convolution; that of the size of the result belongs to a transposed one. */
enum { STRIDE, PADDING, DILATION, GROUPS, SIZE, ATTRS };

typedef struct convolution {
    int dims; /* of space */
    weft_shape weight;
    int64_t fan_in;
    weft_attr kernel, attr[ATTRS];
} convolution;

/* Takes the keys of a layer; false: the graph has failed. */
static bool take_keys(weft_model_builder *net, weft_value x, const weft_layer *layer,
                      const char *type, bool transposed, convolution *c)
{
    const weft_attr one = all_of(1), none = all_of(0), usual = all_of(transposed ? 2 : 3);
    weft_shape in = weft_layer_shape(net, x);
    int64_t groups = layer->groups ? layer->groups : 1;
    int dims = weft_layer_space(net, x, layer, type);
    weft_status status = dims > 0 ? check_groups(layer, in.dim[1], groups) : WEFT_OK;
    if (status != WEFT_OK) (void)weft_graph_stick(net->graph, status);
    if (dims == 0 || status != WEFT_OK) return false;
    *c = (convolution){.dims = dims};
    c->kernel = weft_layer_sides(net, layer, "kernel", &layer->kernel, dims, &usual);
    c->attr[STRIDE] = weft_layer_sides(net, layer, "stride", &layer->stride, dims,
                                       transposed ? &c->kernel : &one);
    c->attr[PADDING] = weft_layer_sides(net, layer, "padding", &layer->padding, dims, &none);
    c->attr[DILATION] = weft_layer_sides(net, layer, "dilation", &layer->dilation, dims, &one);
    c->attr[GROUPS] = (weft_attr)WEFT_ATTR_INT("groups", groups);
    c->fan_in = (transposed ? layer->filters : in.dim[1]) / groups;
    c->weight = (weft_shape){2 + dims, {transposed ? in.dim[1] : layer->filters, c->fan_in}};
    for (int i = 0; i < dims; i++) {
        c->weight.dim[2 + i] = c->kernel.ints[i];
        if (c->fan_in < (int64_t)1 << 40) c->fan_in *= c->kernel.ints[i]; /* leaf refuses more */
    }
    return true;
}

static weft_value convolve(weft_model_builder *net, weft_value x, const weft_layer *layer,
                           const char *op, const convolution *c, int attrs)
{
    weft_value w = weft_layer_leaf(net, layer, "weight", WEFT_VALUE_PARAM, c->weight,
                                   weft_layer_weight_init(layer, c->fan_in));
    x = weft_layer_emit(net, layer->name, "", op, (weft_value[]){x, w}, 2, c->attr, attrs);
    return weft_layer_add_bias(net, x, layer, layer->filters, c->fan_in, 1);
}

weft_value weft_layer_conv(weft_model_builder *net, weft_value x, const weft_layer *layer)
{
    convolution c;
    if (!take_keys(net, x, layer, "conv", false, &c)) return WEFT_NO_VALUE;
    return convolve(net, x, layer, "conv", &c, SIZE);
}

/* conv_dx, the gradient of a convolution, is its transpose. */
weft_value weft_layer_conv_transpose(weft_model_builder *net, weft_value x, const weft_layer *layer)
{
    convolution c;
    weft_shape in = weft_layer_shape(net, x);
    if (!take_keys(net, x, layer, "conv_transpose", true, &c)) return WEFT_NO_VALUE;
    c.attr[SIZE] = (weft_attr){.name = "size", .count = c.dims};
    for (int i = 0; i < c.dims; i++)
        c.attr[SIZE].ints[i] = (in.dim[2 + i] - 1) * c.attr[STRIDE].ints[i] -
                               2 * c.attr[PADDING].ints[i] +
                               c.attr[DILATION].ints[i] * (c.kernel.ints[i] - 1) + 1;
    return convolve(net, x, layer, "conv_dx", &c, ATTRS);
}

weft_value weft_layer_conv_norm(weft_model_builder *net, weft_value x, const char *conv,
                                const char *norm, const weft_layer *how)
{
    weft_layer layer = *how;
    layer.name = conv;
    layer.he = layer.no_bias = true;
    x = weft_layer_conv(net, x, &layer);
    return weft_layer_batch_norm(net, x, &(weft_layer){.name = norm, .epsilon = how->epsilon});
}

/* With `ceil` a last window that begins before the end of the input is not left out where it ends
 * behind the padding: there is more padding at the end. */
static void pad_last(const weft_shape *in, int dims, const weft_attr *kernel,
                     const weft_attr *stride, weft_attr *padding)
{
    padding->count = 2 * dims;
    for (int i = 0; i < dims; i++) {
        int64_t k = kernel->ints[i], s = stride->ints[i], p = padding->ints[i];
        int64_t last = (in->dim[2 + i] + 2 * p - k + s - 1) / s * s; /* where it begins */
        if (last >= in->dim[2 + i] + p) last -= s;
        padding->ints[dims + i] = WEFT_MAX(last + k - in->dim[2 + i] - p, p);
    }
}

static weft_value pool(weft_model_builder *net, weft_value x, const weft_layer *layer,
                       const char *op)
{
    const weft_attr two = all_of(2), none = all_of(0);
    weft_shape in = weft_layer_shape(net, x);
    int dims = weft_layer_space(net, x, layer, op);
    weft_attr kernel = weft_layer_sides(net, layer, "kernel", &layer->kernel, dims, &two);
    weft_attr attrs[] = {kernel,
                         weft_layer_sides(net, layer, "stride", &layer->stride, dims, &kernel),
                         weft_layer_sides(net, layer, "padding", &layer->padding, dims, &none)};
    if (layer->ceil) pad_last(&in, dims, &kernel, &attrs[1], &attrs[2]);
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

weft_value weft_layer_channels_last(weft_model_builder *net, weft_value x, const weft_layer *layer)
{
    weft_shape in = weft_layer_shape(net, x);
    const weft_attr turn = {.name = "perm", .count = 3, .ints = {0, 2, 1}};
    if (weft_layer_space(net, x, layer, "channels_last") == 0) return WEFT_NO_VALUE;
    const weft_shape flat = weft_shape_of(
        3, (int64_t[]){in.dim[0], in.dim[1], weft_shape_elements(&in) / in.dim[0] / in.dim[1]});
    x = weft_layer_reshaped(net, layer->name, "flat", x, &flat);
    return weft_layer_emit(net, layer->name, "", "transpose", &x, 1, &turn, 1);
}

weft_value weft_layer_global_avgpool(weft_model_builder *net, weft_value x, const weft_layer *layer)
{
    return weft_layer_emit(net, layer->name, "", "global_avgpool", &x, 1, NULL, 0);
}
