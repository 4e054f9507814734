/* Multiplies small matrices (tiles) by a micro-kernel, which holds a block of the result in
 * registers (Goto and van de Geijn 2008). Compiled with contraction, so that a product and its
 * addition are one instruction where the processor has it. Each element of the result is a sum in
 * the order of k, whatever the block. */
#include "device/cpu/tile.h"

#include "device/cpu/simd.h"

/* A vector fills a register of AVX-512, and two of AVX2. */
enum { LANES = TILE_COLUMNS };
typedef float lanes __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

/* Computes `rows` rows of the result at row i and `vectors` vectors at column j. Both numbers are
 * constants in each call, so that the loops are unrolled and the sums are in registers. */
WEFT_INLINE void block(const tile_product *p, int rows, int vectors, int64_t i, int64_t j)
{
    lanes sum[TILE_ROWS][2];
    const float *a = p->a + i * p->a_row, *b = p->b + j;
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) sum[r][v] = (lanes){0};
    for (int64_t q = 0; q < p->k; q++, a += p->a_column, b += p->b_row)
#pragma GCC unroll 6
        for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
            for (int v = 0; v < vectors; v++) sum[r][v] += a[r * p->a_row] * ((const lanes *)b)[v];
    float *c = p->c + i * p->c_row + j;
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++, c += p->c_row)
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) {
            if (p->add) sum[r][v] += ((lanes *)c)[v];
            ((lanes *)c)[v] = sum[r][v];
        }
}

/* The columns of all rows, in blocks of about the same number of rows. */
WEFT_INLINE void columns(const tile_product *p, int vectors, int64_t j)
{
    int64_t blocks = (p->m + TILE_ROWS - 1) / TILE_ROWS;
    for (int64_t k = 0; k < blocks; k++) {
        int64_t i = p->m * k / blocks;
        switch (p->m * (k + 1) / blocks - i) {
        case 1: block(p, 1, vectors, i, j); break;
        case 2: block(p, 2, vectors, i, j); break;
        case 3: block(p, 3, vectors, i, j); break;
        case 4: block(p, 4, vectors, i, j); break;
        case 5: block(p, 5, vectors, i, j); break;
        default: block(p, 6, vectors, i, j); break;
        }
    }
}

static WEFT_CLONES void multiply(const tile_product *p)
{
    for (int64_t j = 0; j < p->n; j += TILE_COLUMNS) columns(p, 1, j);
}

/* With AVX-512 a block is two vectors wide: so many sums are under way at a time that none waits
 * for another, and each element of a serves two of them. */
#if defined(__x86_64__) && defined(__GNUC__)
__attribute__((target("avx512f,fma"))) static void multiply_wide(const tile_product *p)
{
    int64_t j = 0;
    for (; j + TILE_COLUMNS < p->n; j += 2 * TILE_COLUMNS) columns(p, 2, j);
    if (j < p->n) columns(p, 1, j);
}

static bool is_wide(void)
{
    return __builtin_cpu_supports("avx512f");
}
#else
static void multiply_wide(const tile_product *p)
{
    multiply(p);
}

static bool is_wide(void)
{
    return false;
}
#endif

void tile_multiply(const tile_product *p)
{
    if (is_wide())
        multiply_wide(p);
    else
        multiply(p);
}
