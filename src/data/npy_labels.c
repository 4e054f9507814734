/* Checks the labels, targets and weights of a NumPy data source: their numbers agree with those of
 * the samples. Counts the classes of a training. */
#include <math.h>
#include <stdio.h>

#include "data/npy.h"

enum { MOST_TARGETS = 65536, MOST_CLASSES = 65536 };

static int64_t rows_of(const weft_npy_source *s)
{
    return s->input[0].array.shape.dim[0];
}

/* The numbers of a row of an array [rows, ...]. */
static int64_t labels_of_row(const weft_shape *shape)
{
    return shape->dim[0] > 0 ? weft_shape_elements(shape) / shape->dim[0] : 0;
}

/* --- labels --- */

static int compare_numbers(const void *a, const void *b)
{
    double x, y;
    memcpy(&x, a, sizeof(x));
    memcpy(&y, b, sizeof(y));
    return (x > y) - (x < y);
}

/* The number of different labels of any kind. */
static weft_status count_any(const weft_npy *labels, int64_t *distinct)
{
    int64_t count = weft_shape_elements(&labels->shape);
    double *all;
    WEFT_TRY(WEFT_NEW(&all, count));
    for (int64_t i = 0; i < count; i++) all[i] = weft_npy_get(labels, i);
    qsort(all, (size_t)count, sizeof(*all), compare_numbers);
    *distinct = 0;
    for (int64_t i = 0; i < count; i++) *distinct += i == 0 || all[i] != all[i - 1];
    free(all);
    return WEFT_OK;
}

/* Checks that the labels are classes and not measurements. */
static weft_status check_measured(const weft_npy *labels, const char *name, int64_t distinct,
                                  bool whole)
{
    char as_target[256];
    /* Whole numbers of several positions are classes of each: such as the tokens of a text. */
    if (labels->kind != 'f' && labels_of_row(&labels->shape) > 1) return WEFT_OK;
    (void)snprintf(as_target, sizeof(as_target), "target=%.200s", name);
    return weft_check_measured(name, distinct, whole, weft_shape_elements(&labels->shape),
                               as_target);
}

static weft_status no_label(const char *file, int64_t i, double label)
{
    return weft_fail(WEFT_ERR_FORMAT, "%s: label %lld is %g, must be a whole number from 0 to %d",
                     file, (long long)i, label, MOST_CLASSES - 1);
}

/* Counts the classes of a training, in one pass. */
static weft_status count_classes(weft_npy_source *s)
{
    const weft_npy *a = &s->labels.array;
    const char *file = s->labels.path;
    static const int64_t none = -1;
    int64_t count = weft_shape_elements(&a->shape), distinct = 0, wrong = none;
    double first_wrong = 0;
    bool *seen, whole = true;
    WEFT_TRY(WEFT_NEW(&seen, MOST_CLASSES));
    for (int64_t i = 0; i < count; i++) {
        double label = weft_npy_get(a, i);
        if (s->head.ignores && label == s->head.ignored) continue;
        if (label >= 0 && label < MOST_CLASSES && label == floor(label)) {
            distinct += !seen[(int)label];
            seen[(int)label] = true;
            s->head.classes = WEFT_MAX(s->head.classes, (int)label + 1);
            continue;
        }
        whole = whole && label == floor(label);
        if (wrong == none || !isfinite(label)) {
            wrong = i;
            first_wrong = label;
        }
        if (!isfinite(label)) break;
    }
    free(seen);
    if (wrong != none && !isfinite(first_wrong)) return no_label(file, wrong, first_wrong);
    if (wrong != none) WEFT_TRY(count_any(a, &distinct));
    WEFT_TRY(check_measured(a, file, distinct, whole));
    return wrong == none ? WEFT_OK : no_label(file, wrong, first_wrong);
}

/* Whether a side of the samples is as long: labels [n, k] may then be classes of k positions. */
static bool may_have_positions(const weft_npy_source *s, int64_t k)
{
    for (int i = 0; i < s->head.inputs; i++) {
        const weft_shape *shape = &s->head.input[i].shape;
        for (int d = 0; d < shape->rank; d++)
            if (shape->dim[d] == k) return true;
    }
    return false;
}

/* Whether each row of labels [n, k] has one 1 and else 0. In a large file the first rows decide,
 * and others are checked as they are read. */
static bool look_one_hot(const weft_npy_source *s)
{
    enum { ROWS = 64 };
    const weft_npy *a = &s->labels.array;
    if (a->shape.rank != 2 || a->shape.dim[1] < 2 || a->shape.dim[1] > MOST_CLASSES) return false;
    int64_t rows = a->shape.dim[0];
    if (weft_bytes_large(&s->labels.bytes)) rows = WEFT_MIN(rows, (int64_t)ROWS);
    for (int64_t i = 0; i < rows; i++) {
        int64_t ones = 0, zeros = 0;
        for (int64_t j = 0; j < a->shape.dim[1]; j++) {
            double label = weft_npy_get(a, i * a->shape.dim[1] + j);
            ones += label == 1;
            zeros += label == 0;
        }
        if (ones != 1 || zeros != a->shape.dim[1] - 1) return false;
    }
    return true;
}

