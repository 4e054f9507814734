/* Multiplies small matrices (tiles) by a micro-kernel, which holds a block of the result in
 * registers (Goto and van de Geijn 2008). Compiled with contraction, so that a product and its
 * addition are one instruction where the processor has it. */
#include "device/cpu/tile.h"

#include "device/cpu/simd.h"

enum { VECTORS = TILE_COLUMNS / WEFT_LANES };

/* Computes `rows` rows of the result at row i and column j. The number of rows is a constant in
 * each call, so that the loops over rows are unrolled and the sums are in registers. */
WEFT_INLINE void block(const tile_product *p, int rows, int64_t i, int64_t j)
{
    weft_lanes sum[TILE_ROWS][VECTORS];
    const float *a = p->a + i * p->a_row, *b = p->b + j;
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < VECTORS; v++) sum[r][v] = (weft_lanes){0};
    for (int64_t q = 0; q < p->k; q++, a += p->a_column, b += p->b_row)
#pragma GCC unroll 6
        for (int r = 0; r < rows; r++)
            for (int v = 0; v < VECTORS; v++)
                sum[r][v] += a[r * p->a_row] * ((const weft_lanes *)b)[v];
    float *c = p->c + i * p->c_row + j;
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++, c += p->c_row)
        for (int v = 0; v < VECTORS; v++) {
            if (p->add) sum[r][v] += ((weft_lanes *)c)[v];
            ((weft_lanes *)c)[v] = sum[r][v];
        }
}

static WEFT_CLONES void multiply(const tile_product *p)
{
    int64_t whole = p->m / TILE_ROWS * TILE_ROWS;
    for (int64_t j = 0; j < p->n; j += TILE_COLUMNS) {
        for (int64_t i = 0; i < whole; i += TILE_ROWS) block(p, TILE_ROWS, i, j);
        switch (p->m - whole) {
        case 1: block(p, 1, whole, j); break;
        case 2: block(p, 2, whole, j); break;
        case 3: block(p, 3, whole, j); break;
        case 4: block(p, 4, whole, j); break;
        case 5: block(p, 5, whole, j); break;
        default: break;
        }
    }
}

void tile_multiply(const tile_product *p)
{
    multiply(p);
}
