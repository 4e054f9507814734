/* npy:IMAGES,LABELS[,test=0.2]: two NumPy arrays, mapped. */
#include <math.h>
#include <stdio.h>

#include "data/data.h"
#include "formats/formats.h"

typedef struct npy_source {
    weft_source head;
    weft_bytes files[2];
    weft_npy images, labels;
    int64_t *rows; /* training rows, then test rows */
} npy_source;

static void npy_close(weft_source *source)
{
    npy_source *s = (npy_source *)source;
    for (int i = 0; i < 2; i++) weft_gzip_close(&s->files[i]);
    free(s->rows);
    free(s);
}

static weft_status npy_prepare(weft_source *source, weft_split split)
{
    (void)source;
    (void)split; /* checked when it was opened */
    return WEFT_OK;
}

static void npy_read(const weft_source *source, weft_split split, int64_t i, float *x,
                     int32_t *label)
{
    const npy_source *s = (const npy_source *)source;
    int64_t row = s->rows[split == WEFT_TRAIN ? i : s->head.count[WEFT_TRAIN] + i];
    int64_t size = weft_shape_elements(&s->head.shape);
    *label = (int32_t)weft_npy_get(&s->labels, row);
    for (int64_t j = 0; x && j < size; j++) x[j] = (float)weft_npy_get(&s->images, row * size + j);
}

static weft_status check(npy_source *s, const char *images, const char *labels)
{
    if (s->images.shape.rank < 2)
        return weft_fail(WEFT_ERR_FORMAT, "%s: needs at least 2 dimensions, samples first", images);
    if (s->labels.shape.rank != 1 || s->labels.kind == 'f')
        return weft_fail(WEFT_ERR_FORMAT, "%s: labels must be whole numbers in one dimension",
                         labels);
    int64_t rows = s->images.shape.dim[0];
    if (s->labels.shape.dim[0] != rows)
        return weft_fail(WEFT_ERR_FORMAT, "%s has %lld samples, %s has %lld labels", images,
                         (long long)rows, labels, (long long)s->labels.shape.dim[0]);
    for (int64_t i = 0; i < rows; i++) {
        double label = weft_npy_get(&s->labels, i);
        if (label < 0 || label > 65535)
            return weft_fail(WEFT_ERR_FORMAT, "%s: label %lld is %g, must be 0 to 65535", labels,
                             (long long)i, label);
        s->head.classes = WEFT_MAX(s->head.classes, (int)label + 1);
    }
    int64_t size = weft_shape_elements(&s->images.shape);
    for (int64_t i = 0; s->images.kind == 'f' && i < size; i++)
        if (!isfinite(weft_npy_get(&s->images, i)))
            return weft_fail(WEFT_ERR_FORMAT,
                             "%s: element %lld (sample %lld) is not a finite number", images,
                             (long long)i, (long long)(i / (size / rows)));
    return WEFT_OK;
}

static weft_status load(npy_source *s, const char *images, const char *labels, double test)
{
    const char *paths[] = {images, labels};
    weft_npy *arrays[] = {&s->images, &s->labels};
    for (int i = 0; i < 2; i++) {
        WEFT_TRY(weft_gzip_open(paths[i], &s->files[i]));
        WEFT_TRY(weft_npy_parse(paths[i], s->files[i].data, s->files[i].size, arrays[i]));
    }
    WEFT_TRY(check(s, images, labels));
    weft_shape *shape = &s->head.shape;
    if (s->images.shape.rank == 3) shape->dim[shape->rank++] = 1;
    for (int i = 1; i < s->images.shape.rank; i++)
        shape->dim[shape->rank++] = s->images.shape.dim[i];
    s->head.bytes = s->images.kind == 'u' && s->images.size == 1;
    s->head.tabular = shape->rank == 1;
    return weft_split_rows(s->images.shape.dim[0], test, s->head.count, &s->rows);
}

static weft_status npy_open(const char *arguments, weft_context *context, weft_source **out)
{
    (void)context;
    double test = 0.2;
    weft_spec_key keys[] = {{.name = "test", .number = &test, .low = 0, .high = 1}, {.name = NULL}};
    npy_source *s;
    char *copy, *labels, *rest;
    WEFT_TRY(weft_strdup(arguments, &copy));
    weft_status status = WEFT_NEW(&s, 1);
    if (status != WEFT_OK) {
        free(copy);
        return status;
    }
    s->head.ops = &weft_source_npy;
    labels = strchr(copy, ',');
    if (labels) *labels++ = '\0';
    rest = labels ? strchr(labels, ',') : NULL;
    if (rest) *rest++ = '\0';
    if (!labels || !*copy || !*labels)
        status =
            weft_fail(WEFT_ERR_ARGUMENT, "data 'npy': give two files, as in npy:IMAGES,LABELS");
    if (status == WEFT_OK && rest) status = weft_spec_parse("data 'npy'", rest, keys);
    if (status == WEFT_OK) status = load(s, copy, labels, test);
    free(copy);
    if (status != WEFT_OK) {
        npy_close(&s->head);
        return status;
    }
    *out = &s->head;
    return WEFT_OK;
}

const weft_source_ops weft_source_npy = {
    .kind = "npy",
    .form = "npy:IMAGES,LABELS[,test=0.2]",
    .help = "two NumPy arrays: samples [n, ...] of any real or whole type, labels [n] of whole "
            "numbers; mapped",
    .open = npy_open,
    .close = npy_close,
    .prepare = npy_prepare,
    .read = npy_read,
};
