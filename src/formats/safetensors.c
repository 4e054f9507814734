#include "formats/safetensors.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <zlib.h>

#include "weft/output.h"

/* Parses and writes safetensors files. The parser refuses a file with gaps or overlaps between the
 * data of its tensors; the writer computes the CRC-32 of the file as it writes. */

static const struct {
    const char *name;
    size_t size;
} dtypes[] = {
    /* types that the library computes with, in the order of weft_dtype */
    [WEFT_F32] = {"F32", 4},
    [WEFT_F64] = {"F64", 8},
    [WEFT_I32] = {"I32", 4},
    [WEFT_U8] = {"U8", 1},
    [WEFT_BF16] = {"BF16", 2},
    [WEFT_I64] = {"I64", 8},
    [WEFT_BOOL] = {"BOOL", 1},
    /* types that a parsed file may have, though the library does not compute with them */
    {"I8", 1},
    {"I16", 2},
    {"U16", 2},
    {"F16", 2},
    {"U32", 4},
    {"U64", 8},
};

const char *weft_safetensors_dtype(weft_dtype dtype)
{
    return dtypes[dtype].name;
}

bool weft_safetensors_real(const char *dtype, weft_dtype *out)
{
    for (int i = 0; i < WEFT_DTYPE_COUNT; i++)
        if (strcmp(dtypes[i].name, dtype) == 0) {
            *out = (weft_dtype)i;
            return true;
        }
    return false;
}

/* A number of half precision (IEEE 754 binary16). */
static double half_number(uint16_t bits)
{
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    double size = exponent == 0    ? ldexp(fraction, -24)
                  : exponent == 31 ? (fraction ? NAN : INFINITY)
                                   : ldexp(1024 + fraction, exponent - 25);
    return bits >> 15 ? -size : size;
}

bool weft_safetensors_number(const weft_tensor *t, int64_t i, double *out)
{
    weft_dtype dtype;
    unsigned char room[8];
    uint16_t half;
    if (strcmp(t->dtype, "F16") == 0) {
        memcpy(&half, t->data + 2 * i, sizeof(half));
        *out = half_number(half);
        return true;
    }
    if (!weft_safetensors_real(t->dtype, &dtype) || !weft_dtype_is_float(dtype)) return false;
    size_t size = weft_dtype_size(dtype); /* the data may be unaligned */
    memcpy(room, t->data + (size_t)i * size, size);
    *out = weft_number_get(dtype, room, 0);
    return true;
}

uint32_t weft_crc32(const void *data, size_t size)
{
    const unsigned char *p = data;
    uLong crc = crc32(0, NULL, 0);
    while (size > 0) {
        uInt piece = (uInt)WEFT_MIN(size, (size_t)1 << 30);
        crc = crc32(crc, p, piece);
        p += piece;
        size -= piece;
    }
    return (uint32_t)crc;
}

static size_t element_size(const char *dtype)
{
    for (size_t i = 0; i < WEFT_COUNT(dtypes); i++)
        if (strcmp(dtypes[i].name, dtype) == 0) return dtypes[i].size;
    return 0;
}

static weft_status bad(const char *file, const char *tensor, const char *what)
{
    return weft_fail(WEFT_ERR_FORMAT, "%s: tensor '%.100s': %s", file, tensor, what);
}

static weft_status parse_shape(const char *file, const char *key, const json_t *shape,
                               weft_tensor *out, size_t *wanted)
{
    if (!json_is_array(shape) || json_array_size(shape) > WEFT_MAX_RANK)
        return bad(file, key, "its shape must be a list of at most 6 numbers");
    out->shape.rank = (int)json_array_size(shape);
    for (int i = 0; i < out->shape.rank; i++) {
        const json_t *dim = json_array_get(shape, (size_t)i);
        json_int_t value = json_integer_value(dim);
        if (!json_is_integer(dim) || value < 0)
            return bad(file, key, "its shape holds something other than whole numbers from 0");
        if (value > 0 && *wanted > SIZE_MAX / 2 / (size_t)value)
            return bad(file, key, "its shape overflows");
        *wanted *= (size_t)value;
        out->shape.dim[i] = value;
    }
    return WEFT_OK;
}

