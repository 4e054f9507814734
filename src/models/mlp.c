/* Builds the model mlp, a multilayer perceptron with two hidden layers, for samples of any
 * shape. */
#include "models/models.h"

static weft_value build(weft_model_builder *net, weft_value x)
{
    x = weft_layer_flatten(net, x, &(weft_layer){.name = "flatten"});
    x = weft_layer_dense(net, x, &(weft_layer){.name = "fc1", .filters = 256});
    x = weft_layer_activation(net, x, "relu", "relu1");
    x = weft_layer_dense(net, x, &(weft_layer){.name = "fc2", .filters = 128});
    x = weft_layer_activation(net, x, "relu", "relu2");
    return weft_layer_dense(
        net, x, &(weft_layer){.name = "fc3", .filters = weft_model_builder_outputs(net)});
}

const weft_model weft_model_mlp = {
    .name = "mlp",
    .summary = "two hidden layers of 256 and 128 units, for samples of any shape",
    .build = build,
};
