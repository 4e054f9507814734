#include <math.h>
#include <stdio.h>

#include "data/data.h"
#include "formats/formats.h"

const weft_source_ops *const weft_sources[] = {
    &weft_source_glyphs, &weft_source_idx, &weft_source_csv, &weft_source_npy, NULL,
};

const char *weft_dataset_kind(int i)
{
    return i >= 0 && i < (int)WEFT_COUNT(weft_sources) - 1 ? weft_sources[i]->form : NULL;
}

const char *weft_dataset_help(int i)
{
    return i >= 0 && i < (int)WEFT_COUNT(weft_sources) - 1 ? weft_sources[i]->help : NULL;
}

struct weft_dataset {
    weft_source *source;
    char *normalize;
    weft_data_stats stats;
    bool given;          /* the statistics came from outside */
    int32_t *relabel;    /* from the source's classes to the given ones */
    bool measured;       /* what follows is known */
    float shift, factor; /* of what is no table */
};

static void names_free(char ***names, int64_t count)
{
    for (int64_t i = 0; *names && i < count; i++) free((*names)[i]);
    free(*names);
    *names = NULL;
}

static weft_status names_copy(char *const *from, int64_t count, char ***to)
{
    if (!from) return WEFT_OK;
    WEFT_TRY(WEFT_NEW(to, count));
    for (int64_t i = 0; i < count; i++) WEFT_TRY(weft_strdup(from[i], &(*to)[i]));
    return WEFT_OK;
}

void weft_data_stats_free(weft_data_stats *stats)
{
    names_free(&stats->class_names, stats->classes);
    names_free(&stats->column_names, weft_shape_elements(&stats->shape));
    free(stats->label_name);
    free(stats->mean);
    free(stats->deviation);
    *stats = (weft_data_stats){0};
}

static weft_status stats_copy(const weft_data_stats *from, weft_data_stats *to)
{
    to->shape = from->shape;
    to->features = from->features;
    to->classes = from->classes;
    WEFT_TRY(WEFT_NEW(&to->mean, from->features));
    WEFT_TRY(WEFT_NEW(&to->deviation, from->features));
    for (int i = 0; i < from->features; i++) {
        to->mean[i] = from->mean[i];
        to->deviation[i] = from->deviation[i];
    }
    to->label_column = from->label_column;
    WEFT_TRY(names_copy(from->class_names, from->classes, &to->class_names));
    WEFT_TRY(names_copy(from->column_names, weft_shape_elements(&from->shape), &to->column_names));
    return from->label_name ? weft_strdup(from->label_name, &to->label_name) : WEFT_OK;
}

static const char *kind_candidate(const void *user, int i)
{
    (void)user;
    return weft_sources[i] ? weft_sources[i]->kind : NULL;
}

static weft_status open_source(const char *spec, const weft_source_wish *wish, weft_source **out)
{
    char kind[32], near[256];
    const char *colon = strchr(spec, ':');
    size_t size = colon ? (size_t)(colon - spec) : strlen(spec);
    (void)snprintf(kind, sizeof(kind), "%.*s", (int)WEFT_MIN(size, sizeof(kind) - 1), spec);
    for (int i = 0; weft_sources[i]; i++)
        if (strcmp(weft_sources[i]->kind, kind) == 0)
            return weft_sources[i]->open(colon ? colon + 1 : "", wish, out);
    return weft_fail(WEFT_ERR_ARGUMENT, "data '%s': no kind is named '%s'%s", spec, kind,
                     weft_suggest(near, sizeof(near), kind, kind_candidate, NULL));
}

static weft_status check_shape(const char *spec, const weft_shape *have, const weft_shape *want)
{
    char a[128], b[128];
    if (weft_shape_equal(have, want)) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "data '%s' have samples of shape %s, the checkpoint was trained on %s", spec,
                     weft_shape_text(have, a, sizeof(a)), weft_shape_text(want, b, sizeof(b)));
}

