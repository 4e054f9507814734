/* The data source of a folder with images and labels in IDX files under MNIST's file names, plain
 * (memory-mapped) or gzip: idx:DIR. */
#include <errno.h>
#include <math.h>
#include <stdio.h>

#include "data/data.h"
#include "formats/formats.h"

typedef struct idx_source {
    weft_source head;
    char *directory;
    bool may_lack_labels;
    weft_bytes files[2][2]; /* [split][images, labels] */
    weft_idx images[2], labels[2];
} idx_source;

static void idx_close(weft_source *source)
{
    idx_source *s = (idx_source *)source;
    for (int split = 0; split < 2; split++)
        for (int i = 0; i < 2; i++) weft_gzip_close(&s->files[split][i]);
    free(s->directory);
    free(s);
}

/* Finds the file of a split, named as in "train-images-idx3-ubyte", or with a dot before "idx";
 * either name may end in .gz. */
static weft_status find_file(const idx_source *s, int split, int labels, char **out)
{
    static const char *const patterns[] = {"%s/%s-%s-idx%d-ubyte", "%s/%s-%s-idx%d-ubyte.gz",
                                           "%s/%s-%s.idx%d-ubyte", "%s/%s-%s.idx%d-ubyte.gz"};
    const char *part = split == WEFT_TRAIN ? "train" : "t10k", *what = labels ? "labels" : "images";
    for (size_t i = 0; i < WEFT_COUNT(patterns); i++) {
        char *path;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        weft_status status =
            weft_format(&path, patterns[i], s->directory, part, what, labels ? 1 : 3);
#pragma GCC diagnostic pop
        WEFT_TRY(status);
        if (weft_file_exists(path)) {
            *out = path;
            return WEFT_OK;
        }
        if (errno != ENOENT && errno != ENOTDIR) status = weft_fail_io("open", path);
        free(path);
        WEFT_TRY(status);
    }
    return weft_fail(
        WEFT_ERR_IO,
        "%s: has no file %s-%s-idx%d-ubyte or %s-%s-idx%d-ubyte.gz; give the folder that "
        "holds MNIST's four files",
        s->directory, part, what, labels ? 1 : 3, part, what, labels ? 1 : 3);
}

static weft_status open_file(idx_source *s, int split, int labels)
{
    char *path = NULL;
    weft_idx *idx = labels ? &s->labels[split] : &s->images[split];
    WEFT_TRY(find_file(s, split, labels, &path));
    weft_gzip_close(&s->files[split][labels]);
    weft_status status = weft_gzip_open(path, &s->files[split][labels]);
    if (status == WEFT_OK)
        status =
            weft_idx_parse(path, s->files[split][labels].data, s->files[split][labels].size, idx);
    if (status == WEFT_OK && labels && (idx->shape.rank != 1 || idx->type > 0x0C))
        status =
            weft_fail(WEFT_ERR_FORMAT, "%s: labels must be whole numbers in one dimension", path);
    if (status == WEFT_OK && !labels && idx->shape.rank < 2)
        status =
            weft_fail(WEFT_ERR_FORMAT, "%s: images need 2 to 4 dimensions, samples first", path);
    free(path);
    return status;
}

/* The shape of a sample. Images [height, width] get a dimension of one channel. */
static weft_shape sample_shape(const weft_idx *images)
{
    weft_shape shape = {.rank = 0};
    if (images->shape.rank == 3) shape.dim[shape.rank++] = 1;
    for (int i = 1; i < images->shape.rank; i++) shape.dim[shape.rank++] = images->shape.dim[i];
    return shape;
}

static bool has_file(const idx_source *s, int split, int labels)
{
    char *path = NULL;
    bool found = find_file(s, split, labels, &path) == WEFT_OK;
    free(path);
    return found;
}

static weft_status read_labels(idx_source *s, weft_split split)
{
    const weft_idx *images = &s->images[split], *labels = &s->labels[split];
    if (s->may_lack_labels && !has_file(s, split, 1)) {
        s->head.unlabelled = true;
        return WEFT_OK;
    }
    WEFT_TRY(open_file(s, split, 1));
    if (images->shape.dim[0] != labels->shape.dim[0])
        return weft_fail(WEFT_ERR_FORMAT, "%s: the %s part has %lld images and %lld labels",
                         s->directory, weft_split_name(split), (long long)images->shape.dim[0],
                         (long long)labels->shape.dim[0]);
    for (int64_t i = 0; split == WEFT_TRAIN && i < labels->shape.dim[0]; i++) {
        double label = weft_idx_get(labels, i);
        if (label < 0 || label > 65535)
            return weft_fail(WEFT_ERR_FORMAT, "%s: training label %lld is %g, must be 0 to 65535",
                             s->directory, (long long)i, label);
        s->head.classes = WEFT_MAX(s->head.classes, (int)label + 1);
    }
    return WEFT_OK;
}

