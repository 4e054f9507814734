/*
 * Element types and shapes of tensors. Tensors are dense and row-major ("C order") wherever the
 * public interface exposes their memory; devices may use other layouts internally.
 */
#ifndef WEFT_TYPES_H
#define WEFT_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weft/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define WEFT_MAX_RANK 6

/* BF16 is the upper half of an F32. It is stored, cast, sent and summed; operators compute in the
 * other two. */
typedef enum weft_dtype {
    WEFT_F32 = 0,
    WEFT_F64,
    WEFT_I32,
    WEFT_U8,
    WEFT_BF16,
    WEFT_DTYPE_COUNT
} weft_dtype;

/* A named metric of a run, with one number or several. */
typedef struct weft_series {
    const char *name;
    const double *numbers;
    int count; /* at least 1 */
    bool list; /* a list of variable length, written as a list even with one number */
} weft_series;

/* dim[0] is the slowest dimension. rank 0 is a scalar of one element. */
typedef struct weft_shape {
    int rank;
    int64_t dim[WEFT_MAX_RANK];
} weft_shape;

typedef struct weft_type {
    weft_dtype dtype;
    weft_shape shape;
} weft_type;

/* Bytes of one element. */
WEFT_API size_t weft_dtype_size(weft_dtype dtype);
/* Whether it is a real type. */
WEFT_API bool weft_dtype_is_float(weft_dtype dtype);
/* Reads and writes element i of an array. Writing rounds to nearest even and keeps NaN; integers
 * are truncated towards zero. */
WEFT_API double weft_number_get(weft_dtype dtype, const void *array, int64_t i);
WEFT_API void weft_number_put(weft_dtype dtype, void *array, int64_t i, double number);
/* Writes n numbers from element `first` on. */
WEFT_API void weft_numbers_put(weft_dtype dtype, void *array, int64_t first, const double *numbers,
                               int64_t n);

/* "f32", "f64", "i32", "u8". */
WEFT_API const char *weft_dtype_name(weft_dtype dtype);

/* The inverse of weft_dtype_name; false for an unknown name. */
WEFT_API bool weft_dtype_parse(const char *name, weft_dtype *out);

/* The product of the dimensions (1 for a scalar). */
WEFT_API int64_t weft_shape_elements(const weft_shape *shape);

WEFT_API bool weft_shape_equal(const weft_shape *a, const weft_shape *b);

/* Makes a shape from rank dimensions. */
WEFT_API weft_shape weft_shape_of(int rank, const int64_t *dim);

/* Bytes of a dense tensor. */
WEFT_API size_t weft_type_bytes(const weft_type *type);

#ifdef __cplusplus
}
#endif
#endif
