/* Builds the model autoencoder of Hinton and Salakhutdinov (2006): a sample becomes a short code,
 * of which it is made again, by dense layers or, for images, by convolutions that halve the sides
 * twice and transposed ones that double them (Masci et al. 2011). The target is the sample, as with
 * data reconstruct:DATA. */
#include "base/spec.h"
#include "models/models.h"

static weft_status check_data(const weft_model_builder *net)
{
    const weft_model_options *o = net->options;
    int64_t size = weft_shape_elements(&o->input[0].shape);
    if (o->inputs == 1 && o->targets == size) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "model autoencoder predicts the %lld numbers of a sample, and the data have "
                     "%s; give --data reconstruct:DATA",
                     (long long)size, o->targets ? "other targets" : "classes");
}

/* A dense layer of one half, and an activation. */
static weft_value add_half(weft_model_builder *net, weft_value x, const char *dense,
                           const char *relu, int64_t width)
{
    x = weft_layer_dense(net, x, &(weft_layer){.name = dense, .filters = width, .he = true});
    return weft_layer_activation(net, x, "relu", relu);
}

static weft_value add_code(weft_model_builder *net, weft_value x, const char *name, int64_t code)
{
    x = weft_layer_dense(net, x, &(weft_layer){.name = name, .filters = code});
    weft_model_builder_output(net, "code", x);
    return x;
}

static weft_value build_dense(weft_model_builder *net, weft_value x, int64_t code, int64_t width)
{
    x = add_half(net, x, "encoder/fc1", "encoder/relu", width);
    x = add_code(net, x, "encoder/fc2", code);
    x = add_half(net, x, "decoder/fc1", "decoder/relu", width);
    return weft_layer_dense(
        net, x, &(weft_layer){.name = "decoder/fc2", .filters = weft_model_builder_outputs(net)});
}

/* A convolution that halves the sides, and an activation. */
static weft_value add_down(weft_model_builder *net, weft_value x, const char *conv,
                           const char *relu, int64_t filters)
{
    x = weft_layer_conv(net, x,
                        &(weft_layer){.name = conv,
                                      .filters = filters,
                                      .kernel = WEFT_EACH(3),
                                      .stride = WEFT_EACH(2),
                                      .padding = WEFT_EACH(1),
                                      .he = true});
    return weft_layer_activation(net, x, "relu", relu);
}

static weft_value build_conv(weft_model_builder *net, weft_value x, int64_t code, int64_t width)
{
    enum { HALVED = 4 }; /* of the two convolutions together */
    const int64_t *side = net->options->input[0].shape.dim;
    weft_status status = weft_model_builder_images(net, "autoencoder:conv", HALVED);
    if (status == WEFT_OK && (side[1] % HALVED || side[2] % HALVED))
        status =
            weft_fail(WEFT_ERR_ARGUMENT,
                      "model autoencoder:conv halves sides twice, and a sample is %lld by %lld "
                      "pixels; give images whose sides are multiples of %d, or leave out conv",
                      (long long)side[1], (long long)side[2], HALVED);
    if (status != WEFT_OK) return weft_graph_stick(net->graph, status);
    x = add_down(net, x, "encoder/conv1", "encoder/relu1", width);
    x = add_down(net, x, "encoder/conv2", "encoder/relu2", 2 * width);
    const weft_shape small = weft_layer_shape(net, x);
    x = add_code(net, x, "encoder/fc", code);
    if (x == WEFT_NO_VALUE) return x;
    x = add_half(net, x, "decoder/fc", "decoder/relu", weft_shape_elements(&small) / small.dim[0]);
    x = weft_layer_reshaped(net, "decoder/channels", "", x, &small);
    x = weft_layer_conv_transpose(
        net, x, &(weft_layer){.name = "decoder/up1", .filters = width, .he = true});
    x = weft_layer_activation(net, x, "relu", "decoder/relu1");
    x = weft_layer_conv_transpose(net, x, &(weft_layer){.name = "decoder/up2", .filters = side[0]});
    return weft_layer_flatten(net, x, &(weft_layer){.name = "decoder/flat"});
}

static weft_value build(weft_model_builder *net, weft_value x)
{
    bool conv = false;
    double code = 32, width = 0;
    const weft_spec_key keys[] = {
        {.name = "code", .number = &code, .low = 1, .high = 65536, .integer = true},
        {.name = "width", .number = &width, .low = 1, .high = 65536, .integer = true},
        {.name = "conv", .flag = &conv},
        {.name = NULL}};
    weft_status status = weft_spec_parse_any("model 'autoencoder'", net->arguments, keys);
    if (status == WEFT_OK) status = check_data(net);
    if (status != WEFT_OK) return weft_graph_stick(net->graph, status);
    return conv ? build_conv(net, x, (int64_t)code, width > 0 ? (int64_t)width : 16)
                : build_dense(net, x, (int64_t)code, width > 0 ? (int64_t)width : 256);
}

const weft_model weft_model_autoencoder = {
    .name = "autoencoder",
    .form = "autoencoder[:code=32,width=256,conv]",
    .summary =
        "a code of each sample, of which the sample is made again, for data reconstruct:DATA; "
        "the code is an output; conv has convolutions, for images, of width (16) and twice as many "
        "channels",
    .build = build,
};
