/* Lowering: stores, fetches, fusion, sharing in place, phases, and the step path without
 * allocation. */
#include <dlfcn.h>
#include <malloc.h>
#include <math.h>
#include <stdatomic.h>

#include "support.h"

#ifndef WEFT_SANITIZED
/* Counts allocations that this program's own code asks for; those from inside other libraries
 * (oneDNN keeps its arguments in a map for every call) are told apart by the caller's address. */
static atomic_int own_allocations, all_allocations;
static atomic_bool counting;
extern char __executable_start, etext;
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *malloc(size_t size);
void *calloc(size_t count, size_t size);

static void count(const void *caller)
{
    if (!atomic_load(&counting)) return;
    atomic_fetch_add(&all_allocations, 1);
    if ((const char *)caller >= &__executable_start && (const char *)caller < &etext)
        atomic_fetch_add(&own_allocations, 1);
}

void *malloc(size_t size)
{
    count(__builtin_return_address(0));
    return __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
    count(__builtin_return_address(0));
    return __libc_calloc(n, size);
}
#endif

typedef struct net {
    weft_context *context;
    weft_graph *graph;
    weft_store *store;
    weft_instance *program;
    weft_model_values values;
} net;

static void make(net *n, const char *model, const char *device, bool training, int64_t batch)
{
    weft_model_options o;
    weft_optimizer_options optimizer;
    weft_optimizer_values ignored;
    weft_model_options_init(&o);
    o.model = model;
    o.sample = weft_shape_of(3, (int64_t[]){1, 28, 28});
    o.batch = batch;
    o.classes = 10;
    o.training = training;
    assert_ok(weft_context_create(&n->context));
    assert_ok(weft_graph_create(n->context, WEFT_F32, &n->graph));
    assert_ok(weft_model_build(n->graph, &o, &n->values));
    if (training) {
        assert_ok(weft_graph_differentiate(n->graph, PORT(n->values, LOSS)));
        weft_optimizer_options_init(&optimizer);
        assert_ok(weft_optimizer_build(n->graph, &optimizer, &ignored));
    }
    assert_ok(weft_store_create(n->context, device, 7, &n->store));
    weft_value fetch[] = {PORT(n->values, LOSS), PORT(n->values, LOGITS)};
    assert_ok(weft_instance_build(n->store, n->graph, fetch, 2, &n->program));
    float *x = weft_instance_input(n->program, PORT(n->values, FEATURES));
    float *w = weft_instance_input(n->program, PORT(n->values, WEIGHTS));
    int32_t *y = weft_instance_input(n->program, PORT(n->values, TARGET));
    for (int64_t i = 0; i < batch * 784; i++) x[i] = (float)(i * 37 % 101) / 101;
    for (int64_t i = 0; i < batch; i++) {
        w[i] = 1.0f / (float)batch;
        y[i] = (int32_t)(i % 10);
    }
}

static void drop(net *n)
{
    weft_instance_destroy(&n->program);
    weft_store_destroy(&n->store);
    weft_graph_destroy(&n->graph);
    weft_context_destroy(&n->context);
}

static void step(net *n)
{
    assert_ok(weft_instance_run(n->program, WEFT_PHASE_MICRO));
    assert_ok(weft_instance_run(n->program, WEFT_PHASE_UPDATE));
}

static void test_step_allocates_nothing(void **state)
{
    (void)state;
#ifdef WEFT_SANITIZED
    skip();
#else
    for (int d = 0; built_in(WEFT_KIND_DEVICE, d); d++) {
        net n;
        make(&n, "lenet", built_in(WEFT_KIND_DEVICE, d), true, 3);
        for (int i = 0; i < 2; i++) step(&n); /* thread pools start with the first */
        atomic_store(&counting, true);
        for (int i = 0; i < 3; i++) step(&n);
        atomic_store(&counting, false);
        print_message("%s: %d allocations of our own in 3 steps, %d in libraries below\n",
                      built_in(WEFT_KIND_DEVICE, d), atomic_load(&own_allocations),
                      atomic_load(&all_allocations) - atomic_load(&own_allocations));
        assert_int_equal(atomic_load(&own_allocations), 0);
        atomic_store(&all_allocations, 0);
        drop(&n);
    }
#endif
}

static void test_store_round_trip(void **state)
{
    (void)state;
    for (int d = 0; built_in(WEFT_KIND_DEVICE, d); d++) {
        net n;
        make(&n, "inception", built_in(WEFT_KIND_DEVICE, d), true, 2);
        for (int i = 0; i < weft_store_count(n.store); i++) {
            weft_type type = weft_store_type(n.store, i);
            size_t bytes = weft_type_bytes(&type);
            unsigned char *in = malloc(bytes), *back = malloc(bytes);
            for (size_t b = 0; b < bytes; b++) in[b] = (unsigned char)(b * 7 % 97);
            assert_ok(weft_store_write(n.store, i, in));
            assert_ok(weft_store_read(n.store, i, back));
            assert_memory_equal(in, back, bytes);
            free(in);
            free(back);
        }
        drop(&n);
    }
}

