/* The data source of NumPy arrays, memory-mapped: one file of samples and one of labels or numeric
 * targets. npy:SAMPLES,LABELS[,layout=hwc|chw|...,test=0.2], or target=FILE in place of LABELS. */
#include <math.h>
#include <stdio.h>

#include "data/data.h"
#include "formats/formats.h"

enum { MOST_TARGETS = 65536 };

typedef struct npy_source {
    weft_source head;
    weft_bytes files[3];
    weft_npy images, labels, weights;
    int64_t
        *rows; /* row numbers of the files: those of the training split, then of the test split */
    char remedy[64];
    weft_channels channels; /* in the file; in memory they are first */
} npy_source;

static void npy_close(weft_source *source)
{
    npy_source *s = (npy_source *)source;
    for (int i = 0; i < 3; i++) weft_gzip_close(&s->files[i]);
    free(s->rows);
    free(s);
}

static weft_status npy_prepare(weft_source *source, weft_split split)
{
    (void)source;
    (void)split; /* npy_open has mapped and checked the files */
    return WEFT_OK;
}

/* The row of the files that holds sample i of a split. */
static int64_t row_of(const npy_source *s, weft_split split, int64_t i)
{
    return s->rows[split == WEFT_TRAIN ? i : s->head.count[WEFT_TRAIN] + i];
}

static void npy_features(const weft_source *source, weft_split split, int64_t i, int input,
                         void *to)
{
    float *x = to;
    (void)input;
    const npy_source *s = (const npy_source *)source;
    int64_t row = row_of(s, split, i), size = weft_shape_elements(weft_source_shape(&s->head));
    int64_t channels = s->channels == WEFT_CHANNELS_LAST ? weft_source_shape(&s->head)->dim[0] : 1,
            pixels = size / channels;
    for (int64_t c = 0; c < channels; c++)
        for (int64_t j = 0; j < pixels; j++)
            x[c * pixels + j] = (float)weft_npy_get(&s->images, row * size + j * channels + c);
}

static double npy_number(const weft_source *source, weft_split split, int64_t i, int64_t j)
{
    const npy_source *s = (const npy_source *)source;
    int64_t row = row_of(s, split, i);
    return weft_npy_get(&s->images, row * weft_shape_elements(weft_source_shape(&s->head)) + j);
}

static void npy_label(const weft_source *source, weft_split split, int64_t i, int32_t *label)
{
    const npy_source *s = (const npy_source *)source;
    *label = (int32_t)weft_npy_get(&s->labels, row_of(s, split, i));
}

static double npy_target(const weft_source *source, weft_split split, int64_t i, int64_t j)
{
    const npy_source *s = (const npy_source *)source;
    return weft_npy_get(&s->labels, row_of(s, split, i) * s->head.targets + j);
}

static double npy_weight(const weft_source *source, weft_split split, int64_t i)
{
    const npy_source *s = (const npy_source *)source;
    return weft_npy_get(&s->weights, row_of(s, split, i));
}

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
    int64_t rows = labels->shape.dim[0], distinct = 0;
    char as_target[256];
    bool whole = true;
    double *all;
    WEFT_TRY(WEFT_NEW(&all, rows));
    for (int64_t i = 0; i < rows; i++) {
        all[i] = weft_npy_get(labels, i);
        whole = whole && all[i] == floor(all[i]);
    }
    qsort(all, (size_t)rows, sizeof(*all), compare_numbers);
    for (int64_t i = 0; i < rows; i++) distinct += i == 0 || all[i] != all[i - 1];
    free(all);
    (void)snprintf(as_target, sizeof(as_target), "target=%.200s", name);
    return weft_check_measured(name, distinct, whole, rows, as_target);
}

static weft_status check_rows(const npy_source *s, const char *images, const weft_npy *others,
                              const char *labels, const char *what)
{
    int64_t rows = s->images.shape.dim[0], have = others->shape.dim[0];
    if (have == rows) return WEFT_OK;
    return weft_fail(WEFT_ERR_FORMAT, "%s has %lld sample%s, %s has %lld %s%s", images,
                     (long long)rows, weft_plural(rows), labels, (long long)have, what,
                     weft_plural(have));
}

static weft_status no_label(const char *file, int64_t i, double label)
{
    return weft_fail(WEFT_ERR_FORMAT,
                     "%s: label %lld is %g, must be a whole number from 0 to 65535", file,
                     (long long)i, label);
}

