/* Reads samples as a model gets them. Each value is checked where it is read, since a mapped file
 * may be too large to be read twice, and may change. */
#include <float.h>
#include <math.h>
#include <stdio.h>

#include "data/augment/augment.h"
#include "data/data.h"

/* --- messages --- */

/* Describes an element of a source that does not say itself where it is in its file. */
static void describe(const weft_source *s, weft_split split, int64_t i, int column, int64_t j,
                     char *out, size_t size)
{
    const char *name =
        column < s->inputs ? s->column_names ? s->column_names[j] : NULL : s->label_name;
    const char *what = column > s->inputs   ? "weight"
                       : column < s->inputs ? s->tabular ? "feature" : "element"
                       : s->targets > 0     ? "target"
                                            : "label";
    double value = column > s->inputs                      ? s->ops->weight(s, split, i, j)
                   : column < s->inputs && s->tabular      ? s->ops->number(s, split, i, j)
                   : column == s->inputs && s->targets > 0 ? s->ops->target(s, split, i, j)
                                                           : NAN;
    const char *file = s->ops->file ? s->ops->file(s, split, i) : NULL;
    if (!file) file = s->file;
    int head =
        file
            ? snprintf(out, size, "%.3000s: row %lld", file, (long long)s->ops->row(s, split, i))
            : snprintf(out, size, "the %s part, sample %lld", weft_split_name(split), (long long)i);
    int used = head + snprintf(out + head, size - (size_t)head, ": %s %lld%s%.60s%s", what,
                               (long long)j, name ? " (" : "", name ? name : "", name ? ")" : "");
    if (used >= 0 && (size_t)used < size)
        (void)snprintf(out + used, size - (size_t)used, " is %.15g", value);
}

void weft_source_describe(const weft_source *s, weft_split split, int64_t i, int column, int64_t j,
                          char *out, size_t size)
{
    (s->ops->describe ? s->ops->describe : describe)(s, split, i, column, j, out, size);
}

/* Fails with where an element is and what it is there, and the rule that it breaks. */
static weft_status fail(weft_status status, const weft_source *s, weft_split split, int64_t i,
                        int column, int64_t j, const char *rule)
{
    char where[4300];
    weft_source_describe(s, split, i, column, j, where, sizeof(where));
    return weft_fail(status, "%s%s", where, rule);
}

weft_status weft_source_not_finite(const weft_source *s, weft_split split, int64_t i, int column,
                                   int64_t j)
{
    return fail(WEFT_ERR_FORMAT, s, split, i, column, j,
                ", and not a finite number in single precision after normalisation; correct it, or "
                "leave the sample out");
}

/* The least and the largest of the elements of an input of sample i, without padding. x: the
 * elements, unless the source is a table, of which the numbers are read in double precision. */
static weft_range range_of(const weft_source *s, weft_split split, int64_t i, int input,
                           const float *x)
{
    weft_range range = weft_range_none();
    int64_t size = weft_source_counted(s, split, i, input);
    for (int64_t j = 0; j < size; j++) {
        double number = s->tabular ? s->ops->number(s, split, i, j) : (double)x[j];
        weft_range_take(NULL, &number, 1, &range);
    }
    return range;
}

/* Fails if a sample is not in the units of the others. */
static weft_status check_unit(const weft_dataset *d, weft_split split, int64_t i, int input)
{
    const weft_source *s = d->source;
    char where[64];
    float *x;
    WEFT_TRY(WEFT_NEW(&x, weft_source_largest(s)));
    if (!s->tabular) s->ops->features(s, split, i, input, x);
    weft_range range = range_of(s, split, i, input, x);
    free(x);
    (void)snprintf(where, sizeof(where), "sample %lld", (long long)weft_dataset_row(d, split, i));
    if (weft_units_fit(&d->stats, &d->units, &range)) return WEFT_OK;
    return weft_units_refuse(where, &range);
}