static weft_status open_dataset(const char *spec, const char *normalize,
                                const weft_source_wish *wish, weft_dataset **out)
{
    const weft_data_stats *stats = wish->stats;
    weft_dataset *d;
    WEFT_TRY(WEFT_NEW(&d, 1));
    weft_status status = weft_strdup(normalize ? normalize : "auto", &d->normalize);
    if (status == WEFT_OK) status = open_source(spec, wish, &d->source);
    if (status == WEFT_OK && stats) {
        d->given = true;
        status = stats_copy(stats, &d->stats);
        if (status == WEFT_OK) status = check_shape(spec, &d->source->shape, &stats->shape);
    }
    if (status != WEFT_OK) {
        weft_dataset_close(&d);
        return status;
    }
    *out = d;
    return WEFT_OK;
}

weft_status weft_dataset_open(weft_context *context, const char *spec, const char *normalize,
                              const weft_data_stats *stats, weft_dataset **out)
{
    return open_dataset(spec, normalize, &(weft_source_wish){.context = context, .stats = stats},
                        out);
}

weft_status weft_dataset_open_unlabelled(weft_context *context, const char *spec,
                                         const weft_data_stats *stats, weft_dataset **out)
{
    const weft_source_wish wish = {.context = context, .stats = stats, .unlabelled = true};
    return open_dataset(spec, NULL, &wish, out);
}

void weft_dataset_close(weft_dataset **dataset)
{
    if (!dataset || !*dataset) return;
    weft_dataset *d = *dataset;
    if (d->source) d->source->ops->close(d->source);
    weft_data_stats_free(&d->stats);
    free(d->normalize);
    free(d->relabel);
    free(d);
    *dataset = NULL;
}

weft_shape weft_dataset_shape(const weft_dataset *d)
{
    return d->source->shape;
}
int64_t weft_dataset_count(const weft_dataset *d, weft_split split)
{
    return d->source->count[split];
}
const weft_data_stats *weft_dataset_stats(const weft_dataset *d)
{
    return &d->stats;
}

bool weft_dataset_labelled(const weft_dataset *d)
{
    return !d->source->unlabelled;
}

/* Mean and deviation over the training part, by Welford's update. */
static weft_status measure(weft_dataset *d)
{
    weft_source *s = d->source;
    int64_t size = weft_shape_elements(&s->shape), n = 0;
    int features = s->tabular ? (int)size : 1;
    float *x;
    WEFT_TRY(WEFT_NEW(&x, size));
    for (int64_t i = 0; i < s->count[WEFT_TRAIN]; i++) {
        int32_t label;
        s->ops->read(s, WEFT_TRAIN, i, s->tabular ? NULL : x, &label);
        if (features > 1) n++;
        for (int64_t j = 0; j < size; j++) {
            int f = features > 1 ? (int)j : 0;
            if (features == 1) n++;
            double value = s->tabular ? s->ops->number(s, WEFT_TRAIN, i, j) : (double)x[j];
            double delta = value - d->stats.mean[f];
            d->stats.mean[f] += delta / (double)n;
            d->stats.deviation[f] += delta * (value - d->stats.mean[f]);
        }
    }
    free(x);
    for (int f = 0; f < features; f++) {
        d->stats.deviation[f] = n > 0 ? sqrt(d->stats.deviation[f] / (double)n) : 1;
        /* A constant column carries nothing: it becomes zero instead of a division by zero. */
        if (!(d->stats.deviation[f] > 0)) d->stats.deviation[f] = 1;
    }
    return WEFT_OK;
}

static weft_status check_classes(const weft_source *s)
{
    bool whole = true;
    for (int i = 0; s->class_names && i < s->classes; i++) {
        double value;
        if (!weft_parse_real(s->class_names[i], &value)) return WEFT_OK;
        whole = whole && value == floor(value);
    }
    return s->class_names ? weft_check_measured(s->found_in, s->classes, whole, s->all) : WEFT_OK;
}

