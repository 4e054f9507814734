/* Builds the model mobilenet, MobileNetV2 of Sandler et al. (2018): inverted residual blocks, which
 * widen, convolve each channel by itself, and narrow. Names and sizes are those of torchvision. */
#include <stdio.h>

#include "base/spec.h"
#include "models/models.h"

/* Blocks of one kind: how much they widen, their channels, their number and their first stride. */
static const struct {
    int64_t widen, channels;
    int count;
    int64_t stride;
} kinds[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
             {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};

/* Channels times a width, as a multiple of 8 that is not much smaller. */
static int64_t scaled(int64_t channels, double width)
{
    double wanted = (double)channels * width;
    int64_t near = WEFT_MAX((int64_t)(wanted + 4) / 8 * 8, (int64_t)8);
    return (double)near < 0.9 * wanted ? near + 8 : near;
}

/* A convolution of a block: its layers are BLOCK/N/0 and so on, or, without an activation, BLOCK/N
 * and the one behind it. */
static weft_value add_conv(weft_model_builder *net, weft_value x, const char *block, int number,
                           const weft_layer *how, bool active)
{
    char names[3][64];
    for (int i = 0; i < 3; i++)
        if (active)
            (void)snprintf(names[i], sizeof(names[i]), "%s/%d/%d", block, number, i);
        else
            (void)snprintf(names[i], sizeof(names[i]), "%s/%d", block, number + i);
    x = weft_layer_conv_norm(net, x, names[0], names[1], how);
    return active ? weft_layer_activation(net, x, "relu6", names[2]) : x;
}

static weft_value add_block(weft_model_builder *net, weft_value x, int number, int64_t widen,
                            int64_t channels, int64_t stride)
{
    char block[48], name[64];
    int64_t in = weft_layer_shape(net, x).dim[1], wide = in * widen;
    int next = 0;
    weft_value y = x;
    (void)snprintf(block, sizeof(block), "features/%d/conv", number);
    if (widen > 1)
        y = add_conv(net, y, block, next++, &(weft_layer){.filters = wide, .kernel = WEFT_EACH(1)},
                     true);
    y = add_conv(net, y, block, next++,
                 &(weft_layer){.filters = wide,
                               .kernel = WEFT_EACH(3),
                               .stride = WEFT_EACH(stride),
                               .padding = WEFT_EACH(1),
                               .groups = wide},
                 true);
    y = add_conv(net, y, block, next, &(weft_layer){.filters = channels, .kernel = WEFT_EACH(1)},
                 false);
    if (stride > 1 || in != channels) return y;
    (void)snprintf(name, sizeof(name), "features/%d/add", number);
    return weft_layer_add(net, x, y, &(weft_layer){.name = name});
}

static weft_value build(weft_model_builder *net, weft_value x)
{
    double width = 1, dropout = 0.2;
    const weft_spec_key keys[] = {{.name = "width", .number = &width, .low = 0.01, .high = 100},
                                  {.name = "dropout", .number = &dropout, .low = 0, .high = 0.999},
                                  {.name = NULL}};
    int number = 1;
    weft_status status = weft_spec_parse_any("model 'mobilenet'", net->arguments, keys);
    if (status == WEFT_OK) status = weft_model_builder_images(net, "mobilenet", 1);
    if (status != WEFT_OK) return weft_graph_stick(net->graph, status);
    x = add_conv(net, x, "features", 0,
                 &(weft_layer){.filters = scaled(32, width),
                               .kernel = WEFT_EACH(3),
                               .stride = WEFT_EACH(2),
                               .padding = WEFT_EACH(1)},
                 true);
    for (size_t k = 0; k < WEFT_COUNT(kinds); k++)
        for (int i = 0; i < kinds[k].count; i++)
            x = add_block(net, x, number++, kinds[k].widen, scaled(kinds[k].channels, width),
                          i == 0 ? kinds[k].stride : 1);
    x = add_conv(net, x, "features", number,
                 &(weft_layer){.filters = scaled(1280, WEFT_MAX(width, 1)), .kernel = WEFT_EACH(1)},
                 true);
    x = weft_layer_global_avgpool(net, x, &(weft_layer){.name = "avgpool"});
    x = weft_layer_dropout(net, x, &(weft_layer){.name = "classifier/0", .rate = dropout});
    return weft_layer_dense(
        net, x, &(weft_layer){.name = "classifier/1", .filters = weft_model_builder_outputs(net)});
}

const weft_model weft_model_mobilenet = {
    .name = "mobilenet",
    .form = "mobilenet[:width=1,dropout=0.2]",
    .summary = "MobileNetV2, small and fast, for images of any size; width scales the channels",
    .build = build,
};