static weft_status parse_entry(const char *file, const char *key, const json_t *entry,
                               const unsigned char *buffer, size_t room, weft_tensor *out)
{
    const char *dtype = json_string_value(json_object_get(entry, "dtype"));
    const json_t *offsets = json_object_get(entry, "data_offsets");
    if (!json_is_object(entry) || json_object_size(entry) != 3 || !dtype)
        return bad(file, key, "must have dtype, shape and data_offsets and nothing else");
    size_t wanted = element_size(dtype);
    if (wanted == 0) return bad(file, key, "its dtype is unknown");
    (void)snprintf(out->dtype, sizeof(out->dtype), "%s", dtype);
    WEFT_TRY(parse_shape(file, key, json_object_get(entry, "shape"), out, &wanted));
    const json_t *first = json_array_get(offsets, 0), *last = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(first) || !json_is_integer(last))
        return bad(file, key, "data_offsets must be two whole numbers");
    json_int_t begin = json_integer_value(first), end = json_integer_value(last);
    if (begin < 0 || end < begin || (uint64_t)end > room)
        return bad(file, key, "its data_offsets lie outside of the file");
    if ((size_t)(end - begin) != wanted)
        return bad(file, key, "its data_offsets do not fit its shape and dtype");
    out->data = buffer + begin;
    out->bytes = wanted;
    if (!weft_is_printable(key)) return bad(file, key, "a name must be without control characters");
    return weft_strdup(key, &out->name);
}

