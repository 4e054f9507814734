/* Tests of programs and stores: a step allocates no memory, stores read back what was written, and
 * lowering fuses kernels, folds batch norms and keeps the layouts of parameters. */
#include <dlfcn.h>
#include <malloc.h>
#include <math.h>
#include <stdatomic.h>

#include "net_fixture.h"

#ifndef WEFT_SANITIZED
/* Counts allocations while `counting` is set. The caller's address tells those of this program, the
 * library included, from those of other libraries (oneDNN allocates in each call). */
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

static void test_step_allocates_nothing(void **state)
{
    (void)state;
#ifdef WEFT_SANITIZED
    skip();
#else
    for (int d = 0; built_in(WEFT_KIND_DEVICE, d); d++) {
        net n;
        net_make(&n, "lenet", built_in(WEFT_KIND_DEVICE, d), true, 3);
        for (int i = 0; i < 2; i++) net_step(&n); /* the first steps start thread pools */
        atomic_store(&counting, true);
        for (int i = 0; i < 3; i++) net_step(&n);
        atomic_store(&counting, false);
        print_message("%s: %d allocations of our own in 3 steps, %d in libraries below\n",
                      built_in(WEFT_KIND_DEVICE, d), atomic_load(&own_allocations),
                      atomic_load(&all_allocations) - atomic_load(&own_allocations));
        assert_int_equal(atomic_load(&own_allocations), 0);
        atomic_store(&all_allocations, 0);
        net_drop(&n);
    }
#endif
}

static void test_store_round_trip(void **state)
{
    (void)state;
    for (int d = 0; built_in(WEFT_KIND_DEVICE, d); d++) {
        net n;
        net_make(&n, "inception", built_in(WEFT_KIND_DEVICE, d), true, 2);
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
        net_drop(&n);
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
    net_make(&n, "vgg11", "cpu", false, 2);
    assert_ok(weft_program_text(weft_instance_program(n.program), &text));
    assert_int_equal(words_in(text, "conv+bias+relu"), 8);
    assert_int_equal(words_in(text, "dense+bias+relu"), 1);
    assert_int_equal(words_in(text, "micro  relu"), 0);
    weft_free(text);
    net_drop(&n);
    net_make(&n, "lenet", "cpu", true, 2);
    assert_ok(weft_program_text(weft_instance_program(n.program), &text));
    assert_int_equal(words_in(text, "conv_dw+reduce_sum"), 2);
    assert_int_equal(words_in(text, "dense_dw+reduce_sum"), 2);
    weft_free(text);
    net_drop(&n);
}

/* For inference, batch norm with its running statistics is fused into the convolution before it. */
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
    weft_model_options_set_sample(&o, weft_shape_of(3, (int64_t[]){3, 9, 9}));
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

/* Updates never reorder parameters and moments, so each stays in one layout. (The layouts that
 * forward and backward want, and so whether they reorder a weight, depend on the processor.) */
static void test_layouts_are_kept(void **state)
{
    (void)state;
    net n;
    char *text;
    net_make(&n, "lenet", "cpu", true, 100);
    assert_ok(weft_program_text(weft_instance_program(n.program), &text));
    assert_int_equal(words_in(text, "update adam"), 8);
    for (const char *at = text; (at = strstr(at, "update reorder ")); at++)
        assert_non_null(strstr(at, "/d")); /* only gradients may be reordered */
    assert_int_equal(words_in(text, "reorder fc1/weight/m"), 0);
    assert_int_equal(words_in(text, "reorder fc1/weight/v"), 0);
    weft_free(text);
    net_drop(&n);
}

/* Whether valgrind runs this test, and would report faults that are none: kernels of oneDNN use the
 * stack pointer for data, which valgrind then takes for a stack without values. */
static bool confuses_valgrind(const char *device)
{
    return getenv("WEFT_VALGRIND") && strcmp(device, "cpu") == 0;
}

/* Two programs on one store see the same parameters, so an evaluation uses those of the last
 * step. */
static void test_programs_share_a_store(void **state)
{
    (void)state;
    for (int d = 0; built_in(WEFT_KIND_DEVICE, d); d++) {
        net n;
        weft_graph *eval;
        weft_instance *second;
        weft_model_values values;
        weft_model_options o;
        if (confuses_valgrind(built_in(WEFT_KIND_DEVICE, d))) continue;
        net_make(&n, "lenet", built_in(WEFT_KIND_DEVICE, d), true, 4);
        weft_model_options_init(&o);
        weft_model_options_set_sample(&o, weft_shape_of(3, (int64_t[]){1, 28, 28}));
        o.batch = 4;
        o.classes = 10;
        assert_ok(weft_graph_create(n.context, WEFT_F32, &eval));
        assert_ok(weft_model_build(eval, &o, &values));
        assert_ok(
            weft_instance_build(n.store, eval, &(weft_value){PORT(values, LOGITS)}, 1, &second));
        net_step(&n);
        memcpy(weft_instance_input(second, PORT(values, FEATURES)),
               weft_instance_input(n.program, PORT(n.values, FEATURES)), 4 * 784 * sizeof(float));
        assert_ok(weft_instance_run(second, WEFT_PHASE_MICRO));
        assert_ok(weft_instance_run(n.program, WEFT_PHASE_MICRO));
        const float *a = weft_instance_output(second, PORT(values, LOGITS));
        const float *b = weft_instance_output(n.program, PORT(n.values, LOGITS));
        for (int i = 0; i < 40; i++) assert_true(fabsf(a[i] - b[i]) < 1e-5f);
        weft_instance_destroy(&second);
        weft_graph_destroy(&eval);
        net_drop(&n);
    }
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
    };
    return cmocka_run_group_tests_name("program", tests, NULL, NULL);
}
