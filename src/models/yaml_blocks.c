/* Repeated blocks of a YAML model: {..., block: 3, repeat: 4} makes four copies in all of the three
 * layers that end with this one, one after the other. */
#include <stdio.h>

#include "models/yaml_blocks.h"

enum { MOST_LAYERS = 4096 };

/* Reads the two keys of an item. Other keys are checked when the layer is read. */
static weft_status read_keys(const weft_yaml *yaml, int item, int64_t *block, int64_t *copies)
{
    layer_keys k = {0};
    weft_status status = weft_options_init(weft_yaml_layers, &k);
    if (status == WEFT_OK) status = weft_yaml_apply(yaml, item, &k);
    *block = k.block;
    *copies = k.repeat;
    weft_options_free(weft_yaml_layers, &k);
    return status;
}

static weft_status add(layer_places *p, layer_place place, const char *file, int line)
{
    if (p->count == MOST_LAYERS)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "%s:%d: with this block the model has more than %d layers", file, line,
                         MOST_LAYERS);
    WEFT_TRY(WEFT_GROW(&p->at, &p->capacity, (size_t)p->count));
    p->at[p->count++] = place;
    return WEFT_OK;
}

/* Adds the further copies of a block of `block` layers that ends with an item. *free: the first
 * item that is in no block yet. */
static weft_status add_copies(const weft_yaml *yaml, const char *file, int item, int64_t block,
                              int64_t copies, int *free, layer_places *p)
{
    if (copies <= 1 && block <= 1) return WEFT_OK;
    int line = weft_yaml_line(yaml, item, copies > 1 ? "repeat" : "block");
    int here = item + 1 - *free;
    if (copies <= 1)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "%s:%d: block is the number of layers that 'repeat' copies, and repeat is "
                         "not given; add it, or leave block out",
                         file, line);
    if (block > here)
        return weft_fail(
            WEFT_ERR_ARGUMENT,
            "%s:%d: block is %lld, and only %d layer%s end%s here that are in no other "
            "block",
            file, line, (long long)block, here, weft_plural(here), here == 1 ? "s" : "");
    int first = item + 1 - (int)block, original = p->count - (int)block;
    for (int i = original; i < p->count; i++) {
        p->at[i].first_item = first;
        p->at[i].begin = p->at[i].original = original;
    }
    for (int copy = 2; copy <= copies; copy++)
        for (int i = first, begin = p->count; i <= item; i++)
            WEFT_TRY(add(p,
                         (layer_place){.item = i,
                                       .copy = copy,
                                       .first_item = first,
                                       .begin = begin,
                                       .original = original},
                         file, line));
    *free = item + 1;
    return WEFT_OK;
}

weft_status weft_layer_places(const weft_yaml *yaml, const char *file, layer_places *out)
{
    int free_item = 0;
    *out = (layer_places){.count = 0};
    for (int i = 0; i < weft_yaml_count(yaml); i++) {
        int64_t block = 1, copies = 1;
        /* A layer that cannot be read is reported when it is its turn. */
        if (read_keys(yaml, i, &block, &copies) != WEFT_OK) block = copies = 1;
        /* A line is looked for in the whole text, so only for the message. */
        int line = out->count == MOST_LAYERS ? weft_yaml_line(yaml, i, NULL) : 0;
        WEFT_TRY(add(out, (layer_place){.item = i, .copy = 1, .first_item = -1}, file, line));
        WEFT_TRY(add_copies(yaml, file, i, block, copies, &free_item, out));
    }
    return WEFT_OK;
}

weft_status weft_copy_name(const char *name, int copy, char **out)
{
    return copy > 1 ? weft_format(out, "%s_%d", name, copy) : weft_strdup(name, out);
}
