/* Computes the statistics of the training split that normalise the data: mean and deviation of the
 * features and of numeric targets. */
#include <float.h>
#include <math.h>

#include "data/data.h"
#include "formats/table.h"

static weft_status name_copy(const char *from, char **to)
{
    return from ? weft_strdup(from, to) : WEFT_OK;
}

void weft_data_stats_free(weft_data_stats *stats)
{
    weft_strings_free(&stats->class_names, stats->classes);
    weft_strings_free(&stats->column_names, weft_shape_elements(&stats->input[0].shape));
    weft_strings_free(&stats->target_names, stats->targets);
    free(stats->label_name);
    free(stats->tokenizer);
    free(stats->reading);
    free(stats->weight_name);
    free(stats->id_name);
    free(stats->mean);
    free(stats->deviation);
    free(stats->target_mean);
    free(stats->target_deviation);
    weft_table_free(stats->table);
    *stats = (weft_data_stats){0};
}

static weft_status numbers_copy(const double *from, int count, double **to)
{
    WEFT_TRY(WEFT_NEW(to, count));
    if (count > 0) memcpy(*to, from, (size_t)count * sizeof(**to));
    return WEFT_OK;
}

weft_status weft_data_stats_copy(const weft_data_stats *from, weft_data_stats *to)
{
    to->inputs = from->inputs;
    memcpy(to->input, from->input, sizeof(to->input));
    to->positions = from->positions;
    WEFT_TRY(name_copy(from->tokenizer, &to->tokenizer));
    WEFT_TRY(name_copy(from->reading, &to->reading));
    to->features = from->features;
    to->bytes = from->bytes;
    to->range = from->range;
    to->classes = from->classes;
    to->targets = from->targets;
    to->binary = from->binary;
    WEFT_TRY(weft_strings_copy(from->target_names, from->targets, &to->target_names));
    WEFT_TRY(numbers_copy(from->mean, from->features, &to->mean));
    WEFT_TRY(numbers_copy(from->deviation, from->features, &to->deviation));
    WEFT_TRY(numbers_copy(from->target_mean, from->targets, &to->target_mean));
    WEFT_TRY(numbers_copy(from->target_deviation, from->targets, &to->target_deviation));
    to->label_column = from->label_column;
    WEFT_TRY(weft_table_copy(from->table, &to->table));
    WEFT_TRY(weft_strings_copy(from->class_names, from->classes, &to->class_names));
    WEFT_TRY(weft_strings_copy(from->column_names, weft_shape_elements(&from->input[0].shape),
                               &to->column_names));
    to->weight_column = from->weight_column;
    WEFT_TRY(name_copy(from->weight_name, &to->weight_name));
    to->id_column = from->id_column;
    WEFT_TRY(name_copy(from->id_name, &to->id_name));
    return name_copy(from->label_name, &to->label_name);
}

/* The factor of all weights, a power of two, with which no sum of weighted squares is too large
 * because of the weights. The figures have the same bits with any. */
static double weight_factor(const weft_source *s)
{
    double sum = 0;
    for (int64_t i = 0; i < s->count[WEFT_TRAIN] && s->weighted; i++)
        sum += weft_source_weight_sum(s, WEFT_TRAIN, i);
    return sum > 0x1p300 && isfinite(sum) ? ldexp(1, -ilogb(sum)) : 1;
}

/* Updates *mean, and in *deviation the sum of squares about the mean, with one value (Welford's
 * algorithm; West 1979 for weights). n: sum of the weights so far, with that of this value. */
static void add_value(double value, double weight, double n, double *mean, double *deviation)
{
    double delta = value - *mean;
    *mean += delta / (n / weight);
    double square = weight * delta * (value - *mean);
    /* A square that underflows becomes the smallest positive number, so that finish does not take
     * the column for a constant. */
    if (delta != 0 && n > weight && weight * delta * delta < DBL_MIN)
        square = fmax(square, DBL_TRUE_MIN);
    if (!(square < 0)) *deviation += square; /* rounding may make it negative */
}

static weft_status refuse_squares(const weft_source *s, const char *what, const char *const *names,
                                  int f, const char *rule)
{
    const char *name = names ? names[f] : NULL;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "%s%s%s %d%s%.60s%s: its numbers are too %s by a power of ten",
                     s->file ? s->file : "", s->file ? ": " : "", what, f, name ? " (" : "",
                     name ? name : "", name ? ")" : "", rule);
}

/* Replaces sums of squares by deviations. A constant column gets deviation 1, so that it is
 * normalised to zero without a division by zero. names: of the columns, or NULL. */
static weft_status finish(const weft_source *s, const char *what, const char *const *names,
                          const double *mean, double *deviation, int count, double n)
{
    for (int f = 0; f < count; f++) {
        if (deviation[f] > 0 && deviation[f] < DBL_MIN)
            return refuse_squares(s, what, names, f, "small to be squared; multiply them");
        deviation[f] = n > 0 ? sqrt(deviation[f] / n) : 1;
        if (!isfinite(mean[f]) || !isfinite(deviation[f]))
            return refuse_squares(s, what, names, f, "large to be squared; divide them");
        if (!(deviation[f] > 0)) deviation[f] = 1;
    }
    return WEFT_OK;
}

