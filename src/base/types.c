#include <math.h>
#include <stdio.h>

#include "base/base.h"
#include "weft/port.h"

/* Defines the functions that read one number and write several, for types that C can convert. */
#define NUMBERS(name, type)                                                                        \
    static double get_##name(const void *at)                                                       \
    {                                                                                              \
        return (double)*(const type *)at;                                                          \
    }                                                                                              \
    static void put_##name(void *at, const double *x, int64_t n)                                   \
    {                                                                                              \
        type *to = at;                                                                             \
        for (int64_t i = 0; i < n; i++) to[i] = (type)x[i];                                        \
    }
NUMBERS(f32, float)
NUMBERS(f64, double)
NUMBERS(i32, int32_t)
NUMBERS(u8, uint8_t)
NUMBERS(i64, int64_t)

static double get_bool(const void *at)
{
    return *(const uint8_t *)at != 0;
}

static void put_bool(void *at, const double *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) ((uint8_t *)at)[i] = x[i] < 0 || x[i] > 0 || x[i] != x[i];
}

float weft_bf16_float(uint16_t bits)
{
    uint32_t whole = (uint32_t)bits << 16;
    float x;
    memcpy(&x, &whole, sizeof(x));
    return x;
}

uint16_t weft_bf16_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    if (isnan(x))
        return (uint16_t)(bits >> 16 | 0x40); /* the lost lower half may be all that made it NaN */
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static double get_bf16(const void *at)
{
    return (double)weft_bf16_float(*(const uint16_t *)at);
}

/* Rounds a double to bf16 without double rounding: if the nearest float lies halfway between two
 * bf16 numbers, it is first moved one bit towards x. */
static uint16_t bf16_of(double x)
{
    float near = (float)x;
    uint32_t bits;
    memcpy(&bits, &near, sizeof(bits));
    bool middle = (bits & 0xffff) == 0x8000;
    if (middle && fabs((double)near) > fabs(x)) bits--;
    if (middle && fabs((double)near) < fabs(x)) bits++;
    memcpy(&near, &bits, sizeof(near));
    return weft_bf16_of(near);
}

static void put_bf16(void *at, const double *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) ((uint16_t *)at)[i] = bf16_of(x[i]);
}

static const struct {
    const char *name;
    size_t size;
    bool is_float;
    double (*get)(const void *at);
    void (*put)(void *at, const double *x, int64_t n);
} dtypes[WEFT_DTYPE_COUNT] = {
    [WEFT_F32] = {"f32", 4, true, get_f32, put_f32},
    [WEFT_F64] = {"f64", 8, true, get_f64, put_f64},
    [WEFT_I32] = {"i32", 4, false, get_i32, put_i32},
    [WEFT_U8] = {"u8", 1, false, get_u8, put_u8},
    [WEFT_BF16] = {"bf16", 2, true, get_bf16, put_bf16},
    [WEFT_I64] = {"i64", 8, false, get_i64, put_i64},
    [WEFT_BOOL] = {"bool", 1, false, get_bool, put_bool},
};

bool weft_dtype_known(weft_dtype dtype)
{
    return (unsigned)dtype < WEFT_DTYPE_COUNT;
}

size_t weft_dtype_size(weft_dtype dtype)
{
    return weft_dtype_known(dtype) ? dtypes[dtype].size : 0;
}

bool weft_dtype_is_float(weft_dtype dtype)
{
    return weft_dtype_known(dtype) && dtypes[dtype].is_float;
}

double weft_number_get(weft_dtype dtype, const void *array, int64_t i)
{
    WEFT_NEED_ELSE(0, array);
    if (!weft_dtype_known(dtype) || i < 0) return 0;
    return dtypes[dtype].get((const char *)array + (size_t)i * dtypes[dtype].size);
}

void weft_number_put(weft_dtype dtype, void *array, int64_t i, double number)
{
    weft_numbers_put(dtype, array, i, &number, 1);
}

void weft_numbers_put(weft_dtype dtype, void *array, int64_t first, const double *numbers,
                      int64_t n)
{
    WEFT_NEED_VOID(array, numbers);
    if (!weft_dtype_known(dtype) || first < 0 || n < 0) return;
    dtypes[dtype].put((char *)array + (size_t)first * dtypes[dtype].size, numbers, n);
}

