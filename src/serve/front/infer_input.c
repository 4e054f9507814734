/* Parses the input tensor of an inference request, from JSON numbers or from binary data after the
 * JSON. */
#include <stdio.h>

#include "serve/front/infer_internal.h"

enum { SHOWN = 128 };

/* An input that is being parsed; its JSON members may come in any order. */
typedef struct input {
    unsigned seen;
    char name[SHOWN], type_name[SHOWN];
    const weft_datatype *type;
    weft_shape shape;
    int64_t binary; /* value of binary_data_size; below 0: not given */
    weft_json data; /* parser at the data, if they came before the name, shape and datatype */
    bool kept, read;
} input;

#define wrong(...) weft_fail(WEFT_ERR_ARGUMENT, __VA_ARGS__)

/* Reads a number of the shape. Only if it is wrong, it is read again for a message with its
 * position. */
static weft_status read_dim(weft_json *j, int position, int64_t *dim)
{
    char what[64];
    weft_json before = *j;
    weft_status status = weft_infer_whole(j, "", 1, dim);
    if (status == WEFT_OK && *dim <= INT32_MAX) return WEFT_OK;
    (void)snprintf(what, sizeof(what), "input 'x': number %d of the shape", position);
    if (status == WEFT_OK)
        return wrong("%s is %lld, and %d is the most", what, (long long)*dim, INT32_MAX);
    *j = before;
    return weft_infer_whole(j, what, 1, dim);
}

static weft_status read_shape(weft_json *j, weft_shape *out)
{
    WEFT_TRY(weft_infer_must_be(j, WEFT_JSON_ARRAY, "input 'x': shape"));
    WEFT_TRY(weft_json_enter(j));
    out->rank = 0;
    while (weft_json_item(j)) {
        if (out->rank == WEFT_MAX_RANK)
            return wrong("input 'x': shape has more than %d numbers", WEFT_MAX_RANK);
        WEFT_TRY(read_dim(j, out->rank + 1, &out->dim[out->rank]));
        out->rank++;
    }
    WEFT_TRY(j->status);
    return out->rank > 0 ? WEFT_OK : wrong("input 'x': shape is empty");
}

/* Checks the input's shape, which must be that of a batch of samples, or [rows, numbers of a
 * sample]. *rows: the number of rows. */
static weft_status rows_of(const weft_servable_info *about, const weft_shape *got, int64_t *rows)
{
    int64_t size = weft_shape_elements(&about->sample);
    bool fits = got->rank == about->sample.rank + 1;
    for (int i = 0; fits && i < about->sample.rank; i++)
        fits = got->dim[i + 1] == about->sample.dim[i];
    char a[128], b[128];
    if (!fits && !(got->rank == 2 && got->dim[1] == size)) {
        weft_shape want = about->sample;
        want.rank = WEFT_MIN(want.rank + 1, WEFT_MAX_RANK);
        memmove(want.dim + 1, about->sample.dim, sizeof(*want.dim) * (WEFT_MAX_RANK - 1));
        want.dim[0] = got->rank == want.rank ? got->dim[0] : 1;
        return wrong("input 'x' has shape %s, must be %s for so many rows",
                     weft_shape_text(got, a, sizeof(a)), weft_shape_text(&want, b, sizeof(b)));
    }
    *rows = got->dim[0];
    if (*rows > about->limit)
        return wrong("input 'x' has %lld rows, and %lld are the most of a request",
                     (long long)*rows, (long long)about->limit);
    return WEFT_OK;
}

