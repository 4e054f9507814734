/* Reads and checks the shapes of input tensors, and makes the messages about them. */
#include <stdio.h>

#include "data/channel_layout.h"
#include "formats/table.h"
#include "serve/front/infer_internal.h"

#define wrong(...) weft_fail(WEFT_ERR_ARGUMENT, __VA_ARGS__)

enum { TEXT = 2 * WEFT_INFER_SHOWN };

/* --- messages --- */

const char *weft_infer_names(const weft_servable_info *about, bool outputs, char *text, size_t room)
{
    size_t used = 0;
    int count = outputs ? (int)about->output_count : about->inputs;
    for (int k = 0; k < count && used < room; k++)
        used += (size_t)snprintf(text + used, room - used, "%s'%s'", k ? ", " : "",
                                 outputs ? about->output[k].name : about->input[k].name);
    return text;
}

weft_status weft_infer_no_inputs(const weft_servable_info *about, const char *what)
{
    char names[WEFT_MAX_INPUTS * (WEFT_INPUT_NAME + 4)];
    weft_infer_names(about, false, names, sizeof(names));
    if (about->inputs == 1) return wrong("%s an array of one tensor, named %s", what, names);
    return wrong("%s an array of %d tensors, named %s", what, about->inputs, names);
}

/* A part of the input as messages name it; the name may be unknown yet. */
static const char *part_of(const weft_infer_input *in, const char *part, char *text, size_t room)
{
    if (in->name[0])
        (void)snprintf(text, room, "input '%s': %s", in->name, part);
    else
        (void)snprintf(text, room, "an input: %s", part);
    return text;
}

weft_status weft_infer_input_must_be(weft_json *j, weft_json_kind kind, const weft_infer_input *in,
                                     const char *part)
{
    char text[TEXT];
    if (weft_json_peek(j) == kind) return WEFT_OK;
    return weft_infer_must_be(j, kind, part_of(in, part, text, sizeof(text)));
}

weft_status weft_infer_input_whole(weft_json *j, const weft_infer_input *in, const char *part,
                                   int64_t low, int64_t *out)
{
    char text[TEXT];
    weft_json before = *j;
    if (weft_infer_whole(j, "", low, out) == WEFT_OK) return WEFT_OK;
    *j = before;
    return weft_infer_whole(j, part_of(in, part, text, sizeof(text)), low, out);
}

/* --- shape --- */

static weft_status read_dim(weft_json *j, const weft_infer_input *in, int position, int64_t *dim)
{
    char part[64], text[TEXT];
    weft_json before = *j;
    weft_status status = weft_infer_whole(j, "", 1, dim);
    if (status == WEFT_OK && *dim <= INT32_MAX) return WEFT_OK;
    (void)snprintf(part, sizeof(part), "number %d of the shape", position);
    part_of(in, part, text, sizeof(text));
    if (status == WEFT_OK)
        return wrong("%s is %lld, and %d is the most", text, (long long)*dim, INT32_MAX);
    *j = before;
    return weft_infer_whole(j, text, 1, dim);
}

weft_status weft_infer_shape(weft_json *j, weft_infer_input *in)
{
    char text[TEXT];
    weft_shape *out = &in->shape;
    WEFT_TRY(weft_infer_input_must_be(j, WEFT_JSON_ARRAY, in, "shape"));
    WEFT_TRY(weft_json_enter(j));
    out->rank = 0;
    while (weft_json_item(j)) {
        if (out->rank == WEFT_MAX_RANK)
            return wrong("%s has more than %d numbers", part_of(in, "shape", text, sizeof(text)),
                         WEFT_MAX_RANK);
        WEFT_TRY(read_dim(j, in, out->rank + 1, &out->dim[out->rank]));
        out->rank++;
    }
    WEFT_TRY(j->status);
    return out->rank > 0 ? WEFT_OK : wrong("%s is empty", part_of(in, "shape", text, sizeof(text)));
}

int64_t weft_infer_columns(const weft_servable_info *about)
{
    const weft_table *table = about->table_columns;
    return table ? table->columns : weft_shape_elements(&about->input[0].shape);
}

weft_shape weft_infer_row_shape(const weft_servable_info *about, int input)
{
    const weft_shape *shape = &about->input[input].shape;
    return about->channels_last >> input & 1 ? weft_layout_channels_last(shape) : *shape;
}

/* Whether a shape is [rows, sample...]; a single channel may be left out, as files of grey pictures
 * do. */
static bool are_rows_of(const weft_shape *got, const weft_shape *sample)
{
    int left_out = sample->rank > 1 && sample->dim[0] == 1 && got->rank == sample->rank;
    bool fits = got->rank + left_out == sample->rank + 1;
    for (int i = left_out; fits && i < sample->rank; i++)
        fits = got->dim[i + 1 - left_out] == sample->dim[i];
    return fits;
}

weft_status weft_infer_check_shape(const weft_servable_info *about, const weft_infer_input *in,
                                   bool *last)
{
    const weft_shape *got = &in->shape;
    int k = (int)(in->is - about->input);
    weft_shape sample = weft_infer_row_shape(about, k), want = {.rank = sample.rank + 1};
    bool flat = got->rank == 2 && got->dim[1] == weft_shape_elements(&sample);
    char a[128], b[128];
    *last = (flat || are_rows_of(got, &sample)) && (about->channels_last >> k & 1);
    if (!flat && !are_rows_of(got, &sample) && !are_rows_of(got, &in->is->shape)) {
        want.rank = WEFT_MIN(want.rank, WEFT_MAX_RANK);
        memcpy(want.dim + 1, sample.dim, sizeof(*want.dim) * (WEFT_MAX_RANK - 1));
        want.dim[0] = got->rank == want.rank ? got->dim[0] : 1;
        return wrong("input '%s' has shape %s, must be %s for so many rows", in->name,
                     weft_shape_text(got, a, sizeof(a)), weft_shape_text(&want, b, sizeof(b)));
    }
    if (got->dim[0] > about->most_rows)
        return wrong("input '%s' has %lld rows, and %lld are the most of a request", in->name,
                     (long long)got->dim[0], (long long)about->most_rows);
    return WEFT_OK;
}
