/* Declares how an operand of a function of each element is spread out over the elements of the
 * result. */
#ifndef WEFT_DEVICE_CPU_SPREAD_H
#define WEFT_DEVICE_CPU_SPREAD_H

#include "device/cpu/cpu.h"

/* An operand whose elements hold for several of the result's; it is spread out in scratch memory,
 * block by block. Neighbouring dimensions in which it is read alike are one here. */
typedef struct cpu_spread {
    weft_dtype dtype; /* of the operand: f32, bf16 or bool */
    int rank;
    int64_t dim[WEFT_MAX_RANK], stride[WEFT_MAX_RANK];
} cpu_spread;

/* Finds how an operand is spread out over a result of this shape. */
cpu_spread cpu_spread_of(const weft_type *operand, const weft_shape *full);
bool cpu_spread_is_scalar(const cpu_spread *s);
/* Writes the elements of an operand that `count` elements of the result, from `at` on, read. */
void cpu_spread_out(const cpu_spread *s, const void *operand, float *to, int64_t at, int64_t count);

#endif
