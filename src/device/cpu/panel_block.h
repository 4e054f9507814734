/* The micro-kernel of panel.c, which includes this file once for each set of instructions, with
 *   NAME(x)           a name that is different each time
 *   TARGET, INSIDE    attributes of the function, and of the one that is inlined in it
 *   VECTORS           vectors in a row of a block
 *   ADD(sum, x, y)    adds the products of a word x with the vector at y to a vector
 * `rows` is a constant in each call of the inner function, so that its loops are unrolled and the
 * sums are in registers. */
INSIDE WEFT_INLINE void NAME(rows)(const panel_product *p, int rows)
{
    lanes sum[PANEL_MOST_ROWS][VECTORS];
#pragma GCC unroll 11
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (int v = 0; v < VECTORS; v++) sum[r][v] = (lanes){0};
    for (int i = 0; i < p->run_count; i++) {
        const uint32_t *a = p->a + p->runs[i].a * p->a_step;
        const lanes *b = (const lanes *)(const void *)p->b + (int64_t)p->runs[i].b * VECTORS;
        for (int32_t s = p->runs[i].depth; s > 0; s--, a += p->a_step, b += VECTORS)
#pragma GCC unroll 11
            for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
                for (int v = 0; v < VECTORS; v++) ADD(sum[r][v], a + r * p->a_row, b + v);
    }
#pragma GCC unroll 11
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (int v = 0; v < VECTORS; v++) ((lanes *)(void *)p->c)[r * VECTORS + v] = sum[r][v];
}

TARGET static void NAME(product)(const panel_product *p)
{
    switch (p->rows) {
    case 1: NAME(rows)(p, 1); break;
    case 2: NAME(rows)(p, 2); break;
    case 3: NAME(rows)(p, 3); break;
    case 4: NAME(rows)(p, 4); break;
    case 5: NAME(rows)(p, 5); break;
#if VECTORS > 1
    case 6: NAME(rows)(p, 6); break;
    case 7: NAME(rows)(p, 7); break;
    case 8: NAME(rows)(p, 8); break;
    case 9: NAME(rows)(p, 9); break;
    case 10: NAME(rows)(p, 10); break;
    default: NAME(rows)(p, 11); break;
#else
    default: NAME(rows)(p, 6); break;
#endif
    }
}
#undef NAME
#undef TARGET
#undef INSIDE
#undef VECTORS
#undef ADD
