/* Determines where the channels are in an array of samples (first, last or none), from the option
 * layout= or from the shape. */
#include <stdio.h>

#include "data/channel_layout.h"

/* Whether `dim` is a usual number of channels (1, 3 or 4) beside two sides of at least 8. */
static bool is_channels(int64_t dim, int64_t side, int64_t other_side)
{
    return (dim == 1 || dim == 3 || dim == 4) && side >= 8 && other_side >= 8;
}

/* The values of layout=. Each letter is a dimension of a sample: c channels, d depth, h height, w
 * width; tc is t positions of c features. */
static const struct layout {
    const char *name;
    weft_channels channels;
} layouts[] = {{"w", WEFT_CHANNELS_NONE},    {"hw", WEFT_CHANNELS_NONE},
               {"dhw", WEFT_CHANNELS_NONE},  {"cw", WEFT_CHANNELS_FIRST},
               {"wc", WEFT_CHANNELS_LAST},   {"chw", WEFT_CHANNELS_FIRST},
               {"hwc", WEFT_CHANNELS_LAST},  {"cdhw", WEFT_CHANNELS_FIRST},
               {"dhwc", WEFT_CHANNELS_LAST}, {"tc", WEFT_CHANNELS_FIRST}};

/* Writes the layouts for samples of `dims` dimensions (0: all) to `text`, as in "hw, cw, wc". */
static const char *name_layouts(int dims, char *text, size_t room)
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < WEFT_COUNT(layouts); i++)
        if (dims == 0 || (int)strlen(layouts[i].name) == dims)
            used += (size_t)snprintf(text + used, room - used, "%s%s", used ? ", " : "",
                                     layouts[i].name);
    return text;
}

static weft_status said_layout(const char *name, const weft_shape *file, const char *said,
                               weft_channels *out)
{
    char text[128];
    int dims = file->rank - 1;
    size_t i = 0;
    while (i < WEFT_COUNT(layouts) && strcmp(layouts[i].name, said) != 0) i++;
    if (i == WEFT_COUNT(layouts))
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "data 'npy': layout is '%s', must be one of %s (channels, depth, height, "
                         "width; tc: positions of a sequence and their features)",
                         said, name_layouts(0, text, sizeof(text)));
    if ((int)strlen(said) != dims) {
        bool some = *name_layouts(dims, text, sizeof(text));
        return weft_fail(
            WEFT_ERR_ARGUMENT,
            "data 'npy': layout is '%s', but the samples of %s have %d dimension%s; %s%s", said,
            name, dims, weft_plural(dims), some ? "give one of " : "leave the option out", text);
    }
    *out = layouts[i].channels;
    return WEFT_OK;
}

weft_status weft_layout_find(const char *name, const weft_shape *file, const char *said,
                             weft_context *context, weft_channels *out)
{
    const int64_t *d = file->dim;
    if (said) return said_layout(name, file, said, out);
    *out = file->rank == 3 ? WEFT_CHANNELS_NONE : WEFT_CHANNELS_FIRST;
    if (file->rank != 4) return WEFT_OK;
    bool hwc = is_channels(d[3], d[1], d[2]), chw = is_channels(d[1], d[2], d[3]);
    if (hwc == chw)
        return weft_fail(
            WEFT_ERR_ARGUMENT,
            "%s: it cannot be told where the channels of samples [%lld, %lld, %lld] are; give "
            "layout=hwc or layout=chw (height, width, channels), or layout=dhw (there are none)",
            name, (long long)d[1], (long long)d[2], (long long)d[3]);
    weft_log(context, WEFT_LOG_NOTE, "%s: samples [%lld, %lld, %lld] are taken for %s (layout=%s)",
             name, (long long)d[1], (long long)d[2], (long long)d[3],
             hwc ? "height, width, channels" : "channels, height, width", hwc ? "hwc" : "chw");
    *out = hwc ? WEFT_CHANNELS_LAST : WEFT_CHANNELS_FIRST;
    return WEFT_OK;
}

weft_shape weft_layout_shape(const weft_shape *file, weft_channels channels)
{
    weft_shape shape = {0};
    if (channels == WEFT_CHANNELS_NONE) shape.dim[shape.rank++] = 1;
    if (channels == WEFT_CHANNELS_LAST) shape.dim[shape.rank++] = file->dim[file->rank - 1];
    for (int i = 1; i < file->rank - (channels == WEFT_CHANNELS_LAST); i++)
        shape.dim[shape.rank++] = file->dim[i];
    return shape;
}

const char *weft_layout_name(const weft_shape *file, weft_channels channels)
{
    for (size_t i = 0; i < WEFT_COUNT(layouts); i++)
        if ((int)strlen(layouts[i].name) == file->rank - 1 && layouts[i].channels == channels)
            return layouts[i].name;
    return NULL;
}

bool weft_layout_suggest(const weft_shape *file, const weft_shape *want, char *out, size_t room)
{
    size_t used = 0;
    for (size_t i = 0; i < WEFT_COUNT(layouts); i++) {
        weft_shape shape = weft_layout_shape(file, layouts[i].channels);
        if ((int)strlen(layouts[i].name) == file->rank - 1 && weft_shape_equal(&shape, want) &&
            used < room)
            used += (size_t)snprintf(out + used, room - used, "%slayout=%s", used ? " or " : "",
                                     layouts[i].name);
    }
    return used > 0;
}

weft_status weft_layout_held(const weft_data_stats *stats, unsigned *out)
{
    const weft_source_request request = {.stats = stats};
    char *layout;
    *out = 0;
    WEFT_TRY(weft_spec_held(&request, "npy", "layout", &layout));
    if (!layout) return WEFT_OK;
    for (size_t i = 0; i < WEFT_COUNT(layouts); i++)
        for (int k = 0; k < stats->inputs && strcmp(layouts[i].name, layout) == 0; k++)
            if (layouts[i].channels == WEFT_CHANNELS_LAST && stats->input[k].values == 0 &&
                stats->input[k].shape.rank == (int)strlen(layout))
                *out |= 1U << k;
    free(layout);
    return WEFT_OK;
}

weft_shape weft_layout_channels_last(const weft_shape *shape)
{
    weft_shape file = {.rank = shape->rank};
    for (int i = 0; i < shape->rank; i++) file.dim[i] = shape->dim[(i + 1) % shape->rank];
    return file;
}

void weft_layout_move_channels(const weft_shape *shape, size_t each, const void *from, void *to)
{
    int64_t channels = shape->dim[0], pixels = weft_shape_elements(shape) / channels;
    const char *in = from;
    char *out = to;
    for (int64_t c = 0; c < channels; c++)
        for (int64_t j = 0; j < pixels; j++)
            memcpy(out + (size_t)(c * pixels + j) * each, in + (size_t)(j * channels + c) * each,
                   each);
}
