/* Declares how devices in host memory compute a node with bf16 values in f32: by a clone of the
 * node, in a graph of its own, whose bf16 values are f32. Operands are converted to f32, which is
 * exact, and results are rounded to the nearest bf16. */
#ifndef WEFT_DEVICE_WIDEN_H
#define WEFT_DEVICE_WIDEN_H

#include "base/float_math.h"
#include "device/device.h"

/* Whether a group computes with bf16 values, and could do so in f32. */
bool weft_widen_needs(const weft_group *group);
/* Makes the clone of a group, whose nodes, operands and results it lists in the same order. The
 * caller frees it, and so its graph. */
weft_status weft_widen_make(const weft_group *group, weft_group *clone) WEFT_NODISCARD;
void weft_widen_free(weft_group *clone);
/* How the clone's copy of operand k of the group is made: it needs none, is converted from bf16, or
 * rounded to bf16, as a product does with parameters. */
typedef enum weft_widen_way { WEFT_WIDEN_NOT, WEFT_WIDEN_FROM, WEFT_WIDEN_ROUND } weft_widen_way;
weft_widen_way weft_widen_operand(const weft_group *group, int k);
/* Bytes of an f32 copy of a value of this shape. */
size_t weft_widen_bytes(const weft_shape *shape);
/* The f32 number that bits of a bf16 number stand for, and the bits of the bf16 number nearest to
 * x, as weft_bf16_of, with integers, so that loops become vectors. */
WEFT_INLINE float weft_wide_of(uint16_t narrow)
{
    uint32_t bits = (uint32_t)narrow << 16;
    float x;
    memcpy(&x, &bits, sizeof(x));
    return x;
}
WEFT_INLINE uint16_t weft_narrow_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    uint32_t nan = bits >> 16 | 0x40, rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? nan : rounded);
}
/* Convert `count` numbers, or round them to the nearest bf16 that is even. */
void weft_widen_from(const uint16_t *narrow, float *wide, int64_t count);
void weft_widen_to(const float *wide, uint16_t *narrow, int64_t count);
void weft_widen_round(const float *from, float *to, int64_t count);

#endif