/* The integer that a real number is cast to, between the ends of the type. */
static int64_t whole_of(weft_dtype to, double x)
{
    const double low = to == WEFT_I64 ? -0x1p63 : to == WEFT_I32 ? -0x1p31 : 0;
    const double high = to == WEFT_I64 ? 0x1p63 : to == WEFT_I32 ? 0x1p31 - 1 : UINT8_MAX;
    if (x != x) return 0;
    if (x <= low) return to == WEFT_I64 ? INT64_MIN : (int64_t)low;
    if (x >= high) return to == WEFT_I64 ? INT64_MAX : (int64_t)high;
    return (int64_t)x;
}

/* Casts by C's conversion of x, of the type `from`, to the type `to`. */
#define CAST(from, to, expression)                                                                 \
    do {                                                                                           \
        const from *in = source;                                                                   \
        to *out = target;                                                                          \
        for (int64_t i = 0; i < n; i++) {                                                          \
            const from x = in[i];                                                                  \
            out[i] = (to)(expression);                                                             \
        }                                                                                          \
        return;                                                                                    \
    } while (0)

/* Defines the casts of integers of a type. */
#define WHOLE_CASTS(name, type)                                                                    \
    static void cast_##name(const void *source, weft_dtype to, void *target, int64_t n)            \
    {                                                                                              \
        switch (to) {                                                                              \
        case WEFT_F32: CAST(type, float, x);                                                       \
        case WEFT_F64: CAST(type, double, x);                                                      \
        case WEFT_I32: CAST(type, int32_t, x);                                                     \
        case WEFT_I64: CAST(type, int64_t, x);                                                     \
        case WEFT_U8: CAST(type, uint8_t, x);                                                      \
        case WEFT_BOOL: CAST(type, uint8_t, x != 0);                                               \
        default: CAST(type, uint16_t, bf16_of((double)x));                                         \
        }                                                                                          \
    }
WHOLE_CASTS(i32, int32_t)
WHOLE_CASTS(i64, int64_t)
WHOLE_CASTS(u8, uint8_t)

void weft_numbers_cast(weft_dtype from, const void *source, weft_dtype to, void *target, int64_t n)
{
    WEFT_NEED_VOID(source, target);
    if (!weft_dtype_known(from) || !weft_dtype_known(to)) return;
    switch (from) {
    case WEFT_I32: cast_i32(source, to, target, n); return;
    case WEFT_I64: cast_i64(source, to, target, n); return;
    case WEFT_U8:
    case WEFT_BOOL: cast_u8(source, to, target, n); return;
    default: break;
    }
    bool rounds = weft_dtype_is_float(to) || to == WEFT_BOOL;
    if (from == WEFT_F32 && to == WEFT_F64) CAST(float, double, x);
    if (from == WEFT_F64 && to == WEFT_F32) CAST(double, float, x);
    for (int64_t i = 0; i < n; i++) {
        double x = weft_number_get(from, source, i);
        if (rounds)
            weft_number_put(to, target, i, x);
        else if (to == WEFT_I64)
            ((int64_t *)target)[i] = whole_of(to, x);
        else
            weft_number_put(to, target, i, (double)whole_of(to, x));
    }
}

void weft_fill_unknown(weft_dtype dtype, void *to, int64_t count)
{
    if (weft_dtype_is_float(dtype))
        for (int64_t i = 0; i < count; i++) weft_number_put(dtype, to, i, (double)NAN);
    else
        memset(to, 0, (size_t)count * weft_dtype_size(dtype));
}

bool weft_all_finite(weft_dtype dtype, const void *data, size_t bytes)
{
    int64_t count = (int64_t)(bytes / dtypes[dtype].size);
    int bad = 0;
    if (dtype == WEFT_F32) {
        const float *x = data;
        for (int64_t i = 0; i < count; i++) bad |= !(fabsf(x[i]) <= 0x1.fffffep127f);
    } else if (weft_dtype_is_float(dtype)) {
        for (int64_t i = 0; i < count; i++) bad |= !isfinite(weft_number_get(dtype, data, i));
    }
    return !bad;
}

