/* Registers the built-in kinds of data and of normalisation. */
#include "base/registry.h"
#include "data/data.h"

static const weft_source_ops *const sources[] = {
    &weft_source_glyphs, &weft_source_idx,    &weft_source_csv,   &weft_source_npy,
    &weft_source_text,   &weft_source_tokens, &weft_source_pairs,
};

static const struct {
    const char *name, *summary;
    weft_normalize how;
} ways[] = {
    {"auto", "bytes as unit, tables and arrays [n, columns] as standard", WEFT_NORMALIZE_AUTO},
    {"none", "numbers stay as they are", WEFT_NORMALIZE_NONE},
    {"unit", "bytes are divided by 255", WEFT_NORMALIZE_UNIT},
    {"standard", "by the training mean and deviation", WEFT_NORMALIZE_STANDARD},
};

static weft_status ways_register(weft_context *context)
{
    weft_entry entries[WEFT_COUNT(ways)];
    for (size_t i = 0; i < WEFT_COUNT(ways); i++)
        entries[i] = (weft_entry){.kind = WEFT_KIND_NORMALIZATION,
                                  .name = ways[i].name,
                                  .summary = ways[i].summary,
                                  .ops = &ways[i].how};
    return weft_registry_add(context, entries, WEFT_COUNT(ways));
}

weft_status weft_sources_register(weft_context *context)
{
    weft_context_extend(context, &weft_sources_extension);
    WEFT_TRY(ways_register(context));
    weft_entry entries[WEFT_COUNT(sources)];
    for (size_t i = 0; i < WEFT_COUNT(sources); i++)
        entries[i] = (weft_entry){.kind = WEFT_KIND_DATA,
                                  .name = sources[i]->kind,
                                  .form = sources[i]->form,
                                  .summary = sources[i]->help,
                                  .ops = sources[i]};
    return weft_registry_add(context, entries, WEFT_COUNT(sources));
}
