/* Builds the models vgg and vgg11, networks of 3x3 convolutions of Simonyan and Zisserman (2015).
 * vgg has the names and sizes of torchvision; vgg11 is the smallest of them with the small
 * classifier that is usual for images of 28 to 64 pixels. */
#include <stdio.h>

#include "base/spec.h"
#include "models/models.h"

enum { STAGES = 5 };

/* The convolutions of each stage, behind which sides are halved. */
static const struct network {
    int depth, convs[STAGES];
} networks[] = {
    {11, {1, 1, 2, 2, 2}}, {13, {2, 2, 2, 2, 2}}, {16, {2, 2, 3, 3, 3}}, {19, {2, 2, 4, 4, 4}}};

typedef struct vgg_keys {
    double depth, width, hidden, dropout;
    bool norm;
} vgg_keys;

/* Names of layers: numbered in order as features/N, or by their kind and convolution. */
typedef struct naming {
    bool ordered;
    int layer, conv;
    char text[32];
} naming;

static const char *name_next(naming *n, const char *kind)
{
    if (n->ordered)
        (void)snprintf(n->text, sizeof(n->text), "features/%d", n->layer++);
    else
        (void)snprintf(n->text, sizeof(n->text), "%s%d", kind, n->conv);
    return n->text;
}

static weft_value add_conv(weft_model_builder *net, weft_value x, naming *n, int64_t filters,
                           bool norm)
{
    n->conv++;
    x = weft_layer_conv(net, x,
                        &(weft_layer){.name = name_next(n, "conv"),
                                      .filters = filters,
                                      .kernel = WEFT_EACH(3),
                                      .padding = WEFT_EACH(1),
                                      .he = true});
    if (norm) x = weft_layer_batch_norm(net, x, &(weft_layer){.name = name_next(n, "norm")});
    return weft_layer_activation(net, x, "relu", name_next(n, "relu"));
}

static weft_value add_features(weft_model_builder *net, weft_value x, naming *n,
                               const struct network *of, int64_t width, bool norm)
{
    for (int s = 0; s < STAGES; s++) {
        for (int i = 0; i < of->convs[s]; i++)
            x = add_conv(net, x, n, width << WEFT_MIN(s, 3), norm);
        /* A pool is left out where an image has shrunk to one pixel, as images of 28 pixels have
         * before the last pool. */
        weft_shape shape = weft_layer_shape(net, x);
        const char *name = name_next(n, "pool");
        if (shape.rank == 4 && shape.dim[2] > 1 && shape.dim[3] > 1)
            x = weft_layer_maxpool(net, x, &(weft_layer){.name = name});
    }
    return x;
}

static weft_value build_small(weft_model_builder *net, weft_value x)
{
    naming n = {.ordered = false};
    weft_status status = weft_model_builder_images(net, "vgg11", 16);
    if (status != WEFT_OK) return weft_graph_stick(net->graph, status);
    x = add_features(net, x, &n, &networks[0], 64, false);
    x = weft_layer_dense(net, x, &(weft_layer){.name = "fc1", .filters = 512, .he = true});
    x = weft_layer_activation(net, x, "relu", "relu9");
    x = weft_layer_dropout(net, x, &(weft_layer){.name = "dropout", .rate = 0.5});
    return weft_layer_dense(
        net, x, &(weft_layer){.name = "fc2", .filters = weft_model_builder_outputs(net)});
}

static weft_status read_keys(const char *arguments, vgg_keys *k, const struct network **out)
{
    *k = (vgg_keys){.depth = 16, .width = 64, .hidden = 4096, .dropout = 0.5};
    const weft_spec_key keys[] = {
        {.name = "depth", .number = &k->depth, .low = 1, .high = 1000, .integer = true},
        {.name = "norm", .flag = &k->norm},
        {.name = "width", .number = &k->width, .low = 1, .high = 4096, .integer = true},
        {.name = "hidden", .number = &k->hidden, .low = 1, .high = 65536, .integer = true},
        {.name = "dropout", .number = &k->dropout, .low = 0, .high = 0.999},
        {.name = NULL}};
    WEFT_TRY(weft_spec_parse_any("model 'vgg'", arguments, keys));
    for (size_t i = 0; i < WEFT_COUNT(networks); i++) {
        *out = &networks[i];
        if (networks[i].depth == (int)k->depth) return WEFT_OK;
    }
    return weft_fail(WEFT_ERR_ARGUMENT, "model 'vgg': depth is %d, must be 11, 13, 16 or 19",
                     (int)k->depth);
}

static weft_value build(weft_model_builder *net, weft_value x)
{
    static const char *const parts[][3] = {{"classifier/0", "classifier/1", "classifier/2"},
                                           {"classifier/3", "classifier/4", "classifier/5"}};
    naming n = {.ordered = true};
    const struct network *of = NULL;
    vgg_keys k;
    weft_status status = read_keys(net->arguments, &k, &of);
    if (status == WEFT_OK) status = weft_model_builder_images(net, "vgg", 1);
    if (status != WEFT_OK) return weft_graph_stick(net->graph, status);
    x = add_features(net, x, &n, of, (int64_t)k.width, k.norm);
    x = weft_layer_adaptive_avgpool(net, x, &(weft_layer){.name = "avgpool", .size = WEFT_EACH(7)});
    for (int i = 0; i < 2; i++) {
        x = weft_layer_dense(
            net, x, &(weft_layer){.name = parts[i][0], .filters = (int64_t)k.hidden, .he = true});
        x = weft_layer_activation(net, x, "relu", parts[i][1]);
        x = weft_layer_dropout(net, x, &(weft_layer){.name = parts[i][2], .rate = k.dropout});
    }
    return weft_layer_dense(
        net, x, &(weft_layer){.name = "classifier/6", .filters = weft_model_builder_outputs(net)});
}

const weft_model weft_model_vgg11 = {
    .name = "vgg11",
    .summary = "eight 3x3 convolutions with relu and pooling, for images from 16 pixels",
    .build = build_small,
};
const weft_model weft_model_vgg = {
    .name = "vgg",
    .form = "vgg[:depth=16,norm,width=64,hidden=4096,dropout=0.5]",
    .summary = "3x3 convolutions and three dense layers: depth 11, 13, 16 or 19; norm adds batch "
               "normalisation",
    .build = build,
};
