/* Stochastic rounding to bf16: the mean over many steps is the number, each result one of its two
 * neighbours, numbers of bf16 stay, as do infinite ones and NaN; parts and ranges of a tensor draw
 * the numbers of their places; devices have the same bits. And the update of bf16 parameters in one
 * pass is that of the reference device. */
#include <math.h>

#include "support.h"

enum { COUNT = 301, DRAWS = 4096 };

static float from_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

static float of_bf16(uint16_t bits)
{
    return from_bits((uint32_t)bits << 16);
}

/* Numbers of many sizes, with the bits that are cut off anywhere. */
static float number(int i)
{
    uint32_t random = (uint32_t)(i + 1) * 2654435761u;
    return from_bits((random & 0x8000ffffu) | (uint32_t)(90 + i % 75) << 23 |
                     (random >> 3 & 0x7f0000u));
}

typedef struct rounding {
    weft_context *context;
    weft_graph *graph;
    weft_store *store;
    weft_instance *instance;
    weft_value x, step, y;
} rounding;

static void open_rounding(rounding *r, const char *device, const weft_shape *shape,
                          const weft_attr *more, int count)
{
    weft_attr attrs[8] = {WEFT_ATTR_INT("seed", 7), WEFT_ATTR_INT("stream", 3)};
    weft_shape scalar = {0};
    if (more) memcpy(attrs + 2, more, (size_t)count * sizeof(*more));
    assert_ok(weft_context_create(&r->context));
    assert_ok(weft_context_set_threads(r->context, 2));
    assert_ok(weft_graph_create(r->context, WEFT_F32, &r->graph));
    r->x = weft_graph_leaf(r->graph, WEFT_VALUE_INPUT, "x", WEFT_F32, shape, (weft_init){0});
    r->step =
        weft_graph_leaf(r->graph, WEFT_VALUE_INPUT, "step", WEFT_I32, &scalar, (weft_init){0});
    r->y = weft_graph_node(r->graph, "stochastic_round", "y", (weft_value[]){r->x, r->step}, 2,
                           attrs, 2 + count);
    assert_ok(weft_store_create(r->context, device, 1, &r->store));
    assert_ok(weft_instance_build(r->store, r->graph, &r->y, 1, &r->instance));
}

static const uint16_t *run_rounding(rounding *r, int step)
{
    *(int32_t *)weft_instance_input(r->instance, r->step) = step;
    assert_ok(weft_instance_run(r->instance, WEFT_PHASE_FORWARD));
    assert_ok(weft_instance_drain(r->instance));
    return weft_instance_output(r->instance, r->y);
}

static void close_rounding(rounding *r)
{
    weft_instance_destroy(&r->instance);
    weft_store_destroy(&r->store);
    weft_graph_destroy(&r->graph);
    weft_context_destroy(&r->context);
}

/* A number between `low` and the next of bf16 becomes that with the probability of its distance. */
static void test_expectation(void **state)
{
    (void)state;
    rounding r;
    static int up[COUNT];
    weft_shape shape = weft_shape_of(1, (int64_t[]){COUNT});
    open_rounding(&r, "cpu", &shape, NULL, 0);
    float *x = weft_instance_input(r.instance, r.x);
    for (int i = 0; i < COUNT; i++) x[i] = number(i);
    memset(up, 0, sizeof(up));
    for (int step = 0; step < DRAWS; step++) {
        const uint16_t *y = run_rounding(&r, step);
        for (int i = 0; i < COUNT; i++) {
            uint32_t bits;
            memcpy(&bits, &x[i], sizeof(bits));
            int above = y[i] - (int)(bits >> 16);
            if (above < 0 || above > ((bits & 0xffff) != 0))
                fail_msg("%.9g becomes %.9g", (double)x[i], (double)of_bf16(y[i]));
            up[i] += above;
        }
    }
    double sum = 0, spread = 0;
    for (int i = 0; i < COUNT; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof(bits));
        double p = (bits & 0xffff) / 65536.0, sigma = sqrt(p * (1 - p) * DRAWS);
        if (fabs(up[i] - p * DRAWS) > 4 * sigma + 1e-9)
            fail_msg("%.9g went up %d times of %d, its share is %g", (double)x[i], up[i], DRAWS, p);
        sum += up[i] - p * DRAWS;
        spread += p * (1 - p) * DRAWS;
    }
    assert_true(fabs(sum) <= 4 * sqrt(spread));
    close_rounding(&r);
}

