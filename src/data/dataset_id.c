/* Identifies the splits of a data set, so that a resumed run, an evaluation and other learners
 * notice data that have changed. */
#include <stdio.h>

#include "data/data.h"

static uint64_t mix_names(uint64_t hash, char *const *names, int64_t count)
{
    for (int64_t i = 0; names && i < count; i++) hash = weft_mix(hash, weft_hash_text(names[i]));
    return hash;
}

static uint64_t mix_number(uint64_t hash, double number)
{
    uint64_t bits;
    memcpy(&bits, &number, sizeof(bits));
    return weft_mix(hash, bits);
}

/* x: room for an input of a sample, or for its labels. */
static uint64_t mix_input(uint64_t hash, const weft_source *s, weft_split split, int64_t i,
                          int input, void *x)
{
    int64_t size = weft_shape_elements(&s->input[input].shape);
    if (!s->tabular) s->ops->features(s, split, i, input, x);
    for (int64_t j = 0; j < size; j++)
        hash = mix_number(hash, s->tabular ? s->ops->number(s, split, i, j)
                                           : weft_number_get(s->input[input].dtype, x, j));
    return hash;
}

static uint64_t mix_row(uint64_t hash, const weft_dataset *d, weft_split split, int64_t i, void *x)
{
    const weft_source *s = d->source;
    for (int k = 0; k < s->inputs; k++) hash = mix_input(hash, s, split, i, k, x);
    for (int j = 0; j < s->targets && !s->mirrored; j++)
        hash = mix_number(hash, s->ops->target(s, split, i, j));
    if (s->targets > 0) return hash;
    s->ops->label(s, split, i, x);
    for (int64_t j = 0; j < weft_source_labels(s); j++)
        hash = weft_mix(hash, (uint64_t)weft_dataset_class(d, ((const int32_t *)x)[j]));
    return hash;
}

/* Mixes in the samples at the edges of each file, if there are several. alone: there is one, and
 * the hash is that of a table of which it is one of several. */
static uint64_t mix_edges(uint64_t hash, const weft_dataset *d, weft_split split, int64_t count,
                          bool alone, void *x)
{
    const weft_source *s = d->source;
    const char *before = NULL;
    if (alone && count > 0) return mix_row(hash, d, split, 0, x);
    for (int64_t i = 0; i < count && s->ops->file; i++) {
        const char *file = s->ops->file(s, split, i);
        if (file == before) continue;
        if (i > 0) hash = mix_row(hash, d, split, i - 1, x);
        hash = mix_row(hash, d, split, i, x);
        before = file;
    }
    return hash;
}

static bool has_rows(const weft_dataset *d)
{
    return d->source->ops->hash && weft_dataset_labelled(d);
}

/* Keeps a hash if it is one of the smallest; equal ones are kept once. */
static void keep_least(weft_split_id *id, uint64_t hash)
{
    int at = id->leasts;
    while (at > 0 && id->least[at - 1] > hash) at--;
    if (at == WEFT_LEAST_ROWS || (at > 0 && id->least[at - 1] == hash)) return;
    id->leasts = WEFT_MIN(id->leasts + 1, (int)WEFT_LEAST_ROWS);
    memmove(&id->least[at + 1], &id->least[at],
            (size_t)(id->leasts - 1 - at) * sizeof(id->least[0]));
    id->least[at] = hash;
}

static void identify_rows(const weft_dataset *d, weft_split split, int64_t count,
                          weft_split_id *out)
{
    for (int64_t i = 0; i < count && has_rows(d); i++) {
        uint64_t hash = weft_dataset_row_hash(d, split, i);
        keep_least(out, hash);
        out->rows = weft_mix(out->rows, hash);
        out->rows += out->rows == 0;
    }
}

int weft_dataset_find_rows(const weft_dataset *d, weft_split split, const weft_split_id *then)
{
    bool seen[WEFT_LEAST_ROWS] = {false};
    int found = 0;
    for (int64_t i = 0; i < weft_dataset_count(d, split) && has_rows(d); i++) {
        uint64_t hash = weft_dataset_row_hash(d, split, i);
        int at = 0;
        if (then->leasts == 0 || hash > then->least[then->leasts - 1]) continue;
        while (then->least[at] < hash) at++;
        found += then->least[at] == hash && !seen[at];
        seen[at] = seen[at] || then->least[at] == hash;
    }
    return found;
}

static weft_status identify(const weft_dataset *d, weft_split split, bool alone, weft_split_id *out)
{
    enum { ROWS = 4 };
    *out = (weft_split_id){0};
    if (split == WEFT_VALIDATION && weft_dataset_count(d, split) == 0) return WEFT_OK;
    d = weft_dataset_part(d, &split);
    const weft_data_stats *stats = &d->stats;
    int64_t size = weft_shape_elements(&stats->input[0].shape),
            count = weft_dataset_count(d, split);
    float *x;
    uint64_t hash = weft_mix(0, (uint64_t)count);
    hash = mix_names(hash, stats->class_names, stats->classes);
    hash = mix_names(hash, stats->column_names, size);
    hash = mix_names(hash, stats->target_names, stats->targets);
    if (stats->label_name) hash = weft_mix(hash, weft_hash_text(stats->label_name));
    WEFT_TRY(WEFT_NEW(&x, WEFT_MAX(weft_source_largest(d->source), weft_source_labels(d->source))));
    for (int64_t i = 0; i < WEFT_MIN(count, ROWS) && weft_dataset_labelled(d); i++)
        hash = mix_row(hash, d, split, i * (count - 1) / (ROWS - 1) % count, x);
    if (weft_dataset_labelled(d)) hash = mix_edges(hash, d, split, count, alone, x);
    free(x);
    WEFT_TRY(weft_source_status(d->source));
    *out = (weft_split_id){.samples = count, .hash = hash};
    identify_rows(d, split, count, out);
    return WEFT_OK;
}

weft_status weft_dataset_identify(const weft_dataset *d, weft_split split, weft_split_id *out)
{
    return identify(d, split, false, out);
}

weft_status weft_dataset_identify_file(const weft_dataset *d, weft_split split, weft_split_id *out)
{
    const weft_source_ops *ops = d->source->ops;
    bool several = ops->file && d->source->count[split] > 0 && ops->file(d->source, split, 0);
    return identify(d, split, !several, out);
}

weft_status weft_dataset_hash(const weft_dataset *d, uint64_t *out)
{
    weft_split_id id[WEFT_SPLITS];
    for (int i = 0; i < WEFT_SPLITS; i++) WEFT_TRY(weft_dataset_identify(d, (weft_split)i, &id[i]));
    *out = weft_mix(id[WEFT_TRAIN].hash, id[WEFT_TEST].hash);
    if (id[WEFT_VALIDATION].samples > 0) *out = weft_mix(*out, id[WEFT_VALIDATION].hash);
    return WEFT_OK;
}

bool weft_split_differs(weft_split split, const weft_split_id *then, const weft_split_id *now,
                        char *how, size_t size)
{
    bool known = then->rows != 0 && now->rows != 0;
    if (then->samples == now->samples && then->hash == now->hash &&
        (!known || then->rows == now->rows))
        return false;
    if (then->samples != now->samples)
        (void)snprintf(how, size, "the %s part has %lld sample%s, it had %lld",
                       weft_split_name(split), (long long)now->samples, weft_plural(now->samples),
                       (long long)then->samples);
    else
        (void)snprintf(how, size, "the %s part has other samples", weft_split_name(split));
    return true;
}
