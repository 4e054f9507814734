/* Registers the built-in kinds of data and of normalisation. */
#include "base/registry.h"
#include "data/augment/augment.h"
#include "data/data.h"

static const weft_source_ops *const sources[] = {
    &weft_source_glyphs,      &weft_source_idx,     &weft_source_csv,   &weft_source_npy,
    &weft_source_text,        &weft_source_tokens,  &weft_source_pairs, &weft_source_images,
    &weft_source_tar,         &weft_source_cifar10, &weft_source_mnist, &weft_source_fashion_mnist,
    &weft_source_reconstruct,
};

static const weft_normalization *by_data(const weft_source *s);

static const double imagenet_mean[] = {0.485, 0.456, 0.406},
                    imagenet_deviation[] = {0.229, 0.224, 0.225};

/* The first is that of data sets for which none is named. */
static const weft_normalization ways[] = {
    {"auto", "bytes as unit, tables and arrays [n, columns] as standard", .of = by_data},
    {"none", "numbers stay as they are", .keeps = true},
    {"unit", "bytes are divided by 255", .unit = true},
    {"standard", "by the training mean and deviation", .measures = true},
    {"imagenet", "pictures in colour by the mean and deviation of ImageNet's channels",
     .mean = imagenet_mean, .deviation = imagenet_deviation},
};
const weft_normalization *const weft_normalization_usual = &ways[0];

static const weft_normalization *by_data(const weft_source *s)
{
    enum { NONE = 1, UNIT, STANDARD };
    return &ways[s->bytes ? UNIT : s->tabular ? STANDARD : NONE];
}

static weft_status ways_register(weft_context *context)
{
    weft_entry entries[WEFT_COUNT(ways)];
    for (size_t i = 0; i < WEFT_COUNT(ways); i++)
        entries[i] = (weft_entry){.kind = WEFT_KIND_NORMALIZATION,
                                  .name = ways[i].name,
                                  .summary = ways[i].summary,
                                  .ops = &ways[i]};
    return weft_registry_add(context, entries, WEFT_COUNT(ways));
}

weft_status weft_sources_register(weft_context *context)
{
    weft_context_extend(context, &weft_sources_extension);
    WEFT_TRY(ways_register(context));
    WEFT_TRY(weft_augmentations_register(context));
    weft_entry entries[WEFT_COUNT(sources)];
    for (size_t i = 0; i < WEFT_COUNT(sources); i++)
        entries[i] = (weft_entry){.kind = WEFT_KIND_DATA,
                                  .name = sources[i]->kind,
                                  .form = sources[i]->form,
                                  .summary = sources[i]->help,
                                  .ops = sources[i]};
    return weft_registry_add(context, entries, WEFT_COUNT(sources));
}