static bool is_float(const weft_idx *idx)
{
    return idx->type == 0x0D || idx->type == 0x0E;
}

/* Where an element is, for messages. */
static void idx_describe(const weft_source *source, weft_split split, int64_t i, int column,
                         int64_t j, char *out, size_t size)
{
    const idx_source *s = (const idx_source *)source;
    bool label = column > 0;
    int64_t at = label ? i : i * weft_shape_elements(weft_source_shape(source)) + j;
    double value = weft_idx_get(label ? &s->labels[split] : &s->images[split], at);
    int used = snprintf(out, size, "%s: the %s part, sample %lld: ", s->directory,
                        weft_split_name(split), (long long)i);
    size_t left = used < 0 || (size_t)used > size ? 0 : size - (size_t)used;
    if (left > 0 && label)
        (void)snprintf(out + used, left, "the label is %.15g", value);
    else if (left > 0)
        (void)snprintf(out + used, left, "element %lld is %.15g", (long long)j, value);
}

static weft_status idx_prepare(weft_source *source, weft_split split)
{
    idx_source *s = (idx_source *)source;
    if (!s->images[split].data) WEFT_TRY(open_file(s, split, 0));
    WEFT_TRY(read_labels(s, split));
    const weft_idx *images = &s->images[split];
    weft_shape shape = sample_shape(images);
    char a[64], b[64];
    if (!weft_shape_equal(&shape, weft_source_shape(&s->head)))
        return weft_fail(WEFT_ERR_FORMAT, "%s: test images are %s, training images %s",
                         s->directory, weft_shape_text(&shape, a, sizeof(a)),
                         weft_shape_text(weft_source_shape(&s->head), b, sizeof(b)));
    s->head.count[split] = images->shape.dim[0];
    s->head.whole = !is_float(images);
    s->head.large = weft_bytes_large(&s->files[split][0]);
    return WEFT_OK;
}

static void idx_label(const weft_source *source, weft_split split, int64_t i, int32_t *label)
{
    *label = (int32_t)weft_idx_get(&((const idx_source *)source)->labels[split], i);
}

static void idx_features(const weft_source *source, weft_split split, int64_t i, int input,
                         void *to)
{
    float *x = to;
    (void)input;
    const idx_source *s = (const idx_source *)source;
    const weft_idx *images = &s->images[split];
    int64_t size = weft_shape_elements(weft_source_shape(&s->head));
    if (images->type == 0x08) {
        const unsigned char *from = images->data + i * size;
        for (int64_t j = 0; j < size; j++) x[j] = from[j];
    } else {
        for (int64_t j = 0; j < size; j++) x[j] = (float)weft_idx_get(images, i * size + j);
    }
}

static weft_status idx_open(const char *arguments, const weft_source_request *request,
                            weft_source **out)
{
    if (!*arguments)
        return weft_fail(WEFT_ERR_ARGUMENT, "data 'idx': give the folder, as in idx:DIR");
    idx_source *s;
    WEFT_TRY(WEFT_NEW(&s, 1));
    s->head.ops = &weft_source_idx;
    s->may_lack_labels = request->unlabelled;
    weft_status status = weft_strdup(arguments, &s->directory);
    if (status == WEFT_OK) status = weft_spec_locate(request, &s->directory);
    /* All four files are searched now, so that a missing one is reported at once. */
    for (int i = 0; i < 4 && status == WEFT_OK; i++) {
        char *path = NULL;
        if (i % 2 && request->unlabelled) continue;
        status = find_file(s, i / 2, i % 2, &path);
        free(path);
    }
    if (status == WEFT_OK) status = open_file(s, WEFT_TRAIN, 0);
    if (status != WEFT_OK) {
        idx_close(&s->head);
        return status;
    }
    weft_source_set_shape(&s->head, sample_shape(&s->images[WEFT_TRAIN]));
    s->head.bytes = s->images[WEFT_TRAIN].type == 0x08;
    *out = &s->head;
    return WEFT_OK;
}

const weft_source_ops weft_source_idx = {
    .kind = "idx",
    .form = "idx:DIR",
    .help = "the four MNIST files in a folder, plain (memory-mapped) or gzip",
    .open = idx_open,
    .close = idx_close,
    .prepare = idx_prepare,
    .features = idx_features,
    .label = idx_label,
    .describe = idx_describe,
};
