/* Builds the model googlenet of Szegedy et al. (2015) with batch normalisation: modules of four
 * branches whose results are joined. Names and sizes are those of torchvision, without the
 * classifiers in the middle of the network. */
#include <stdio.h>

#include "base/spec.h"
#include "models/models.h"

enum { WIDTH = 64 };

/* A module: the filters of its first branch, of the narrowing and the last convolution of the
 * second and the third, and of the pooled branch. A module without a name is a pool of this side.
 */
static const struct module {
    const char *name;
    int64_t pool, filters[6];
} modules[] = {{"inception3a", 0, {64, 96, 128, 16, 32, 32}},
               {"inception3b", 0, {128, 128, 192, 32, 96, 64}},
               {"maxpool3", 3, {0}},
               {"inception4a", 0, {192, 96, 208, 16, 48, 64}},
               {"inception4b", 0, {160, 112, 224, 24, 64, 64}},
               {"inception4c", 0, {128, 128, 256, 24, 64, 64}},
               {"inception4d", 0, {112, 144, 288, 32, 64, 64}},
               {"inception4e", 0, {256, 160, 320, 32, 128, 128}},
               {"maxpool4", 2, {0}},
               {"inception5a", 0, {256, 160, 320, 32, 128, 128}},
               {"inception5b", 0, {384, 192, 384, 48, 128, 128}}};

/* A network that is being built: with width / 64 of the channels. */
typedef struct network {
    weft_model_builder *net;
    int64_t width;
} network;

/* A convolution, batch normalisation and relu: the layers PART/conv, PART/bn and PART/relu. */
static weft_value add_conv(const network *n, weft_value x, const char *part, int64_t filters,
                           int64_t kernel, int64_t stride)
{
    static const char *const layers[] = {"conv", "bn", "relu"};
    char names[3][64];
    for (int i = 0; i < 3; i++)
        (void)snprintf(names[i], sizeof(names[i]), "%s/%s", part, layers[i]);
    x = weft_layer_conv_norm(
        n->net, x, names[0], names[1],
        &(weft_layer){.filters = WEFT_MAX(filters * n->width / WIDTH, (int64_t)1),
                      .kernel = WEFT_EACH(kernel),
                      .stride = WEFT_EACH(stride),
                      .padding = WEFT_EACH(kernel / 2),
                      .epsilon = 1e-3});
    return weft_layer_activation(n->net, x, "relu", names[2]);
}

static weft_value add_pool(const network *n, weft_value x, const char *name, int64_t side,
                           int64_t stride)
{
    return weft_layer_maxpool(n->net, x,
                              &(weft_layer){.name = name,
                                            .kernel = WEFT_EACH(side),
                                            .stride = WEFT_EACH(stride),
                                            .padding = WEFT_EACH(stride == 1 ? side / 2 : 0),
                                            .ceil = true});
}

static weft_value add_module(const network *n, weft_value x, const struct module *m)
{
    static const char *const parts[] = {"branch1",   "branch2/0", "branch2/1", "branch3/0",
                                        "branch3/1", "branch4/1", "branch4/0", "join"};
    char names[WEFT_COUNT(parts)][48];
    for (size_t i = 0; i < WEFT_COUNT(parts); i++)
        (void)snprintf(names[i], sizeof(names[i]), "%s/%s", m->name, parts[i]);
    weft_value branch[] = {x, x, x, add_pool(n, x, names[6], 3, 1)};
    branch[0] = add_conv(n, branch[0], names[0], m->filters[0], 1, 1);
    for (int b = 1; b < 3; b++) {
        branch[b] = add_conv(n, branch[b], names[2 * b - 1], m->filters[2 * b - 1], 1, 1);
        branch[b] = add_conv(n, branch[b], names[2 * b], m->filters[2 * b], 3, 1);
    }
    branch[3] = add_conv(n, branch[3], names[5], m->filters[5], 1, 1);
    return weft_layer_concat(n->net, branch, 4, &(weft_layer){.name = names[7]});
}

static weft_value build(weft_model_builder *net, weft_value x)
{
    double width = WIDTH, dropout = 0.2;
    const weft_spec_key keys[] = {
        {.name = "width", .number = &width, .low = 1, .high = 4096, .integer = true},
        {.name = "dropout", .number = &dropout, .low = 0, .high = 0.999},
        {.name = NULL}};
    weft_status status = weft_spec_parse_any("model 'googlenet'", net->arguments, keys);
    if (status == WEFT_OK) status = weft_model_builder_images(net, "googlenet", 15);
    if (status != WEFT_OK) return weft_graph_stick(net->graph, status);
    const network n = {net, (int64_t)width};
    x = add_conv(&n, x, "conv1", 64, 7, 2);
    x = add_pool(&n, x, "maxpool1", 3, 2);
    x = add_conv(&n, x, "conv2", 64, 1, 1);
    x = add_conv(&n, x, "conv3", 192, 3, 1);
    x = add_pool(&n, x, "maxpool2", 3, 2);
    for (size_t i = 0; i < WEFT_COUNT(modules); i++)
        x = modules[i].pool ? add_pool(&n, x, modules[i].name, modules[i].pool, 2)
                            : add_module(&n, x, &modules[i]);
    x = weft_layer_global_avgpool(net, x, &(weft_layer){.name = "avgpool"});
    x = weft_layer_dropout(net, x, &(weft_layer){.name = "dropout", .rate = dropout});
    return weft_layer_dense(
        net, x, &(weft_layer){.name = "fc", .filters = weft_model_builder_outputs(net)});
}

const weft_model weft_model_googlenet = {
    .name = "googlenet",
    .form = "googlenet[:width=64,dropout=0.2]",
    .summary = "modules of four branches with batch normalisation, for images from 15 pixels",
    .build = build,
};
