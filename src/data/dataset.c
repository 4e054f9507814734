/* Opens data sets: the source of a specification, its splits with their statistics, weights and
 * units, and the validation split; samples.c reads what is in them. */
#include <math.h>
#include <stdio.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/registry.h"
#include "data/data.h"

/* Whether a source reads files of this name, or folders. */
static bool reads(const weft_source_ops *ops, const char *path, bool folder)
{
    char end[16];
    size_t size, whole = strlen(path);
    for (const char *e = ops->ends; e; e = e[size] ? e + size + 1 : NULL) {
        size = strcspn(e, ",");
        (void)snprintf(end, sizeof(end), "%.*s", (int)size, e);
        if (folder ? strcmp(end, "/") == 0
                   : size < whole && strcasecmp(path + whole - size, end) == 0)
            return true;
    }
    return false;
}

/* Fails for a specification of no known kind. One that begins with a file or folder that is there
 * lacks the kind alone, which the name of the file tells. */
static weft_status fail_kind(const char *spec, const weft_source_request *request,
                             weft_status status)
{
    char *path;
    struct stat info;
    const weft_entry *entry;
    status = weft_fail_within(status, "data '%s'", spec);
    if (weft_format(&path, "%.*s", (int)strcspn(spec, ","), spec) != WEFT_OK) return status;
    bool there = stat(path, &info) == 0, folder = there && S_ISDIR(info.st_mode);
    for (int i = 0; there && (entry = weft_context_entry(request->context, WEFT_KIND_DATA, i));
         i++) {
        const weft_source_ops *ops = entry->ops;
        if (!reads(ops, path, folder)) continue;
        status = weft_fail(status, "data '%s': the kind of the data is missing; give %s:%s", spec,
                           entry->name, spec);
        break;
    }
    free(path);
    return status;
}

weft_status weft_source_open(const char *spec, const weft_source_request *request,
                             weft_source **out)
{
    const weft_entry *entry;
    size_t size = strcspn(spec, ":");
    weft_status status = weft_registry_find(request->context, WEFT_KIND_DATA, spec, size, &entry);
    if (status != WEFT_OK) return fail_kind(spec, request, status);
    weft_source_request own = *request;
    own.ops = entry->ops;
    return own.ops->open(spec[size] ? spec + size + 1 : "", &own, out);
}

/* Checks that an input is like that of training. */
static weft_status check_input(const char *spec, const weft_source *s, int i,
                               const weft_input *want)
{
    char a[128], b[128];
    const weft_input *have = &s->input[i];
    (void)snprintf(a, sizeof(a), have->values ? "%d different tokens" : "real numbers",
                   have->values);
    (void)snprintf(b, sizeof(b), want->values ? "%d different tokens" : "real numbers",
                   want->values);
    if (have->dtype != want->dtype || have->values != want->values)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "data '%s': the input '%s' has %s, the training data had %s", spec,
                         have->name, a, b);
    if (weft_shape_equal(&have->shape, &want->shape)) return WEFT_OK;
    return weft_fail(
        WEFT_ERR_ARGUMENT, "data '%s' have samples of shape %s%s%s, the training data had %s%s%s",
        spec, weft_shape_text(&have->shape, a, sizeof(a)), s->inputs > 1 ? " in the input " : "",
        s->inputs > 1 ? have->name : "", weft_shape_text(&want->shape, b, sizeof(b)),
        s->remedy ? "; give " : "", s->remedy ? s->remedy : "");
}

static weft_status check_inputs(const char *spec, const weft_source *s, const weft_data_stats *want)
{
    if (s->inputs != want->inputs)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "data '%s' have %d input%s a sample, the training data had %d", spec,
                         s->inputs, weft_plural(s->inputs), want->inputs);
    for (int i = 0; i < s->inputs; i++) WEFT_TRY(check_input(spec, s, i, &want->input[i]));
    return WEFT_OK;
}

/* Checks that a sample has as many targets as in training. */
static weft_status check_targets(const char *spec, const weft_source *s,
                                 const weft_data_stats *want)
{
    if (s->unlabelled) return WEFT_OK;
    if (s->targets != want->targets)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "data '%s' have %d target%s a sample, the training data had %d", spec,
                         s->targets, weft_plural(s->targets), want->targets);
    if (s->positions == want->positions) return WEFT_OK;
    char have[64] = "one label a sample", known[64] = "one";
    if (s->positions)
        (void)snprintf(have, sizeof(have), "labels of %lld positions", (long long)s->positions);
    if (want->positions)
        (void)snprintf(known, sizeof(known), "labels of %lld positions",
                       (long long)want->positions);
    return weft_fail(WEFT_ERR_ARGUMENT, "data '%s' have %s, the training data had %s", spec, have,
                     known);
}

