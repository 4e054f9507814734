/* Checks the inputs of a NumPy data source: the numbers of samples agree, shapes and types fit. */
#include <stdio.h>

#include "data/npy.h"

enum { MOST_TARGETS = 65536, MOST_CLASSES = 65536 };

static int64_t rows_of(const weft_npy_source *s)
{
    return s->input[0].array.shape.dim[0];
}

weft_status weft_npy_check_rows(const weft_npy_source *s, const weft_npy_file *file,
                                const char *what)
{
    int64_t rows = rows_of(s), have = file->array.shape.dim[0];
    if (have == rows) return WEFT_OK;
    return weft_fail(WEFT_ERR_FORMAT, "%s has %lld sample%s, %s has %lld %s%s", s->input[0].path,
                     (long long)rows, weft_plural(rows), file->path, (long long)have, what,
                     weft_plural(have));
}

/* --- inputs --- */

/* Named arrays of integers are tokens or lengths; bytes in more than one dimension are pixels. */
static bool has_tokens(const weft_npy_source *s, const weft_npy *a)
{
    return s->named && (a->kind == 'i' || a->kind == 'u') && (a->size > 1 || a->shape.rank == 1);
}

/* Sets `values` of an input of tokens: the number of different ones, which those of the training
 * determine (known: 0 in training). */
static weft_status count_tokens(const weft_npy_file *f, int known, weft_input *out)
{
    const weft_npy *a = &f->array;
    int64_t size = weft_shape_elements(&a->shape), each = size / a->shape.dim[0];
    double largest = 1;
    for (int64_t i = 0; i < size && !known; i++) {
        double token = weft_npy_get(a, i);
        if (!(token >= 0 && token < WEFT_MOST_TOKENS))
            return weft_fail(WEFT_ERR_FORMAT,
                             "%s: number %lld of sample %lld is %.0f, must be from 0 to %d (arrays "
                             "of integers hold tokens or lengths; save numbers as float32)",
                             f->path, (long long)(i % each), (long long)(i / each), token,
                             WEFT_MOST_TOKENS - 1);
        largest = WEFT_MAX(largest, token);
    }
    out->dtype = WEFT_I32;
    out->values = known ? known : (int)largest + 1;
    return WEFT_OK;
}

/* The number of tokens that the input of this name had in training; 0: unknown. */
static int known_values(const weft_data_stats *stats, const char *name)
{
    for (int i = 0; stats && i < stats->inputs; i++)
        if (strcmp(stats->input[i].name, name) == 0) return stats->input[i].values;
    return 0;
}

/* Reads a later file with the layout of the training (*held), if samples get the shape of the
 * training so. */
static weft_status hold_layout(weft_npy_file *f, weft_input *in, const weft_source_request *request,
                               bool *held)
{
    char *layout;
    WEFT_TRY(weft_spec_held(request, "npy", "layout", &layout));
    weft_status status = WEFT_OK;
    if (layout && (int)strlen(layout) == f->array.shape.rank - 1) {
        status = weft_layout_find(f->path, &f->array.shape, layout, request->context, &f->channels);
        in->shape = weft_layout_shape(&f->array.shape, f->channels);
        for (int k = 0; k < request->stats->inputs; k++)
            *held |= strcmp(request->stats->input[k].name, in->name) == 0 &&
                     weft_shape_equal(&in->shape, &request->stats->input[k].shape);
        if (!*held) f->channels = WEFT_CHANNELS_FIRST;
    }
    free(layout);
    return status;
}

static weft_status check_input(weft_npy_source *s, int i, const char *layout,
                               const weft_source_request *request)
{
    weft_npy_file *f = &s->input[i];
    weft_input *in = &s->head.input[i];
    int rank = f->array.shape.rank;
    if (rank < (s->named ? 1 : 2))
        return weft_fail(WEFT_ERR_FORMAT, "%s: needs at least %s, samples first", f->path,
                         s->named ? "1 dimension" : "2 dimensions");
    if (i > 0) WEFT_TRY(weft_npy_check_rows(s, f, "sample"));
    if (has_tokens(s, &f->array)) {
        in->shape = weft_shape_of(rank - 1, f->array.shape.dim + 1);
        return count_tokens(f, known_values(request->stats, in->name), in);
    }
    if (rank < 2)
        return weft_fail(WEFT_ERR_FORMAT,
                         "%s: real numbers need at least 2 dimensions, samples first; whole "
                         "numbers, such as lengths, may have one: store them as integers",
                         f->path);
    /* In a named input the layout describes those with as many dimensions. Other samples keep their
     * shape: [positions, features] are no images. */
    bool described = layout && (!s->named || (int)strlen(layout) == rank - 1), held = false;
    f->channels = WEFT_CHANNELS_FIRST;
    in->dtype = WEFT_F32;
    if (!layout) WEFT_TRY(hold_layout(f, in, request, &held));
    if (held) return WEFT_OK;
    if (described || !s->named || rank == 4) {
        WEFT_TRY(weft_layout_find(f->path, &f->array.shape, described ? layout : NULL,
                                  request->context, &f->channels));
        const char *name = rank > 2 ? weft_layout_name(&f->array.shape, f->channels) : NULL;
        if (name) (void)snprintf(s->reading, sizeof(s->reading), "npy:layout=%s", name);
    }
    in->shape = weft_layout_shape(&f->array.shape, f->channels);
    return WEFT_OK;
}

