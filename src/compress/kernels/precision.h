/* Defines the real type for which a kernel file is compiled (float or double), and helpers for that
 * type. */
#ifndef WEFT_COMPRESS_KERNELS_PRECISION_H
#define WEFT_COMPRESS_KERNELS_PRECISION_H

#include <float.h>

#include "base/target_clones.h"
#include "compress/kernels/kernels.h"

#ifndef WEFT_REAL
#define WEFT_REAL float
#endif
typedef WEFT_REAL real;
/* Whether it is double: for what a file has once for both types, such as a codec. */
#define WEFT_REAL_WIDE_float 0
#define WEFT_REAL_WIDE_double 1
#define WEFT_REAL_IS_DOUBLE WEFT_REAL_NAME(WEFT_REAL_WIDE)
#define WEFT_REAL_NAME2(name, type) name##_##type
#define WEFT_REAL_NAME1(name, type) WEFT_REAL_NAME2(name, type)
#define WEFT_REAL_NAME(name) WEFT_REAL_NAME1(name, WEFT_REAL)

/* The absolute value and the largest finite number, for either type. */
#define WEFT_FABS(x) ((x) < 0 ? -(x) : (x))
#define WEFT_REAL_MOST (sizeof(real) == 4 ? (real)FLT_MAX : (real)DBL_MAX)

/* Magnitudes as integers, which have the order of the magnitudes; numbers that are not finite are
 * above all others. */
#define WEFT_REAL_BITS ((int)sizeof(real) * 8)
static inline uint64_t magnitude(real x)
{
    uint64_t wide = 0;
    if (sizeof(real) == 4) {
        uint32_t narrow;
        memcpy(&narrow, &x, 4);
        wide = narrow & 0x7fffffffu;
    } else {
        memcpy(&wide, &x, 8);
        wide &= INT64_MAX;
    }
    return wide;
}

/* Converts a bf16 number to `real`. */
static inline real of_half(uint16_t half)
{
    uint32_t bits = (uint32_t)half << 16;
    float f;
    memcpy(&f, &bits, sizeof(f));
    return (real)f;
}

static inline weft_status not_finite(int64_t i)
{
    return weft_fail(WEFT_ERR_NUMERIC, "number %lld of an update is not finite", (long long)i);
}

#endif
