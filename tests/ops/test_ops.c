/* Tests every operator: its gradients by finite differences on the reference device in f64, every
 * device against the reference in f32, and its label signature against its shapes. The cases are
 * the table in op_cases.c; an operator without a case fails the last test. */
#include <math.h>

#include "device/cpu/simd.h"
#include "op_ways.h"

/* --- the harness --- */

static double loss_at(const fixture *f, weft_instance *p)
{
    fixture_feed(f, p);
    assert_ok(weft_instance_run(p, WEFT_PHASE_MICRO));
    return fixture_get(f, p, f->loss, 0);
}

static void check_differences(fixture *f, weft_instance *p, const char *name)
{
    const double h = 1e-5;
    int checked = 0;
    for (int i = 0; i < f->input_count; i++) {
        weft_value dx = weft_graph_gradient(f->graph, f->inputs[i]);
        if (dx == WEFT_NO_VALUE) continue;
        int64_t most = paths_alone() ? 4 : 60, stride = WEFT_MAX(f->sizes[i] / most, 1);
        (void)loss_at(f, p);
        double *gradient = malloc((size_t)f->sizes[i] * sizeof(double));
        for (int64_t j = 0; j < f->sizes[i]; j++) gradient[j] = fixture_get(f, p, dx, j);
        for (int64_t j = 0; j < f->sizes[i]; j += stride, checked++) {
            double x = f->data[i][j];
            f->data[i][j] = x + h;
            double up = loss_at(f, p);
            f->data[i][j] = x - h;
            double slope = (up - loss_at(f, p)) / (2 * h);
            f->data[i][j] = x;
            if (fabs(slope - gradient[j]) > 1e-6 * fmax(1, fabs(slope)))
                fail_msg("%s: input %d, element %lld: gradient %.9g, difference %.9g", name, i,
                         (long long)j, gradient[j], slope);
        }
        free(gradient);
    }
    assert_true(checked > 0);
}

static void test_gradients(void **state)
{
    (void)state;
    for (int c = 0; c < op_case_count; c++) {
        fixture f;
        weft_store *store;
        weft_instance *p;
        weft_value fetch[MOST_INPUTS + 1];
        int count = 0;
        if (op_cases[c].no_gradient) continue;
        fixture_start(&f, &op_cases[c], WEFT_F64);
        fetch[count++] = f.loss;
        for (int i = 0; i < f.input_count; i++)
            if (weft_graph_gradient(f.graph, f.inputs[i]) != WEFT_NO_VALUE)
                fetch[count++] = weft_graph_gradient(f.graph, f.inputs[i]);
        assert_ok(weft_store_create(f.context, "reference", 1, &store));
        assert_ok(weft_instance_build(store, f.graph, fetch, count, &p));
        check_differences(&f, p, op_cases[c].name);
        weft_instance_destroy(&p);
        weft_store_destroy(&store);
        fixture_end(&f);
    }
}

/* Runs a case on a device, and returns all outputs and gradients in one array; sizes: of each. */
static double *run_on(const op_case *c, const char *device, int way, op_run *run)
{
    op_run_open(run, c, WEFT_F32, device, way, false);
    double *all = malloc((size_t)WEFT_MAX(run->total, 1) * sizeof(double));
    op_run_go(run, all);
    op_run_close(run);
    return all;
}

/* Returns the largest number of candidates of a group. */
static int compare(const op_case *c, const char *device, int way)
{
    op_run run, other;
    double tolerance = c->tolerance > 0 ? c->tolerance : 2e-5;
    double *want = run_on(c, "reference", -1, &other), *have = run_on(c, device, way, &run);
    for (int i = 0, at = 0; i < run.count; i++) {
        double largest = 1e-3;
        for (int64_t j = 0; j < run.sizes[i]; j++) largest = fmax(largest, fabs(want[at + j]));
        for (int64_t j = 0; j < run.sizes[i]; j++, at++)
            if (!(fabs(want[at] - have[at]) <= tolerance * largest))
                fail_msg("%s on %s, candidate %d: result %d, element %lld: %.9g, reference %.9g",
                         c->name, device, way, i, (long long)j, have[at], want[at]);
    }
    free(want);
    free(have);
    return run.ways;
}

