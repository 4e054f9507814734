/* Builds the model lenet, the demonstration network, after LeCun et al. (1998) with the sizes that
 * are usual today. Its convolutions have no activation; max pooling is their nonlinearity. */
#include "models/models.h"

static weft_value build(weft_model_builder *net, weft_value x)
{
    weft_status status = weft_model_builder_images(net, "lenet", 16);
    if (status != WEFT_OK) return weft_graph_stick(net->graph, status);
    x = weft_layer_conv(net, x,
                        &(weft_layer){.name = "conv1", .filters = 32, .kernel = WEFT_EACH(5)});
    x = weft_layer_maxpool(net, x, &(weft_layer){.name = "pool1"});
    x = weft_layer_conv(net, x,
                        &(weft_layer){.name = "conv2", .filters = 64, .kernel = WEFT_EACH(5)});
    x = weft_layer_maxpool(net, x, &(weft_layer){.name = "pool2"});
    x = weft_layer_flatten(net, x, &(weft_layer){.name = "flatten"});
    x = weft_layer_dense(net, x, &(weft_layer){.name = "fc1", .filters = 1024});
    x = weft_layer_activation(net, x, "relu", "relu1");
    return weft_layer_dense(
        net, x, &(weft_layer){.name = "fc2", .filters = weft_model_builder_outputs(net)});
}

const weft_model weft_model_lenet = {
    .name = "lenet",
    .summary =
        "conv 5x5 x32, pool, conv 5x5 x64, pool, dense 1024, dense: the demonstration network",
    .build = build,
};
