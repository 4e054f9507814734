/* Multiplies small matrices (tiles) by a micro-kernel, which holds a block of the result in
 * registers (Goto and van de Geijn 2008). Compiled with contraction, so that a product and its
 * addition are one instruction where the processor has it. */
#include "device/cpu/tile.h"

#include "device/cpu/simd.h"

enum { VECTORS = TILE_COLUMNS / WEFT_LANES };

/* Computes the block of the result at row i and column j. */
static inline __attribute__((always_inline)) void block(const tile_product *p, int64_t i, int64_t j)
{
    weft_lanes sum[TILE_ROWS][VECTORS] = {{{0}}};
    const float *a = p->a + i * p->a_row, *b = p->b + j;
    for (int64_t q = 0; q < p->k; q++, a += p->a_column, b += p->b_row)
        for (int r = 0; r < TILE_ROWS; r++)
            for (int v = 0; v < VECTORS; v++)
                sum[r][v] += a[r * p->a_row] * ((const weft_lanes *)b)[v];
    float *c = p->c + i * p->c_row + j;
    for (int r = 0; r < TILE_ROWS; r++, c += p->c_row)
        for (int v = 0; v < VECTORS; v++) {
            if (p->add) sum[r][v] += ((weft_lanes *)c)[v];
            ((weft_lanes *)c)[v] = sum[r][v];
        }
}

static WEFT_CLONES void multiply(const tile_product *p)
{
    for (int64_t j = 0; j < p->n; j += TILE_COLUMNS)
        for (int64_t i = 0; i < p->m; i += TILE_ROWS) block(p, i, j);
}

void tile_multiply(const tile_product *p)
{
    multiply(p);
}
