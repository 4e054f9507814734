/* Checks the labels, targets and weights of a NumPy data source: their numbers agree with those of
 * the samples, targets are finite, classes are in range. */
#include <math.h>
#include <stdio.h>

#include "data/npy.h"

enum { MOST_TARGETS = 65536, MOST_CLASSES = 65536 };

static int64_t rows_of(const weft_npy_source *s)
{
    return s->input[0].array.shape.dim[0];
}

/* --- labels --- */

static int compare_numbers(const void *a, const void *b)
{
    double x, y;
    memcpy(&x, a, sizeof(x));
    memcpy(&y, b, sizeof(y));
    return (x > y) - (x < y);
}

/* Checks that the labels are classes and not measurements. */
static weft_status check_classes(const weft_npy *labels, const char *name)
{
    int64_t count = weft_shape_elements(&labels->shape), distinct = 0;
    char as_target[256];
    bool whole = true;
    double *all;
    WEFT_TRY(WEFT_NEW(&all, count));
    for (int64_t i = 0; i < count; i++) {
        all[i] = weft_npy_get(labels, i);
        whole = whole && all[i] == floor(all[i]);
    }
    qsort(all, (size_t)count, sizeof(*all), compare_numbers);
    for (int64_t i = 0; i < count; i++) distinct += i == 0 || all[i] != all[i - 1];
    free(all);
    /* Whole numbers of several positions are classes of each: such as the tokens of a text. */
    if (labels->kind != 'f' && labels->shape.rank == 2 && labels->shape.dim[1] > 1) return WEFT_OK;
    (void)snprintf(as_target, sizeof(as_target), "target=%.200s", name);
    return weft_check_measured(name, distinct, whole, count, as_target);
}

static weft_status no_label(const char *file, int64_t i, double label)
{
    return weft_fail(WEFT_ERR_FORMAT, "%s: label %lld is %g, must be a whole number from 0 to %d",
                     file, (long long)i, label, MOST_CLASSES - 1);
}

/* Whether labels [n, k] are one-hot: each row has one 1 and else 0, and samples have no k positions
 * with a class each. */
static bool are_one_hot(const weft_npy_source *s)
{
    const weft_npy *a = &s->labels.array;
    if (a->shape.rank != 2 || a->shape.dim[1] < 2 || a->shape.dim[1] > MOST_CLASSES) return false;
    for (int k = 0; k < s->head.inputs; k++) {
        const weft_shape *shape = &s->head.input[k].shape;
        for (int d = 0; d < shape->rank; d++)
            if (shape->dim[d] == a->shape.dim[1]) return false;
    }
    for (int64_t i = 0; i < a->shape.dim[0]; i++) {
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

/* Classes [n] or [n, 1], or [n, positions] with one for each position of a sample. */
static weft_status check_labels(weft_npy_source *s, const weft_source_wish *wish)
{
    const weft_npy *a = &s->labels.array;
    const char *file = s->labels.path;
    if (a->shape.rank != 1 && a->shape.rank != 2)
        return weft_fail(WEFT_ERR_FORMAT,
                         "%s: labels have %d dimensions, must be [samples] or, with one for each "
                         "position, [samples, positions]",
                         file, a->shape.rank);
    WEFT_TRY(weft_npy_check_rows(s, &s->labels, "label"));
    if (are_one_hot(s)) {
        s->one_hot = s->head.classes = (int)a->shape.dim[1];
        weft_log(
            wish->context, WEFT_LOG_NOTE,
            "%s: each row has a single 1 among %lld numbers, which is read as the class (one-hot)",
            file, (long long)s->one_hot);
        return WEFT_OK;
    }
    int64_t count = weft_shape_elements(&a->shape);
    for (int64_t i = 0; i < count; i++)
        if (!isfinite(weft_npy_get(a, i))) return no_label(file, i, weft_npy_get(a, i));
    WEFT_TRY(check_classes(a, file));
    for (int64_t i = 0; i < count; i++) {
        double label = weft_npy_get(a, i);
        if (!(label >= 0 && label < MOST_CLASSES) || label != floor(label))
            return no_label(file, i, label);
        s->head.classes = WEFT_MAX(s->head.classes, (int)label + 1);
    }
    s->head.positions = a->shape.rank == 2 && a->shape.dim[1] > 1 ? a->shape.dim[1] : 0;
    return WEFT_OK;
}

/* Targets [n] or [n, k], all of which must be finite. */
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
    for (int64_t i = 0; i < all; i++)
        if (!isfinite(weft_npy_get(&s->labels.array, i)))
            return weft_fail(WEFT_ERR_FORMAT,
                             "%s: the target of sample %lld is not a finite number; leave the "
                             "sample out of both files",
                             file, (long long)(i / s->head.targets));
    return WEFT_OK;
}

weft_status weft_npy_check_labels(weft_npy_source *s, const weft_source_wish *wish)
{
    s->head.unlabelled = !s->labels.path;
    if (!s->labels.path) return WEFT_OK;
    return s->numbers ? check_targets(s) : check_labels(s, wish);
}

/* --- weights --- */

weft_status weft_npy_check_weights(weft_npy_source *s, const weft_source_wish *wish)
{
    const weft_shape *shape = &s->weights.array.shape;
    /* Without labels the training says whether each position has one. */
    int64_t positions =
        s->head.unlabelled && wish->stats ? wish->stats->positions : s->head.positions;
    if (!s->weights.path) return WEFT_OK;
    bool each = shape->rank == 2 && positions > 0 && shape->dim[1] == positions;
    if (shape->rank != 1 && !each)
        return weft_fail(WEFT_ERR_FORMAT, "%s: weights must be numbers in one dimension%s",
                         s->weights.path, positions > 0 ? ", or as many as there are labels" : "");
    WEFT_TRY(weft_npy_check_rows(s, &s->weights, "weight"));
    int64_t count = weft_shape_elements(shape), row = count / rows_of(s);
    for (int64_t i = 0; i < count; i++) {
        double weight = weft_npy_get(&s->weights.array, i);
        if (!isfinite(weight) || weight < 0)
            return weft_fail(WEFT_ERR_FORMAT,
                             "%s: the weight of sample %lld is %g, must be a number of at least 0 "
                             "(0: it does not count)",
                             s->weights.path, (long long)(i / row), weight);
    }
    s->head.weighted = true;
    s->head.position_weights = each;
    return WEFT_OK;
}