/* Takes the elements of one input of a sample into mean and deviation. x: room for them. */
static weft_status measure_input(const weft_source *s, int64_t i, int input, double weight,
                                 double *n, float *x, weft_data_stats *stats)
{
    int64_t size = weft_source_counted(s, WEFT_TRAIN, i, input);
    if (s->input[input].dtype != WEFT_F32) return WEFT_OK;
    if (!s->tabular) s->ops->features(s, WEFT_TRAIN, i, input, x);
    if (s->tabular) *n += weight;
    for (int64_t j = 0; j < size; j++) {
        int f = s->tabular ? (int)j : 0;
        if (!s->tabular) *n += weight;
        double value = s->tabular ? s->ops->number(s, WEFT_TRAIN, i, j) : (double)x[j];
        if (!isfinite(value)) return weft_source_not_finite(s, WEFT_TRAIN, i, input, j);
        add_value(value, weight, *n, &stats->mean[f], &stats->deviation[f]);
    }
    return WEFT_OK;
}

/* Features that are 0 or 1 by their nature stay so, since the deviation of a rare one is small. */
static void keep_flags(const weft_source *s, weft_data_stats *stats)
{
    for (int f = 0; s->table && f < stats->features; f++) {
        if (!weft_table_is_flag(s->table, f)) continue;
        stats->mean[f] = 0;
        stats->deviation[f] = 1;
    }
}

weft_status weft_data_stats_measure(const weft_source *s, weft_data_stats *stats)
{
    double n = 0;
    memset(stats->mean, 0, (size_t)stats->features * sizeof(*stats->mean));
    memset(stats->deviation, 0, (size_t)stats->features * sizeof(*stats->deviation));
    float *x;
    WEFT_TRY(WEFT_NEW(&x, weft_source_largest(s)));
    weft_status status = WEFT_OK;
    double factor = weight_factor(s);
    for (int64_t i = 0; i < s->count[WEFT_TRAIN] && status == WEFT_OK; i++) {
        double weight = factor * weft_source_weight_sum(s, WEFT_TRAIN, i);
        for (int k = 0; k < s->inputs && weight > 0 && status == WEFT_OK; k++)
            status = measure_input(s, i, k, weight, &n, x, stats);
    }
    free(x);
    WEFT_TRY(status);
    WEFT_TRY(finish(s, "feature", (const char *const *)s->column_names, stats->mean,
                    stats->deviation, stats->features, n));
    keep_flags(s, stats);
    return WEFT_OK;
}

/* Computes mean and deviation of numeric targets (0 and 1 if not `standard`). By these they are
 * normalised, so that an untrained model is not far from them. */
static weft_status measure_target(const weft_source *s, bool standard, weft_data_stats *stats)
{
    stats->targets = s->targets;
    stats->binary = s->binary;
    if (s->targets == 0) return WEFT_OK;
    WEFT_TRY(weft_strings_copy(s->target_names, s->targets, &stats->target_names));
    WEFT_TRY(WEFT_NEW(&stats->target_mean, s->targets));
    WEFT_TRY(WEFT_NEW(&stats->target_deviation, s->targets));
    for (int j = 0; j < s->targets && s->mirrored; j++) {
        int64_t f = weft_feature_of(stats, j, weft_shape_elements(weft_source_shape(s)));
        stats->target_mean[j] = stats->mean[f];
        stats->target_deviation[j] = stats->deviation[f];
    }
    if (s->mirrored) return WEFT_OK;
    int64_t rows = standard && !s->binary ? s->count[WEFT_TRAIN] : 0;
    double n = 0, factor = weight_factor(s);
    for (int64_t i = 0; i < rows; i++) {
        double weight = factor * weft_source_weight_sum(s, WEFT_TRAIN, i);
        n += weight;
        for (int j = 0; j < s->targets && weight > 0; j++) {
            double value = s->ops->target(s, WEFT_TRAIN, i, j);
            if (!isfinite(value)) return weft_source_not_finite(s, WEFT_TRAIN, i, s->inputs, j);
            add_value(value, weight, n, &stats->target_mean[j], &stats->target_deviation[j]);
        }
    }
    return finish(s, "target", s->label_name && s->targets == 1 ? &s->label_name : NULL,
                  stats->target_mean, stats->target_deviation, s->targets, n);
}

/* Sets stats->range and stats->bytes: pixels from 0 to 255 may be stored as floats, too. */
static weft_status find_bytes(const weft_source *s, weft_data_stats *stats)
{
    WEFT_TRY(weft_range_measure(s, WEFT_TRAIN, &stats->range));
    stats->bytes = s->bytes || (!s->tabular && stats->range.high >= 2);
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
    if (!s->class_names || !s->as_target) return WEFT_OK; /* they are no numbers of a file */
    return weft_check_measured(s->found_in, s->classes, whole, s->all, s->as_target);
}