static int words_in(const char *text, const char *word)
{
    int count = 0;
    for (const char *at = text; (at = strstr(at, word)); at++) count++;
    return count;
}

static void test_fusion_is_visible(void **state)
{
    (void)state;
    net n;
    char *text;
    make(&n, "vgg11", "cpu", false, 2);
    assert_ok(weft_program_text(weft_instance_program(n.program), &text));
    assert_int_equal(words_in(text, "conv+bias+relu"), 8);
    assert_int_equal(words_in(text, "dense+bias+relu"), 1);
    assert_int_equal(words_in(text, "micro  relu"), 0);
    weft_free(text);
    drop(&n);
    make(&n, "lenet", "cpu", true, 2);
    assert_ok(weft_program_text(weft_instance_program(n.program), &text));
    assert_int_equal(words_in(text, "conv_dw+reduce_sum"), 2);
    assert_int_equal(words_in(text, "dense_dw+reduce_sum"), 2);
    weft_free(text);
    drop(&n);
}

/* Given statistics are folded into the convolution before them. */
static void test_inference_folds_batch_norm(void **state)
{
    (void)state;
    static const char yaml[] = "layers:\n  - {type: conv, filters: 32, kernel: 3}\n"
                               "  - {type: batch_norm}\n  - {type: gelu}\n"
                               "  - {type: dense, units: classes}\n";
    weft_context *context;
    weft_graph *g;
    weft_store *store;
    weft_instance *p;
    weft_model_values v;
    weft_model_options o;
    char *text;
    weft_model_options_init(&o);
    o.sample = weft_shape_of(3, (int64_t[]){3, 9, 9});
    o.classes = 3;
    assert_ok(weft_context_create(&context));
    assert_ok(weft_graph_create(context, WEFT_F32, &g));
    assert_ok(weft_model_build_text(g, &o, "net", yaml, sizeof(yaml) - 1, &v));
    assert_ok(weft_store_create(context, "cpu", 1, &store));
    assert_ok(weft_instance_build(store, g, &(weft_value){PORT(v, LOGITS)}, 1, &p));
    assert_ok(weft_program_text(weft_instance_program(p), &text));
    assert_int_equal(words_in(text, "conv+bias+batch_norm_infer+gelu"), 1);
    weft_free(text);
    weft_instance_destroy(&p);
    weft_store_destroy(&store);
    weft_graph_destroy(&g);
    weft_context_destroy(&context);
}

/* Parameters and moments stay where they lie: updates never reorder them. (Which layouts forward
 * and backward want, and so whether they turn a weight, depends on the processor.) */
static void test_layouts_are_kept(void **state)
{
    (void)state;
    net n;
    char *text;
    make(&n, "lenet", "cpu", true, 100);
    assert_ok(weft_program_text(weft_instance_program(n.program), &text));
    assert_int_equal(words_in(text, "update adam"), 8);
    for (const char *at = text; (at = strstr(at, "update reorder ")); at++)
        assert_non_null(strstr(at, "/d")); /* a gradient, at the most */
    assert_int_equal(words_in(text, "reorder fc1/weight/m"), 0);
    assert_int_equal(words_in(text, "reorder fc1/weight/v"), 0);
    weft_free(text);
    drop(&n);
}

/* Two programs on one store see the same parameters. */
static void test_programs_share_a_store(void **state)
{
    (void)state;
    for (int d = 0; built_in(WEFT_KIND_DEVICE, d); d++) {
        net n;
        weft_graph *eval;
        weft_instance *second;
        weft_model_values values;
        weft_model_options o;
        make(&n, "lenet", built_in(WEFT_KIND_DEVICE, d), true, 4);
        weft_model_options_init(&o);
        o.sample = weft_shape_of(3, (int64_t[]){1, 28, 28});
        o.batch = 4;
        o.classes = 10;
        assert_ok(weft_graph_create(n.context, WEFT_F32, &eval));
        assert_ok(weft_model_build(eval, &o, &values));
        assert_ok(
            weft_instance_build(n.store, eval, &(weft_value){PORT(values, LOGITS)}, 1, &second));
        step(&n);
        memcpy(weft_instance_input(second, PORT(values, FEATURES)),
               weft_instance_input(n.program, PORT(n.values, FEATURES)), 4 * 784 * sizeof(float));
        assert_ok(weft_instance_run(second, WEFT_PHASE_MICRO));
        assert_ok(weft_instance_run(n.program, WEFT_PHASE_MICRO));
        const float *a = weft_instance_output(second, PORT(values, LOGITS));
        const float *b = weft_instance_output(n.program, PORT(n.values, LOGITS));
        for (int i = 0; i < 40; i++) assert_true(fabsf(a[i] - b[i]) < 1e-5f);
        weft_instance_destroy(&second);
        weft_graph_destroy(&eval);
        drop(&n);
    }
}

