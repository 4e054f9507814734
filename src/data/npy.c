/* The data source of NumPy arrays, memory-mapped: files of samples, and one of labels or numeric
 * targets. */
#include <math.h>
#include <stdio.h>

#include "data/npy.h"

static void close_file(weft_npy_file *file)
{
    weft_gzip_close(&file->bytes);
    free(file->path);
}

static void npy_close(weft_source *source)
{
    weft_npy_source *s = (weft_npy_source *)source;
    for (int i = 0; i < s->head.inputs; i++) close_file(&s->input[i]);
    close_file(&s->labels);
    close_file(&s->weights);
    free(s->rows);
    free(s);
}

static weft_status npy_prepare(weft_source *source, weft_split split)
{
    (void)source;
    (void)split; /* npy_open has mapped and checked the files */
    return WEFT_OK;
}

static weft_status npy_divide(weft_source *source, double share)
{
    weft_npy_source *s = (weft_npy_source *)source;
    return weft_split_rows(s->input[0].array.shape.dim[0], share, s->head.count, &s->rows);
}

/* The row of the files that holds sample i of a split. */
static int64_t row_of(const weft_source *source, weft_split split, int64_t i)
{
    const weft_npy_source *s = (const weft_npy_source *)source;
    return s->rows[split == WEFT_TRAIN ? i : s->head.count[WEFT_TRAIN] + i];
}

/* A token or class, or -1, which is none. */
static int32_t whole(double number)
{
    return number >= 0 && number <= INT32_MAX && number == floor(number) ? (int32_t)number : -1;
}

static int32_t label_of(const weft_npy_source *s, double number)
{
    return s->head.ignores && number == s->head.ignored ? WEFT_LABEL_IGNORED : whole(number);
}

static void npy_features(const weft_source *source, weft_split split, int64_t i, int input,
                         void *to)
{
    const weft_npy_source *s = (const weft_npy_source *)source;
    const weft_npy_file *f = &s->input[input];
    const weft_shape *shape = &s->head.input[input].shape;
    int64_t size = weft_shape_elements(shape), row = row_of(source, split, i) * size;
    bool tokens = s->head.input[input].dtype == WEFT_I32;
    int64_t channels = f->channels == WEFT_CHANNELS_LAST ? shape->dim[0] : 1,
            pixels = size / channels;
    float *x = to;
    int32_t *token = to;
    for (int64_t j = 0; tokens && j < size; j++) token[j] = whole(weft_npy_get(&f->array, row + j));
    for (int64_t c = 0; !tokens && c < channels; c++)
        for (int64_t j = 0; j < pixels; j++)
            x[c * pixels + j] = (float)weft_npy_get(&f->array, row + j * channels + c);
}

static double npy_number(const weft_source *source, weft_split split, int64_t i, int64_t j)
{
    const weft_npy_source *s = (const weft_npy_source *)source;
    int64_t row = row_of(source, split, i);
    return weft_npy_get(&s->input[0].array,
                        row * weft_shape_elements(weft_source_shape(&s->head)) + j);
}

/* The class of a one-hot row; -1: it is no such row. */
static int32_t one_hot_class(const weft_npy_source *s, int64_t row)
{
    int32_t class = -1;
    for (int64_t j = 0; j < s->one_hot; j++) {
        double number = weft_npy_get(&s->labels.array, row * s->one_hot + j);
        if (number == 0) continue;
        if (number != 1 || class >= 0) return -1;
        class = (int32_t)j;
    }
    return class;
}

static void npy_label(const weft_source *source, weft_split split, int64_t i, int32_t *label)
{
    const weft_npy_source *s = (const weft_npy_source *)source;
    int64_t each = weft_source_labels(source), row = row_of(source, split, i) * each;
    for (int64_t j = 0; j < each; j++)
        label[j] = s->one_hot ? one_hot_class(s, row)
                              : label_of(s, weft_npy_get(&s->labels.array, row + j));
}

static double npy_target(const weft_source *source, weft_split split, int64_t i, int64_t j)
{
    const weft_npy_source *s = (const weft_npy_source *)source;
    return weft_npy_get(&s->labels.array, row_of(source, split, i) * s->head.targets + j);
}

static double npy_weight(const weft_source *source, weft_split split, int64_t i, int64_t position)
{
    const weft_npy_source *s = (const weft_npy_source *)source;
    int64_t row = row_of(source, split, i);
    if (s->head.position_weights) row = row * s->head.positions + position;
    return weft_npy_get(&s->weights.array, row);
}