/* Checks the input's name, datatype and shape, and allocates its memory. */
static weft_status prepare(weft_infer_reader *r, input *in)
{
    int64_t rows = 0, size = weft_shape_elements(&r->about->sample),
            outputs = r->about->targets ? r->about->targets : r->about->classes;
    if (r->out->prediction) return WEFT_OK;
    if (strcmp(in->name, "x") != 0) return wrong("no input is named '%s'; it is 'x'", in->name);
    in->type = weft_datatype_find(in->type_name);
    if (!in->type)
        return wrong("input 'x': datatype is '%s', must be FP32, FP64, FP16, BF16, BOOL, or INT or "
                     "UINT with 8, 16, 32 or 64",
                     in->type_name);
    if (in->shape.rank == 0)
        return wrong("input 'x' has no shape, such as [1, %lld]", (long long)size);
    WEFT_TRY(rows_of(r->about, &in->shape, &rows));
    /* Columns of a table may be far from zero, so they keep all digits until they are
     * normalised. */
    if (r->about->table && in->type->get_double)
        WEFT_TRY(WEFT_NEW(&r->out->x_double, rows * size));
    else
        WEFT_TRY(WEFT_NEW(&r->out->x, rows * size));
    WEFT_TRY(WEFT_NEW(&r->out->prediction, rows * outputs));
    r->out->request.rows = rows;
    return WEFT_OK;
}

/* Reads exactly `count` numbers, up to the end of the JSON array. */
static weft_status read_numbers(weft_json *j, const weft_datatype *type, int64_t count,
                                const weft_inference *out, int64_t *at)
{
    double x;
    int64_t end = *at + count;
    bool there;
    while ((there = weft_json_item(j)) && *at < end) {
        WEFT_TRY(weft_datatype_read(type, j, *at + 1, !out->x_double, &x));
        if (out->x_double)
            out->x_double[*at] = x;
        else
            out->x[*at] = (float)x;
        ++*at;
    }
    WEFT_TRY(j->status);
    if (there)
        return wrong("input 'x': more than the %lld numbers that its shape says follow number %lld "
                     "of the data",
                     (long long)count, (long long)(end - count));
    if (*at < end)
        return wrong("input 'x': the data end after number %lld, and the shape says %lld",
                     (long long)*at, (long long)end);
    return WEFT_OK;
}

static weft_status no_array(weft_json *j, int64_t at)
{
    char what[96];
    (void)snprintf(what, sizeof(what), "input 'x': what follows number %lld of the data",
                   (long long)at);
    return weft_infer_must_be(j, WEFT_JSON_ARRAY, what);
}

/* Reads nested JSON arrays, each of which must have as many items as the shape says. */
static weft_status read_nested(weft_json *j, const input *in, int level, const weft_inference *out,
                               int64_t *at)
{
    int64_t items = 0, wanted = in->shape.dim[level];
    bool there;
    if (level == in->shape.rank - 1) return read_numbers(j, in->type, wanted, out, at);
    for (; (there = weft_json_item(j)) && items < wanted; items++) {
        if (weft_json_peek(j) != WEFT_JSON_ARRAY) return no_array(j, *at);
        WEFT_TRY(weft_json_enter(j));
        WEFT_TRY(read_nested(j, in, level + 1, out, at));
    }
    WEFT_TRY(j->status);
    if (there || items < wanted)
        return wrong("input 'x': an array at level %d of the data has %s %lld items, and the shape "
                     "says %lld",
                     level + 1, there ? "more than" : "only", (long long)items, (long long)wanted);
    return WEFT_OK;
}

static weft_status read_data(const weft_infer_reader *r, input *in, weft_json *j)
{
    int64_t at = 0, count = weft_shape_elements(&in->shape);
    if (in->type->is == WEFT_BITS_TYPE)
        return wrong("input 'x': %s has no form in JSON; send its bytes behind it, with "
                     "binary_data_size, or FP32",
                     in->type->name);
    WEFT_TRY(weft_infer_must_be(j, WEFT_JSON_ARRAY, "input 'x': data"));
    WEFT_TRY(weft_json_enter(j));
    in->read = true;
    weft_json ahead = *j;
    bool there = weft_json_item(&ahead);
    WEFT_TRY(ahead.status);
    return there && weft_json_peek(&ahead) == WEFT_JSON_ARRAY
               ? read_nested(j, in, 0, r->out, &at)
               : read_numbers(j, in->type, count, r->out, &at);
}

