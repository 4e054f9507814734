/* Loops over bf16 values, which are the upper halves of f32 values: they work on the bits, in
 * vectors of integers, on any processor. */
#include "device/cpu/cpu.h"
#include "device/cpu/simd.h"

static WEFT_CLONES void narrow_relu_clones(const uint16_t *x, uint16_t *y, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        uint16_t bits = x[i];
        bool negative = bits >> 15 && (bits & 0x7fff) <= 0x7f80; /* no NaN */
        y[i] = negative ? 0 : bits;
    }
}

void cpu_narrow_relu(const uint16_t *x, uint16_t *y, int64_t count)
{
    narrow_relu_clones(x, y, count);
}

static WEFT_CLONES void narrow_relu_grad_clones(const uint16_t *y, const uint16_t *dy, uint16_t *dx,
                                                int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        uint16_t bits = y[i], other = dy[i];
        bool nan = (bits & 0x7fff) > 0x7f80, above = (uint16_t)(bits - 1) < 0x7f80;
        dx[i] = nan ? bits : above ? other : 0;
    }
}

void cpu_narrow_relu_grad(const uint16_t *y, const uint16_t *dy, uint16_t *dx, int64_t count)
{
    narrow_relu_grad_clones(y, dy, dx, count);
}

static WEFT_CLONES bool narrow_infinite_clones(const uint16_t *x, int64_t count)
{
    uint16_t found = 0;
    for (int64_t i = 0; i < count; i++) found |= (x[i] & 0x7f80) == 0x7f80;
    return found;
}

bool cpu_narrow_infinite(const uint16_t *x, int64_t count)
{
    return narrow_infinite_clones(x, count);
}
