/* Builds the model vit, a transformer that reads the patches of an image (Dosovitskiy et al. 2021).
 * Names and sizes are those of torchvision. */
#include <math.h>

#include "base/spec.h"
#include "models/models.h"

/* The published sizes. */
static const struct {
    const char *name;
    double patch, layers, heads, width;
} sizes[] = {{"b_16", 16, 12, 12, 768},
             {"b_32", 32, 12, 12, 768},
             {"l_16", 16, 24, 16, 1024},
             {"l_32", 32, 24, 16, 1024},
             {"h_14", 14, 32, 16, 1280}};

typedef struct vit_keys {
    double patch, layers, heads, width, hidden, dropout;
} vit_keys;

static const char *size_candidate(const void *user, int i)
{
    (void)user;
    return i < (int)WEFT_COUNT(sizes) ? sizes[i].name : NULL;
}

/* Fills the keys that are not given: those of the named size, or of a small model. */
static weft_status complete(vit_keys *k, const char *size)
{
    double patch = 4, layers = 6, heads = 4, width = 128;
    char near[64];
    bool found = !size;
    for (size_t i = 0; i < WEFT_COUNT(sizes) && !found; i++) {
        found = strcmp(sizes[i].name, size) == 0;
        if (!found) continue;
        patch = sizes[i].patch;
        layers = sizes[i].layers;
        heads = sizes[i].heads;
        width = sizes[i].width;
    }
    if (!found)
        return weft_fail(WEFT_ERR_ARGUMENT, "model 'vit': there is no size '%s'%s", size,
                         weft_suggest(near, sizeof(near), size, size_candidate, NULL));
    if (k->patch == 0) k->patch = patch;
    if (k->layers == 0) k->layers = layers;
    if (k->heads == 0) k->heads = heads;
    if (k->width == 0) k->width = width;
    if (k->hidden == 0) k->hidden = 4 * k->width;
    return WEFT_OK;
}

static weft_status read_keys(const char *arguments, vit_keys *k)
{
    char *size = NULL;
    const weft_spec_key keys[] = {
        {.name = "size", .text = &size},
        {.name = "patch", .number = &k->patch, .low = 1, .high = 1024, .integer = true},
        {.name = "layers", .number = &k->layers, .low = 1, .high = 1024, .integer = true},
        {.name = "heads", .number = &k->heads, .low = 1, .high = 1024, .integer = true},
        {.name = "width", .number = &k->width, .low = 1, .high = 65536, .integer = true},
        {.name = "hidden", .number = &k->hidden, .low = 1, .high = 262144, .integer = true},
        {.name = "dropout", .number = &k->dropout, .low = 0, .high = 0.999},
        {.name = NULL}};
    weft_status status = weft_spec_parse_any("model 'vit'", arguments, keys);
    if (status == WEFT_OK) status = complete(k, size);
    free(size);
    return status;
}

/* Patches cover the image. */
static weft_status check_data(weft_model_builder *net, int64_t patch)
{
    const int64_t *dim = net->options->input[0].shape.dim;
    WEFT_TRY(weft_model_builder_images(net, "vit", 1));
    if (dim[1] % patch == 0 && dim[2] % patch == 0) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "model vit cuts images into patches of %lld pixels, and a sample is %lld by "
                     "%lld; give a patch of which both are multiples, or images of another size",
                     (long long)patch, (long long)dim[1], (long long)dim[2]);
}

/* A vector for each patch, [batch, patches, width]. */
static weft_value add_patches(weft_model_builder *net, weft_value x, const vit_keys *k)
{
    int64_t patch = (int64_t)k->patch;
    double fan_in = (double)(weft_layer_shape(net, x).dim[1] * patch * patch);
    x = weft_layer_conv(net, x,
                        &(weft_layer){.name = "conv_proj",
                                      .filters = (int64_t)k->width,
                                      .kernel = WEFT_EACH(patch),
                                      .stride = WEFT_EACH(patch),
                                      .deviation = sqrt(1 / fan_in)});
    return weft_layer_channels_last(net, x, &(weft_layer){.name = "patches"});
}

