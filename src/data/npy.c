/* npy:SAMPLES,LABELS[,layout=hwc|chw|...,test=0.2], or target=FILE in place of the labels: two
 * NumPy arrays, mapped. */
#include <math.h>
#include <stdio.h>

#include "data/data.h"
#include "formats/formats.h"

enum { MOST_TARGETS = 65536 };

typedef struct npy_source {
    weft_source head;
    weft_bytes files[3];
    weft_npy images, labels, weights;
    int64_t *rows; /* training rows, then test rows */
    char remedy[64];
    enum { FIRST, LAST, NONE } channels; /* in the file; in memory they always come first */
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
    (void)split; /* checked when it was opened */
    return WEFT_OK;
}

/* The row of the files. */
static int64_t row_of(const npy_source *s, weft_split split, int64_t i)
{
    return s->rows[split == WEFT_TRAIN ? i : s->head.count[WEFT_TRAIN] + i];
}

static void npy_features(const weft_source *source, weft_split split, int64_t i, float *x)
{
    const npy_source *s = (const npy_source *)source;
    int64_t row = row_of(s, split, i), size = weft_shape_elements(&s->head.shape);
    int64_t channels = s->channels == LAST ? s->head.shape.dim[0] : 1, pixels = size / channels;
    for (int64_t c = 0; c < channels; c++)
        for (int64_t j = 0; j < pixels; j++)
            x[c * pixels + j] = (float)weft_npy_get(&s->images, row * size + j * channels + c);
}

static double npy_number(const weft_source *source, weft_split split, int64_t i, int64_t j)
{
    const npy_source *s = (const npy_source *)source;
    int64_t row = row_of(s, split, i);
    return weft_npy_get(&s->images, row * weft_shape_elements(&s->head.shape) + j);
}

static int32_t npy_label(const weft_source *source, weft_split split, int64_t i)
{
    const npy_source *s = (const npy_source *)source;
    return (int32_t)weft_npy_get(&s->labels, row_of(s, split, i));
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

/* As many channels as images usually have, where each side has more. */
static bool is_channels(int64_t dim, int64_t side, int64_t other_side)
{
    return (dim == 1 || dim == 3 || dim == 4) && side >= 8 && other_side >= 8;
}

/* What layout= may say: letters for channels, depth, height and width, the samples' dimensions. */
static const struct layout {
    const char *name;
    int channels;
} layouts[] = {{"w", NONE},    {"hw", NONE},  {"dhw", NONE},   {"cw", FIRST}, {"wc", LAST},
               {"chw", FIRST}, {"hwc", LAST}, {"cdhw", FIRST}, {"dhwc", LAST}};

/* Those for samples of `dims` dimensions (0: all), as in "cw, wc or hw". */
static const char *name_layouts(int dims, char *text, size_t room)
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < WEFT_COUNT(layouts); i++)
        if (dims == 0 || (int)strlen(layouts[i].name) == dims)
            used += (size_t)snprintf(text + used, room - used, "%s%s", used ? ", " : "",
                                     layouts[i].name);
    return text;
}

static weft_status said_layout(npy_source *s, const char *name, const char *said)
{
    char text[128];
    int dims = s->images.shape.rank - 1;
    size_t i = 0;
    while (i < WEFT_COUNT(layouts) && strcmp(layouts[i].name, said) != 0) i++;
    if (i == WEFT_COUNT(layouts))
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "data 'npy': layout is '%s', must be one of %s (channels, depth, height, "
                         "width)",
                         said, name_layouts(0, text, sizeof(text)));
    if ((int)strlen(said) != dims) {
        bool some = *name_layouts(dims, text, sizeof(text));
        return weft_fail(
            WEFT_ERR_ARGUMENT,
            "data 'npy': layout is '%s', but the samples of %s have %d dimension%s; %s%s", said,
            name, dims, weft_plural(dims), some ? "possible are " : "leave it out", text);
    }
    s->channels = layouts[i].channels;
    return WEFT_OK;
}

/* Where the channels of samples are: as said, or else, of images, where there is no doubt. Samples
 * of two dimensions have one channel, those of others than three lie as they are to lie. */