static int by_data(const void *a, const void *b)
{
    const weft_tensor *x = a, *y = b;
    if (x->data != y->data) return x->data < y->data ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

/* The key of a description of the data in the metadata. */
static const char about_key[] = "weft.data";

static weft_status read_metadata(const char *file, json_t *metadata, char **about)
{
    const char *key;
    json_t *value;
    if (!json_is_object(metadata))
        return weft_fail(WEFT_ERR_FORMAT, "%s: __metadata__ must be an object", file);
    json_object_foreach(metadata, key, value) if (!json_is_string(value)) return weft_fail(
        WEFT_ERR_FORMAT, "%s: __metadata__ may hold strings only", file);
    const char *text = json_string_value(json_object_get(metadata, about_key));
    return text ? weft_strdup(text, about) : WEFT_OK;
}

static weft_status parse_header(const char *file, json_t *header, const unsigned char *buffer,
                                size_t room, weft_safetensors *out)
{
    const char *key;
    json_t *entry;
    WEFT_TRY(WEFT_NEW(&out->tensors, json_object_size(header)));
    json_object_foreach(header, key, entry)
    {
        if (strcmp(key, "__metadata__") == 0)
            WEFT_TRY(read_metadata(file, entry, &out->about));
        else
            WEFT_TRY(parse_entry(file, key, entry, buffer, room, &out->tensors[out->count++]));
    }
    qsort(out->tensors, out->count, sizeof(*out->tensors), by_data);
    const unsigned char *next = buffer;
    for (size_t i = 0; i < out->count; i++) {
        if (out->tensors[i].data != next)
            return bad(file, out->tensors[i].name, "a hole or an overlap lies before its data");
        next += out->tensors[i].bytes;
    }
    if (next != buffer + room)
        return weft_fail(WEFT_ERR_FORMAT, "%s: %zu bytes behind the last tensor", file,
                         (size_t)(buffer + room - next));
    return WEFT_OK;
}

weft_status weft_safetensors_parse(const char *name, const void *data, size_t size,
                                   weft_safetensors *out)
{
    const unsigned char *bytes = data;
    uint64_t header_size = 0;
    if (size < 10)
        return weft_fail(WEFT_ERR_FORMAT, "%s: %zu bytes are too few for safetensors", name, size);
    for (int i = 8; i-- > 0;) header_size = header_size << 8 | bytes[i];
    if (header_size > 100000000 || header_size > size - 8)
        return weft_fail(WEFT_ERR_FORMAT,
                         "%s: its header is said to have %llu bytes; the file is cut off or is no "
                         "safetensors file",
                         name, (unsigned long long)header_size);
    if (header_size == 0 || bytes[8] != '{')
        return weft_fail(WEFT_ERR_FORMAT, "%s: byte 8 must begin a JSON object", name);
    json_error_t error;
    json_t *header =
        json_loadb((const char *)bytes + 8, (size_t)header_size, JSON_REJECT_DUPLICATES, &error);
    if (!header)
        return weft_fail(WEFT_ERR_FORMAT, "%s: header, position %d: %s", name, error.position,
                         error.text);
    weft_safetensors file = {0};
    weft_status status =
        parse_header(name, header, bytes + 8 + header_size, size - 8 - (size_t)header_size, &file);
    json_decref(header);
    if (status == WEFT_OK)
        *out = file;
    else
        weft_safetensors_free(&file);
    return status;
}

void weft_safetensors_free(weft_safetensors *file)
{
    for (size_t i = 0; i < file->count; i++) free(file->tensors[i].name);
    free(file->tensors);
    free(file->about);
    *file = (weft_safetensors){0};
}

const weft_tensor *weft_safetensors_find(const weft_safetensors *file, const char *name)
{
    for (size_t i = 0; i < file->count; i++)
        if (strcmp(file->tensors[i].name, name) == 0) return &file->tensors[i];
    return NULL;
}

/* A file being written, with its checksum. */
typedef struct writer {
    weft_output *to;
    uLong crc;
    size_t bytes;
} writer;

static weft_status put(writer *w, const void *data, size_t size)
{
    WEFT_TRY(weft_output_write(w->to, data, size));
    const unsigned char *p = data;
    for (size_t at = 0; at < size;) {
        uInt piece = (uInt)WEFT_MIN(size - at, (size_t)1 << 30);
        w->crc = crc32(w->crc, p + at, piece);
        at += piece;
    }
    w->bytes += size;
    return WEFT_OK;
}

static weft_status put_header(writer *w, const weft_tensor_list *list)
{
    weft_text text = {0};
    size_t offset = 0;
    weft_text_add(&text, "{\"__metadata__\":{\"format\":\"%s\"",
                  list->format ? list->format : "weft");
    if (list->about) {
        weft_text_add(&text, ",\"%s\":", about_key);
        weft_text_add_json(&text, list->about);
    }
    weft_text_add(&text, "}");
    for (size_t i = 0; i < list->count; i++) {
        weft_type type = list->type(list->user, i);
        weft_text_add(&text, ",");
        weft_text_add_json(&text, list->name(list->user, i));
        weft_text_add(&text, ":{\"dtype\":\"%s\",\"shape\":[", weft_safetensors_dtype(type.dtype));
        for (int d = 0; d < type.shape.rank; d++)
            weft_text_add(&text, "%s%lld", d ? "," : "", (long long)type.shape.dim[d]);
        size_t end = offset + weft_type_bytes(&type);
        weft_text_add(&text, "],\"data_offsets\":[%zu,%zu]}", offset, end);
        offset = end;
    }
    weft_text_add(&text, "}");
    while (text.size % 8 && !text.failed) weft_text_add(&text, " ");
    char *header;
    unsigned char prefix[8];
    WEFT_TRY(weft_text_take(&text, &header));
    size_t size = strlen(header);
    for (int i = 0; i < 8; i++) prefix[i] = (unsigned char)((uint64_t)size >> (8 * i));
    weft_status status = put(w, prefix, sizeof(prefix));
    if (status == WEFT_OK) status = put(w, header, size);
    free(header);
    return status;
}

static weft_status put_tensors(writer *w, const weft_tensor_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        weft_type type = list->type(list->user, i);
        size_t size = weft_type_bytes(&type);
        void *data;
        WEFT_TRY(weft_new_aligned(size, &data));
        weft_status status = list->read(list->user, i, data);
        if (status == WEFT_OK) status = put(w, data, size);
        free(data);
        WEFT_TRY(status);
    }
    return WEFT_OK;
}

weft_status weft_safetensors_write(const char *path, weft_output_mode mode,
                                   const weft_tensor_list *list, uint32_t *crc, size_t *bytes)
{
    writer w = {.crc = crc32(0, NULL, 0)};
    WEFT_TRY(weft_output_open(path, mode, &w.to));
    weft_status status = put_header(&w, list);
    if (status == WEFT_OK) status = put_tensors(&w, list);
    weft_status end = weft_output_close(&w.to, status == WEFT_OK);
    WEFT_TRY(status);
    WEFT_TRY(end);
    if (crc) *crc = (uint32_t)w.crc;
    if (bytes) *bytes = w.bytes;
    return WEFT_OK;
}