static weft_status refuse(const weft_dataset *d, weft_split split, int64_t i, int column, int64_t j)
{
    const weft_source *s = d->source;
    char rule[128];
    WEFT_TRY(weft_source_status(s));
    if (d->one_unit && column < s->inputs && s->input[column].dtype == WEFT_F32)
        WEFT_TRY(check_unit(d, split, i, column));
    if (column < s->inputs ? s->input[column].dtype == WEFT_F32 : s->targets > 0)
        return weft_source_not_finite(s, split, i, column, j);
    if (column == s->inputs && d->relabel) {
        (void)snprintf(rule, sizeof(rule), ", not among the %d classes the model was trained on",
                       d->stats.classes);
        return fail(WEFT_ERR_ARGUMENT, s, split, i, column, j, rule);
    }
    if (column < s->inputs)
        (void)snprintf(rule, sizeof(rule), ", must be from 0 to %d%s", s->input[column].values - 1,
                       d->given ? ", as in training" : "");
    else
        (void)snprintf(rule, sizeof(rule), ", and the %d classes%s are from 0 to %d",
                       d->stats.classes, d->given ? " of the training" : "", d->stats.classes - 1);
    return fail(WEFT_ERR_FORMAT, s, split, i, column, j, rule);
}

/* --- reading --- */

/* The first number that is not from 0 to values - 1, or -1; 0 replaces all of these. ignores: -1
 * replaces labels that count nowhere. */
static int64_t first_outside(int32_t *numbers, int64_t count, int values, bool ignores)
{
    int64_t first = -1;
    for (int64_t j = count - 1; j >= 0; j--) {
        if (numbers[j] >= 0 && numbers[j] < values) continue;
        bool ignored = ignores && numbers[j] == WEFT_LABEL_IGNORED;
        numbers[j] = ignored ? -1 : 0;
        if (!ignored) first = j;
    }
    return first;
}

int64_t weft_first_not_finite(const float *x, int64_t count)
{
    bool all = true;
    int64_t first = 0;
    for (int64_t j = 0; j < count; j++) all &= fabsf(x[j]) <= FLT_MAX;
    if (all) return -1;
    while (isfinite(x[first])) first++;
    return first;
}

static bool is_in_units(const weft_dataset *d, weft_split split, int64_t i, int input,
                        const float *x)
{
    if (!d->one_unit) return true;
    weft_range range = range_of(d->source, split, i, input, x);
    return weft_units_fit(&d->stats, &d->units, &range);
}

static int64_t read_table(const weft_dataset *d, weft_split split, int64_t i, float *x)
{
    const weft_source *s = d->source;
    const weft_data_stats *stats = &d->stats;
    int64_t size = weft_shape_elements(weft_source_shape(s));
    if (!is_in_units(d, split, i, 0, NULL)) return 0;
    for (int64_t j = 0; j < size; j++) {
        int64_t f = weft_feature_of(stats, j, size);
        double value = weft_in_units(s->ops->number(s, split, i, j), &d->units);
        x[j] = weft_normalise_wide(value, stats->mean[f], stats->deviation[f]);
    }
    return d->finite ? -1 : weft_first_not_finite(x, size);
}

/* Whether a sample is changed at random. */
static bool is_augmented(const weft_dataset *d, const weft_sample_key *key)
{
    return d->augment && key && key->split == WEFT_TRAIN;
}

/* Room for numbers of an augmentation; NULL: there is no memory. */
static float *make_room(const weft_dataset *d, int64_t numbers)
{
    float *room = malloc((size_t)numbers * sizeof(*room));
    if (!room) atomic_store(&((weft_dataset *)(uintptr_t)d)->starved, true);
    return room;
}

/* Changes a picture of the training at random. false: there is no memory for it. */
static bool augment(const weft_dataset *d, const weft_sample_key *key, const weft_shape *shape,
                    float *x)
{
    const weft_range *range = &d->stats.range;
    if (!is_augmented(d, key)) return true;
    float *spare = make_room(d, weft_shape_elements(shape));
    if (!spare) return false;
    bool bytes = d->stats.bytes;
    weft_augment_apply(d->augment, key, shape, bytes ? 0 : range->low, bytes ? 255 : range->high, x,
                       spare);
    free(spare);
    return true;
}

