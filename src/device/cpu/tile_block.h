/* The loops of a product of tiles, of which tile.c includes a version for each kind of operands and
 * processor. The macros are: TILE(name), the function `name` of the version; TILE_TARGET, the
 * attributes of its functions; TILE_STEP(sum, a, b), which adds to a vector of sums the product of
 * the four bytes at a with each four bytes of the vector at b. */

/* Computes `rows` rows of the result at row i and `vectors` vectors at column j. Both numbers are
 * constants in each call, so that the loops are unrolled and the sums are in registers. */
TILE_TARGET WEFT_INLINE void TILE(block)(const tile_product *p, int rows, int vectors, int64_t i,
                                         int64_t j)
{
    lanes sum[TILE_ROWS][2];
    const tile_number *a = (const tile_number *)p->a + i * p->a_row;
    const tile_number *b = (const tile_number *)p->b + j;
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) sum[r][v] = (lanes){0};
    for (int64_t q = 0; q < p->k; q++, a += p->a_column, b += p->b_row)
#pragma GCC unroll 6
        for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
            for (int v = 0; v < vectors; v++)
                TILE_STEP(sum[r][v], a + r * p->a_row, b + (int64_t)v * LANES);
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
TILE_TARGET WEFT_INLINE void TILE(columns)(const tile_product *p, int vectors, int64_t j)
{
    int64_t blocks = (p->m + TILE_ROWS - 1) / TILE_ROWS;
    for (int64_t k = 0; k < blocks; k++) {
        int64_t i = p->m * k / blocks;
        switch (p->m * (k + 1) / blocks - i) {
        case 1: TILE(block)(p, 1, vectors, i, j); break;
        case 2: TILE(block)(p, 2, vectors, i, j); break;
        case 3: TILE(block)(p, 3, vectors, i, j); break;
        case 4: TILE(block)(p, 4, vectors, i, j); break;
        case 5: TILE(block)(p, 5, vectors, i, j); break;
        default: TILE(block)(p, 6, vectors, i, j); break;
        }
    }
}

/* With AVX-512 a block is two vectors wide: so many sums are under way at a time that none waits
 * for another, and each element of a serves two of them. */
TILE_TARGET WEFT_INLINE void TILE(wide)(const tile_product *p)
{
    int64_t j = 0;
    for (; j + TILE_COLUMNS < p->n; j += 2 * (int64_t)TILE_COLUMNS) TILE(columns)(p, 2, j);
    if (j < p->n) TILE(columns)(p, 1, j);
}

TILE_TARGET WEFT_INLINE void TILE(plain)(const tile_product *p)
{
    for (int64_t j = 0; j < p->n; j += TILE_COLUMNS) TILE(columns)(p, 1, j);
}

#undef TILE
#undef TILE_TARGET
#undef TILE_STEP
