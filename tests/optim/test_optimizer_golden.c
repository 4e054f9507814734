/* Ten steps of every optimizer that is built of small operators against the numbers that PyTorch,
 * or the formulas of its paper, give in double precision (golden/optimizer_rules.py), on every
 * device.
 */
#include <math.h>

#include "support.h"

enum { TENSORS = 3, NUMBERS = 46, STEPS = 10, MOST_LINE = 4096 };
static const weft_shape shapes[TENSORS] = {{2, {4, 6}}, {1, {7}}, {2, {5, 3}}};
static const int sizes[TENSORS] = {24, 7, 15};
static const char *const names[TENSORS] = {"p", "q", "r"}, *const inputs[TENSORS] = {"g0", "g1",
                                                                                     "g2"};

static void read_numbers(FILE *file, double *out)
{
    for (int i = 0; i < NUMBERS; i++) assert_int_equal(fscanf(file, "%lf", &out[i]), 1);
}

/* A graph whose parameters get the inputs as gradients. */
typedef struct bench {
    weft_context *context;
    weft_graph *graph;
    weft_store *store;
    weft_instance *instance;
    weft_value w[TENSORS], gradient[TENSORS];
} bench;

static weft_value product_sum(bench *b, int t)
{
    const weft_init zero = {WEFT_INIT_CONSTANT, 0};
    weft_attr axes = {.name = "axes", .count = shapes[t].rank, .ints = {0, 1}};
    weft_dtype real = weft_graph_real(b->graph);
    b->w[t] = weft_graph_leaf(b->graph, WEFT_VALUE_PARAM, names[t], real, &shapes[t], zero);
    b->gradient[t] = weft_graph_leaf(b->graph, WEFT_VALUE_INPUT, inputs[t], real, &shapes[t], zero);
    weft_value in[] = {b->w[t], b->gradient[t]};
    weft_value product = weft_graph_node(b->graph, "mul", "product", in, 2, NULL, 0);
    return weft_graph_node(b->graph, "reduce_sum", "sum", &product, 1, &axes, 1);
}

static void open_bench(bench *b, const char *device, weft_dtype real, const char *spec, double lr,
                       double decay)
{
    weft_optimizer_options o;
    weft_optimizer_values values;
    weft_optimizer_options_init(&o);
    o.name = spec;
    o.lr = lr;
    o.weight_decay = decay;
    assert_ok(weft_context_create(&b->context));
    assert_ok(weft_graph_create(b->context, real, &b->graph));
    weft_value loss = product_sum(b, 0);
    for (int t = 1; t < TENSORS; t++)
        loss = weft_graph_node(b->graph, "add", "loss", (weft_value[]){loss, product_sum(b, t)}, 2,
                               NULL, 0);
    assert_ok(weft_graph_differentiate(b->graph, loss));
    assert_ok(weft_optimizer_build(b->graph, &o, &values));
    assert_ok(weft_store_create(b->context, device, 1, &b->store));
    assert_ok(weft_instance_build(b->store, b->graph, &loss, 1, &b->instance));
}

static void close_bench(bench *b)
{
    weft_instance_destroy(&b->instance);
    weft_store_destroy(&b->store);
    weft_graph_destroy(&b->graph);
    weft_context_destroy(&b->context);
}

static void put(const bench *b, void *to, const double *from, int count)
{
    for (int i = 0; i < count; i++)
        if (weft_graph_real(b->graph) == WEFT_F64)
            ((double *)to)[i] = from[i];
        else
            ((float *)to)[i] = (float)from[i];
}

static void run_case(const char *device, weft_dtype real, const char *spec, double lr, double decay,
                     double numbers[STEPS + 1][NUMBERS], const double *want)
{
    bench b;
    double room[NUMBERS];
    open_bench(&b, device, real, spec, lr, decay);
    for (int t = 0, at = 0; t < TENSORS; at += sizes[t++]) {
        put(&b, room, numbers[0] + at, sizes[t]);
        assert_ok(weft_store_write(b.store, weft_store_find(b.store, names[t]), room));
    }
    for (int step = 1; step <= STEPS; step++) {
        for (int t = 0, at = 0; t < TENSORS; at += sizes[t++])
            put(&b, weft_instance_input(b.instance, b.gradient[t]), numbers[step] + at, sizes[t]);
        assert_ok(weft_instance_run(b.instance, WEFT_PHASE_MICRO));
        assert_ok(weft_instance_run(b.instance, WEFT_PHASE_UPDATE));
    }
    for (int t = 0, at = 0; t < TENSORS; at += sizes[t++]) {
        assert_ok(weft_store_read(b.store, weft_store_find(b.store, names[t]), room));
        for (int i = 0; i < sizes[t]; i++) {
            double have = real == WEFT_F64 ? room[i] : (double)((const float *)(void *)room)[i];
            double limit = (real == WEFT_F64 ? 1e-12 : 2e-5) * fmax(1, fabs(want[at + i]));
            if (!(fabs(have - want[at + i]) <= limit))
                fail_msg("%s on %s, %s: number %d is %.17g, must be %.17g", spec, device,
                         real == WEFT_F64 ? "f64" : "f32", at + i, have, want[at + i]);
        }
    }
    close_bench(&b);
}

static void test_steps(void **state)
{
    (void)state;
    static double numbers[STEPS + 1][NUMBERS], want[NUMBERS];
    char spec[MOST_LINE], cases[MOST_LINE] = "sgd adam adamw "; /* test_optimizer_extremes.c */
    double lr, decay;
    FILE *file = fopen(WEFT_TESTS_DIR "/golden/optimizer_rules.txt", "r");
    assert_non_null(file);
    for (int i = 0; i <= STEPS; i++) read_numbers(file, numbers[i]);
    while (fscanf(file, "%4095s %lf %lf", spec, &lr, &decay) == 3) {
        size_t used = strlen(cases);
        (void)snprintf(cases + used, sizeof(cases) - used, "%.*s ", (int)strcspn(spec, ":"), spec);
        read_numbers(file, want);
        for (int d = 0; built_in(WEFT_KIND_DEVICE, d); d++)
            for (int real = 0; real < 2; real++)
                run_case(built_in(WEFT_KIND_DEVICE, d), real ? WEFT_F64 : WEFT_F32, spec, lr, decay,
                         numbers, want);
    }
    (void)fclose(file);
    for (int o = 0; built_in(WEFT_KIND_OPTIMIZER, o); o++)
        if (!strstr(cases, built_in(WEFT_KIND_OPTIMIZER, o)))
            fail_msg("optimizer %s has no case", built_in(WEFT_KIND_OPTIMIZER, o));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps),
    };
    return cmocka_run_group_tests_name("optimizer_golden", tests, NULL, NULL);
}