static int64_t read_input(const weft_dataset *d, weft_split split, int64_t i,
                          const weft_sample_key *key, int input, void *to)
{
    const weft_source *s = d->source;
    const weft_input *in = &s->input[input];
    int64_t all = weft_shape_elements(&in->shape), size;
    float *x = to;
    if (s->tabular) return read_table(d, split, i, x);
    const weft_sample_key as_it_is = {.epoch = -1, .split = split, .sample = i};
    if (!s->ops->draw)
        s->ops->features(s, split, i, input, to);
    else if (!s->ops->draw(s, key ? key : &as_it_is, input, to))
        return 0;
    if (in->dtype != WEFT_F32) return first_outside(to, all, in->values, false);
    if (!augment(d, key, &in->shape, x)) return 0;
    size = weft_source_counted(s, split, i, input);
    if (!is_in_units(d, split, i, input, x)) return 0;
    for (int64_t j = size; j < all; j++) x[j] = 0;
    for (int64_t j = 0; j < size && d->units.up != d->units.down; j++)
        x[j] = (float)weft_in_units((double)x[j], &d->units);
    for (int64_t f = 0, each = all / d->stats.features; f * each < size; f++) {
        float shift = (float)d->stats.mean[f], factor = (float)(1 / d->stats.deviation[f]);
        for (int64_t j = f * each; j < WEFT_MIN((f + 1) * each, size); j++)
            x[j] = weft_normalise_single(x[j], shift, factor);
    }
    return d->finite ? -1 : weft_first_not_finite(x, size);
}

/* Moves the classes of the pixels of a sample as `augment` moves these. false: there is no memory
 * for it. */
static bool move_labels(const weft_dataset *d, const weft_sample_key *key, int32_t *label)
{
    int64_t pixels = d->source->positions;
    if (pixels == 0 || !is_augmented(d, key)) return true;
    float *classes = make_room(d, 2 * pixels);
    if (!classes) return false;
    for (int64_t j = 0; j < pixels; j++) classes[j] = (float)label[j];
    weft_augment_move(d->augment, key, weft_source_shape(d->source),
                      d->source->ignores ? WEFT_LABEL_IGNORED : 0, classes, classes + pixels);
    for (int64_t j = 0; j < pixels; j++) label[j] = (int32_t)classes[j];
    free(classes);
    return true;
}

static int64_t read_target(const weft_dataset *d, weft_split split, int64_t i,
                           const weft_sample_key *key, void *to)
{
    const weft_source *s = d->source;
    const weft_data_stats *stats = &d->stats;
    if (s->mirrored) return read_input(d, split, i, key, 0, to);
    int32_t *label = to;
    float *target = to;
    for (int j = 0; j < s->targets; j++)
        target[j] = (float)((s->ops->target(s, split, i, j) - stats->target_mean[j]) /
                            stats->target_deviation[j]);
    if (s->targets > 0) return weft_first_not_finite(target, s->targets);
    s->ops->label(s, split, i, label);
    for (int64_t j = 0; d->relabel && j < weft_source_labels(s); j++)
        if (label[j] != WEFT_LABEL_IGNORED) label[j] = weft_dataset_class(d, label[j]);
    if (!move_labels(d, key, label)) return 0;
    return first_outside(label, weft_source_labels(s), stats->classes, s->ignores);
}

int64_t weft_dataset_read_column(const weft_dataset *d, weft_split split, int64_t i,
                                 const weft_sample_key *key, int column, void *to)
{
    return column < d->source->inputs ? read_input(d, split, i, key, column, to)
                                      : read_target(d, split, i, key, to);
}