static weft_status learn_stats(weft_dataset *d)
{
    const weft_source *s = d->source;
    WEFT_TRY(check_classes(s));
    const char *how = d->normalize;
    if (strcmp(how, "auto") == 0) how = s->bytes ? "unit" : s->tabular ? "standard" : "none";
    bool standard = strcmp(how, "standard") == 0, unit = strcmp(how, "unit") == 0;
    if (!standard && !unit && strcmp(how, "none") != 0)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "normalize is '%s', must be auto, none, unit or standard", how);
    weft_data_stats *stats = &d->stats;
    stats->shape = s->shape;
    stats->features = standard && s->tabular ? (int)weft_shape_elements(&s->shape) : 1;
    WEFT_TRY(WEFT_NEW(&stats->mean, stats->features));
    WEFT_TRY(WEFT_NEW(&stats->deviation, stats->features));
    if (!standard) stats->deviation[0] = unit && s->bytes ? 255 : 1;
    if (standard) WEFT_TRY(measure(d));
    stats->classes = s->classes;
    stats->label_column = s->label_column;
    WEFT_TRY(names_copy(s->class_names, s->classes, &stats->class_names));
    WEFT_TRY(names_copy(s->column_names, weft_shape_elements(&s->shape), &stats->column_names));
    return s->label_name ? weft_strdup(s->label_name, &stats->label_name) : WEFT_OK;
}

/* Labels by name mean the checkpoint's numbers, whatever else this file holds. */
static weft_status find_relabel(weft_dataset *d)
{
    const weft_source *s = d->source;
    if (!d->given || !s->class_names || !d->stats.class_names || d->relabel) return WEFT_OK;
    WEFT_TRY(WEFT_NEW(&d->relabel, s->classes));
    for (int i = 0; i < s->classes; i++) {
        d->relabel[i] = -1;
        for (int j = 0; j < d->stats.classes; j++)
            if (weft_csv_same_class(s->class_names[i], d->stats.class_names[j])) d->relabel[i] = j;
        if (d->relabel[i] < 0)
            return weft_fail(WEFT_ERR_ARGUMENT,
                             "label '%s' is not among the %d classes the model was trained on",
                             s->class_names[i], d->stats.classes);
    }
    return WEFT_OK;
}

static weft_status check_labels(const weft_dataset *d, weft_split split)
{
    const weft_source *s = d->source;
    for (int64_t i = 0; i < s->count[split] && !s->unlabelled; i++) {
        int32_t label;
        s->ops->read(s, split, i, NULL, &label);
        if (d->relabel) label = d->relabel[label];
        if (label < 0 || label >= d->stats.classes)
            return weft_fail(WEFT_ERR_FORMAT,
                             "the %s part, sample %lld: label %d is out of range, the classes are "
                             "0 to %d",
                             split == WEFT_TRAIN ? "training" : "test", (long long)i, label,
                             d->stats.classes - 1);
    }
    return WEFT_OK;
}

weft_status weft_dataset_prepare(weft_dataset *d, weft_split split)
{
    weft_source *s = d->source;
    if (s->prepared[split]) return WEFT_OK;
    if (split == WEFT_TEST && !d->given) WEFT_TRY(weft_dataset_prepare(d, WEFT_TRAIN));
    WEFT_TRY(s->ops->prepare(s, split));
    if (!d->given && !d->measured) WEFT_TRY(learn_stats(d));
    WEFT_TRY(find_relabel(d));
    d->shift = (float)d->stats.mean[0];
    d->factor = (float)(1 / d->stats.deviation[0]);
    d->measured = true;
    WEFT_TRY(check_labels(d, split));
    s->prepared[split] = true;
    return WEFT_OK;
}

void weft_dataset_read(const weft_dataset *d, weft_split split, int64_t i, float *x, int32_t *label)
{
    const weft_source *s = d->source;
    int64_t size = weft_shape_elements(&s->shape);
    s->ops->read(s, split, i, s->tabular ? NULL : x, label);
    if (s->unlabelled) *label = -1;
    if (d->relabel && *label >= 0) *label = d->relabel[*label];
    if (s->tabular) {
        const weft_data_stats *stats = &d->stats;
        for (int64_t j = 0; j < size; j++) {
            int f = stats->features > 1 ? (int)j : 0;
            double value = s->ops->number(s, split, i, j);
            x[j] = (float)((value - stats->mean[f]) / stats->deviation[f]);
        }
        return;
    }
    for (int64_t j = 0; j < size; j++) x[j] = (x[j] - d->shift) * d->factor;
}
