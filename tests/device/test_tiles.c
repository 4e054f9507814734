/* Products of tiles (device/cpu/tile.h): each version, for f32 numbers, for pairs of bf16 numbers,
 * and by instructions for them where the processor has these, must give the sums of a plain loop in
 * double precision, at all sizes around the edges of blocks. */
#include <math.h>

#include "device/cpu/onednn.h"
#include "device/cpu/tile.h"
#include "support.h"

enum { ROWS = 13, COLUMNS = 33, DEPTH = 17, STRIDE = 48, SIZE = 64 };

/* Numbers that bf16 holds exactly; those past the end of a sum are zero. */
static float number(int i, int j)
{
    return weft_bf16_float(weft_bf16_of((float)sin(i * 12.9898 + j * 78.233)));
}

/* Writes number i of a sum at *at, a number or half of a pair; `pair` elements lie between two. */
static void put(tile_operands of, float *at, int64_t step, int i, float x)
{
    uint16_t half = weft_bf16_of(x);
    if (of == TILE_SINGLE)
        at[i * step] = x;
    else
        memcpy((char *)(at + i / 2 * step) + i % 2 * 2, &half, sizeof(half));
}

/* x: one number that is not finite, in row 0 of a; 0: none. */
static void check(void (*multiply)(const tile_product *), tile_operands of, int m, int n, int k,
                  bool add, bool turned, float x)
{
    static float a[SIZE * STRIDE], b[SIZE * STRIDE], c[ROWS * STRIDE];
    int64_t a_row = turned ? 1 : STRIDE, a_column = turned ? STRIDE : 1;
    memset(a, 0, sizeof(a));
    memset(b, 0, sizeof(b));
    for (int p = 0; p < k; p++) {
        for (int i = 0; i < m; i++)
            put(of, a + i * a_row, a_column, p, p == 0 && i == 0 && x != 0 ? x : number(i, p));
        for (int j = 0; j < n; j++) put(of, b + j, STRIDE, p, number(j + 50, p));
    }
    for (int i = 0; i < ROWS * STRIDE; i++) c[i] = 3;
    multiply(&(tile_product){m, n, of == TILE_SINGLE ? k : (k + 1) / 2, a, b, c, a_row, a_column,
                             STRIDE, STRIDE, add, of, NULL, 0});
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            double want = add ? 3 : 0, have = (double)c[i * STRIDE + j];
            for (int p = 0; p < k; p++) want += (double)number(i, p) * (double)number(j + 50, p);
            bool right = i == 0 && x != 0 ? !isfinite(have) : fabs(have - want) <= 1e-4;
            if (!right)
                fail_msg("operands %d, %d x %d x %d%s: (%d, %d) is %g, not %g", (int)of, m, n, k,
                         turned ? ", turned" : "", i, j, have, want);
        }
    for (int i = m; i < ROWS; i++)
        for (int j = 0; j < STRIDE; j++) assert_true(c[i * STRIDE + j] == 3);
}

static void test_sizes(void **state)
{
    (void)state;
    tile_operands last = onednn_bf16() ? TILE_PAIRS_DOT : TILE_PAIRS;
    for (tile_operands of = TILE_SINGLE; of <= last; of++)
        for (int m = 1; m <= ROWS; m++)
            for (int n = 1; n <= COLUMNS; n++)
                for (int k = 1; k <= DEPTH; k += 1 + k / 4) {
                    check(tile_multiply, of, m, n, k, n % 2, m % 2, 0);
                    check(tile_multiply_plain, of, m, n, k, n % 2, m % 2, 0);
                }
}

static void test_not_finite(void **state)
{
    (void)state;
    tile_operands last = onednn_bf16() ? TILE_PAIRS_DOT : TILE_PAIRS;
    for (tile_operands of = TILE_SINGLE; of <= last; of++)
        for (int n = 1; n <= COLUMNS; n++) {
            check(tile_multiply, of, 2, n, 3, false, false, NAN);
            check(tile_multiply, of, 7, n, 4, true, true, INFINITY);
            check(tile_multiply_plain, of, 7, n, 4, true, true, INFINITY);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_not_finite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