/* key: as weft_dataset_read_column. */
static weft_status read_checked(const weft_dataset *d, weft_split split, int64_t i,
                                const weft_sample_key *key, int column, void *to)
{
    WEFT_CHECK_INDEX(split, WEFT_SPLITS);
    d = weft_dataset_part(d, &split);
    const weft_source *s = d->source;
    WEFT_CHECK_INDEX(i, s->prepared[split] ? s->count[split] : 0);
    WEFT_CHECK_INDEX(column, s->inputs + !s->unlabelled);
    int64_t wrong = weft_dataset_read_column(d, split, i, key, column, to);
    if (wrong < 0) return WEFT_OK;
    WEFT_TRY(weft_source_status(s));
    WEFT_TRY(weft_dataset_starved(d));
    return refuse(d, split, i, column, wrong);
}

weft_status weft_dataset_read(const weft_dataset *d, weft_split split, int64_t i, int column,
                              void *to)
{
    WEFT_NEED_AS("dataset, to", d, to);
    return read_checked(d, split, i, NULL, column, to);
}

weft_status weft_dataset_draw(const weft_dataset *d, uint64_t seed, int64_t epoch, int64_t i,
                              int column, void *to)
{
    WEFT_NEED_AS("dataset, to", d, to);
    if (epoch < 0)
        return weft_fail(WEFT_ERR_ARGUMENT, "epoch is %lld, must be at least 0", (long long)epoch);
    const weft_sample_key key = {.seed = seed, .epoch = epoch, .split = WEFT_TRAIN, .sample = i};
    return read_checked(d, WEFT_TRAIN, i, &key, column, to);
}

weft_status weft_dataset_starved(const weft_dataset *d)
{
    if (!atomic_load(&d->starved)) return WEFT_OK;
    return weft_fail_memory((size_t)weft_source_largest(d->source) * sizeof(float));
}

/* --- checking --- */

static bool is_weight(const weft_source *s, weft_split split, int64_t i, int64_t position)
{
    double weight = s->ops->weight(s, split, i, position);
    return isfinite(weight) && weight >= 0;
}

weft_status weft_source_check_weights(const weft_source *s, weft_split split, int64_t i)
{
    for (int64_t j = 0; s->weighted && j < (s->position_weights ? weft_source_labels(s) : 1); j++)
        if (!is_weight(s, split, i, j))
            return fail(WEFT_ERR_FORMAT, s, split, i, s->inputs + 1, j,
                        ", must be a number of at least 0 (0: it does not count)");
    return WEFT_OK;
}

weft_status weft_dataset_check(const weft_dataset *d, weft_split split, int64_t begin, int64_t end,
                               const weft_sample_key *key)
{
    const weft_source *s = d->source;
    weft_status status = WEFT_OK;
    void *to;
    int64_t largest = WEFT_MAX(weft_source_largest(s), weft_source_labels(s));
    WEFT_TRY(weft_new_aligned((size_t)WEFT_MAX(largest, s->targets) * sizeof(float), &to));
    for (int64_t i = begin; i < end && status == WEFT_OK; i++) {
        for (int c = 0; c < s->inputs + !s->unlabelled && status == WEFT_OK; c++) {
            if (c < s->inputs && s->input[c].dtype == WEFT_F32 && d->finite && !d->one_unit)
                continue;
            int64_t wrong = weft_dataset_read_column(d, split, i, key, c, to);
            if (wrong >= 0) status = refuse(d, split, i, c, wrong);
        }
        if (status == WEFT_OK) status = weft_source_check_weights(s, split, i);
    }
    free(to);
    return status;
}

/* Whether no integer of 64 bits can overflow when it is normalised. */
static bool integers_fit(const weft_data_stats *stats)
{
    for (int f = 0; f < stats->features; f++)
        if (!((fabs(stats->mean[f]) + 1e19) / stats->deviation[f] < (double)FLT_MAX)) return false;
    return true;
}

weft_status weft_dataset_check_split(weft_dataset *d, weft_split split)
{
    const weft_source *s = d->source;
    d->finite = s->valid || ((s->whole || s->bytes) && integers_fit(&d->stats));
    if (s->large || (s->valid && !d->one_unit)) return WEFT_OK;
    return weft_dataset_check(d, split, 0, s->count[split], NULL);
}
