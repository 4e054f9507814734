/* Tests number types: each value has a type of its own, and bf16 rounds to the nearest number. */
#include <math.h>
#include <unistd.h>

#include "base/base.h"
#include "formats/safetensors.h"
#include "learner/learner_internal.h"
#include "support.h"
#include "weft/device.h"

/* Rounds x to bf16: to `below` or the next number, the nearer one; in the middle, the even one. */
static uint16_t nearest(uint16_t below, double x)
{
    double low = (double)weft_bf16_float(below),
           high = (double)weft_bf16_float((uint16_t)(below + 1));
    if (x - low == high - x) return below % 2 ? (uint16_t)(below + 1) : below;
    return x - low < high - x ? below : (uint16_t)(below + 1);
}

/* Tests every positive number of 16 bits, numbers between it and the next, and their negatives. The
 * largest f32 numbers become infinite. */
static void test_rounding(void **state)
{
    (void)state;
    const double between[] = {0, 1e-9, 0.25, 0.4999999, 0.5, 0.5000001, 0.75, 1 - 1e-9};
    for (uint16_t bits = 0; bits < 0x7f7f; bits++) {
        double low = (double)weft_bf16_float(bits),
               high = (double)weft_bf16_float((uint16_t)(bits + 1));
        for (size_t k = 0; k < WEFT_COUNT(between); k++) {
            double x = low + (high - low) * between[k];
            uint16_t got[2], want = nearest(bits, x);
            weft_number_put(WEFT_BF16, got, 0, x);
            weft_number_put(WEFT_BF16, got, 1, -x);
            if (got[0] != want || got[1] != (want | 0x8000))
                fail_msg("%.17g becomes %04x, should be %04x", x, got[0], want);
        }
    }
    assert_int_equal(weft_bf16_of(3.4e38f), 0x7f80);
    assert_int_equal(weft_bf16_of(INFINITY), 0x7f80);
    uint32_t hidden = 0x7f800001; /* a NaN whose upper 16 bits are those of infinity */
    float none;
    memcpy(&none, &hidden, sizeof(none));
    assert_true(isnan(weft_bf16_float(weft_bf16_of(none))));
}

static void test_tables(void **state)
{
    (void)state;
    static const char *const names[WEFT_DTYPE_COUNT] = {
        [WEFT_F32] = "F32",   [WEFT_F64] = "F64", [WEFT_I32] = "I32",  [WEFT_U8] = "U8",
        [WEFT_BF16] = "BF16", [WEFT_I64] = "I64", [WEFT_BOOL] = "BOOL"};
    for (int d = 0; d < WEFT_DTYPE_COUNT; d++) {
        weft_dtype again, dtype = (weft_dtype)d;
        char room[24] = {0};
        assert_string_equal(weft_safetensors_dtype(dtype), names[d]);
        assert_true(weft_safetensors_real(names[d], &again) && again == dtype);
        assert_true(weft_dtype_parse(weft_dtype_name(dtype), &again) && again == dtype);
        weft_number_put(dtype, room, 1, 3);
        assert_true(weft_number_get(dtype, room, 1) == (dtype == WEFT_BOOL ? 1 : 3) &&
                    weft_number_get(dtype, room, 0) == 0);
    }
}

enum { ROWS = 3, COLUMNS = 5, COUNT = ROWS * COLUMNS };

typedef struct short_weights {
    weft_graph *graph;
    weft_value x, w, y;
} short_weights;

