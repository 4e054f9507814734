/* Declares products of small matrices (tiles), which lie in caches, and copies of rows into them.
 */
#ifndef WEFT_DEVICE_CPU_TILE_H
#define WEFT_DEVICE_CPU_TILE_H

#include "base/base.h"

/* The micro-kernel computes blocks of so many rows and columns, with AVX-512 of up to
 * TILE_WIDE_ROWS and twice as many columns. Rows of b and c have room for whole blocks, and their
 * contents beyond n columns are unspecified. */
enum { TILE_ROWS = 6, TILE_WIDE_ROWS = 11, TILE_COLUMNS = 16 };

/* The elements of a and b: f32 numbers; or pairs of bf16 numbers, of which the first is in the
 * lower half, whose products are multiplied as f32 numbers, or by the instructions of AVX512-BF16,
 * which the processor must have. */
typedef enum tile_operands { TILE_SINGLE, TILE_PAIRS, TILE_PAIRS_DOT } tile_operands;

/* A part of the sums of a product: `depth` elements, from element a of each row of a on, and from
 * row b of b on. */
typedef struct tile_run {
    int32_t a, b, depth;
} tile_run;

/* The product c [m, n] = a [m, k] b [k, n], or with `add` its addition to c. Rows of b and c are
 * contiguous; element (i, p) of a is at a[i * a_row + p * a_column]. With pairs, element p of a row
 * of a and row p of b hold the numbers 2 p and 2 p + 1 of the sum. With runs, k is not read, and
 * sums are over the elements of all runs, in their order (Georganas et al., arXiv 1906.06440). */
typedef struct tile_product {
    int64_t m, n, k;
    const void *a, *b; /* elements of four bytes */
    float *c;
    int64_t a_row, a_column, b_row, c_row;
    bool add;
    tile_operands of;
    const tile_run *runs; /* NULL: one, of the first k elements */
    int run_count;
} tile_product;
void tile_multiply(const tile_product *p);
/* As processors without AVX-512 compute it. */
void tile_multiply_plain(const tile_product *p);

/* The number of columns in whole blocks. */
static inline int64_t tile_columns(int64_t n)
{
    return (n + TILE_COLUMNS - 1) / TILE_COLUMNS * TILE_COLUMNS;
}
/* The distance between rows of `width` elements: an odd number of cache lines, so that consecutive
 * rows lie in different sets of a cache. */
static inline int64_t tile_stride(int64_t width)
{
    return (tile_columns(width) / TILE_COLUMNS | 1) * TILE_COLUMNS;
}

#endif
