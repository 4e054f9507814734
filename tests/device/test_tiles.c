/* Products of tiles (device/cpu/tile.h): each version, for f32 numbers, for pairs of bf16 numbers,
 * and by instructions for them where the processor has these, must give the sums of a plain loop in
 * double precision, at all sizes around the edges of blocks. */
#include <math.h>

#include "device/cpu/pair_blocks.h"
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

/* --- pairs of bf16 numbers in blocks --- */

enum { SCRATCH = 1024 };

static void go(weft_device *device, weft_kernel *kernel, void *from, void *to, void *scratch)
{
    weft_memory memory[3] = {{device, from}, {device, to}, {device, scratch}};
    const weft_address in = {&memory[0], 0}, out = {&memory[1], 0};
    weft_bound *bound;
    assert_true(kernel->scratch <= SCRATCH);
    assert_ok(weft_kernel_bind(kernel, &bound));
    assert_ok(weft_bound_place(bound, &in, &out, (weft_address){&memory[2], 0}));
    assert_ok(weft_bound_run(bound, NULL));
    bound->ops->destroy(bound);
    kernel->ops->destroy(kernel);
}

/* The layout of a weight in a product of a pass, of f32 numbers for its gradient, else of bf16. */
static cpu_md weight_in(weft_device *device, onednn_spec spec, onednn_pass pass, cpu_md w)
{
    onednn_primitive *described;
    cpu_md md;
    spec.pass = pass;
    assert_ok(onednn_md_any(cpu_onednn(device), w, pass == ONEDNN_WEIGHTS ? WEFT_F32 : WEFT_BF16,
                            &spec.w));
    assert_ok(onednn_describe(cpu_onednn(device), &spec, &described));
    assert_ok(onednn_wants(described, pass == ONEDNN_WEIGHTS ? ONEDNN_DW : ONEDNN_W, &md));
    onednn_drop(described);
    return md;
}

/* Rounding from the layout of the gradient to that of the weight gives oneDNN's numbers. */
static bool rounds_alike(weft_device *device, cpu_md plain, cpu_md wide, cpu_md narrow)
{
    const onednn_spec lay = {.kind = ONEDNN_REORDER, .x = plain, .y = wide},
                      round = {.kind = ONEDNN_REORDER, .x = wide, .y = narrow};
    const cpu_arg args[] = {{ONEDNN_X, CPU_IN, 0, plain, false},
                            {ONEDNN_Y, CPU_OUT, 0, plain, false}};
    size_t count = onednn_md_bytes(plain) / sizeof(float), bytes = onednn_md_bytes(narrow);
    float *given = malloc(count * sizeof(float));
    char *laid = calloc(1, onednn_md_bytes(wide)), *want = calloc(1, bytes), *have = malloc(bytes);
    char scratch[SCRATCH];
    weft_kernel *kernel;
    for (size_t i = 0; i < count; i++) given[i] = (float)sin((double)i) * (i % 7 ? 1 : 1e30f);
    given[0] = NAN;
    given[1] = -INFINITY;
    given[2] = 3.4e38f;
    assert_ok(cpu_spec_make(device, &lay, args, 2, &kernel));
    go(device, kernel, given, laid, scratch);
    assert_ok(cpu_spec_make(device, &round, args, 2, &kernel));
    go(device, kernel, laid, want, scratch);
    bool has = cpu_pair_blocks_has(wide, narrow);
    if (has) {
        assert_ok(cpu_pair_blocks_make(device, wide, narrow, &kernel));
        memset(have, 1, bytes);
        go(device, kernel, laid, have, scratch);
        assert_memory_equal(want, have, bytes);
    }
    free(given);
    free(laid);
    free(want);
    free(have);
    return has;
}

static void test_pair_blocks(void **state)
{
    (void)state;
    static const struct {
        int rank;
        int64_t x[4], w[4], y[4];
    } sizes[] = {{2, {20, 200}, {128, 200}, {20, 128}},
                 {2, {20, 33}, {10, 33}, {20, 10}},
                 {4, {2, 64, 6, 5}, {48, 64, 3, 3}, {2, 48, 4, 3}},
                 {4, {2, 32, 6, 5}, {96, 32, 1, 1}, {2, 96, 6, 5}},
                 {4, {2, 40, 6, 5}, {24, 40, 3, 3}, {2, 24, 4, 3}}};
    weft_context *context;
    weft_device *device;
    int found = 0;
    if (!onednn_bf16()) skip();
    assert_ok(weft_context_create(&context));
    assert_ok(weft_device_open(context, "cpu", &device));
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        onednn *o = cpu_onednn(device);
        onednn_spec spec = {.kind = sizes[s].rank == 2 ? ONEDNN_INNER : ONEDNN_CONV,
                            .stride = {1, 1}};
        cpu_md x, y, w;
        assert_ok(cpu_md_plain(device, WEFT_BF16, sizes[s].rank, sizes[s].x, &x));
        assert_ok(cpu_md_plain(device, WEFT_BF16, sizes[s].rank, sizes[s].y, &y));
        assert_ok(cpu_md_plain(device, WEFT_F32, sizes[s].rank, sizes[s].w, &w));
        assert_ok(onednn_md_any(o, x, WEFT_BF16, &spec.x));
        assert_ok(onednn_md_any(o, y, WEFT_BF16, &spec.y));
        cpu_md wide = weight_in(device, spec, ONEDNN_WEIGHTS, w);
        for (onednn_pass pass = ONEDNN_FORWARD; pass < ONEDNN_WEIGHTS; pass++)
            found += rounds_alike(device, w, wide, weight_in(device, spec, pass, w));
    }
    assert_true(found > 0 || onednn_has_amx());
    weft_device_close(&device);
    weft_context_destroy(&context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_not_finite),
        cmocka_unit_test(test_pair_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
