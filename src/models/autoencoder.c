/* Builds the model autoencoder of Hinton and Salakhutdinov (2006): a sample becomes a short code,
 * of which it is made again. The target is the sample, as with data reconstruct:DATA. */
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

static weft_value build(weft_model_builder *net, weft_value x)
{
    double code = 32, width = 256;
    const weft_spec_key keys[] = {
        {.name = "code", .number = &code, .low = 1, .high = 65536, .integer = true},
        {.name = "width", .number = &width, .low = 1, .high = 65536, .integer = true},
        {.name = NULL}};
    weft_status status = weft_spec_parse_any("model 'autoencoder'", net->arguments, keys);
    if (status == WEFT_OK) status = check_data(net);
    if (status != WEFT_OK) return weft_graph_stick(net->graph, status);
    x = add_half(net, x, "encoder/fc1", "encoder/relu", (int64_t)width);
    x = weft_layer_dense(net, x, &(weft_layer){.name = "encoder/fc2", .filters = (int64_t)code});
    weft_model_builder_output(net, "code", x);
    x = add_half(net, x, "decoder/fc1", "decoder/relu", (int64_t)width);
    return weft_layer_dense(
        net, x, &(weft_layer){.name = "decoder/fc2", .filters = weft_model_builder_outputs(net)});
}

const weft_model weft_model_autoencoder = {
    .name = "autoencoder",
    .form = "autoencoder[:code=32,width=256]",
    .summary =
        "a code of each sample, of which the sample is made again, for data reconstruct:DATA; "
        "the code is an output",
    .build = build,
};