/* Compares each device with the reference, once for each candidate that it has for a group. */
static void test_devices(void **state)
{
    (void)state;
    int several = 0;
    for (int d = 0; built_in(WEFT_KIND_DEVICE, d); d++)
        for (int c = 0; c < op_case_count; c++) {
            int ways = compare(&op_cases[c], built_in(WEFT_KIND_DEVICE, d), -1);
            several += ways > 1;
            for (int way = 0; ways > 1 && way < ways; way++)
                (void)compare(&op_cases[c], built_in(WEFT_KIND_DEVICE, d), way);
        }
    assert_true(several > 0); /* otherwise no candidate was ever forced */
}

/* --- precision --- */

enum { CHANNELS = 32, MOST_BATCH = 2 };

/* Samples of one channel differ by a small fraction of their value only. */
static float sample_at(int64_t b, int64_t c)
{
    return 1.1f + 0.37f * (float)c + (float)b * 1e-5f * (float)(1 + c % 7);
}

static weft_value leaf(weft_graph *g, const char *name, int64_t n)
{
    weft_shape shape = weft_shape_of(1, &n);
    return weft_graph_leaf(g, WEFT_VALUE_INPUT, name, WEFT_F32, &shape,
                           (weft_init){WEFT_INIT_CONSTANT, 0});
}

static void fill(const weft_instance *p, weft_value v, int64_t n, float value)
{
    float *to = weft_instance_input(p, v);
    assert_non_null(to);
    for (int64_t i = 0; i < n; i++) to[i] = value;
}

/* Compares batch norm of one or two samples with (x - mean) / sqrt(variance + epsilon), computed in
 * f64: the f32 result must be right to the last digits. */
static void check_few_samples(const char *device, int64_t batch)
{
    weft_context *context;
    weft_graph *g;
    weft_store *store;
    weft_instance *p;
    assert_ok(weft_context_create(&context));
    assert_ok(weft_graph_create(context, WEFT_F32, &g));
    weft_shape shape = weft_shape_of(2, (int64_t[]){batch, CHANNELS});
    weft_value x = weft_graph_leaf(g, WEFT_VALUE_INPUT, "x", WEFT_F32, &shape,
                                   (weft_init){WEFT_INIT_CONSTANT, 0});
    weft_value gamma = leaf(g, "gamma", CHANNELS), beta = leaf(g, "beta", CHANNELS);
    weft_value weights = leaf(g, "weights", batch);
    weft_value counts = weft_graph_node(g, "batch_count", "counts", &weights, 1, NULL, 0);
    weft_value mean =
        weft_graph_node(g, "batch_mean", "mean", (weft_value[]){x, weights, counts}, 3, NULL, 0);
    weft_value variance = weft_graph_node(g, "batch_variance", "variance",
                                          (weft_value[]){x, weights, counts, mean}, 4, NULL, 0);
    weft_value y = weft_graph_node(g, "batch_norm", "y",
                                   (weft_value[]){x, gamma, beta, weights, counts, mean, variance},
                                   7, NULL, 0);
    assert_ok(weft_store_create(context, device, 1, &store));
    assert_ok(weft_instance_build(store, g, &y, 1, &p));
    fill(p, gamma, CHANNELS, 1);
    fill(p, beta, CHANNELS, 0);
    fill(p, weights, batch, 1 / (float)batch);
    float *to = weft_instance_input(p, x);
    for (int64_t i = 0; i < batch * CHANNELS; i++) to[i] = sample_at(i / CHANNELS, i % CHANNELS);
    assert_ok(weft_instance_run(p, WEFT_PHASE_MICRO));
    const float *have = weft_instance_output(p, y);
    for (int64_t c = 0; c < CHANNELS; c++) {
        double m = 0, v = 0;
        for (int64_t b = 0; b < batch; b++) m += (double)sample_at(b, c) / (double)batch;
        for (int64_t b = 0; b < batch; b++)
            v += pow((double)sample_at(b, c) - m, 2) / (double)batch;
        for (int64_t b = 0; b < batch; b++) {
            double want = ((double)sample_at(b, c) - m) / sqrt(v + 1e-5);
            if (fabs((double)have[b * CHANNELS + c] - want) > 4e-7 * fabs(want))
                fail_msg("%s, %d samples: %.9g, should be %.9g", device, (int)batch,
                         (double)have[b * CHANNELS + c], want);
        }
    }
    weft_instance_destroy(&p);
    weft_store_destroy(&store);
    weft_graph_destroy(&g);
    weft_context_destroy(&context);
}

