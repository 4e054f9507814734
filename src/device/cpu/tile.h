/* Declares products of small matrices (tiles), which lie in caches, and copies of rows into them.
 */
#ifndef WEFT_DEVICE_CPU_TILE_H
#define WEFT_DEVICE_CPU_TILE_H

#include "base/base.h"

/* The micro-kernel computes blocks of so many rows and columns. Rows of b and c have room for whole
 * blocks, and their contents beyond n columns are unspecified. */
enum { TILE_ROWS = 6, TILE_COLUMNS = 16 };

/* The product c [m, n] = a [m, k] b [k, n], or with `add` its addition to c. Rows of b and c are
 * contiguous; element (i, p) of a is at a[i * a_row + p * a_column]. */
typedef struct tile_product {
    int64_t m, n, k;
    const float *a, *b;
    float *c;
    int64_t a_row, a_column, b_row, c_row;
    bool add;
} tile_product;
void tile_multiply(const tile_product *p);

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
