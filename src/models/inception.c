/* Builds the model inception, a small network in the style of GoogLeNet (Szegedy et al. 2015). Each
 * module has four parallel branches, whose outputs are concatenated. */
#include <stdio.h>

#include "models/models.h"

static weft_value conv_relu(weft_model_builder *net, weft_value x, const char *module,
                            const char *part, int64_t filters, int64_t kernel)
{
    char name[64];
    (void)snprintf(name, sizeof(name), "%s/%s", module, part);
    x = weft_layer_conv(net, x,
                        &(weft_layer){.name = name,
                                      .filters = filters,
                                      .kernel = WEFT_EACH(kernel),
                                      .padding = WEFT_EACH(kernel / 2),
                                      .he = true});
    (void)snprintf(name, sizeof(name), "%s/%s_relu", module, part);
    return weft_layer_activation(net, x, "relu", name);
}

/* Adds an inception module. f: the filters of the 1x1 branch, of the 1x1 and the 3x3 convolution of
 * the second branch, of the 1x1 and the 5x5 convolution of the third, and of the pooled branch. */
static weft_value module(weft_model_builder *net, weft_value x, const char *name,
                         const int64_t f[6])
{
    char layer[64];
    weft_value branch[4];
    branch[0] = conv_relu(net, x, name, "b1", f[0], 1);
    branch[1] = conv_relu(net, conv_relu(net, x, name, "b2_narrow", f[1], 1), name, "b2", f[2], 3);
    branch[2] = conv_relu(net, conv_relu(net, x, name, "b3_narrow", f[3], 1), name, "b3", f[4], 5);
    (void)snprintf(layer, sizeof(layer), "%s/b4_pool", name);
    branch[3] = weft_layer_maxpool(net, x,
                                   &(weft_layer){.name = layer,
                                                 .kernel = WEFT_EACH(3),
                                                 .stride = WEFT_EACH(1),
                                                 .padding = WEFT_EACH(1)});
    branch[3] = conv_relu(net, branch[3], name, "b4", f[5], 1);
    (void)snprintf(layer, sizeof(layer), "%s/join", name);
    return weft_layer_concat(net, branch, 4, &(weft_layer){.name = layer});
}

static weft_value build(weft_model_builder *net, weft_value x)
{
    weft_status status = weft_model_builder_images(net, "inception", 8);
    if (status != WEFT_OK) return weft_graph_stick(net->graph, status);
    x = conv_relu(net, x, "stem", "conv", 32, 3);
    x = weft_layer_maxpool(net, x, &(weft_layer){.name = "stem/pool"});
    x = module(net, x, "mix1", (int64_t[]){16, 24, 32, 8, 16, 16});
    x = module(net, x, "mix2", (int64_t[]){32, 32, 48, 8, 24, 16});
    x = weft_layer_maxpool(net, x, &(weft_layer){.name = "pool2"});
    x = module(net, x, "mix3", (int64_t[]){48, 48, 64, 16, 32, 32});
    x = module(net, x, "mix4", (int64_t[]){64, 48, 96, 16, 32, 32});
    x = weft_layer_global_avgpool(net, x, &(weft_layer){.name = "mean"});
    x = weft_layer_dropout(net, x, &(weft_layer){.name = "dropout", .rate = 0.2});
    return weft_layer_dense(
        net, x, &(weft_layer){.name = "fc", .filters = weft_model_builder_outputs(net)});
}

const weft_model weft_model_inception = {
    .name = "inception",
    .summary = "a small GoogLeNet: four modules of four parallel branches",
    .build = build,
};
