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

#define WEFT_MAX_RANK 6 /* most dimensions of a tensor */

/* BF16 is the upper half of an F32. Operators compute in F32 or F64: they convert BF16 operands to
 * F32, and round results that are BF16 to the nearest even number. BOOL is a byte, 0 or 1. Which
 * types the operands of an operator may have, weft_operator_text says. */
typedef enum weft_dtype {
    WEFT_F32 = 0,
    WEFT_F64,
    WEFT_I32,
    WEFT_U8,
    WEFT_BF16,
    WEFT_I64,
    WEFT_BOOL,
    WEFT_DTYPE_COUNT
} weft_dtype;

/* A named metric of a run: one number, or a list. */
typedef struct weft_series {
    const char *name;
    const double *numbers;
    int count; /* numbers in the array, at least 1 */
    bool list; /* the metric has a variable length, so it is written as a list even if count is 1 */
} weft_series;

/* dim[0] is the slowest dimension, in elements. Rank 0 is a scalar, which has one element. */
typedef struct weft_shape {
    int rank;
    int64_t dim[WEFT_MAX_RANK];
} weft_shape;

/* The type of a tensor. */
typedef struct weft_type {
    weft_dtype dtype;
    weft_shape shape;
} weft_type;

/* The bytes of one element. */
WEFT_API size_t weft_dtype_size(weft_dtype dtype);
/* Whether the type is real: F32, F64 or BF16. */
WEFT_API bool weft_dtype_is_float(weft_dtype dtype);
/* weft_number_get reads element i of an array, weft_number_put writes it. Writing rounds to nearest
 * even and keeps NaN; for integer types the number is truncated towards zero and must be in
 * range; for BOOL it is whether the number is not 0. A double holds integers up to 2^53. */
WEFT_API double weft_number_get(weft_dtype dtype, const void *array, int64_t i);
WEFT_API void weft_number_put(weft_dtype dtype, void *array, int64_t i, double number);
/* Writes n numbers into an array, from element `first` on, as weft_number_put does. */
WEFT_API void weft_numbers_put(weft_dtype dtype, void *array, int64_t first, const double *numbers,
                               int64_t n);

/* Converts n elements. An integer becomes the nearest real number, or an integer of fewer bits by
 * its lowest ones. A real number becomes an integer by truncation towards zero, the nearest end of
 * the range beyond it, and 0 if it is NaN. BOOL is whether a number is not 0, and becomes 0 or 1.
 */
WEFT_API void weft_numbers_cast(weft_dtype from, const void *source, weft_dtype to, void *target,
                                int64_t n);

/* The name of a type: "f32", "f64", "i32", "u8", "bf16", "i64" or "bool"; NULL: there is no such
 * type. */
WEFT_API const char *weft_dtype_name(weft_dtype dtype);

/* Sets *out to the type with this name; false if there is none. */
WEFT_API bool weft_dtype_parse(const char *name, weft_dtype *out);

/* The number of elements: the product of the dimensions, 1 for a scalar; 0: the rank is not one of
 * 0 to WEFT_MAX_RANK. */
WEFT_API int64_t weft_shape_elements(const weft_shape *shape);

WEFT_API bool weft_shape_equal(const weft_shape *a, const weft_shape *b);

/* Makes a shape from its `rank` dimensions, at most WEFT_MAX_RANK; of others it makes one with rank
 * -1, which every function refuses. */
WEFT_API weft_shape weft_shape_of(int rank, const int64_t *dim);

/* The bytes of a dense tensor of this type. */
WEFT_API size_t weft_type_bytes(const weft_type *type);

#ifdef __cplusplus
}
#endif
#endif
