/* Builds the model densenet of Huang et al. (2017): each layer of a block reads what all layers
 * before it have made. Names and sizes are those of torchvision. */
#include <stdio.h>

#include "base/spec.h"
#include "models/models.h"

enum { BLOCKS = 4, NARROWED = 4 };

static const struct network {
    int depth, layers[BLOCKS];
} networks[] = {{121, {6, 12, 24, 16}}, {169, {6, 12, 32, 32}}, {201, {6, 12, 48, 32}}};

static weft_status read_keys(const char *arguments, double *growth, const struct network **out)
{
    double depth = 121;
    const weft_spec_key keys[] = {
        {.name = "depth", .number = &depth, .low = 1, .high = 1000, .integer = true},
        {.name = "growth", .number = growth, .low = 1, .high = 1024, .integer = true},
        {.name = NULL}};
    WEFT_TRY(weft_spec_parse_any("model 'densenet'", arguments, keys));
    for (size_t i = 0; i < WEFT_COUNT(networks); i++) {
        *out = &networks[i];
        if (networks[i].depth == (int)depth) return WEFT_OK;
    }
    return weft_fail(WEFT_ERR_ARGUMENT, "model 'densenet': depth is %d, must be 121, 169 or 201",
                     (int)depth);
}

/* The name of a layer of a part of the network; part empty: of the network. */
typedef struct part_name {
    char text[96];
} part_name;

static const char *name_in(part_name *name, const char *part, const char *layer)
{
    (void)snprintf(name->text, sizeof(name->text), "features/%s%s%s", part, *part ? "/" : "",
                   layer);
    return name->text;
}

/* Batch normalisation, relu and a convolution without bias; number: that of their names, "": none.
 */
static weft_value norm_conv(weft_model_builder *net, weft_value x, const char *part,
                            const char *number, int64_t filters, int64_t kernel)
{
    char layer[16];
    part_name name;
    (void)snprintf(layer, sizeof(layer), "norm%s", number);
    x = weft_layer_batch_norm(net, x, &(weft_layer){.name = name_in(&name, part, layer)});
    (void)snprintf(layer, sizeof(layer), "relu%s", number);
    x = weft_layer_activation(net, x, "relu", name_in(&name, part, layer));
    (void)snprintf(layer, sizeof(layer), "conv%s", number);
    return weft_layer_conv(net, x,
                           &(weft_layer){.name = name_in(&name, part, layer),
                                         .filters = filters,
                                         .kernel = WEFT_EACH(kernel),
                                         .padding = WEFT_EACH(kernel / 2),
                                         .he = true,
                                         .no_bias = true});
}

static weft_value add_block(weft_model_builder *net, weft_value x, int block, int layers,
                            int64_t growth)
{
    char part[48];
    part_name name;
    for (int i = 1; i <= layers; i++) {
        (void)snprintf(part, sizeof(part), "denseblock%d/denselayer%d", block, i);
        weft_value y = norm_conv(net, x, part, "1", NARROWED * growth, 1);
        y = norm_conv(net, y, part, "2", growth, 3);
        x = weft_layer_concat(net, (weft_value[]){x, y}, 2,
                              &(weft_layer){.name = name_in(&name, part, "join")});
    }
    return x;
}

/* Halves channels and sides. */
static weft_value add_transition(weft_model_builder *net, weft_value x, int number)
{
    char part[32];
    part_name name;
    (void)snprintf(part, sizeof(part), "transition%d", number);
    x = norm_conv(net, x, part, "", weft_layer_shape(net, x).dim[1] / 2, 1);
    return weft_layer_avgpool(net, x, &(weft_layer){.name = name_in(&name, part, "pool")});
}

static weft_value build(weft_model_builder *net, weft_value x)
{
    double growth = 32;
    const struct network *n = NULL;
    weft_status status = read_keys(net->arguments, &growth, &n);
    if (status == WEFT_OK) status = weft_model_builder_images(net, "densenet", 29);
    if (status != WEFT_OK) return weft_graph_stick(net->graph, status);
    x = weft_layer_conv_norm(net, x, "features/conv0", "features/norm0",
                             &(weft_layer){.filters = 2 * (int64_t)growth,
                                           .kernel = WEFT_EACH(7),
                                           .stride = WEFT_EACH(2),
                                           .padding = WEFT_EACH(3)});
    x = weft_layer_activation(net, x, "relu", "features/relu0");
    x = weft_layer_maxpool(net, x,
                           &(weft_layer){.name = "features/pool0",
                                         .kernel = WEFT_EACH(3),
                                         .stride = WEFT_EACH(2),
                                         .padding = WEFT_EACH(1)});
    for (int b = 0; b < BLOCKS; b++) {
        x = add_block(net, x, b + 1, n->layers[b], (int64_t)growth);
        if (b + 1 < BLOCKS) x = add_transition(net, x, b + 1);
    }
    x = weft_layer_batch_norm(net, x, &(weft_layer){.name = "features/norm5"});
    x = weft_layer_activation(net, x, "relu", "features/relu5");
    x = weft_layer_global_avgpool(net, x, &(weft_layer){.name = "avgpool"});
    return weft_layer_dense(
        net, x, &(weft_layer){.name = "classifier", .filters = weft_model_builder_outputs(net)});
}

const weft_model weft_model_densenet = {
    .name = "densenet",
    .form = "densenet[:depth=121,growth=32]",
    .summary = "layers that read all before them, for images from 29 pixels: depth 121, 169 or 201",
    .build = build,
};