static void test_special(void **state)
{
    (void)state;
    static const struct {
        uint32_t x;
        uint16_t y;
    } cases[] = {{0, 0},
                 {0x80000000, 0x8000},
                 {0x7f800000, 0x7f80},
                 {0xff800000, 0xff80},
                 {0x7f7f0000, 0x7f7f},
                 {0x00010000, 0x0001},
                 {0x3f800000, 0x3f80},
                 {0xc2f70000, 0xc2f7}};
    static const char *const devices[] = {"reference", "cpu", "distant"};
    enum { CASES = sizeof(cases) / sizeof(cases[0]), NANS = 3 };
    static const uint32_t nans[NANS] = {0x7f800001, 0xff80ffff, 0x7fc00000};
    for (size_t d = 0; d < sizeof(devices) / sizeof(devices[0]); d++) {
        rounding r;
        weft_shape shape = weft_shape_of(1, (int64_t[]){CASES + NANS});
        open_rounding(&r, devices[d], &shape, NULL, 0);
        float *x = weft_instance_input(r.instance, r.x);
        for (int step = 0; step < 50; step++) {
            for (int i = 0; i < CASES; i++) x[i] = from_bits(cases[i].x);
            memcpy(x + CASES, nans, sizeof(nans));
            const uint16_t *y = run_rounding(&r, step);
            for (int i = 0; i < CASES; i++) assert_int_equal(y[i], cases[i].y);
            for (int i = CASES; i < CASES + NANS; i++) assert_true(isnan(of_bf16(y[i])));
        }
        close_rounding(&r);
    }
}

enum { PLANES = 5, ROWS = 7, COLUMNS = 9 };

/* Writes what a device makes of the part of a tensor at `start`, or of `size` elements of it from
 * `begin` on. */
static void round_part(const char *device, const int64_t *start, const int64_t *dim, int64_t begin,
                       int64_t size, uint16_t *out)
{
    rounding r;
    int64_t count = dim[0] * dim[1] * dim[2];
    weft_attr attrs[4] = {{.name = "whole", .count = 3, .ints = {PLANES, ROWS, COLUMNS}},
                          {.name = "start", .count = 3},
                          {.name = "part", .count = 3},
                          WEFT_ATTR_INT("begin", begin)};
    for (int d = 0; d < 3; d++) {
        attrs[1].ints[d] = start[d];
        attrs[2].ints[d] = dim[d];
    }
    weft_shape shape = size > 0 ? weft_shape_of(1, &size) : weft_shape_of(3, dim);
    open_rounding(&r, device, &shape, attrs, size > 0 ? 4 : 2);
    float *x = weft_instance_input(r.instance, r.x);
    for (int64_t i = 0; i < (size > 0 ? size : count); i++) {
        int64_t at = i + begin, c = at % dim[2], row = at / dim[2] % dim[1],
                p = at / dim[2] / dim[1];
        x[i] = number((int)(((p + start[0]) * ROWS + row + start[1]) * COLUMNS + c + start[2]));
    }
    memcpy(out, run_rounding(&r, 11), (size_t)(size > 0 ? size : count) * sizeof(*out));
    close_rounding(&r);
}

static void test_parts(void **state)
{
    (void)state;
    static const int64_t parts[][6] = {{0, 0, 0, 5, 7, 9}, {2, 0, 0, 3, 7, 9}, {0, 3, 0, 5, 2, 9},
                                       {0, 0, 4, 5, 7, 5}, {1, 2, 3, 4, 5, 6}, {4, 6, 8, 1, 1, 1}};
    static const char *const devices[] = {"reference", "cpu"};
    uint16_t whole[PLANES * ROWS * COLUMNS], part[PLANES * ROWS * COLUMNS];
    for (size_t d = 0; d < 2; d++)
        for (size_t k = 0; k < sizeof(parts) / sizeof(parts[0]); k++) {
            const int64_t *start = parts[k], *dim = parts[k] + 3;
            int64_t count = dim[0] * dim[1] * dim[2];
            round_part("reference", parts[0], parts[0] + 3, 0, 0, whole);
            for (int64_t begin = -1; begin < count; begin += 1 + count / 3) {
                int64_t size = begin < 0 ? count : count - begin;
                round_part(devices[d], start, dim, begin < 0 ? 0 : begin, begin < 0 ? 0 : size,
                           part);
                for (int64_t i = 0; i < size; i++) {
                    int64_t at = i + (begin < 0 ? 0 : begin), c = at % dim[2];
                    int64_t row = at / dim[2] % dim[1], p = at / dim[2] / dim[1];
                    int64_t place =
                        ((p + start[0]) * ROWS + row + start[1]) * COLUMNS + c + start[2];
                    if (part[i] != whole[place])
                        fail_msg(
                            "%s, part %zu, begin %lld: element %lld is %04x, of the whole %04x",
                            devices[d], k, (long long)begin, (long long)i, part[i], whole[place]);
                }
            }
        }
}

/* --- updates of parameters that are bf16 --- */

enum { WIDTH = 23, STEPS = 5, MOST = 4 * WIDTH * WIDTH };