static weft_status find_layout(npy_source *s, const char *name, const char *said,
                               weft_context *context)
{
    const weft_shape *shape = &s->images.shape;
    const int64_t *d = shape->dim;
    if (said) return said_layout(s, name, said);
    s->channels = shape->rank == 3 ? NONE : FIRST;
    if (shape->rank != 4) return WEFT_OK;
    bool hwc = is_channels(d[3], d[1], d[2]), chw = is_channels(d[1], d[2], d[3]);
    if (hwc == chw)
        return weft_fail(
            WEFT_ERR_ARGUMENT,
            "%s: it cannot be told where the channels of samples [%lld, %lld, %lld] are; give "
            "layout=hwc or layout=chw (height, width, channels), or layout=dhw (there are none)",
            name, (long long)d[1], (long long)d[2], (long long)d[3]);
    weft_log(context, WEFT_LOG_NOTE, "%s: samples [%lld, %lld, %lld] are taken for %s (layout=%s)",
             name, (long long)d[1], (long long)d[2], (long long)d[3],
             hwc ? "height, width, channels" : "channels, height, width", hwc ? "hwc" : "chw");
    s->channels = hwc ? LAST : FIRST;
    return WEFT_OK;
}

/* The shape of a sample in memory. */
static weft_shape sample_shape(const weft_shape *file, int channels)
{
    weft_shape shape = {0};
    if (channels == NONE) shape.dim[shape.rank++] = 1;
    if (channels == LAST) shape.dim[shape.rank++] = file->dim[file->rank - 1];
    for (int i = 1; i < file->rank - (channels == LAST); i++)
        shape.dim[shape.rank++] = file->dim[i];
    return shape;
}

/* Where samples have another shape than in training: the layouts that would give them that one. */
static void find_remedy(npy_source *s, const weft_shape *want)
{
    size_t used = 0;
    if (weft_shape_equal(&s->head.shape, want)) return;
    for (size_t i = 0; i < WEFT_COUNT(layouts); i++) {
        weft_shape shape = sample_shape(&s->images.shape, layouts[i].channels);
        if ((int)strlen(layouts[i].name) == s->images.shape.rank - 1 &&
            weft_shape_equal(&shape, want) && used < sizeof(s->remedy))
            used += (size_t)snprintf(s->remedy + used, sizeof(s->remedy) - used, "%slayout=%s",
                                     used ? " or " : "", layouts[i].name);
    }
    if (used) s->head.remedy = s->remedy;
}

static int compare_numbers(const void *a, const void *b)
{
    double x, y;
    memcpy(&x, a, sizeof(x));
    memcpy(&y, b, sizeof(y));
    return (x > y) - (x < y);
}

/* Whether the labels are classes, or something that has been measured. */
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

static weft_status check_labels(npy_source *s, const char *images, const char *labels)
{
    int64_t rows = s->images.shape.dim[0];
    if (s->labels.shape.rank != 1)
        return weft_fail(WEFT_ERR_FORMAT,
                         "%s: labels must be whole numbers in one dimension; give numbers that "
                         "are to be predicted as target=%s",
                         labels, labels);
    WEFT_TRY(check_rows(s, images, &s->labels, labels, "label"));
    WEFT_TRY(check_classes(&s->labels, labels));
    for (int64_t i = 0; i < rows; i++) {
        double label = weft_npy_get(&s->labels, i);
        if (!(label >= 0 && label <= 65535) || label != floor(label))
            return weft_fail(WEFT_ERR_FORMAT,
                             "%s: label %lld is %g, must be a whole number from 0 to 65535", labels,
                             (long long)i, label);
        s->head.classes = WEFT_MAX(s->head.classes, (int)label + 1);
    }
    return WEFT_OK;
}

/* Numbers [n] or [n, k], all of which are finite. */
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

/* labels and weights: NULL where there are none. numbers: labels are that, and no classes. */
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
    WEFT_TRY(find_layout(s, images, layout, wish->context));
    s->head.shape = sample_shape(&s->images.shape, (int)s->channels);
    if (wish->stats) find_remedy(s, &wish->stats->shape);
    s->head.bytes = s->images.kind == 'u' && s->images.size == 1;
    s->head.tabular = s->head.shape.rank == 1;
    return weft_split_rows(s->images.shape.dim[0], test, s->head.count, &s->rows);
}

/* Whether this is "key=value" and no file. */
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
    .help = "two NumPy arrays: samples [n, ...] of any real or whole type, and labels [n] of whole "
            "numbers, which are classes, or the file of targets [n] or [n, k], numbers to be "
            "predicted; mapped. The file of weight [n] says how often each sample counts. layout "
            "names the dimensions of a sample: w, hw, dhw, cw, wc, chw, hwc, "
            "cdhw or dhwc, for channels, depth, height and width",
    .open = npy_open,
    .close = npy_close,
    .prepare = npy_prepare,
    .features = npy_features,
    .number = npy_number,
    .label = npy_label,
    .target = npy_target,
    .weight = npy_weight,
};