static void test_few_samples(void **state)
{
    (void)state;
    for (int d = 0; built_in(WEFT_KIND_DEVICE, d); d++)
        for (int64_t batch = 1; batch <= MOST_BATCH; batch++)
            check_few_samples(built_in(WEFT_KIND_DEVICE, d), batch);
}

/* Whether subnormal numbers can be treated as zero here: valgrind, for one, does not do so. */
static bool can_flush(void)
{
    unsigned old = weft_flush_subnormals();
    volatile float small = 1e-39f, twice = small * 2;
    weft_restore_subnormals(old);
    return twice == 0;
}

/* Moments of a parameter without gradients decay until they are subnormal. The updates of the cpu
 * device treat subnormal numbers as zero, since they make a pass take twice as long. */
static void test_updates_flush(void **state)
{
    (void)state;
    if (!can_flush()) skip();
    enum { N = 37 };
    weft_context *context;
    weft_graph *g;
    weft_store *store;
    weft_instance *p;
    weft_shape scalar = {.rank = 0};
    assert_ok(weft_context_create(&context));
    assert_ok(weft_graph_create(context, WEFT_F32, &g));
    weft_value w = leaf(g, "w", N), dw = leaf(g, "dw", N);
    weft_value lr = weft_graph_leaf(g, WEFT_VALUE_INPUT, "lr", WEFT_F32, &scalar,
                                    (weft_init){WEFT_INIT_CONSTANT, 0});
    weft_value next = weft_graph_node(g, "sgd", "sgd", (weft_value[]){w, dw, lr}, 3, NULL, 0);
    assert_ok(weft_store_create(context, "cpu", 1, &store));
    assert_ok(weft_instance_build(store, g, &next, 1, &p));
    fill(p, w, N, 0);
    fill(p, dw, N, 1e-39f);
    fill(p, lr, 1, 1);
    assert_ok(weft_instance_run(p, WEFT_PHASE_MICRO));
    for (int i = 0; i < N; i++) assert_true(((const float *)weft_instance_output(p, next))[i] == 0);
    volatile float small = 1e-39f;
    assert_true(small * 2 > 0); /* outside of an update, subnormal numbers count */
    weft_instance_destroy(&p);
    weft_store_destroy(&store);
    weft_graph_destroy(&g);
    weft_context_destroy(&context);
}

static void test_labels(void **state)
{
    (void)state;
    for (int c = 0; c < op_case_count; c++) {
        fixture f;
        fixture_start(&f, &op_cases[c], WEFT_F32);
        for (int n = 0; n < weft_graph_node_count(f.graph); n++) {
            weft_shape shapes[64];
            const weft_value *in;
            weft_value first;
            char *labels;
            int inputs = weft_graph_node_inputs(f.graph, n, &in);
            int outputs = weft_graph_node_outputs(f.graph, n, &first);
            for (int i = 0; i < inputs; i++)
                shapes[i] = weft_graph_value_type(f.graph, in[i]).shape;
            for (int i = 0; i < outputs; i++)
                shapes[inputs + i] = weft_graph_value_type(f.graph, first + i).shape;
            assert_ok(weft_graph_node_labels(f.graph, n, &labels));
            if (weft_labels_check(labels, shapes, inputs, outputs) != WEFT_OK)
                fail_msg("%s, node %s: %s", op_cases[c].name, weft_graph_node_name(f.graph, n),
                         weft_last_message());
            weft_free(labels);
        }
        fixture_end(&f);
    }
}