/* The lengths of later data may be as large as the sequences are long: the number of positions of
 * the shortest input that is as long as the largest length of the training. */
static void widen_lengths(weft_npy_source *s)
{
    weft_source *head = &s->head;
    for (int i = 0; i < head->inputs; i++) {
        weft_input *in = &head->input[i];
        int64_t best = 0;
        for (int k = 0; k < head->inputs && in->shape.rank == 0; k++) {
            const weft_shape *other = &head->input[k].shape;
            bool holds = other->rank > 0 && other->dim[0] + 1 >= in->values;
            if (holds && other->dim[0] < WEFT_MOST_TOKENS && (best == 0 || other->dim[0] < best))
                best = other->dim[0];
        }
        if (best > 0) in->values = (int)best + 1;
    }
}

static bool lacks(const weft_source *s, const char *name)
{
    for (int i = 0; i < s->inputs; i++)
        if (strcmp(s->input[i].name, name) == 0) return false;
    return true;
}

static void swap(weft_npy_source *s, int i, int j)
{
    weft_input input = s->head.input[j];
    weft_npy_file file = s->input[j];
    s->head.input[j] = s->head.input[i];
    s->input[j] = s->input[i];
    s->head.input[i] = input;
    s->input[i] = file;
}

/* Arranges the inputs in the order of the training. ARGUMENT: one is missing. */
static weft_status arrange_as(weft_npy_source *s, const weft_data_stats *stats)
{
    for (int i = 0; i < stats->inputs; i++) {
        const char *name = stats->input[i].name;
        if (lacks(&s->head, name))
            return weft_fail(WEFT_ERR_ARGUMENT,
                             "data 'npy': no file is given for the input '%s' of the training; "
                             "give %s=FILE",
                             name, name);
        for (int j = i + 1; j < s->head.inputs; j++)
            if (strcmp(s->head.input[j].name, name) == 0) swap(s, i, j);
    }
    return WEFT_OK;
}

/* In training, inputs of one number a sample come last: a model of one input reads the first. */
static weft_status arrange(weft_npy_source *s, const weft_data_stats *stats)
{
    if (!s->named) return WEFT_OK;
    if (stats) return arrange_as(s, stats);
    for (int i = 1; i < s->head.inputs; i++)
        for (int j = i; j > 0 && s->head.input[j].shape.rank > 0; j--)
            if (s->head.input[j - 1].shape.rank == 0) swap(s, j - 1, j);
    return WEFT_OK;
}

/* A layout must be one, and describe an input. */
static weft_status check_layout(const weft_npy_source *s, const char *layout,
                                const weft_source_request *request)
{
    weft_channels channels;
    int found = -1;
    for (int i = 0; s->named && layout && i < s->head.inputs; i++) {
        if (s->head.input[i].dtype != WEFT_F32) continue;
        if (found < 0 || s->input[i].array.shape.rank - 1 == (int)strlen(layout)) found = i;
    }
    if (found < 0) return WEFT_OK;
    return weft_layout_find(s->input[found].path, &s->input[found].array.shape, layout,
                            request->context, &channels);
}

weft_status weft_npy_check_inputs(weft_npy_source *s, const char *layout,
                                  const weft_source_request *request)
{
    weft_source *head = &s->head;
    const weft_npy *a = &s->input[0].array;
    for (int i = 0; i < head->inputs; i++) WEFT_TRY(check_input(s, i, layout, request));
    WEFT_TRY(check_layout(s, layout, request));
    if (*s->reading) head->reading = s->reading;
    if (!request->stats) widen_lengths(s);
    WEFT_TRY(arrange(s, request->stats));
    if (request->stats && !s->named &&
        !weft_shape_equal(&head->input[0].shape, &request->stats->input[0].shape) &&
        weft_layout_suggest(&a->shape, &request->stats->input[0].shape, s->remedy,
                            sizeof(s->remedy)))
        head->remedy = s->remedy;
    bool some = false;
    head->whole = head->bytes = true;
    for (int i = 0; i < head->inputs; i++) {
        head->large = head->large || weft_bytes_large(&s->input[i].bytes);
        if (head->input[i].dtype != WEFT_F32) continue;
        bool bytes = s->input[i].array.kind == 'u' && s->input[i].array.size == 1;
        head->whole = head->whole && s->input[i].array.kind != 'f';
        head->bytes = head->bytes && bytes;
        head->flags = head->flags || s->input[i].array.kind == 'b';
        some = some || bytes;
    }
    head->mixed = some && !head->bytes;
    head->tabular =
        head->inputs == 1 && head->input[0].dtype == WEFT_F32 && head->input[0].shape.rank == 1;
    return WEFT_OK;
}
