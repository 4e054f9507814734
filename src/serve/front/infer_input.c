/* Parses the input tensors of an inference request, from JSON numbers or from binary data after the
 * JSON. */
#include <stdio.h>

#include "serve/front/infer_internal.h"

#define wrong(...) weft_fail(WEFT_ERR_ARGUMENT, __VA_ARGS__)

/* --- preparation --- */

/* Finds the input of the model by its name. */
static weft_status find(weft_infer_reader *r, weft_infer_input *in)
{
    const weft_servable_info *about = r->about;
    char names[WEFT_MAX_INPUTS * (WEFT_INPUT_NAME + 4)];
    for (int k = 0; k < about->inputs; k++) {
        if (strcmp(about->input[k].name, in->name) != 0) continue;
        if (r->inputs >> k & 1) return wrong("inputs has '%s' twice", in->name);
        r->inputs |= 1U << k;
        in->is = &about->input[k];
        return WEFT_OK;
    }
    return wrong("no input is named '%s'; %s %s", in->name,
                 about->inputs == 1 ? "it is" : "they are",
                 weft_infer_names(about, false, names, sizeof(names)));
}

static weft_status find_type(weft_infer_reader *r, weft_infer_input *in)
{
    const weft_servable_info *about = r->about;
    bool last;
    const weft_datatype *type = in->type = weft_datatype_find(in->type_name);
    if (!type)
        return wrong("input '%s': datatype is '%s', must be FP32, FP64, FP16, BF16, BOOL, or INT "
                     "or UINT with 8, 16, 32 or 64",
                     in->name, in->type_name);
    if (in->is->values > 0 && type->is != WEFT_WHOLE_TYPE)
        return wrong("input '%s' takes whole numbers from 0 to %d: datatype is %s, must be INT or "
                     "UINT with 8, 16, 32 or 64",
                     in->name, in->is->values - 1, type->name);
    if (in->shape.rank == 0)
        return wrong("input '%s' has no shape, such as [1, %lld]", in->name,
                     (long long)weft_shape_elements(&in->is->shape));
    WEFT_TRY(weft_infer_check_shape(about, in, &last));
    if (last) r->last |= 1U << (in->is - about->input);
    return WEFT_OK;
}

/* Allocates the memory of the request, for as many rows as its first input has. */
static weft_status make_room(weft_infer_reader *r, const weft_infer_input *in)
{
    const weft_servable_info *about = r->about;
    int64_t size = 0, rows = in->shape.dim[0];
    for (int k = 0; k < about->inputs; k++) size += weft_shape_elements(&about->input[k].shape);
    /* A number takes at least a byte, so a short body cannot make much memory be allocated. */
    if (rows > 1 && size > (int64_t)r->body / rows)
        return wrong(
            "input '%s' has %lld rows of %lld numbers, more than the %zu bytes of the body "
            "can hold",
            in->name, (long long)rows, (long long)size, r->body);
    /* Columns of a table may be far from zero, so they keep all digits until they are normalised,
     * and tokens keep theirs. */
    if ((about->table && in->type->get_double) || about->tokens)
        WEFT_TRY(WEFT_NEW(&r->out->x_double, rows * size));
    else
        WEFT_TRY(WEFT_NEW(&r->out->x, rows * size));
    WEFT_TRY(WEFT_NEW(&r->out->prediction, rows * about->outputs));
    r->out->request.rows = rows;
    return WEFT_OK;
}

/* Checks the input's name, datatype and shape, and finds its place in the memory of the request. */
static weft_status prepare(weft_infer_reader *r, weft_infer_input *in)
{
    const weft_servable_info *about = r->about;
    if (in->is) return WEFT_OK;
    WEFT_TRY(find(r, in));
    WEFT_TRY(find_type(r, in));
    bool real = in->is->values == 0;
    r->fractional = r->fractional || (real && in->type->is != WEFT_WHOLE_TYPE);
    r->not_bytes = r->not_bytes || (real && strcmp(in->type->name, "UINT8") != 0);
    if (!r->out->prediction) WEFT_TRY(make_room(r, in));
    if (in->shape.dim[0] != r->out->request.rows)
        return wrong("input '%s' has %lld rows, and another input %lld", in->name,
                     (long long)in->shape.dim[0], (long long)r->out->request.rows);
    for (const weft_input *k = about->input; k < in->is; k++)
        in->at += r->out->request.rows * weft_shape_elements(&k->shape);
    return WEFT_OK;
}

/* --- data --- */

/* Reads exactly `count` numbers, up to the end of the JSON array. *at: how many of the input have
 * been read. */
static weft_status read_numbers(weft_json *j, const weft_infer_input *in, int64_t count,
                                const weft_inference *out, int64_t *at)
{
    double x;
    int64_t end = *at + count;
    bool there;
    while ((there = weft_json_item(j)) && *at < end) {
        WEFT_TRY(weft_datatype_read(in->type, j, in->name, *at + 1, !out->x_double, &x));
        if (out->x_double)
            out->x_double[in->at + *at] = x;
        else
            out->x[in->at + *at] = (float)x;
        ++*at;
    }
    WEFT_TRY(j->status);
    if (there)
        return wrong("input '%s': more than the %lld numbers that its shape says follow number "
                     "%lld of the data",
                     in->name, (long long)count, (long long)(end - count));
    if (*at < end)
        return wrong("input '%s': the data end after number %lld, and the shape says %lld",
                     in->name, (long long)*at, (long long)end);
    return WEFT_OK;
}

static weft_status no_array(weft_json *j, const weft_infer_input *in, int64_t at)
{
    char part[96];
    (void)snprintf(part, sizeof(part), "what follows number %lld of the data", (long long)at);
    return weft_infer_input_must_be(j, WEFT_JSON_ARRAY, in, part);
}

