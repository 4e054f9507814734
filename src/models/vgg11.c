/* Builds the model vgg11, configuration A of Simonyan and Zisserman (2015) with the small
 * classifier that is usual for images of 28 to 64 pixels. */
#include <stdio.h>

#include "models/models.h"

static weft_value build(weft_model_builder *net, weft_value x)
{
    static const int64_t filters[] = {64, 128, 256, 256, 512, 512, 512, 512};
    static const bool pooled[] = {true, true, false, true, false, true, false, true};
    weft_status status = weft_model_builder_images(net, "vgg11", 16);
    if (status != WEFT_OK) return weft_graph_stick(net->graph, status);
    for (int i = 0; i < 8; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "conv%d", i + 1);
        x = weft_layer_conv(net, x,
                            &(weft_layer){.name = name,
                                          .filters = filters[i],
                                          .kernel = WEFT_EACH(3),
                                          .padding = WEFT_EACH(1),
                                          .he = true});
        (void)snprintf(name, sizeof(name), "relu%d", i + 1);
        x = weft_layer_activation(net, x, "relu", name);
        /* A pool is left out where an image has shrunk to one pixel, as images of 28 pixels have
         * before the last pool. */
        bool room = x != WEFT_NO_VALUE && weft_value_type(net->graph, x)->shape.dim[2] > 1 &&
                    weft_value_type(net->graph, x)->shape.dim[3] > 1;
        (void)snprintf(name, sizeof(name), "pool%d", i + 1);
        if (pooled[i] && room) x = weft_layer_maxpool(net, x, &(weft_layer){.name = name});
    }
    x = weft_layer_flatten(net, x, &(weft_layer){.name = "flatten"});
    x = weft_layer_dense(net, x, &(weft_layer){.name = "fc1", .filters = 512, .he = true});
    x = weft_layer_activation(net, x, "relu", "relu9");
    x = weft_layer_dropout(net, x, &(weft_layer){.name = "dropout", .rate = 0.5});
    return weft_layer_dense(
        net, x, &(weft_layer){.name = "fc2", .filters = weft_model_builder_outputs(net)});
}

const weft_model weft_model_vgg11 = {
    .name = "vgg11",
    .summary = "eight 3x3 convolutions with relu and pooling, for images from 16 pixels",
    .build = build,
};