static weft_status check_labels(npy_source *s, const char *images, const char *labels)
{
    int64_t rows = s->images.shape.dim[0];
    if (s->labels.shape.rank != 1)
        return weft_fail(WEFT_ERR_FORMAT,
                         "%s: labels must be whole numbers in one dimension; give numbers that "
                         "are to be predicted as target=%s",
                         labels, labels);
    WEFT_TRY(check_rows(s, images, &s->labels, labels, "label"));
    for (int64_t i = 0; i < rows; i++)
        if (!isfinite(weft_npy_get(&s->labels, i)))
            return no_label(labels, i, weft_npy_get(&s->labels, i));
    WEFT_TRY(check_classes(&s->labels, labels));
    for (int64_t i = 0; i < rows; i++) {
        double label = weft_npy_get(&s->labels, i);
        if (!(label >= 0 && label <= 65535) || label != floor(label))
            return no_label(labels, i, label);
        s->head.classes = WEFT_MAX(s->head.classes, (int)label + 1);
    }
    return WEFT_OK;
}

/* Checks targets [n] or [n, k], all of which must be finite. */
static weft_status check_targets(npy_source *s, const char *images, const char *file)
{
    const weft_shape *shape = &s->labels.shape;
    int64_t rows = s->images.shape.dim[0], all = weft_shape_elements(shape);
    if (shape->rank < 1)
        return weft_fail(WEFT_ERR_FORMAT, "%s: targets need a dimension of samples first", file);
    if (s->labels.shape.rank > 2)
        return weft_fail(WEFT_ERR_FORMAT,
                         "%s: targets have %d dimensions, must be [samples] or [samples, numbers]",
                         file, s->labels.shape.rank);
    WEFT_TRY(check_rows(s, images, &s->labels, file, "target"));
    if (all / rows > MOST_TARGETS)
        return weft_fail(WEFT_ERR_FORMAT, "%s: a sample has %lld targets, at most %d are possible",
                         file, (long long)(all / rows), MOST_TARGETS);
    s->head.targets = (int)(all / rows);
    for (int64_t i = 0; i < all; i++)
        if (!isfinite(weft_npy_get(&s->labels, i)))
            return weft_fail(WEFT_ERR_FORMAT,
                             "%s: the target of sample %lld is not a finite number; leave the "
                             "sample out of both files",
                             file, (long long)(i / s->head.targets));
    return WEFT_OK;
}

static weft_status check_weights(npy_source *s, const char *images, const char *file)
{
    if (s->weights.shape.rank != 1)
        return weft_fail(WEFT_ERR_FORMAT, "%s: weights must be numbers in one dimension", file);
    WEFT_TRY(check_rows(s, images, &s->weights, file, "weight"));
    for (int64_t i = 0; i < s->weights.shape.dim[0]; i++) {
        double weight = weft_npy_get(&s->weights, i);
        if (!isfinite(weight) || weight < 0)
            return weft_fail(WEFT_ERR_FORMAT,
                             "%s: the weight of sample %lld is %g, must be a number of at least 0 "
                             "(0: it does not count)",
                             file, (long long)i, weight);
    }
    s->head.weighted = true;
    return WEFT_OK;
}

static weft_status check_images(const npy_source *s, const char *images)
{
    if (s->images.shape.rank < 2)
        return weft_fail(WEFT_ERR_FORMAT, "%s: needs at least 2 dimensions, samples first", images);
    int64_t rows = s->images.shape.dim[0];
    int64_t size = weft_shape_elements(&s->images.shape);
    for (int64_t i = 0; s->images.kind == 'f' && i < size; i++)
        if (!isfinite(weft_npy_get(&s->images, i)))
            return weft_fail(WEFT_ERR_FORMAT,
                             "%s: element %lld (sample %lld) is not a finite number", images,
                             (long long)i, (long long)(i / (size / rows)));
    return WEFT_OK;
}

/* Opens the files, finds the channels and splits the rows. labels, weights: paths; NULL: no such
 * file. numbers: the file `labels` has numeric targets. test: share of the test split; < 0: the
 * default, which is all rows without labels. */