/* Builds the sum of tanh(x + cast(w)), where w is stored as bf16, and its gradient. */
static void build(short_weights *n, weft_context *context)
{
    weft_shape shape = weft_shape_of(2, (int64_t[]){ROWS, COLUMNS});
    weft_attr wide = WEFT_ATTR_INT("dtype", WEFT_F32);
    assert_ok(weft_graph_create(context, WEFT_F32, &n->graph));
    n->x = weft_graph_leaf(n->graph, WEFT_VALUE_INPUT, "x", WEFT_F32, &shape, (weft_init){0});
    n->w = weft_graph_leaf(n->graph, WEFT_VALUE_PARAM, "w", WEFT_BF16, &shape,
                           (weft_init){WEFT_INIT_UNIFORM, 1});
    weft_value w = weft_graph_node(n->graph, "cast", "wide", &n->w, 1, &wide, 1);
    weft_value sum = weft_graph_node(n->graph, "add", "sum", (weft_value[]){n->x, w}, 2, NULL, 0);
    weft_value y = weft_graph_node(n->graph, "tanh", "y", &sum, 1, NULL, 0);
    weft_attr all = WEFT_ATTR_PAIR("axes", 0, 1);
    n->y = weft_graph_node(n->graph, "reduce_sum", "all", &y, 1, &all, 1);
    assert_ok(weft_graph_differentiate(n->graph, n->y));
}

static void check_device(weft_context *context, const char *device)
{
    short_weights n;
    weft_store *store;
    weft_instance *x;
    uint16_t w[COUNT];
    double sum = 0;
    build(&n, context);
    weft_value dw = weft_graph_gradient(n.graph, n.w), fetch[] = {n.y, dw};
    assert_int_equal(weft_graph_value_type(n.graph, dw).dtype, WEFT_BF16);
    assert_ok(weft_store_create(context, device, 3, &store));
    assert_ok(weft_instance_build(store, n.graph, fetch, 2, &x));
    assert_int_equal(weft_store_type(store, 0).dtype, WEFT_BF16);
    for (int i = 0; i < COUNT; i++) weft_number_put(WEFT_BF16, w, i, 0.1 * i - 0.7);
    assert_ok(weft_store_write(store, 0, w));
    memset(w, 0, sizeof(w));
    assert_ok(weft_store_read(store, 0, w));
    float *in = weft_instance_input(x, n.x);
    for (int i = 0; i < COUNT; i++) in[i] = 0.3f - 0.02f * (float)i;
    assert_ok(weft_instance_run(x, WEFT_PHASE_MICRO));
    const uint16_t *slope = weft_instance_output(x, dw);
    for (int i = 0; i < COUNT; i++) {
        double y = tanh((double)in[i] + weft_number_get(WEFT_BF16, w, i));
        uint16_t want;
        weft_number_put(WEFT_BF16, &want, 0, 1 - y * y);
        assert_true(abs(slope[i] - want) <= 1); /* f32 before the rounding */
        assert_true(fabs(weft_number_get(WEFT_BF16, w, i) - (0.1 * i - 0.7)) < 0.004);
        sum += y;
    }
    assert_float_equal(*(const float *)weft_instance_output(x, n.y), sum, 1e-5);
    weft_instance_destroy(&x);
    weft_store_destroy(&store);
    weft_graph_destroy(&n.graph);
}

static void test_short_weights_on_every_device(void **state)
{
    (void)state;
    weft_context *context;
    assert_ok(weft_context_create(&context));
    for (int d = 0; built_in(WEFT_KIND_DEVICE, d); d++)
        check_device(context, built_in(WEFT_KIND_DEVICE, d));
    weft_context_destroy(&context);
}