/* Refuses names of classes that a checkpoint could not give back: they must be text in UTF-8
 * without control characters. */
static weft_status check_names(const weft_source *s)
{
    char text[256];
    for (int i = 0; s->class_names && i < s->classes; i++)
        if (!weft_is_printable(s->class_names[i]))
            return weft_fail(WEFT_ERR_FORMAT,
                             "class %d is named '%s', which is not text in UTF-8 without control "
                             "characters; rename it",
                             i, weft_printable(s->class_names[i], text, sizeof(text)));
    return WEFT_OK;
}

/* Refuses inputs that would need statistics of their own, since all inputs share one mean and
 * deviation. */
static weft_status check_shared(const weft_source *s, const weft_normalization *how)
{
    int inputs = 0;
    for (int k = 0; k < s->inputs; k++) inputs += s->input[k].dtype == WEFT_F32;
    if (how->measures && inputs > 1)
        return weft_fail(
            WEFT_ERR_ARGUMENT,
            "--normalize standard computes one mean and deviation, but the data have %d "
            "inputs of numbers; scale each array in its file and give --normalize none",
            inputs);
    if (how->keeps || !s->mixed) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "some of the %d inputs of numbers are bytes and others are not, and one "
                     "normalisation holds for all; divide the bytes by 255 in their file, or give "
                     "--normalize none",
                     inputs);
}

enum { CHANNELS = 3 };

/* Refuses data that have no channels of colours, where each of these has its own mean. */
static weft_status check_channels(const weft_source *s, const weft_normalization *how)
{
    const weft_input *in = &s->input[0];
    if (!how->mean || (s->inputs == 1 && in->dtype == WEFT_F32 && in->shape.rank == 3 &&
                       in->shape.dim[0] == CHANNELS))
        return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "--normalize %s is for pictures of three channels, red, green and blue, "
                     "which these data are not; give --normalize standard, or pictures in colour",
                     how->name);
}

/* Refuses numbers that are no pixels, such as those that were normalised before. */
static weft_status check_pixels(const weft_source *s, const weft_normalization *how,
                                const weft_range *range)
{
    if (!how->mean || s->bytes || (range->low > -0.5 && range->high < 256)) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "--normalize %s takes pixels from 0 to 255, or as shares from 0 to 1, and the "
                     "numbers of these data are from %g to %g; give --normalize none if they were "
                     "normalised before",
                     how->name, range->low, range->high);
}

weft_status weft_data_stats_learn(const weft_source *s, const weft_normalization *normalize,
                                  weft_data_stats *stats)
{
    WEFT_TRY(check_names(s));
    WEFT_TRY(check_classes(s));
    WEFT_TRY(check_shared(s, normalize));
    const weft_normalization *how = normalize->of ? normalize->of(s) : normalize;
    bool standard = how->measures, unit = how->unit;
    WEFT_TRY(check_channels(s, how));
    stats->inputs = s->inputs;
    memcpy(stats->input, s->input, sizeof(stats->input));
    stats->positions = s->positions;
    WEFT_TRY(name_copy(s->tokenizer, &stats->tokenizer));
    WEFT_TRY(name_copy(s->reading, &stats->reading));
    stats->features = standard && s->tabular ? (int)weft_shape_elements(weft_source_shape(s)) : 1;
    if (how->mean) stats->features = CHANNELS;
    WEFT_TRY(WEFT_NEW(&stats->mean, stats->features));
    WEFT_TRY(WEFT_NEW(&stats->deviation, stats->features));
    if (!standard) stats->deviation[0] = unit && s->bytes ? 255 : 1;
    if (standard) WEFT_TRY(weft_data_stats_measure(s, stats));
    WEFT_TRY(find_bytes(s, stats));
    WEFT_TRY(check_pixels(s, how, &stats->range));
    for (int c = 0; how->mean && c < CHANNELS; c++) {
        stats->mean[c] = how->mean[c] * (stats->bytes ? 255 : 1);
        stats->deviation[c] = how->deviation[c] * (stats->bytes ? 255 : 1);
    }
    WEFT_TRY(measure_target(s, !normalize->keeps, stats));
    stats->classes = s->classes;
    stats->label_column = s->label_column;
    WEFT_TRY(weft_table_copy(s->table, &stats->table));
    WEFT_TRY(weft_strings_copy(s->class_names, s->classes, &stats->class_names));
    WEFT_TRY(weft_strings_copy(s->column_names, weft_shape_elements(weft_source_shape(s)),
                               &stats->column_names));
    stats->weight_column = s->weight_column;
    WEFT_TRY(name_copy(s->weight_name, &stats->weight_name));
    stats->id_column = s->id_column;
    WEFT_TRY(name_copy(s->id_name, &stats->id_name));
    return name_copy(s->label_name, &stats->label_name);
}
