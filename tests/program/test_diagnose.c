/* The diagnosis of a program: the instruction that made a number that is not finite, the nodes that
 * run on the reference device, and the time of each node. */
#include <math.h>

#include "net_fixture.h"

static void test_diagnose_names_the_instruction(void **state)
{
    (void)state;
    net n;
    char *where;
    net_make(&n, "lenet", "cpu", true, 2);
    assert_ok(weft_instance_diagnose(n.program, &where, NULL, NULL));
    assert_null(where);
    ((float *)weft_instance_input(n.program, PORT(n.values, FEATURES)))[5] = NAN;
    assert_ok(weft_instance_diagnose(n.program, &where, NULL, NULL));
    assert_non_null(strstr(where, "input 'x'"));
    weft_free(where);
    ((float *)weft_instance_input(n.program, PORT(n.values, FEATURES)))[5] = 3e38f;
    ((float *)weft_instance_input(n.program, PORT(n.values, FEATURES)))[6] = 3e38f;
    int at = weft_store_find(n.store, "conv1/weight");
    float big[32 * 25];
    for (int i = 0; i < 32 * 25; i++) big[i] = 100;
    assert_ok(weft_store_write(n.store, at, big));
    assert_ok(weft_instance_diagnose(n.program, &where, NULL, NULL));
    assert_non_null(where);
    assert_non_null(strstr(where, "conv1"));
    weft_free(where);
    net_drop(&n);
}

/* The diagnosis looks at the slot that is set, and at no other. */
static void test_diagnose_looks_at_its_slot(void **state)
{
    (void)state;
    net n;
    weft_instance *program;
    weft_program_options o;
    char *where;
    net_make(&n, "lenet", "cpu", true, 2);
    weft_program_options_init(&o);
    o.fetch = &(weft_value){PORT(n.values, LOSS)};
    o.fetch_count = 1;
    o.slots = 3;
    assert_ok(weft_instance_build_with(n.store, n.graph, &o, NULL, &program));
    for (int bad = 0; bad < o.slots; bad++) {
        assert_ok(weft_instance_set_slot(program, bad));
        float *x = weft_instance_input(program, PORT(n.values, FEATURES));
        x[5] = bad == 1 ? NAN : 3e38f;
        x[6] = -x[5];
        for (int s = 0; s < o.slots; s++) {
            assert_ok(weft_instance_set_slot(program, s));
            assert_ok(weft_instance_diagnose(program, &where, NULL, NULL));
            if (bad == 1 && s == bad) assert_non_null(strstr(where, "input 'x'"));
            if (s != bad) assert_null(where);
            weft_free(where);
        }
        x[5] = x[6] = 0;
    }
    weft_instance_destroy(&program);
    net_drop(&n);
}

static void count_line(void *user, weft_log_level level, const char *text)
{
    assert_int_equal(level, WEFT_LOG_INFO);
    if (strstr(text, "'s' (tanh) runs on the device reference")) ++*(int *)user;
}

/* Operators that run on the reference device are logged, and counted in the description. */
static void test_fallbacks_are_told(void **state)
{
    (void)state;
    weft_context *context;
    weft_graph *g;
    weft_store *store;
    weft_instance *p;
    int lines = 0;
    weft_shape shape = weft_shape_of(2, (int64_t[]){2, 3});
    assert_ok(weft_context_create(&context));
    weft_context_set_log(context, count_line, &lines);
    assert_ok(weft_graph_create(context, WEFT_F32, &g));
    assert_ok(weft_store_create(context, "cpu", 1, &store));
    weft_value x = weft_graph_leaf(g, WEFT_VALUE_INPUT, "x", WEFT_F64, &shape,
                                   (weft_init){WEFT_INIT_CONSTANT, 0});
    weft_value s = weft_graph_node(g, "tanh", "s", &x, 1, NULL, 0);
    assert_ok(weft_instance_build(store, g, &s, 1, &p));
    assert_int_equal(lines, weft_program_describe(weft_instance_program(p)).fallbacks);
    assert_int_equal(lines, 1);
    weft_instance_destroy(&p);
    weft_store_destroy(&store);
    weft_graph_destroy(&g);
    weft_context_destroy(&context);
}

/* The profile gives the time of each node in forward and backward; updates are not measured. */
static void test_profile(void **state)
{
    (void)state;
    for (int d = 0; built_in(WEFT_KIND_DEVICE, d); d++) {
        net n;
        int timed = 0;
        net_make(&n, "lenet", built_in(WEFT_KIND_DEVICE, d), true, 3);
        int count = weft_graph_node_count(n.graph);
        double *costs = malloc((size_t)count * sizeof(*costs));
        for (int passes = 1; passes <= 4; passes += 3) {
            for (int i = 0; i < count; i++) costs[i] = NAN;
            assert_refused(weft_instance_profile(n.program, 0, costs), WEFT_ERR_ARGUMENT,
                           "0 passes, must be from 1");
            assert_ok(weft_instance_profile(n.program, passes, costs));
            for (int i = 0; i < count; i++) {
                const char *op = weft_graph_node_op(n.graph, i);
                bool heavy = strcmp(op, "conv") == 0 || strcmp(op, "dense") == 0;
                assert_true(costs[i] >= 0 && (costs[i] > 0 || !heavy));
                assert_true(costs[i] == 0 || strcmp(op, "adam") != 0);
                timed += heavy;
            }
        }
        assert_int_equal(timed, 2 * 4);
        free(costs);
        net_drop(&n);
    }
}

static void test_trace(void **state)
{
    (void)state;
    net n;
    char path[] = "/tmp/weft-trace-XXXXXX", text[256];
    int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    net_make(&n, "mlp", "cpu", true, 2);
    assert_ok(weft_instance_trace(n.program, 100));
    net_step(&n);
    assert_ok(weft_instance_trace_write(n.program, path));
    FILE *f = fopen(path, "r");
    assert_non_null(fgets(text, sizeof(text), f));
    assert_string_equal(text, "{\"traceEvents\":[\n");
    fclose(f);
    assert_refused(weft_instance_trace_write(n.program, "/nowhere/t.json"), WEFT_ERR_IO,
                   "/nowhere");
    unlink(path);
    net_drop(&n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_diagnose_names_the_instruction),
        cmocka_unit_test(test_diagnose_looks_at_its_slot),
        cmocka_unit_test(test_fallbacks_are_told),
        cmocka_unit_test(test_profile),
        cmocka_unit_test(test_trace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
