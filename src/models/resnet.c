/* Builds the model resnet, residual networks of He et al. (2016): blocks of two convolutions or,
 * from 50 layers on, of three, to whose result their input is added. Strides are in the 3x3
 * convolution of a block. Names and sizes are those of torchvision. */
#include <stdio.h>

#include "base/spec.h"
#include "models/models.h"

enum { STAGES = 4, WIDER = 4 };

/* The published networks: the blocks of each stage. */
typedef struct network {
    int depth, blocks[STAGES];
    bool narrowed; /* three convolutions, of which the last has WIDER times as many filters */
} network;
static const network networks[] = {
    {18, {2, 2, 2, 2}, false},  {34, {3, 4, 6, 3}, false},  {50, {3, 4, 6, 3}, true},
    {101, {3, 4, 23, 3}, true}, {152, {3, 8, 36, 3}, true},
};

typedef struct resnet_keys {
    double depth, width;
} resnet_keys;

static weft_status read_keys(const char *arguments, resnet_keys *k, const network **out)
{
    *k = (resnet_keys){.depth = 18, .width = 64};
    const weft_spec_key keys[] = {
        {.name = "depth", .number = &k->depth, .low = 1, .high = 1000, .integer = true},
        {.name = "width", .number = &k->width, .low = 1, .high = 4096, .integer = true},
        {.name = NULL}};
    WEFT_TRY(weft_spec_parse_any("model 'resnet'", arguments, keys));
    for (size_t i = 0; i < WEFT_COUNT(networks); i++) {
        *out = &networks[i];
        if (networks[i].depth == (int)k->depth) return WEFT_OK;
    }
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "model 'resnet': depth is %d, must be 18, 34, 50, 101 or 152", (int)k->depth);
}

/* A layer of a block by its name in the block. */
typedef struct part_name {
    char text[64];
} part_name;

static const char *part(part_name *name, const char *block, const char *layer, int number)
{
    (void)snprintf(name->text, sizeof(name->text), "%s/%s%d", block, layer, number);
    return name->text;
}

/* Convolution `number` of a block. */
static weft_value add_conv(weft_model_builder *net, weft_value x, const char *block, int number,
                           int64_t filters, int64_t kernel, int64_t stride, bool last)
{
    part_name conv, norm, relu;
    x = weft_layer_conv_norm(net, x, part(&conv, block, "conv", number),
                             part(&norm, block, "bn", number),
                             &(weft_layer){.filters = filters,
                                           .kernel = WEFT_EACH(kernel),
                                           .stride = WEFT_EACH(stride),
                                           .padding = WEFT_EACH(kernel / 2)});
    return last ? x : weft_layer_activation(net, x, "relu", part(&relu, block, "relu", number));
}

/* The input of a block as its result needs it: a projection where sizes differ. */
static weft_value shortcut(weft_model_builder *net, weft_value x, const char *block,
                           int64_t filters, int64_t stride)
{
    part_name conv, norm;
    weft_shape in = weft_layer_shape(net, x);
    if (stride == 1 && in.rank > 1 && in.dim[1] == filters) return x;
    return weft_layer_conv_norm(
        net, x, part(&conv, block, "downsample/", 0), part(&norm, block, "downsample/", 1),
        &(weft_layer){.filters = filters, .kernel = WEFT_EACH(1), .stride = WEFT_EACH(stride)});
}

static weft_value add_block(weft_model_builder *net, weft_value x, const char *block,
                            const network *n, int64_t filters, int64_t stride)
{
    part_name name;
    weft_value y = x, sum;
    int64_t all = n->narrowed ? WIDER * filters : filters;
    if (n->narrowed) {
        y = add_conv(net, y, block, 1, filters, 1, 1, false);
        y = add_conv(net, y, block, 2, filters, 3, stride, false);
        y = add_conv(net, y, block, 3, all, 1, 1, true);
    } else {
        y = add_conv(net, y, block, 1, filters, 3, stride, false);
        y = add_conv(net, y, block, 2, filters, 3, 1, true);
    }
    x = shortcut(net, x, block, all, stride);
    sum = weft_layer_add(net, y, x, &(weft_layer){.name = part(&name, block, "add", 0)});
    return weft_layer_activation(net, sum, "relu", part(&name, block, "relu", 0));
}

static weft_value build(weft_model_builder *net, weft_value x)
{
    resnet_keys k;
    const network *n = NULL;
    char block[32];
    weft_status status = read_keys(net->arguments, &k, &n);
    if (status == WEFT_OK) status = weft_model_builder_images(net, "resnet", 1);
    if (status != WEFT_OK) return weft_graph_stick(net->graph, status);
    int64_t filters = (int64_t)k.width;
    x = weft_layer_conv_norm(net, x, "conv1", "bn1",
                             &(weft_layer){.filters = filters,
                                           .kernel = WEFT_EACH(7),
                                           .stride = WEFT_EACH(2),
                                           .padding = WEFT_EACH(3)});
    x = weft_layer_activation(net, x, "relu", "relu");
    x = weft_layer_maxpool(net, x,
                           &(weft_layer){.name = "maxpool",
                                         .kernel = WEFT_EACH(3),
                                         .stride = WEFT_EACH(2),
                                         .padding = WEFT_EACH(1)});
    for (int s = 0; s < STAGES; s++, filters *= 2)
        for (int b = 0; b < n->blocks[s]; b++) {
            (void)snprintf(block, sizeof(block), "layer%d/%d", s + 1, b);
            x = add_block(net, x, block, n, filters, s > 0 && b == 0 ? 2 : 1);
        }
    x = weft_layer_global_avgpool(net, x, &(weft_layer){.name = "avgpool"});
    return weft_layer_dense(
        net, x, &(weft_layer){.name = "fc", .filters = weft_model_builder_outputs(net)});
}

const weft_model weft_model_resnet = {
    .name = "resnet",
    .form = "resnet[:depth=18,width=64]",
    .summary = "residual network for images of any size: depth 18, 34, 50, 101 or 152; width is "
               "that of the first stage",
    .build = build,
};