/* A leaf of the model by its name in torchvision, as a matrix [rows, width]. */
static weft_value table(weft_model_builder *net, const char *name, int64_t rows, int64_t width,
                        double deviation)
{
    const weft_shape whole = weft_shape_of(3, (int64_t[]){1, rows, width});
    const weft_shape matrix = weft_shape_of(2, (int64_t[]){rows, width});
    const weft_init init = {deviation > 0 ? WEFT_INIT_NORMAL : WEFT_INIT_CONSTANT, deviation};
    weft_value leaf =
        weft_graph_leaf(net->graph, WEFT_VALUE_PARAM, name, net->graph->real, &whole, init);
    return weft_layer_reshaped(net, name, "rows", leaf, &matrix);
}

/* Puts the class token before the patches, and adds the positions. */
static weft_value add_token(weft_model_builder *net, weft_value x)
{
    weft_shape s = weft_layer_shape(net, x);
    const weft_attr rows[] = {WEFT_ATTR_INT("axes", 0),
                              {.name = "shape", .count = 3, .ints = {s.dim[0], 1, s.dim[2]}}};
    const weft_attr axis = WEFT_ATTR_INT("axis", 1);
    weft_value token = table(net, "class_token", 1, s.dim[2], 0);
    token = weft_layer_emit(net, "class_token", "each", "broadcast", &token, 1, rows, 2);
    x = weft_layer_concat(net, (weft_value[]){token, x}, 2, &(weft_layer){.name = "tokens"});
    weft_value positions = table(net, "encoder/pos_embedding", s.dim[1] + 1, s.dim[2], 0.02);
    return weft_layer_emit(net, "encoder/positions", "", "bias", (weft_value[]){x, positions}, 2,
                           &axis, 1);
}

static weft_value build(weft_model_builder *net, weft_value x)
{
    static const weft_block_names names = {.block = "encoder/layers/encoder_layer_",
                                           .attention_norm = "ln_1",
                                           .attention = "self_attention",
                                           .mlp_norm = "ln_2",
                                           .mlp_in = "mlp/0",
                                           .mlp_gelu = "mlp/1",
                                           .mlp_dropout = "mlp/2",
                                           .mlp_out = "mlp/3",
                                           .norm = "encoder/ln"};
    const weft_attr first[] = {WEFT_ATTR_INT("axis", 1), WEFT_ATTR_INT("start", 0),
                               WEFT_ATTR_INT("stop", 1)};
    vit_keys k = {0};
    weft_status status = read_keys(net->arguments, &k);
    if (status == WEFT_OK) status = check_data(net, (int64_t)k.patch);
    if (status != WEFT_OK) return weft_graph_stick(net->graph, status);
    const weft_blocks blocks = {.names = &names,
                                .layers = (int)k.layers,
                                .heads = (int)k.heads,
                                .width = (int64_t)k.width,
                                .hidden = (int64_t)k.hidden,
                                .dropout = k.dropout,
                                .epsilon = 1e-6};
    x = add_token(net, add_patches(net, x, &k));
    x = weft_layer_dropout(net, x, &(weft_layer){.name = "encoder/dropout", .rate = k.dropout});
    x = weft_layer_blocks(net, x, &blocks);
    x = weft_layer_emit(net, "token", "", "slice", &x, 1, first, 3);
    return weft_layer_dense(
        net, x, &(weft_layer){.name = "heads/head", .filters = weft_model_builder_outputs(net)});
}

const weft_model weft_model_vit = {
    .name = "vit",
    .form = "vit[:size=b_16|b_32|l_16|l_32|h_14,patch=4,layers=6,heads=4,width=128,hidden=512,"
            "dropout=0]",
    .summary = "transformer of the patches of an image and a class token; hidden: units between "
               "the two products of a block",
    .build = build,
};