/* Finds a kind of normalisation by its name. */
static weft_status find_way(const weft_context *context, const char *name,
                            const weft_normalization **out)
{
    const weft_entry *entry;
    *out = weft_normalization_usual;
    if (!name) return WEFT_OK;
    WEFT_TRY(weft_registry_find(context, WEFT_KIND_NORMALIZATION, name, strlen(name), &entry));
    *out = entry->ops;
    return WEFT_OK;
}

/* The validation split that a request asks for: a share of the training split, or other data. */
static weft_status take_validation(weft_dataset *d, const weft_source_request *request)
{
    double share;
    if (weft_parse_real(request->validation, &share))
        return weft_source_hold_out(&d->source, share, request->seed);
    if (d->source->validates)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "validation is '%s', and the data have a validation part of their own; "
                         "leave it out",
                         request->validation);
    WEFT_TRY(weft_strdup(request->validation, &d->validation_spec));
    return request->folder ? weft_strdup(request->folder, &d->folder) : WEFT_OK;
}

weft_status weft_dataset_open_for(const char *spec, const char *normalize,
                                  const weft_source_request *request, weft_dataset **out)
{
    const weft_data_stats *stats = request->stats;
    weft_dataset *d;
    WEFT_TRY(WEFT_NEW(&d, 1));
    d->context = request->context;
    d->units = (weft_units){1, 1};
    d->predicted = request->unlabelled;
    weft_status status = find_way(request->context, normalize, &d->normalize);
    if (status == WEFT_OK) status = weft_source_open(spec, request, &d->source);
    if (status == WEFT_OK && request->unlabelled) d->source->weighted = false;
    if (status == WEFT_OK && request->validation) status = take_validation(d, request);
    if (status == WEFT_OK && stats) {
        d->given = true;
        d->one_unit = request->one_unit;
        status = weft_data_stats_copy(stats, &d->stats);
        if (status == WEFT_OK) status = check_inputs(spec, d->source, stats);
        if (status == WEFT_OK) status = check_targets(spec, d->source, stats);
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
    return weft_dataset_open_validated(context, spec, normalize, stats, NULL, 0, out);
}

weft_status weft_dataset_open_validated(weft_context *context, const char *spec,
                                        const char *normalize, const weft_data_stats *stats,
                                        const char *validation, uint64_t seed, weft_dataset **out)
{
    WEFT_NEED(context, spec, out);
    const weft_source_request request = {
        .context = context, .stats = stats, .validation = validation, .seed = seed};
    return weft_dataset_open_kept(spec, normalize, &request, out);
}

weft_status weft_dataset_open_unlabelled(weft_context *context, const char *spec,
                                         const weft_data_stats *stats, weft_dataset **out)
{
    WEFT_NEED(context, spec, out);
    const weft_source_request request = {
        .context = context, .stats = stats, .unlabelled = true, .each = true, .one_unit = true};
    return weft_dataset_open_for(spec, NULL, &request, out);
}

void weft_dataset_close(weft_dataset **dataset)
{
    if (!dataset || !*dataset) return;
    weft_dataset *d = *dataset;
    *dataset = NULL;
    if (d->kept) return;
    weft_dataset_close(&d->validation);
    free(d->validation_spec);
    free(d->folder);
    free(d->class_weight);
    if (d->source) d->source->ops->close(d->source);
    free(d->augment);
    weft_data_stats_free(&d->stats);
    free(d->relabel);
    free(d);
}

weft_shape weft_dataset_shape(const weft_dataset *d)
{
    WEFT_NEED_ELSE_AS((weft_shape){0}, "dataset", d);
    return *weft_source_shape(d->source);
}
int64_t weft_dataset_count(const weft_dataset *d, weft_split split)
{
    WEFT_NEED_ELSE_AS(0, "dataset", d);
    WEFT_CHECK_INDEX_ELSE(0, split, WEFT_SPLITS);
    d = weft_dataset_part(d, &split);
    return d->source->count[split];
}
const weft_data_stats *weft_dataset_stats(const weft_dataset *d)
{
    WEFT_NEED_ELSE_AS(NULL, "dataset", d);
    return &d->stats;
}

bool weft_dataset_divisible(const weft_dataset *d)
{
    return d->source->ops->divide != NULL;
}

weft_status weft_dataset_divide(weft_dataset *d, double share)
{
    memset(d->source->prepared, 0, sizeof(d->source->prepared));
    return d->source->ops->divide(d->source, share);
}

/* Checks the weights of a split, whose sum must be positive and finite. */
static weft_status check_weights(const weft_source *s, weft_split split)
{
    const char *part = weft_split_name(split);
    double sum = 0;
    for (int64_t i = 0; i < s->count[split] && s->weighted; i++) {
        WEFT_TRY(weft_source_check_weights(s, split, i));
        sum += weft_source_weight_sum(s, split, i);
    }
    if (!isfinite(sum))
        return weft_fail(
            WEFT_ERR_ARGUMENT,
            "the sum of the weights of the %s part is not finite; give smaller weights", part);
    if (!s->weighted || sum > 0 || s->count[split] == 0) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "all weights of the %s part are 0, so that no sample counts", part);
}