static void npy_describe(const weft_source *source, weft_split split, int64_t i, int column,
                         int64_t j, char *out, size_t size)
{
    const weft_npy_source *s = (const weft_npy_source *)source;
    const weft_npy_file *f = column < source->inputs    ? &s->input[column]
                             : column == source->inputs ? &s->labels
                                                        : &s->weights;
    const weft_shape *shape = &f->array.shape;
    int64_t row = row_of(source, split, i), each = weft_shape_elements(shape) / shape->dim[0];
    if (column == source->inputs && s->one_hot) {
        (void)snprintf(out, size, "%s: the numbers of sample %lld are not one 1 and else 0",
                       f->path, (long long)row);
        return;
    }
    if (column < source->inputs && f->channels == WEFT_CHANNELS_LAST) {
        int64_t channels = source->input[column].shape.dim[0], pixels = each / channels;
        j = j % pixels * channels + j / pixels;
    }
    double value = weft_npy_get(&f->array, row * each + j);
    if (column > source->inputs && each == 1)
        (void)snprintf(out, size, "%s: the weight of sample %lld is %.15g", f->path, (long long)row,
                       value);
    else
        (void)snprintf(out, size, "%s: number %lld of sample %lld is %.15g", f->path, (long long)j,
                       (long long)row, value);
}

static weft_status open_file(const weft_source_request *request, weft_npy_file *file)
{
    if (!file->path) return WEFT_OK;
    WEFT_TRY(weft_spec_locate(request, &file->path));
    WEFT_TRY(weft_gzip_open(file->path, &file->bytes));
    return weft_npy_parse(file->path, file->bytes.data, file->bytes.size, &file->array);
}

/* Opens the files, checks them and splits the rows. Without labels all rows are for testing. */
static weft_status load(weft_npy_source *s, weft_npy_spec *spec, const weft_source_request *request)
{
    for (int i = 0; i < s->head.inputs; i++) {
        weft_status status = open_file(request, &s->input[i]);
        if (status != WEFT_OK && s->named)
            return weft_fail_within(status, "data 'npy': input '%s'", s->head.input[i].name);
        WEFT_TRY(status);
    }
    WEFT_TRY(open_file(request, &s->labels));
    WEFT_TRY(open_file(request, &s->weights));
    WEFT_TRY(weft_npy_check_inputs(s, spec->layout, request));
    WEFT_TRY(weft_npy_check_labels(s, spec->ignore, request));
    WEFT_TRY(weft_npy_check_weights(s, request));
    s->head.large = s->head.large || weft_bytes_large(&s->labels.bytes);
    s->head.divided = spec->test >= 0;
    if (spec->test < 0) spec->test = s->labels.path ? WEFT_USUAL_TEST : 1;
    return npy_divide(&s->head, spec->test);
}

static weft_status npy_open(const char *arguments, const weft_source_request *request,
                            weft_source **out)
{
    weft_npy_spec spec;
    weft_npy_source *s;
    WEFT_TRY(WEFT_NEW(&s, 1));
    s->head.ops = &weft_source_npy;
    weft_status status = weft_npy_parse_spec(arguments, request, s, &spec);
    if (status == WEFT_OK) status = load(s, &spec, request);
    free(spec.layout);
    if (status != WEFT_OK) {
        npy_close(&s->head);
        return status;
    }
    *out = &s->head;
    return WEFT_OK;
}

const weft_source_ops weft_source_npy = {
    .kind = "npy",
    .ends = ".npy",
    .form = "npy:SAMPLES,LABELS|target=FILE[,binary,weight=FILE,layout=hwc|chw|cw|...,ignore=LABEL,"
            "test=0.2] or "
            "npy:NAME=FILE,...,label=FILE|target=FILE[,...]",
    .help = "NumPy files, memory-mapped: samples [n, ...] of any real or "
            "integer type, and labels [n], integer classes, or targets [n] or [n, "
            "k], numbers to predict; labels [n, positions] are classes of the positions of a "
            "sample, labels [n, h, w] of its pixels, and with binary k labels of it, each 0 or 1; "
            "ignore is a label of positions or pixels that count nowhere; "
            "weight is a file [n] of sample weights, or of weights for all labels; layout "
            "names the dimensions of a sample: w, hw, dhw, cw, wc, chw, hwc, cdhw "
            "or dhwc, for channels, depth, height and width, or tc, positions of a sequence and "
            "their features. Several inputs have names: those of "
            "integers of 16 bits or more are tokens [n, positions] or lengths [n]",
    .open = npy_open,
    .close = npy_close,
    .divide = npy_divide,
    .row = row_of,
    .prepare = npy_prepare,
    .features = npy_features,
    .number = npy_number,
    .label = npy_label,
    .target = npy_target,
    .weight = npy_weight,
    .describe = npy_describe,
};