const char *weft_dtype_name(weft_dtype dtype)
{
    return weft_dtype_known(dtype) ? dtypes[dtype].name : NULL;
}

bool weft_dtype_parse(const char *name, weft_dtype *out)
{
    WEFT_NEED_ELSE(false, name, out);
    for (int i = 0; i < WEFT_DTYPE_COUNT; i++) {
        if (strcmp(dtypes[i].name, name) != 0) continue;
        *out = (weft_dtype)i;
        return true;
    }
    return false;
}

const char *weft_port_role_name(int role)
{
    static const char *const names[WEFT_PORT_ROLES] = {
        [WEFT_PORT_FEATURES] = "features", [WEFT_PORT_TARGET] = "target",
        [WEFT_PORT_WEIGHTS] = "weights",   [WEFT_PORT_POSITION] = "position",
        [WEFT_PORT_LOGITS] = "logits",     [WEFT_PORT_PREDICTION] = "prediction",
        [WEFT_PORT_LOSS] = "loss",         [WEFT_PORT_OUTPUT] = "output",
    };
    return role >= 0 && role < WEFT_PORT_ROLES ? names[role] : NULL;
}

int64_t weft_shape_elements(const weft_shape *shape)
{
    WEFT_NEED_ELSE(0, shape);
    int64_t count = 1;
    if (shape->rank < 0 || shape->rank > WEFT_MAX_RANK) return 0;
    for (int i = 0; i < shape->rank; i++) count *= shape->dim[i];
    return count;
}

bool weft_shape_equal(const weft_shape *a, const weft_shape *b)
{
    WEFT_NEED_ELSE(false, a, b);
    if (a->rank != b->rank || a->rank > WEFT_MAX_RANK) return false;
    for (int i = 0; i < a->rank; i++)
        if (a->dim[i] != b->dim[i]) return false;
    return true;
}

weft_shape weft_shape_of(int rank, const int64_t *dim)
{
    weft_shape shape = {.rank = rank};
    if (rank < 0 || rank > WEFT_MAX_RANK || (rank > 0 && !dim)) return (weft_shape){.rank = -1};
    for (int i = 0; i < rank; i++) shape.dim[i] = dim[i];
    return shape;
}

size_t weft_type_bytes(const weft_type *type)
{
    WEFT_NEED_ELSE(0, type);
    return (size_t)weft_shape_elements(&type->shape) * weft_dtype_size(type->dtype);
}

const char *weft_shape_text(const weft_shape *shape, char *buffer, size_t size)
{
    size_t used = (size_t)snprintf(buffer, size, "[");
    for (int i = 0; i < shape->rank && used < size; i++)
        used += (size_t)snprintf(buffer + used, size - used, "%s%lld", i ? ", " : "",
                                 (long long)shape->dim[i]);
    if (used < size) (void)snprintf(buffer + used, size - used, "]");
    return buffer;
}

void weft_copy_part(const weft_type *whole, const int64_t *start, const weft_shape *shape,
                    void *all, void *data, bool out)
{
    int64_t rows = 1, index[WEFT_MAX_RANK] = {0};
    int last = whole->shape.rank - 1;
    size_t size = weft_dtype_size(whole->dtype);
    /* Trailing dimensions in which the part is as large as the tensor are copied as one piece. */
    for (; last > 0 && shape->dim[last] == whole->shape.dim[last]; last--)
        size *= (size_t)shape->dim[last];
    size_t row = last >= 0 ? size * (size_t)shape->dim[last] : size;
    for (int d = 0; d < last; d++) rows *= shape->dim[d];
    for (int64_t i = 0; i < rows; i++) {
        int64_t place = 0;
        for (int d = 0; d <= last; d++)
            place = place * whole->shape.dim[d] + start[d] + (d < last ? index[d] : 0);
        char *at = (char *)all + (size_t)place * size, *mine = (char *)data + (size_t)i * row;
        memcpy(out ? mine : at, out ? at : mine, row);
        for (int d = last; d-- > 0 && ++index[d] == shape->dim[d];) index[d] = 0;
    }
}