static weft_status read_bytes(weft_infer_reader *r, const input *in)
{
    int64_t count = weft_shape_elements(&in->shape);
    size_t size = (size_t)count * in->type->bytes;
    if ((uint64_t)in->binary != size)
        return wrong("input 'x': binary_data_size is %lld, and its shape and datatype say %zu",
                     (long long)in->binary, size);
    if (r->bytes != size)
        return wrong("%zu bytes follow the JSON, and binary_data_size says %zu; "
                     "Inference-Header-Content-Length must be the bytes of the JSON",
                     r->bytes, size);
    r->bytes = 0;
    if (r->out->x_double)
        in->type->get_double(r->tensor, count, r->out->x_double);
    else
        in->type->get(r->tensor, count, r->out->x);
    return WEFT_OK;
}

static weft_status read_input_parameters(weft_json *j, int64_t *binary)
{
    weft_json_key key;
    WEFT_TRY(weft_infer_must_be(j, WEFT_JSON_OBJECT, "input 'x': parameters"));
    WEFT_TRY(weft_json_enter(j));
    while (weft_json_member(j, &key)) {
        WEFT_TRY(weft_infer_no_shared_memory(&key));
        if (weft_json_is(&key, "binary_data_size"))
            WEFT_TRY(weft_infer_whole(j, "input 'x': binary_data_size", 0, binary));
        else
            WEFT_TRY(weft_json_skip(j));
    }
    return j->status;
}

static weft_status read_part(weft_infer_reader *r, weft_json *j, int part, input *in)
{
    enum { NAME, SHAPE, TYPE, PARAMETERS, DATA };
    const unsigned before = 1U << NAME | 1U << SHAPE | 1U << TYPE;
    size_t size;
    switch (part) {
    case NAME:
        WEFT_TRY(weft_infer_must_be(j, WEFT_JSON_STRING, "the name of an input"));
        return weft_json_cut(j, in->name, sizeof(in->name), &size);
    case SHAPE: return read_shape(j, &in->shape);
    case TYPE:
        WEFT_TRY(weft_infer_must_be(j, WEFT_JSON_STRING, "input 'x': datatype"));
        return weft_json_cut(j, in->type_name, sizeof(in->type_name), &size);
    case PARAMETERS: return read_input_parameters(j, &in->binary);
    case DATA:
        if ((in->seen & before) == before) {
            WEFT_TRY(prepare(r, in));
            return read_data(r, in, j);
        }
        in->kept = true;
        in->data = *j;
        return weft_json_skip(j);
    default: return weft_json_skip(j);
    }
}

static weft_status read_input(weft_infer_reader *r, weft_json *j)
{
    static const char *const parts[] = {"name", "shape", "datatype", "parameters", "data"};
    input in = {.binary = -1};
    weft_json_key key;
    int part;
    WEFT_TRY(weft_infer_must_be(j, WEFT_JSON_OBJECT, "an input"));
    WEFT_TRY(weft_json_enter(j));
    while (weft_json_member(j, &key)) {
        WEFT_TRY(weft_infer_key(&key, parts, WEFT_COUNT(parts), "an input", &in.seen, &part));
        WEFT_TRY(read_part(r, j, part, &in));
    }
    WEFT_TRY(j->status);
    WEFT_TRY(prepare(r, &in));
    if (in.binary >= 0 && (in.kept || in.read))
        return wrong("input 'x' has data, and binary_data_size for bytes behind the JSON; it must "
                     "have one of them");
    if (in.binary >= 0) return read_bytes(r, &in);
    if (in.kept) return read_data(r, &in, &in.data);
    return in.read ? WEFT_OK
                   : wrong("input 'x' has no data: an array, or bytes and binary_data_size");
}

weft_status weft_infer_inputs(weft_infer_reader *r, weft_json *j)
{
    WEFT_TRY(weft_infer_must_be(j, WEFT_JSON_ARRAY, "inputs"));
    WEFT_TRY(weft_json_enter(j));
    bool there = weft_json_item(j);
    WEFT_TRY(j->status);
    if (!there) return wrong("inputs is empty; it must have one tensor, named 'x'");
    WEFT_TRY(read_input(r, j));
    there = weft_json_item(j);
    WEFT_TRY(j->status);
    return there ? wrong("inputs has more than one tensor; it must have one, named 'x'") : WEFT_OK;
}
