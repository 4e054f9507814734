/* Loops over bf16 values, which are the upper halves of f32 values: they work on the bits, in
 * vectors of integers, on any processor. */
#include "device/cpu/cpu.h"
#include "device/cpu/simd.h"

WEFT_CLONES void cpu_narrow_relu(const uint16_t *x, uint16_t *y, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        uint16_t bits = x[i];
        bool negative = bits >> 15 && (bits & 0x7fff) <= 0x7f80; /* no NaN */
        y[i] = negative ? 0 : bits;
    }
}

WEFT_CLONES void cpu_narrow_relu_grad(const uint16_t *y, const uint16_t *dy, uint16_t *dx,
                                      int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        uint16_t bits = y[i], other = dy[i];
        bool nan = (bits & 0x7fff) > 0x7f80, above = (uint16_t)(bits - 1) < 0x7f80;
        dx[i] = nan ? bits : above ? other : 0;
    }
}

WEFT_CLONES bool cpu_narrow_infinite(const uint16_t *x, int64_t count)
{
    uint16_t found = 0;
    for (int64_t i = 0; i < count; i++) found |= (x[i] & 0x7f80) == 0x7f80;
    return found;
}