/* Reads nested JSON arrays, each of which must have as many items as the shape says. */
static weft_status read_nested(weft_json *j, const weft_infer_input *in, int level,
                               const weft_inference *out, int64_t *at)
{
    int64_t items = 0, wanted = in->shape.dim[level];
    bool there;
    if (level == in->shape.rank - 1) return read_numbers(j, in, wanted, out, at);
    for (; (there = weft_json_item(j)) && items < wanted; items++) {
        if (weft_json_peek(j) != WEFT_JSON_ARRAY) return no_array(j, in, *at);
        WEFT_TRY(weft_json_enter(j));
        WEFT_TRY(read_nested(j, in, level + 1, out, at));
    }
    WEFT_TRY(j->status);
    if (there || items < wanted)
        return wrong("input '%s': an array at level %d of the data has %s %lld items, and the "
                     "shape says %lld",
                     in->name, level + 1, there ? "more than" : "only", (long long)items,
                     (long long)wanted);
    return WEFT_OK;
}

static weft_status read_data(const weft_infer_reader *r, weft_infer_input *in, weft_json *j)
{
    int64_t at = 0, count = weft_shape_elements(&in->shape);
    if (in->type->is == WEFT_BITS_TYPE)
        return wrong("input '%s': %s has no form in JSON; send its bytes behind it, with "
                     "binary_data_size, or FP32",
                     in->name, in->type->name);
    WEFT_TRY(weft_infer_input_must_be(j, WEFT_JSON_ARRAY, in, "data"));
    WEFT_TRY(weft_json_enter(j));
    in->read = true;
    weft_json ahead = *j;
    bool there = weft_json_item(&ahead);
    WEFT_TRY(ahead.status);
    return there && weft_json_peek(&ahead) == WEFT_JSON_ARRAY
               ? read_nested(j, in, 0, r->out, &at)
               : read_numbers(j, in, count, r->out, &at);
}

/* Takes the input's binary data. The data of several inputs follow one another in the order of the
 * inputs in the JSON. */
static weft_status read_bytes(weft_infer_reader *r, const weft_infer_input *in)
{
    int64_t count = weft_shape_elements(&in->shape);
    size_t size = (size_t)count * in->type->bytes;
    if ((uint64_t)in->binary != size)
        return wrong("input '%s': binary_data_size is %lld, and its shape and datatype say %zu",
                     in->name, (long long)in->binary, size);
    if (r->bytes < size || (r->about->inputs == 1 && r->bytes > size))
        return wrong("%zu bytes follow the JSON%s, and binary_data_size says %zu; "
                     "Inference-Header-Content-Length must be the bytes of the JSON",
                     r->bytes, r->any_binary ? " and the data of the inputs before" : "", size);
    if (r->out->x_double)
        weft_datatype_doubles(in->type, r->tensor, count, r->out->x_double + in->at);
    else
        in->type->get(r->tensor, count, r->out->x + in->at);
    r->tensor += size;
    r->bytes -= size;
    r->any_binary = true;
    return WEFT_OK;
}

/* --- members --- */

static weft_status read_input_parameters(weft_json *j, weft_infer_input *in)
{
    weft_json_key key;
    WEFT_TRY(weft_infer_input_must_be(j, WEFT_JSON_OBJECT, in, "parameters"));
    WEFT_TRY(weft_json_enter(j));
    while (weft_json_member(j, &key)) {
        WEFT_TRY(weft_infer_no_shared_memory(&key));
        if (weft_json_is(&key, "binary_data_size"))
            WEFT_TRY(weft_infer_input_whole(j, in, "binary_data_size", 0, &in->binary));
        else
            WEFT_TRY(weft_json_skip(j));
    }
    return j->status;
}

static weft_status read_part(weft_infer_reader *r, weft_json *j, int part, weft_infer_input *in)
{
    enum { NAME, SHAPE, TYPE, PARAMETERS, DATA };
    const unsigned before = 1U << NAME | 1U << SHAPE | 1U << TYPE;
    size_t size;
    switch (part) {
    case NAME:
        WEFT_TRY(weft_infer_must_be(j, WEFT_JSON_STRING, "the name of an input"));
        return weft_json_cut(j, in->name, sizeof(in->name), &size);
    case SHAPE: return weft_infer_shape(j, in);
    case TYPE:
        WEFT_TRY(weft_infer_input_must_be(j, WEFT_JSON_STRING, in, "datatype"));
        return weft_json_cut(j, in->type_name, sizeof(in->type_name), &size);
    case PARAMETERS: return read_input_parameters(j, in);
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
    weft_infer_input in = {.binary = -1};
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
        return wrong("input '%s' has data, and binary_data_size for bytes behind the JSON; it must "
                     "have one of them",
                     in.name);
    if (in.binary >= 0) return read_bytes(r, &in);
    if (in.kept) return read_data(r, &in, &in.data);
    if (in.read) return WEFT_OK;
    return wrong("input '%s' has no data: an array, or bytes and binary_data_size", in.name);
}

weft_status weft_infer_inputs(weft_infer_reader *r, weft_json *j)
{
    int count = 0;
    WEFT_TRY(weft_infer_must_be(j, WEFT_JSON_ARRAY, "inputs"));
    WEFT_TRY(weft_json_enter(j));
    for (; weft_json_item(j); count++) WEFT_TRY(read_input(r, j));
    WEFT_TRY(j->status);
    if (count == 0) return weft_infer_no_inputs(r->about, "inputs is empty; it must be");
    for (int k = 0; k < r->about->inputs; k++)
        if (!(r->inputs >> k & 1)) return wrong("inputs has no '%s'", r->about->input[k].name);
    return WEFT_OK;
}
