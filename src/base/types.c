#include <stdio.h>

#include "base/base.h"

static const struct {
    const char *name;
    size_t size;
} dtypes[WEFT_DTYPE_COUNT] = {
    [WEFT_F32] = {"f32", 4},
    [WEFT_F64] = {"f64", 8},
    [WEFT_I32] = {"i32", 4},
    [WEFT_U8] = {"u8", 1},
};

size_t weft_dtype_size(weft_dtype dtype)
{
    return dtypes[dtype].size;
}

const char *weft_dtype_name(weft_dtype dtype)
{
    return dtypes[dtype].name;
}

bool weft_dtype_parse(const char *name, weft_dtype *out)
{
    for (int i = 0; i < WEFT_DTYPE_COUNT; i++) {
        if (strcmp(dtypes[i].name, name) != 0) continue;
        *out = (weft_dtype)i;
        return true;
    }
    return false;
}

int64_t weft_shape_elements(const weft_shape *shape)
{
    int64_t count = 1;
    for (int i = 0; i < shape->rank; i++) count *= shape->dim[i];
    return count;
}

bool weft_shape_equal(const weft_shape *a, const weft_shape *b)
{
    if (a->rank != b->rank) return false;
    for (int i = 0; i < a->rank; i++)
        if (a->dim[i] != b->dim[i]) return false;
    return true;
}

weft_shape weft_shape_of(int rank, const int64_t *dim)
{
    weft_shape shape = {.rank = rank};
    for (int i = 0; i < rank; i++) shape.dim[i] = dim[i];
    return shape;
}

size_t weft_type_bytes(const weft_type *type)
{
    return (size_t)weft_shape_elements(&type->shape) * dtypes[type->dtype].size;
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
