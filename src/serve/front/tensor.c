/* Converts elements of the Open Inference Protocol's datatypes to floats and doubles, from binary
 * data or from JSON. */
#include <math.h>
#include <stdio.h>

#include "serve/front/tensor.h"

/* --- bytes --- */

static float of_half(uint16_t h)
{
    int exponent = h >> 10 & 31;
    double fraction = h & 1023, value;
    if (exponent == 31)
        value = fraction > 0 ? NAN : INFINITY;
    else
        value = exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
    return (float)(h >> 15 ? -value : value);
}

#define GET(name, type, real, expression)                                                          \
    static void name(const char *from, int64_t count, real *to)                                    \
    {                                                                                              \
        for (int64_t i = 0; i < count; i++) {                                                      \
            type x;                                                                                \
            memcpy(&x, from + (size_t)i * sizeof(x), sizeof(x));                                   \
            to[i] = (real)(expression);                                                            \
        }                                                                                          \
    }                                                                                              \
    struct of_##name /* requires a semicolon after the macro */
GET(get_half, uint16_t, float, of_half(x));
GET(get_bf16, uint16_t, float, weft_bf16_float(x));
GET(get_bool, uint8_t, float, x != 0);
GET(get_f32, float, float, x);
GET(get_f64, double, float, x);
GET(get_i8, int8_t, float, x);
GET(get_i16, int16_t, float, x);
GET(get_i32, int32_t, float, x);
GET(get_i64, int64_t, float, x);
GET(get_u8, uint8_t, float, x);
GET(get_u16, uint16_t, float, x);
GET(get_u32, uint32_t, float, x);
GET(get_u64, uint64_t, float, x);

GET(get_f64_double, double, double, x);
GET(get_i32_double, int32_t, double, x);
GET(get_i64_double, int64_t, double, x);
GET(get_u32_double, uint32_t, double, x);
GET(get_u64_double, uint64_t, double, x);

#define SIGNED(bits) (1ULL << (bits - 1)), (1ULL << (bits - 1)) - 1

static const weft_datatype datatypes[] = {
    {"FP32", 4, WEFT_REAL_TYPE, 0, 0, get_f32, NULL},
    {"FP64", 8, WEFT_REAL_TYPE, 0, 0, get_f64, get_f64_double},
    {"FP16", 2, WEFT_BITS_TYPE, 0, 0, get_half, NULL},
    {"BF16", 2, WEFT_BITS_TYPE, 0, 0, get_bf16, NULL},
    {"BOOL", 1, WEFT_FLAG_TYPE, 0, 1, get_bool, NULL},
    {"INT8", 1, WEFT_WHOLE_TYPE, SIGNED(8), get_i8, NULL},
    {"INT16", 2, WEFT_WHOLE_TYPE, SIGNED(16), get_i16, NULL},
    {"INT32", 4, WEFT_WHOLE_TYPE, SIGNED(32), get_i32, get_i32_double},
    {"INT64", 8, WEFT_WHOLE_TYPE, SIGNED(64), get_i64, get_i64_double},
    {"UINT8", 1, WEFT_WHOLE_TYPE, 0, UINT8_MAX, get_u8, NULL},
    {"UINT16", 2, WEFT_WHOLE_TYPE, 0, UINT16_MAX, get_u16, NULL},
    {"UINT32", 4, WEFT_WHOLE_TYPE, 0, UINT32_MAX, get_u32, get_u32_double},
    {"UINT64", 8, WEFT_WHOLE_TYPE, 0, UINT64_MAX, get_u64, get_u64_double},
};

const weft_datatype *weft_datatype_find(const char *name)
{
    for (size_t i = 0; i < WEFT_COUNT(datatypes); i++)
        if (strcmp(datatypes[i].name, name) == 0) return &datatypes[i];
    return NULL;
}

const char *weft_datatype_name(weft_dtype dtype)
{
    static const char *const names[WEFT_DTYPE_COUNT] = {
        [WEFT_F32] = "FP32",  [WEFT_F64] = "FP64",  [WEFT_I32] = "INT32", [WEFT_U8] = "UINT8",
        [WEFT_BF16] = "BF16", [WEFT_I64] = "INT64", [WEFT_BOOL] = "BOOL"};
    return names[dtype];
}

void weft_datatype_doubles(const weft_datatype *type, const char *from, int64_t count, double *to)
{
    enum { PART = 256 };
    float part[PART];
    if (type->get_double) {
        type->get_double(from, count, to);
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        if (i % PART == 0)
            type->get(from + (size_t)i * type->bytes, WEFT_MIN(count - i, PART), part);
        to[i] = (double)part[i % PART];
    }
}

/* --- JSON --- */

static weft_status unfit(const weft_datatype *type, const weft_decimal *d, const char *input,
                         int64_t entry, bool single)
{
    int shown = (int)WEFT_MIN(d->size, 40);
    const char *cut = d->size > 40 ? "..." : "";
    if (type->is == WEFT_REAL_TYPE)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "input '%s': number %lld of the data is %.*s%s, beyond what %s precision "
                         "holds, %s",
                         input, (long long)entry, shown, d->text, cut, single ? "single" : "double",
                         single ? "3.4e38" : "1.7e308");
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "input '%s': number %lld of the data is %.*s%s, and %s holds whole numbers "
                     "from %s%llu to %llu",
                     input, (long long)entry, shown, d->text, cut, type->name,
                     type->below ? "-" : "", (unsigned long long)type->below,
                     (unsigned long long)type->above);
}

static weft_status read_whole(const weft_datatype *type, const weft_decimal *d, const char *input,
                              int64_t entry, double *out)
{
    bool minus;
    uint64_t size;
    if (!weft_decimal_whole(d, &minus, &size) || size > (minus ? type->below : type->above))
        return unfit(type, d, input, entry, true);
    *out = minus ? -(double)size : (double)size;
    return WEFT_OK;
}

static weft_status no_number(const weft_datatype *type, weft_json_kind kind, const char *input,
                             int64_t entry)
{
    if (kind == WEFT_JSON_ARRAY)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "input '%s': an array stands where number %lld of the data should; nest "
                         "them as the shape says, or not at all",
                         input, (long long)entry);
    return weft_fail(WEFT_ERR_ARGUMENT, "input '%s': number %lld of the data is %s, must be %s",
                     input, (long long)entry, weft_json_kind_name(kind),
                     type->is == WEFT_FLAG_TYPE ? "true or false" : "a number");
}

weft_status weft_datatype_read(const weft_datatype *type, weft_json *j, const char *input,
                               int64_t entry, bool single, double *out)
{
    weft_decimal d;
    weft_json_kind kind = weft_json_peek(j);
    if (kind == WEFT_JSON_FLAG && type->is == WEFT_FLAG_TYPE) {
        bool flag;
        WEFT_TRY(weft_json_flag(j, &flag));
        *out = flag;
        return WEFT_OK;
    }
    if (kind != WEFT_JSON_NUMBER) {
        WEFT_TRY(weft_json_skip(j)); /* a syntax error is reported first */
        return no_number(type, kind, input, entry);
    }
    WEFT_TRY(weft_json_number(j, &d));
    if (type->is != WEFT_REAL_TYPE) return read_whole(type, &d, input, entry, out);
    *out = type->get_double ? weft_decimal_double(&d) : (double)weft_decimal_float(&d);
    bool fits = single ? isfinite((float)*out) : isfinite(*out);
    return fits ? WEFT_OK : unfit(type, &d, input, entry, single);
}