/* Adds node n of a case again with one input more or fewer; whether that is refused by its
 * number. */
static bool refuses_inputs(const op_case *c, int n, int change)
{
    fixture f;
    const weft_value *in;
    weft_value more[MOST_INPUTS + 1];
    fixture_start(&f, c, WEFT_F32);
    int count = weft_graph_node_inputs(f.graph, n, &in);
    for (int i = 0; i <= count && i <= MOST_INPUTS; i++) more[i] = in[i < count ? i : count - 1];
    (void)weft_graph_node(f.graph, weft_graph_node_op(f.graph, n), "again", more, count + change,
                          NULL, 0);
    bool refused = weft_graph_status(f.graph) == WEFT_ERR_ARGUMENT &&
                   strstr(weft_last_message(), "inputs") != NULL;
    fixture_end(&f);
    return refused;
}

/* Each operator refuses one input more and one fewer than in its case, except for those that take
 * any number of inputs (concat, accumulate_tree), optional ones (sgd, schedule, rotary, attention),
 * and recurrences, whose states and lengths are optional. */
static void test_number_of_inputs(void **state)
{
    (void)state;
    static const char *const any[] = {"concat",    "sgd",       "schedule",       "accumulate_tree",
                                      "rotary",    "attention", "attention_grad", "lstm",
                                      "lstm_grad", "gru",       "gru_grad"};
    for (int c = 0; c < op_case_count; c++) {
        fixture f;
        fixture_start(&f, &op_cases[c], WEFT_F32);
        int nodes = weft_graph_node_count(f.graph);
        fixture_end(&f);
        for (int n = 0; n < nodes; n++) {
            const weft_value *in;
            fixture_start(&f, &op_cases[c], WEFT_F32);
            char name[64];
            (void)snprintf(name, sizeof(name), "%s", weft_graph_node_op(f.graph, n));
            int count = weft_graph_node_inputs(f.graph, n, &in);
            fixture_end(&f);
            bool free_number = false;
            for (size_t i = 0; i < sizeof(any) / sizeof(any[0]); i++)
                free_number = free_number || strcmp(any[i], name) == 0;
            if (count == 0 || count >= MOST_INPUTS || free_number) continue;
            for (int change = -1; change <= 1; change += 2)
                if (!refuses_inputs(&op_cases[c], n, change))
                    fail_msg("%s takes %d inputs as well as %d", name, count + change, count);
        }
    }
}

static void test_every_operator_has_a_case(void **state)
{
    (void)state;
    enum { MOST = 1000 };
    static bool found[MOST];
    for (int c = 0; c < op_case_count; c++) {
        fixture f;
        fixture_start(&f, &op_cases[c], WEFT_F32);
        for (int n = 0; n < weft_graph_node_count(f.graph); n++)
            for (int o = 0; built_in(WEFT_KIND_OPERATOR, o); o++) {
                assert_true(o < MOST);
                const char *op = built_in(WEFT_KIND_OPERATOR, o);
                found[o] = found[o] || strcmp(weft_graph_node_op(f.graph, n), op) == 0;
            }
        fixture_end(&f);
    }
    for (int o = 0; built_in(WEFT_KIND_OPERATOR, o); o++) {
        const char *op = built_in(WEFT_KIND_OPERATOR, o);
        /* Transfers need several ranks; test_rewrite.c tests them. */
        if (!found[o] && !weft_operator_is_transfer(fresh_context(), op))
            fail_msg("operator %s stands in no case", op);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients),
        cmocka_unit_test(test_devices),
        cmocka_unit_test(test_few_samples),
        cmocka_unit_test(test_updates_flush),
        cmocka_unit_test(test_labels),
        cmocka_unit_test(test_number_of_inputs),
        cmocka_unit_test(test_every_operator_has_a_case),
    };
    return cmocka_run_group_tests_name("ops", tests, NULL, NULL);
}