static weft_status load(npy_source *s, const char *images, const char *labels, const char *weights,
                        bool numbers, double test, const char *layout, const weft_source_wish *wish)
{
    const char *paths[] = {images, labels, weights};
    weft_npy *arrays[] = {&s->images, &s->labels, &s->weights};
    for (int i = 0; i < 3; i++) {
        if (!paths[i]) continue;
        WEFT_TRY(weft_gzip_open(paths[i], &s->files[i]));
        WEFT_TRY(weft_npy_parse(paths[i], s->files[i].data, s->files[i].size, arrays[i]));
    }
    WEFT_TRY(check_images(s, images));
    if (labels)
        WEFT_TRY(numbers ? check_targets(s, images, labels) : check_labels(s, images, labels));
    if (weights) WEFT_TRY(check_weights(s, images, weights));
    s->head.unlabelled = !labels;
    if (test < 0) test = labels ? WEFT_USUAL_TEST : 1;
    WEFT_TRY(weft_layout_find(images, &s->images.shape, layout, wish->context, &s->channels));
    weft_source_set_shape(&s->head, weft_layout_shape(&s->images.shape, s->channels));
    if (wish->stats &&
        !weft_shape_equal(weft_source_shape(&s->head), &wish->stats->input[0].shape) &&
        weft_layout_suggest(&s->images.shape, &wish->stats->input[0].shape, s->remedy,
                            sizeof(s->remedy)))
        s->head.remedy = s->remedy;
    s->head.whole = s->images.kind != 'f';
    s->head.bytes = s->images.kind == 'u' && s->images.size == 1;
    s->head.tabular = weft_source_shape(&s->head)->rank == 1;
    return weft_split_rows(s->images.shape.dim[0], test, s->head.count, &s->rows);
}

/* Whether the text is "key=value" with one of these keys, and no file name. */
static bool is_key(const char *text, const weft_spec_key *keys)
{
    for (; keys->name; keys++) {
        size_t size = strlen(keys->name);
        if (strncmp(text, keys->name, size) == 0 && text[size] == '=') return true;
    }
    return false;
}

static weft_status npy_open(const char *arguments, const weft_source_wish *wish, weft_source **out)
{
    double test = -1;
    bool numbers = false;
    char *copy, *labels, *rest, *layout = NULL, *target = NULL, *weight = NULL;
    weft_spec_key keys[] = {{.name = "layout", .text = &layout},
                            {.name = "target", .text = &target},
                            {.name = "weight", .text = &weight},
                            {.name = "test", .number = &test, .low = 0, .high = 1},
                            {.name = NULL}};
    npy_source *s;
    WEFT_TRY(weft_strdup(arguments, &copy));
    weft_status status = WEFT_NEW(&s, 1);
    if (status != WEFT_OK) {
        free(copy);
        return status;
    }
    s->head.ops = &weft_source_npy;
    labels = strchr(copy, ',');
    if (labels) *labels++ = '\0';
    bool bare = !labels || is_key(labels, keys);
    rest = bare ? labels : strchr(labels, ',');
    if (rest && !bare) *rest++ = '\0';
    if (bare) labels = NULL;
    if (status == WEFT_OK && rest) status = weft_spec_parse("data 'npy'", rest, keys);
    if (status == WEFT_OK)
        status = weft_check_target("data 'npy'", labels, target, wish->stats, &numbers);
    if (target) labels = target;
    if (status == WEFT_OK && (!*copy || !(labels ? *labels : wish->unlabelled)))
        status = weft_fail(WEFT_ERR_ARGUMENT, "data 'npy': give two files, as in "
                                              "npy:SAMPLES,LABELS or npy:SAMPLES,target=FILE");
    if (status == WEFT_OK) status = load(s, copy, labels, weight, numbers, test, layout, wish);
    free(copy);
    free(target);
    free(weight);
    free(layout);
    if (status != WEFT_OK) {
        npy_close(&s->head);
        return status;
    }
    *out = &s->head;
    return WEFT_OK;
}

const weft_source_ops weft_source_npy = {
    .kind = "npy",
    .form = "npy:SAMPLES,LABELS|target=FILE[,weight=FILE,layout=hwc|chw|cw|...,test=0.2]",
    .help = "two NumPy files, memory-mapped: samples [n, ...] of any real or "
            "integer type, and labels [n], integer classes, or targets [n] or [n, "
            "k], numbers to predict; weight is a file [n] of sample weights; layout "
            "names the dimensions of a sample: w, hw, dhw, cw, wc, chw, hwc, cdhw "
            "or dhwc, for channels, depth, height and width",
    .open = npy_open,
    .close = npy_close,
    .prepare = npy_prepare,
    .features = npy_features,
    .number = npy_number,
    .label = npy_label,
    .target = npy_target,
    .weight = npy_weight,
};