/* Finds the factor that brings later features to the units of the training. */
static weft_status find_units(weft_dataset *d, weft_split split)
{
    const weft_source *s = d->source;
    weft_range now;
    WEFT_TRY(weft_range_measure(s, split, &now));
    const weft_number_type type = {
        .bytes = s->bytes, .fractional = s->flags || (!s->whole && !s->bytes), .table = s->tabular};
    WEFT_TRY(weft_range_compare(&d->stats, &now, &type, &d->units));
    d->one_unit = d->one_unit && weft_units_vary(&d->stats, &type);
    if (d->units.up != 1 || d->units.down != 1)
        weft_log(d->context, WEFT_LOG_NOTE,
                 "the features are from %g to %g, those of the training were from %g to %g: they "
                 "are %s by 255",
                 now.low, now.high, d->stats.range.low, d->stats.range.high,
                 d->units.up != 1 ? "multiplied" : "divided");
    return WEFT_OK;
}

/* The split of other data that is taken for validation: their own of that kind, where they have no
 * test part. */
static weft_split validating(const weft_source *s)
{
    return s->validates && s->count[WEFT_TEST] == 0 ? WEFT_VALIDATION : WEFT_TEST;
}

/* Opens and prepares the validation split that is from other data, of which a file without test= is
 * taken whole. */
static weft_status open_validation(weft_dataset *d)
{
    const weft_source_request request = {
        .context = d->context, .stats = &d->stats, .one_unit = true, .folder = d->folder};
    weft_dataset_close(&d->validation);
    weft_status status = weft_dataset_open_for(d->validation_spec, NULL, &request, &d->validation);
    if (status != WEFT_OK) return weft_fail_within(status, "validation");
    if (weft_dataset_divisible(d->validation) && !d->validation->source->divided)
        WEFT_TRY(weft_dataset_divide(d->validation, 1));
    const weft_split part = validating(d->validation->source);
    WEFT_TRY(weft_dataset_prepare(d->validation, part));
    if (d->validation->source->count[part] > 0)
        return d->given ? WEFT_OK : weft_dataset_note_repeated(d, d->validation, part);
    return weft_fail(WEFT_ERR_ARGUMENT, "data '%s' for validation have no sample",
                     d->validation_spec);
}

weft_status weft_dataset_prepare(weft_dataset *d, weft_split split)
{
    WEFT_NEED_AS("dataset", d);
    WEFT_CHECK_INDEX(split, WEFT_SPLITS);
    weft_source *s = d->source;
    if (s->prepared[split]) return WEFT_OK;
    if (split != WEFT_TRAIN && !d->given) WEFT_TRY(weft_dataset_prepare(d, WEFT_TRAIN));
    if (split == WEFT_VALIDATION && !s->validates) {
        if (d->validation_spec) WEFT_TRY(open_validation(d));
        s->prepared[split] = true;
        return WEFT_OK;
    }
    WEFT_TRY(s->ops->prepare(s, split));
    WEFT_TRY(check_weights(s, split));
    for (int k = 0; d->given && k < s->inputs; k++) s->input[k].lengths = d->stats.input[k].lengths;
    if (!d->given && !d->measured) WEFT_TRY(weft_data_stats_learn(s, d->normalize, &d->stats));
    WEFT_TRY(weft_dataset_match_classes(d));
    if (d->given) WEFT_TRY(find_units(d, split));
    d->measured = true;
    WEFT_TRY(weft_dataset_check_split(d, split));
    WEFT_TRY(weft_source_status(s));
    /* Parts of one file that are drawn may repeat rows of it. */
    if (split == WEFT_TEST && !d->given && s->apart)
        WEFT_TRY(weft_dataset_note_repeated(d, d, split));
    s->prepared[split] = true;
    return WEFT_OK;
}

weft_status weft_dataset_set_lengths(weft_dataset *d, const weft_input *input)
{
    weft_source *s = d->source;
    bool some = false; /* also before: another model may have used a data set that is kept */
    for (int k = 0; k < s->inputs; k++) {
        some = some || input[k].lengths > 0 || s->input[k].lengths > 0;
        s->input[k].lengths = d->stats.input[k].lengths = input[k].lengths;
    }
    if (!some || d->given) return WEFT_OK;
    if (d->normalize->measures) WEFT_TRY(weft_data_stats_measure(s, &d->stats));
    for (int split = 0; split < WEFT_SPLITS; split++)
        if (s->prepared[split]) WEFT_TRY(weft_dataset_check_split(d, (weft_split)split));
    return d->validation ? open_validation(d) : WEFT_OK; /* it has a copy of the statistics */
}

const weft_dataset *weft_dataset_part(const weft_dataset *d, weft_split *split)
{
    if (*split != WEFT_VALIDATION || !d->validation) return d;
    *split = validating(d->validation->source);
    return d->validation;
}
