/* Builds the model unet of Ronneberger et al. (2015), which gives each pixel a class: an image is
 * narrowed in steps and enlarged again, and each step of the way back also reads what the way down
 * had at its size. Convolutions keep the size, and have batch normalisation. */
#include <stdio.h>

#include "base/spec.h"
#include "models/models.h"

enum { DEEPEST = 8 };

/* A layer of a step by its name in the step. */
typedef struct part_name {
    char text[48];
} part_name;

static const char *name_in(part_name *name, const char *step, const char *part, int number)
{
    (void)snprintf(name->text, sizeof(name->text), number > 0 ? "%s/%s%d" : "%s/%s", step, part,
                   number);
    return name->text;
}

/* Two convolutions, each with batch normalisation and relu. */
static weft_value add_pair(weft_model_builder *net, weft_value x, const char *step, int64_t filters)
{
    part_name conv, norm;
    for (int i = 1; i <= 2; i++) {
        x = weft_layer_conv_norm(
            net, x, name_in(&conv, step, "conv", i), name_in(&norm, step, "norm", i),
            &(weft_layer){.filters = filters, .kernel = WEFT_EACH(3), .padding = WEFT_EACH(1)});
        x = weft_layer_activation(net, x, "relu", name_in(&conv, step, "relu", i));
    }
    return x;
}

/* Sides are halved `depth` times, and each pixel has a class. */
static weft_status check_data(weft_model_builder *net, int depth)
{
    const weft_model_options *o = net->options;
    const int64_t *dim = o->input[0].shape.dim;
    WEFT_TRY(weft_model_builder_images(net, "unet", (int64_t)1 << depth));
    if (o->positions != dim[1] * dim[2])
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "model unet needs a class for each of the %lld by %lld pixels of a "
                         "sample, as npy:IMAGES,MASKS has with an array of masks [n, %lld, %lld]",
                         (long long)dim[1], (long long)dim[2], (long long)dim[1],
                         (long long)dim[2]);
    int64_t step = (int64_t)1 << depth;
    if (dim[1] % step == 0 && dim[2] % step == 0) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "model unet halves sides %d times, and a sample is %lld by %lld pixels; give "
                     "images whose sides are multiples of %lld, or a smaller depth",
                     depth, (long long)dim[1], (long long)dim[2], (long long)step);
}

static weft_value add_step_up(weft_model_builder *net, weft_value x, weft_value beside,
                              const char *step, int64_t filters)
{
    part_name name;
    x = weft_layer_conv_transpose(
        net, x, &(weft_layer){.name = name_in(&name, step, "up", 0), .filters = filters});
    x = weft_layer_concat(net, (weft_value[]){beside, x}, 2,
                          &(weft_layer){.name = name_in(&name, step, "join", 0)});
    return add_pair(net, x, step, filters);
}

static weft_value build(weft_model_builder *net, weft_value x)
{
    double depth = 4, width = 64;
    char step[16];
    part_name name;
    weft_value beside[DEEPEST];
    const weft_spec_key keys[] = {
        {.name = "depth", .number = &depth, .low = 1, .high = DEEPEST, .integer = true},
        {.name = "width", .number = &width, .low = 1, .high = 4096, .integer = true},
        {.name = NULL}};
    weft_status status = weft_spec_parse_any("model 'unet'", net->arguments, keys);
    if (status == WEFT_OK) status = check_data(net, (int)depth);
    if (status != WEFT_OK) return weft_graph_stick(net->graph, status);
    for (int d = 0; d < (int)depth; d++) {
        (void)snprintf(step, sizeof(step), "down%d", d + 1);
        beside[d] = x = add_pair(net, x, step, (int64_t)width << d);
        x = weft_layer_maxpool(net, x, &(weft_layer){.name = name_in(&name, step, "pool", 0)});
    }
    x = add_pair(net, x, "bottom", (int64_t)width << (int)depth);
    for (int d = (int)depth; d-- > 0;) {
        (void)snprintf(step, sizeof(step), "up%d", d + 1);
        x = add_step_up(net, x, beside[d], step, (int64_t)width << d);
    }
    x = weft_layer_conv(net, x,
                        &(weft_layer){.name = "head",
                                      .filters = weft_model_builder_outputs(net),
                                      .kernel = WEFT_EACH(1)});
    return weft_layer_channels_last(net, x, &(weft_layer){.name = "pixels"});
}

const weft_model weft_model_unet = {
    .name = "unet",
    .form = "unet[:depth=4,width=64]",
    .summary = "a class for each pixel, of images whose sides are multiples of 2^depth",
    .build = build,
};