/* Trains w by the loss sum(w x), and reads w and its states, all bf16. Returns their number. */
static int train(const char *device, const char *optimizer, double lr, double momentum,
                 uint16_t *out)
{
    weft_context *context;
    weft_graph *g;
    weft_store *store;
    weft_instance *instance;
    weft_optimizer_options o;
    weft_optimizer_values values;
    int count = 0;
    weft_shape shape = weft_shape_of(2, (int64_t[]){WIDTH, WIDTH});
    weft_attr axes = {.name = "axes", .count = 2, .ints = {0, 1}};
    assert_ok(weft_context_create(&context));
    assert_ok(weft_context_set_threads(context, 2));
    assert_ok(weft_graph_create(context, WEFT_BF16, &g));
    assert_ok(weft_graph_keep_weights_narrow(g, 5, false));
    weft_value x = weft_graph_leaf(g, WEFT_VALUE_INPUT, "x", WEFT_F32, &shape, (weft_init){0});
    weft_value w = weft_graph_leaf(g, WEFT_VALUE_PARAM, "w", WEFT_F32, &shape,
                                   (weft_init){WEFT_INIT_UNIFORM, 1});
    weft_value loss = weft_graph_node(g, "mul", "product", (weft_value[]){x, w}, 2, NULL, 0);
    loss = weft_graph_node(g, "reduce_sum", "loss", &loss, 1, &axes, 1);
    assert_ok(weft_graph_differentiate(g, loss));
    weft_optimizer_options_init(&o);
    o.name = optimizer;
    o.lr = lr;
    o.momentum = momentum;
    assert_ok(weft_optimizer_build(g, &o, &values));
    weft_value *wanted[] = {&loss, &x};
    assert_ok(weft_graph_narrow(g, wanted, 2));
    assert_ok(weft_store_create(context, device, 3, &store));
    assert_ok(weft_instance_build(store, g, &loss, 1, &instance));
    for (int step = 0; step < STEPS; step++) {
        float *to = weft_instance_input(instance, x);
        for (int i = 0; i < WIDTH * WIDTH; i++)
            to[i] = sinf((float)(i * 37 + step * 101)) * ldexpf(1, i % 9 - 4);
        assert_ok(weft_instance_run(instance, WEFT_PHASE_MICRO));
        assert_ok(weft_instance_run(instance, WEFT_PHASE_UPDATE));
    }
    assert_ok(weft_instance_drain(instance));
    for (int i = 0; i < weft_store_count(store); i++) {
        weft_type type = weft_store_type(store, i);
        if (!weft_shape_equal(&type.shape, &shape)) continue;
        assert_int_equal(type.dtype, WEFT_BF16);
        assert_true(count + WIDTH * WIDTH <= MOST);
        assert_ok(weft_store_read(store, i, out + count));
        count += WIDTH * WIDTH;
    }
    weft_instance_destroy(&instance);
    weft_store_destroy(&store);
    weft_graph_destroy(&g);
    weft_context_destroy(&context);
    return count;
}

/* Devices draw the same numbers, so results differ only where what they round differs in its last
 * bits on both sides of what is drawn; more with products of matrices, whose operands are bf16. */
static void test_updates(void **state)
{
    (void)state;
    static uint16_t want[MOST], have[MOST];
    const char *name;
    for (int k = 0; (name = built_in(WEFT_KIND_OPTIMIZER, k)) != NULL; k++)
        for (int momentum = 0; momentum < 2; momentum++) {
            int count = train("reference", name, 0.01, momentum * 0.9, want), off = 0;
            assert_int_equal(train("cpu", name, 0.01, momentum * 0.9, have), count);
            for (int i = 0; i < count; i++)
                if (want[i] != have[i] &&
                    (++off * 25 > count ||
                     fabs((double)of_bf16(want[i]) - (double)of_bf16(have[i])) >
                         fabs((double)of_bf16(want[i])) / 32 + 1e-3))
                    fail_msg("%s: element %d is %.9g, must be %.9g (%d differ)", name, i,
                             (double)of_bf16(have[i]), (double)of_bf16(want[i]), off);
        }
}

/* With a learning rate of next to nothing parameters stay, bit for bit. */
static void test_no_rate(void **state)
{
    (void)state;
    static uint16_t none[MOST], some[MOST];
    const char *name;
    for (int k = 0; (name = built_in(WEFT_KIND_OPTIMIZER, k)) != NULL; k++) {
        (void)train("cpu", name, 1e-30, 0.9, some);
        if (k == 0) memcpy(none, some, sizeof(none));
        assert_memory_equal(none, some, WIDTH * WIDTH * sizeof(*none));
    }
}

static void test_wrong_type(void **state)
{
    (void)state;
    weft_context *context;
    weft_graph *g;
    assert_ok(weft_context_create(&context));
    assert_ok(weft_graph_create(context, WEFT_F32, &g));
    assert_int_equal(weft_graph_keep_weights_narrow(g, 1, false), WEFT_ERR_ARGUMENT);
    weft_graph_destroy(&g);
    weft_context_destroy(&context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_expectation), cmocka_unit_test(test_special),
        cmocka_unit_test(test_parts),       cmocka_unit_test(test_updates),
        cmocka_unit_test(test_no_rate),     cmocka_unit_test(test_wrong_type),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