/* Takes the label that counts nowhere, which only labels of positions have. */
static weft_status take_ignored(weft_npy_source *s, double ignore,
                                const weft_source_request *request)
{
    if (s->head.positions > 0)
        return weft_source_ignore(&s->head, ignore, request, s->reading, sizeof(s->reading));
    if (isnan(ignore)) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "data 'npy': ignore=%g is a label of positions or pixels, and %s; leave it "
                     "out",
                     ignore,
                     !s->labels.path ? "there are no labels"
                     : s->numbers    ? "these data have targets"
                                     : "a sample has one label; leave out the samples that are not "
                                       "to count, or give them weight 0 by weight=");
}

/* Classes [n] or [n, 1], or [n, positions] or [n, height, width] with one for each position of a
 * sample. */
static weft_status check_labels(weft_npy_source *s, double ignore,
                                const weft_source_request *request)
{
    const weft_npy *a = &s->labels.array;
    const char *file = s->labels.path;
    if (a->shape.rank < 1 || a->shape.rank > 4)
        return weft_fail(WEFT_ERR_FORMAT,
                         "%s: labels have %d dimensions, must be [samples] or, with one for each "
                         "position or pixel, [samples, positions] or [samples, height, width]",
                         file, a->shape.rank);
    WEFT_TRY(weft_npy_check_rows(s, &s->labels, "label"));
    bool one_hot = look_one_hot(s);
    if (one_hot && may_have_positions(s, a->shape.dim[1])) {
        one_hot = false;
        if (!request->stats)
            weft_log(
                request->context, WEFT_LOG_NOTE,
                "%s: each row has a single 1 among %lld numbers, but samples have a side of %lld, "
                "too: these are read as the classes of %lld positions, not as one-hot; for one "
                "class a sample give their numbers in an array [samples]",
                file, (long long)a->shape.dim[1], (long long)a->shape.dim[1],
                (long long)a->shape.dim[1]);
    }
    if (one_hot) {
        s->one_hot = s->head.classes = (int)a->shape.dim[1];
        weft_log(
            request->context, WEFT_LOG_NOTE,
            "%s: each row has a single 1 among %lld numbers, which is read as the class (one-hot)",
            file, (long long)s->one_hot);
        return take_ignored(s, ignore, request);
    }
    s->head.positions = labels_of_row(&a->shape) > 1 ? labels_of_row(&a->shape) : 0;
    WEFT_TRY(take_ignored(s, ignore, request));
    return request->stats ? WEFT_OK : count_classes(s);
}

/* Checks that each of several labels is 0 or 1. */
static weft_status check_binary(const weft_npy_source *s)
{
    const weft_npy *a = &s->labels.array;
    int64_t count = weft_shape_elements(&a->shape), k = s->head.targets;
    for (int64_t i = 0; i < count; i++) {
        double value = weft_npy_get(a, i);
        if (value == 0 || value == 1) continue;
        return weft_fail(WEFT_ERR_FORMAT,
                         "%s: label %lld of sample %lld is %g, and each of several labels (binary) "
                         "must be 0 or 1",
                         s->labels.path, (long long)(i % k), (long long)(i / k), value);
    }
    return WEFT_OK;
}

/* Targets [n] or [n, k]. */
static weft_status check_targets(weft_npy_source *s)
{
    const weft_shape *shape = &s->labels.array.shape;
    const char *file = s->labels.path;
    if (shape->rank < 1)
        return weft_fail(WEFT_ERR_FORMAT, "%s: targets need a dimension of samples first", file);
    int64_t rows = rows_of(s), all = weft_shape_elements(shape);
    if (shape->rank > 2)
        return weft_fail(WEFT_ERR_FORMAT,
                         "%s: targets have %d dimensions, must be [samples] or [samples, numbers]",
                         file, shape->rank);
    WEFT_TRY(weft_npy_check_rows(s, &s->labels, "target"));
    if (all / rows > MOST_TARGETS)
        return weft_fail(WEFT_ERR_FORMAT, "%s: a sample has %lld targets, at most %d are possible",
                         file, (long long)(all / rows), MOST_TARGETS);
    s->head.targets = (int)(all / rows);
    return s->head.binary ? check_binary(s) : WEFT_OK;
}

weft_status weft_npy_check_labels(weft_npy_source *s, double ignore,
                                  const weft_source_request *request)
{
    s->head.unlabelled = !s->labels.path;
    if (s->labels.path && !s->numbers) return check_labels(s, ignore, request);
    WEFT_TRY(take_ignored(s, ignore, request));
    return s->labels.path ? check_targets(s) : WEFT_OK;
}

/* --- weights --- */

weft_status weft_npy_check_weights(weft_npy_source *s, const weft_source_request *request)
{
    const weft_shape *shape = &s->weights.array.shape;
    /* Without labels the training says whether each position has one. */
    int64_t positions =
        s->head.unlabelled && request->stats ? request->stats->positions : s->head.positions;
    if (!s->weights.path) return WEFT_OK;
    bool each = shape->rank >= 2 && positions > 0 && labels_of_row(shape) == positions;
    if (shape->rank != 1 && !each)
        return weft_fail(WEFT_ERR_FORMAT, "%s: weights must be numbers in one dimension%s",
                         s->weights.path, positions > 0 ? ", or as many as there are labels" : "");
    WEFT_TRY(weft_npy_check_rows(s, &s->weights, "weight"));
    s->head.weighted = true;
    s->head.position_weights = each;
    return WEFT_OK;
}
