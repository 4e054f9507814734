/* The loops of a product of tiles, of which tile.c includes a version for each kind of operands and
 * processor. The macros are: TILE(name), the function `name` of the version; TILE_TARGET, the
 * attributes of its functions; TILE_VECTOR, the type of a vector of f32 numbers that the processor
 * holds in registers; TILE_STEP(sum, a, b), which adds to a vector of sums the product of the four
 * bytes at a with each four bytes of the vector at b. */

#define TILE_LANES (int64_t)(sizeof(TILE_VECTOR) / sizeof(float))

/* Computes `rows` rows of the result at row i and `vectors` vectors at column j. Both numbers are
 * constants in each call, so that the loops are unrolled and the sums are in registers. */
TILE_TARGET WEFT_INLINE void TILE(block)(const tile_product *p, int rows, int vectors, int64_t i,
                                         int64_t j)
{
    TILE_VECTOR sum[TILE_WIDE_ROWS][2];
    const tile_run whole = {0, 0, (int32_t)p->k}, *run = p->runs ? p->runs : &whole;
    EACH (r, rows)
        EACH (v, vectors) sum[r][v] = (TILE_VECTOR){0};
    for (const tile_run *end = run + (p->runs ? p->run_count : 1); run < end; run++) {
        const tile_number *a = (const tile_number *)p->a + i * p->a_row + run->a * p->a_column;
        const tile_number *b = (const tile_number *)p->b + j + run->b * p->b_row;
        for (int32_t q = run->depth; q > 0; q--, a += p->a_column, b += p->b_row)
            EACH (r, rows)
                EACH (v, vectors) TILE_STEP(sum[r][v], a + r * p->a_row, b + v * TILE_LANES);
    }
    EACH (r, rows)
        EACH (v, vectors) {
            TILE_VECTOR *c = (TILE_VECTOR *)(p->c + (i + r) * p->c_row + j) + v;
            if (p->add) sum[r][v] += *c;
            *c = sum[r][v];
        }
}

/* The columns of all rows, in blocks of about the same number of rows, `most` at most. */
TILE_TARGET WEFT_INLINE void TILE(columns)(const tile_product *p, int most, int vectors, int64_t j)
{
    int64_t blocks = (p->m + most - 1) / most;
    for (int64_t k = 0; k < blocks; k++) {
        int64_t i = p->m * k / blocks;
        switch (p->m * (k + 1) / blocks - i) {
        case 1: TILE(block)(p, 1, vectors, i, j); break;
        case 2: TILE(block)(p, 2, vectors, i, j); break;
        case 3: TILE(block)(p, 3, vectors, i, j); break;
        case 4: TILE(block)(p, 4, vectors, i, j); break;
        case 5: TILE(block)(p, 5, vectors, i, j); break;
        case 6: TILE(block)(p, 6, vectors, i, j); break;
        case 7:
            if (most > 6) TILE(block)(p, 7, vectors, i, j);
            break;
        case 8:
            if (most > 6) TILE(block)(p, 8, vectors, i, j);
            break;
        case 9:
            if (most > 6) TILE(block)(p, 9, vectors, i, j);
            break;
        case 10:
            if (most > 6) TILE(block)(p, 10, vectors, i, j);
            break;
        default:
            if (most > 6) TILE(block)(p, 11, vectors, i, j);
            break;
        }
    }
}

/* With AVX-512 a block is two vectors wide: so many sums are under way at a time that none waits
 * for another, and each element of a serves two of them. */
TILE_TARGET WEFT_INLINE void TILE(wide)(const tile_product *p)
{
    int64_t j = 0;
    for (; j + TILE_COLUMNS < p->n; j += 2 * (int64_t)TILE_COLUMNS)
        TILE(columns)(p, TILE_WIDE_ROWS, 2, j);
    if (j < p->n) TILE(columns)(p, TILE_WIDE_ROWS, 1, j);
}

/* Without AVX-512 two vectors of half the width make a panel of columns. */
TILE_TARGET WEFT_INLINE void TILE(plain)(const tile_product *p)
{
    for (int64_t j = 0; j < p->n; j += TILE_COLUMNS) TILE(columns)(p, TILE_ROWS, 2, j);
}

#undef TILE
#undef TILE_TARGET
#undef TILE_STEP
#undef TILE_LANES
#undef TILE_VECTOR