static void test_diagnose_names_the_instruction(void **state)
{
    (void)state;
    net n;
    char *where;
    make(&n, "lenet", "cpu", true, 2);
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
    drop(&n);
}

/* The slot that is asked for is the one that is looked at. */
static void test_diagnose_looks_at_its_slot(void **state)
{
    (void)state;
    net n;
    weft_instance *program;
    weft_program_options o;
    char *where;
    make(&n, "lenet", "cpu", true, 2);
    weft_program_options_init(&o);
    o.fetch = &(weft_value){PORT(n.values, LOSS)};
    o.fetch_count = 1;
    o.slots = 3;
    assert_ok(weft_instance_build_with(n.store, n.graph, &o, NULL, &program));
    for (int bad = 0; bad < o.slots; bad++) {
        weft_instance_set_slot(program, bad);
        float *x = weft_instance_input(program, PORT(n.values, FEATURES));
        x[5] = bad == 1 ? NAN : 3e38f;
        x[6] = -x[5];
        for (int s = 0; s < o.slots; s++) {
            weft_instance_set_slot(program, s);
            assert_ok(weft_instance_diagnose(program, &where, NULL, NULL));
            if (bad == 1 && s == bad) assert_non_null(strstr(where, "input 'x'"));
            if (s != bad) assert_null(where);
            weft_free(where);
        }
        x[5] = x[6] = 0;
    }
    weft_instance_destroy(&program);
    drop(&n);
}

static void count_line(void *user, weft_log_level level, const char *text)
{
    assert_int_equal(level, WEFT_LOG_INFO);
    if (strstr(text, "'s' (softmax) runs on the reference device")) ++*(int *)user;
}

/* What a device leaves to the reference kernels is told, and flagged in the description. */
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
    weft_value x = weft_graph_leaf(g, WEFT_VALUE_INPUT, "x", WEFT_F32, &shape,
                                   (weft_init){WEFT_INIT_CONSTANT, 0});
    weft_value s = weft_graph_node(g, "softmax", "s", &x, 1, NULL, 0);
    assert_ok(weft_instance_build(store, g, &s, 1, &p));
    assert_int_equal(lines, weft_program_describe(weft_instance_program(p)).fallbacks);
    assert_int_equal(lines, 1);
    weft_instance_destroy(&p);
    weft_store_destroy(&store);
    weft_graph_destroy(&g);
    weft_context_destroy(&context);
}

/* Each node that a step computes is given the time it took; updates are not measured. */
static void test_profile(void **state)
{
    (void)state;
    for (int d = 0; built_in(WEFT_KIND_DEVICE, d); d++) {
        net n;
        int timed = 0;
        make(&n, "lenet", built_in(WEFT_KIND_DEVICE, d), true, 3);
        int count = weft_graph_node_count(n.graph);
        double *costs = malloc((size_t)count * sizeof(*costs));
        for (int passes = 1; passes <= 4; passes += 3) {
            for (int i = 0; i < count; i++) costs[i] = NAN;
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
        drop(&n);
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
    make(&n, "mlp", "cpu", true, 2);
    assert_ok(weft_instance_trace(n.program, 100));
    step(&n);
    assert_ok(weft_instance_trace_write(n.program, path));
    FILE *f = fopen(path, "r");
    assert_non_null(fgets(text, sizeof(text), f));
    assert_string_equal(text, "{\"traceEvents\":[\n");
    fclose(f);
    assert_refused(weft_instance_trace_write(n.program, "/nowhere/t.json"), WEFT_ERR_IO,
                   "/nowhere");
    unlink(path);
    drop(&n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_step_allocates_nothing),
        cmocka_unit_test(test_store_round_trip),
        cmocka_unit_test(test_fusion_is_visible),
        cmocka_unit_test(test_inference_folds_batch_norm),
        cmocka_unit_test(test_layouts_are_kept),
        cmocka_unit_test(test_programs_share_a_store),
        cmocka_unit_test(test_diagnose_names_the_instruction),
        cmocka_unit_test(test_diagnose_looks_at_its_slot),
        cmocka_unit_test(test_fallbacks_are_told),
        cmocka_unit_test(test_profile),
        cmocka_unit_test(test_trace),
    };
    return cmocka_run_group_tests_name("program", tests, NULL, NULL);
}