/* An input accepts rows of another type, wider or narrower; the input next to it is not touched. */
static void test_rows_of_another_type(void **state)
{
    (void)state;
    static const weft_dtype types[] = {WEFT_BF16, WEFT_F32, WEFT_F64};
    weft_context *context;
    weft_shape shape = weft_shape_of(2, (int64_t[]){ROWS, COLUMNS});
    float rows[COUNT];
    for (int i = 0; i < COUNT; i++) rows[i] = (float)i - 3.5f;
    assert_ok(weft_context_create(&context));
    for (size_t t = 0; t < WEFT_COUNT(types); t++) {
        weft_graph *g;
        weft_store *store;
        weft_instance *x;
        assert_ok(weft_graph_create(context, WEFT_F32, &g));
        weft_value in[2];
        for (int k = 0; k < 2; k++)
            in[k] = weft_graph_leaf(g, WEFT_VALUE_INPUT, k ? "b" : "a", types[t], &shape,
                                    (weft_init){0});
        assert_ok(weft_graph_status(g));
        assert_ok(weft_store_create(context, "reference", 3, &store));
        assert_ok(weft_instance_build(store, g, in, 2, &x));
        weft_feed(g, x, in[0], rows, WEFT_F32);
        for (int i = 0; i < COUNT; i++) {
            double a = weft_number_get(types[t], weft_instance_input(x, in[0]), i);
            assert_true(a == (double)rows[i]);
            assert_true(weft_number_get(types[t], weft_instance_input(x, in[1]), i) == 0);
        }
        weft_instance_destroy(&x);
        weft_store_destroy(&store);
        weft_graph_destroy(&g);
    }
    weft_context_destroy(&context);
}

/* Operators compute with bf16 operands in f32: tanh of one is the rounded tanh of the same number,
 * and a sum with an f32 number is f32. */
static void test_bf16_is_computed_in_f32(void **state)
{
    (void)state;
    const float numbers[] = {0.5F, -1.25F, 3, 0.00390625F};
    enum { SIZE = 4 };
    weft_context *context;
    assert_ok(weft_context_create(&context));
    for (int d = 0; built_in(WEFT_KIND_DEVICE, d); d++) {
        weft_graph *g;
        weft_store *store;
        weft_instance *p;
        const weft_shape shape = weft_shape_of(1, (int64_t[]){SIZE});
        assert_ok(weft_graph_create(context, WEFT_F32, &g));
        weft_value x = weft_graph_leaf(g, WEFT_VALUE_INPUT, "x", WEFT_BF16, &shape, (weft_init){0});
        weft_value z = weft_graph_leaf(g, WEFT_VALUE_INPUT, "z", WEFT_F32, &shape, (weft_init){0});
        weft_value y[] = {weft_graph_node(g, "tanh", "y", &x, 1, NULL, 0),
                          weft_graph_node(g, "add", "sum", (weft_value[]){x, z}, 2, NULL, 0)};
        assert_int_equal(weft_graph_value_type(g, y[0]).dtype, WEFT_BF16);
        assert_int_equal(weft_graph_value_type(g, y[1]).dtype, WEFT_F32);
        assert_ok(weft_store_create(context, built_in(WEFT_KIND_DEVICE, d), 3, &store));
        assert_ok(weft_instance_build(store, g, y, 2, &p));
        for (int i = 0; i < SIZE; i++) {
            weft_number_put(WEFT_BF16, weft_instance_input(p, x), i, (double)numbers[i]);
            ((float *)weft_instance_input(p, z))[i] = 1.00390625F;
        }
        assert_ok(weft_instance_run(p, WEFT_PHASE_MICRO));
        for (int i = 0; i < SIZE; i++) {
            double have = weft_number_get(WEFT_BF16, weft_instance_output(p, y[0]), i);
            assert_true(fabs(have - tanh((double)numbers[i])) <= fabs(have) / 256);
            float sum = ((const float *)weft_instance_output(p, y[1]))[i];
            assert_true(sum == numbers[i] + 1.00390625F);
        }
        weft_instance_destroy(&p);
        weft_store_destroy(&store);
        weft_graph_destroy(&g);
    }
    weft_context_destroy(&context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rounding),
        cmocka_unit_test(test_tables),
        cmocka_unit_test(test_short_weights_on_every_device),
        cmocka_unit_test(test_rows_of_another_type),
        cmocka_unit_test(test_bf16_is_computed_in_f32),
    };
    return cmocka_run_group_tests_name("types", tests, NULL, NULL);
}
