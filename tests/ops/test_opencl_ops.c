/* Compares every case of the operators on the device opencl with the reference device: in f64 to
 * 1e-12 and in f32 to 2e-5 of the largest element, and each of them twice with the same bits. With
 * WEFT_FAST each case runs in one of the two types, and PoCL does not optimize, since kernels take
 * long to compile and run a few times.
 * OpenCL's first device is used, which is PoCL where scripts/deps has installed it. */
#include <math.h>
#include <stdio.h>

#include "device/gpu/gpu.h"
#include "op_build.h"
#include "program/program.h"

/* With WEFT_FAST each sixth case runs in f32 and each sixth in f64, from number FIRST on: other
 * cases on other devices. */
#ifndef DEVICE
#define DEVICE "opencl"
#define FIRST 0
#endif

/* A device that stays open, so that its programs are compiled once for all cases. */
static weft_context *all;
static weft_device *kept;
static const char *only; /* the one case that runs, in f32; NULL: all of them */

static int begin(void **state)
{
    (void)state;
    assert_ok(weft_context_create(&all));
    if (weft_device_open(all, DEVICE, &kept) == WEFT_OK) return 0;
    /* A machine may lack the device; a plug-in that does not load is a failure. */
    static const char *const lacks[] = {"there is no OpenCL platform", "libOpenCL",
                                        "there is no driver", "needs the plug-in"};
    print_message("SKIPPED: %s\n", weft_last_message());
    for (size_t i = 0; i < sizeof(lacks) / sizeof(lacks[0]); i++)
        if (strstr(weft_last_message(), lacks[i])) return 0;
    return 1;
}

static int end(void **state)
{
    (void)state;
    weft_device_close(&kept);
    weft_context_destroy(&all);
    return 0;
}

/* digits: the factor by which an operand is larger than its differences, which are the result. */
static void compare_shifted(const op_case *c, weft_dtype real, double digits)
{
    double tolerance = real == WEFT_F64 ? 1e-12 * digits : c->tolerance > 0 ? c->tolerance : 2e-5;
    case_results want = fixture_run(c, real, "reference", 1),
                 have = fixture_run(c, real, DEVICE, 2);
    assert_true(want.total == have.total);
    for (int i = 0, at = 0; i < want.count; i++) {
        double largest = 1e-3;
        for (int64_t j = 0; j < want.sizes[i]; j++)
            largest = fmax(largest, fabs(want.number[at + j]));
        for (int64_t j = 0; j < want.sizes[i]; j++, at++)
            if (!(fabs(want.number[at] - have.number[at]) <= tolerance * largest))
                fail_msg("%s on " DEVICE " in %s: result %d, element %lld: %.17g, reference %.17g",
                         c->name, weft_dtype_name(real), i, (long long)j, have.number[at],
                         want.number[at]);
    }
    free(want.number);
    free(have.number);
}

static void compare(const op_case *c, weft_dtype real)
{
    compare_shifted(c, real, 1);
}

static void compare_all(weft_dtype real)
{
    bool fast = getenv("WEFT_FAST") != NULL;
    if (!kept) skip();
    for (int c = 0; c < op_case_count; c++)
        if (only ? strcmp(op_cases[c].name, only) == 0 && real == WEFT_F32
                 : !fast || c % 6 == (real == WEFT_F32 ? FIRST : FIRST + 3))
            compare(&op_cases[c], real);
}

static void test_f32(void **state)
{
    (void)state;
    compare_all(WEFT_F32);
}

static void test_f64(void **state)
{
    (void)state;
    compare_all(WEFT_F64);
}

/* --- sizes for which kernels take another way than for those of the cases --- */

/* More rows than two digits tell apart, of which some are read often and most never; indices that
 * fill no part. */
static void table(fixture *f)
{
    out(f, node(f, "embedding", IN(fixture_ints(f, DIMS(61, 83), 601), X(f, 70003, 3)), NONE));
}

/* Heads of several slices of columns, unlike for keys and values. */
static void wide_heads(fixture *f)
{
    weft_value q = X(f, 1, 19, 2, 300), k = X(f, 1, 21, 1, 300), v = X(f, 1, 21, 1, 530);
    out(f, node(f, "attention", IN(q, k, v), ATTRS(WEFT_ATTR_REAL("scale", 0.1))));
}

/* States that do not fit in local memory. */
static void wide_lstm(fixture *f)
{
    weft_value in[] = {X(f, 1, 2, 4 * 1027), X(f, 1027, 4 * 1027)};
    out(f, node(f, "lstm", in, 2, NONE));
}

static void wide_gru(fixture *f)
{
    weft_value in[] = {X(f, 1, 2, 3 * 1027), X(f, 1027, 3 * 1027), X(f, 3 * 1027)};
    out(f, node(f, "gru", in, 3, NONE));
}

/* Sums of many numbers that nearly cancel, and rows far from zero. */
static void long_sums(fixture *f)
{
    out(f, node(f, "reduce_sum", IN(X(f, 3, 40009)), ATTRS(WEFT_ATTR_INT("axes", 1))));
}

static void far_rows(fixture *f)
{
    const int64_t dim[] = {3, 1031};
    weft_value x = fixture_input(f, 2, dim, true, 1, 1000);
    out(f, node(f, "layer_norm", IN(x, X(f, 1031), X(f, 1031)), NONE));
}

static const op_case large[] = {
    {.name = "table", .build = table},         {.name = "wide_heads", .build = wide_heads},
    {.name = "wide_lstm", .build = wide_lstm}, {.name = "wide_gru", .build = wide_gru},
    {.name = "long_sums", .build = long_sums}, {.name = "far_rows", .build = far_rows},
};

static void test_large(void **state)
{
    (void)state;
    if (!kept || only) skip();
    for (size_t c = 0; c < WEFT_COUNT(large); c++) {
        compare(&large[c], WEFT_F32);
        if (!getenv("WEFT_FAST"))
            compare_shifted(&large[c], WEFT_F64, large[c].build == far_rows ? 1000 : 1);
    }
}

/* Products of sizes whose tiles are partial at all sides, each by one of the device's ways. */
static const struct {
    const char *way;
    int64_t rows, terms, columns;
    bool fast; /* also with WEFT_FAST */
} products[] = {
    {"tiles", 263, 37, 301, true},      {"16x16", 263, 37, 301, false},
    {"32x32", 263, 37, 301, false},     {"64x64", 263, 37, 301, false},
    {"128x64", 263, 37, 301, true},     {"64x128", 263, 37, 301, false},
    {"128x128", 201, 37, 150, false},   {"tiles", 20, 1100, 30, false},
    {"whole sums", 20, 1100, 30, true},
};

static const weft_device_ops *its_ops;
static const char *wanted;

/* The device's candidates, of which the wanted one costs nothing. */
static int insist(weft_device *device, const weft_group *group, const weft_layout *const *in,
                  weft_candidate out[WEFT_CANDIDATES])
{
    int count = its_ops->candidates(device, group, in, out);
    for (int i = 0; i < count; i++)
        if (strcmp(out[i].name, wanted) == 0) out[i].seconds = 0;
    return count;
}

static float *product(const char *device, size_t which)
{
    weft_context *context;
    weft_graph *g;
    weft_store *store;
    weft_instance *p;
    weft_device_ops ops;
    char *text;
    const weft_init zero = {WEFT_INIT_CONSTANT, 0};
    int64_t rows = products[which].rows, terms = products[which].terms,
            columns = products[which].columns;
    const weft_shape shape[] = {weft_shape_of(2, (int64_t[]){rows, terms}),
                                weft_shape_of(2, (int64_t[]){terms, columns})};
    weft_value in[2];
    assert_ok(weft_context_create(&context));
    assert_ok(weft_graph_create(context, WEFT_F32, &g));
    for (int i = 0; i < 2; i++)
        in[i] = weft_graph_leaf(g, WEFT_VALUE_INPUT, i ? "b" : "a", WEFT_F32, &shape[i], zero);
    weft_value y = weft_graph_node(g, "matmul", "y", in, 2, NULL, 0);
    assert_ok(weft_store_create(context, device, 1, &store));
    weft_device *d = store->schema->devices[0];
    ops = *(its_ops = d->ops);
    ops.candidates = insist;
    wanted = products[which].way;
    d->tuned = true;
    d->ops = &ops;
    assert_ok(weft_instance_build(store, g, &y, 1, &p));
    d->ops = its_ops;
    assert_ok(weft_program_text(weft_instance_program(p), &text));
    if (strcmp(device, DEVICE) == 0 && !strstr(text, wanted))
        fail_msg("a product by %s: %s", wanted, text);
    weft_free(text);
    for (int i = 0; i < 2; i++) {
        float *to = weft_instance_input(p, in[i]);
        for (int64_t j = 0; j < weft_shape_elements(&shape[i]); j++)
            to[j] = (float)((j * 37 + i) % 101) / 50 - 1;
    }
    assert_ok(weft_instance_run(p, WEFT_PHASE_MICRO));
    size_t bytes = sizeof(float) * (size_t)(rows * columns);
    float *copy = malloc(bytes);
    assert_non_null(copy);
    memcpy(copy, weft_instance_output(p, y), bytes);
    weft_instance_destroy(&p);
    weft_store_destroy(&store);
    weft_graph_destroy(&g);
    weft_context_destroy(&context);
    return copy;
}

static void test_tiles(void **state)
{
    (void)state;
    if (!kept || only) skip();
    for (size_t w = 0; w < WEFT_COUNT(products); w++) {
        if (getenv("WEFT_FAST") && !products[w].fast) continue;
        float *want = product("reference", w), *have = product(DEVICE, w);
        for (int64_t i = 0; i < products[w].rows * products[w].columns; i++)
            if (!(fabsf(want[i] - have[i]) <= 1e-6f * (float)products[w].terms + 1e-4f))
                fail_msg("%s: element %lld: %.9g, reference %.9g", products[w].way, (long long)i,
                         (double)have[i], (double)want[i]);
        free(want);
        free(have);
    }
}

/* A copy by bytes, as between layouts. Its name is "reorder". */
static void test_reorder(void **state)
{
    (void)state;
    const weft_type type = {WEFT_U8, weft_shape_of(1, (int64_t[]){1003})};
    unsigned char given[1003], got[1003] = {0};
    const weft_layout *plain;
    weft_kernel *kernel;
    weft_bound *bound;
    weft_memory *memory[2];
    weft_queue *queue;
    weft_queue_event *event;
    if (!kept || (only && strcmp(only, "reorder") != 0)) skip();
    for (int i = 0; i < 1003; i++) given[i] = (unsigned char)(i * 37);
    assert_ok(weft_queue_open(kept, &queue));
    assert_ok(weft_event_open(kept, &event));
    for (int i = 0; i < 2; i++) assert_ok(weft_memory_new(kept, 1003, &memory[i]));
    const weft_address from = {memory[0], 0}, to = {memory[1], 0};
    assert_ok(weft_device_plain(kept, &type, &plain));
    assert_ok(weft_device_reorder(kept, &type, plain, plain, &kernel));
    assert_ok(weft_kernel_bind(kernel, &bound));
    assert_ok(weft_bound_place(bound, &from, &to, (weft_address){NULL, 0}));
    assert_ok(weft_copy_in(queue, from, given, 1003));
    assert_ok(weft_bound_run(bound, queue));
    assert_ok(weft_copy_out(queue, got, to, 1003));
    assert_ok(weft_event_record(kept, queue, event));
    assert_ok(weft_event_wait(kept, event));
    assert_memory_equal(given, got, 1003);
    bound->ops->destroy(bound);
    kernel->ops->destroy(kernel);
    weft_event_close(kept, &event);
    weft_queue_close(kept, &queue);
    for (int i = 0; i < 2; i++) weft_memory_free(&memory[i]);
}

/* The flag that a number which is not finite sets, and which stays set. Its name is "watch". */
static void test_watch(void **state)
{
    (void)state;
    const weft_type type = {WEFT_F32, {0, {0}}};
    const float numbers[] = {3, NAN, 2};
    weft_kernel *kernel;
    weft_bound *bound;
    weft_memory *memory[2];
    weft_queue *queue;
    weft_queue_event *event;
    if (!kept || (only && strcmp(only, "watch") != 0)) skip();
    assert_ok(weft_queue_open(kept, &queue));
    assert_ok(weft_event_open(kept, &event));
    for (int i = 0; i < 2; i++) assert_ok(weft_memory_new(kept, sizeof(float), &memory[i]));
    const weft_address number = {memory[0], 0}, flag = {memory[1], 0};
    assert_ok(weft_memory_zero(kept, queue, flag, sizeof(int32_t)));
    assert_ok(weft_device_watch(kept, &type, &kernel));
    assert_ok(weft_kernel_bind(kernel, &bound));
    assert_ok(weft_bound_place(bound, &number, &flag, (weft_address){NULL, 0}));
    for (int i = 0; i < 3; i++) {
        int32_t found = 7;
        assert_ok(weft_copy_in(queue, number, &numbers[i], sizeof(float)));
        assert_ok(weft_bound_run(bound, queue));
        assert_ok(weft_copy_out(queue, &found, flag, sizeof(found)));
        assert_ok(weft_event_record(kept, queue, event));
        assert_ok(weft_event_wait(kept, event));
        assert_int_equal(found, i > 0);
    }
    bound->ops->destroy(bound);
    kernel->ops->destroy(kernel);
    weft_event_close(kept, &event);
    weft_queue_close(kept, &queue);
    for (int i = 0; i < 2; i++) weft_memory_free(&memory[i]);
}

/* New memory holds no numbers, so that results which are read before they are written show in every
 * test, and what must be zero is set to zero. */
static void test_new_memory(void **state)
{
    (void)state;
    enum { BYTES = (1 << 20) + 1000 };
    weft_memory *memory;
    weft_queue *queue;
    weft_queue_event *event;
    unsigned char *copy = malloc(BYTES);
    if (!kept || only || !copy) skip();
    assert_ok(weft_memory_new(kept, BYTES, &memory));
    assert_ok(weft_queue_open(kept, &queue));
    assert_ok(weft_event_open(kept, &event));
    for (int zeroed = 0; zeroed < 2; zeroed++) {
        weft_address at = {memory, 0};
        if (zeroed) assert_ok(weft_memory_zero(kept, queue, weft_beyond(at, 4), BYTES - 8));
        assert_ok(weft_copy_out(queue, copy, at, BYTES));
        assert_ok(weft_event_record(kept, queue, event));
        assert_ok(weft_event_wait(kept, event));
        for (int i = 0; i < BYTES; i++)
            assert_int_equal(copy[i], zeroed && i >= 4 && i < BYTES - 4 ? 0 : 0xff);
    }
    weft_event_close(kept, &event);
    weft_queue_close(kept, &queue);
    weft_memory_free(&memory);
    free(copy);
}

/* Whether the device has a kernel for a node alone. */
static bool has_kernel(const weft_graph *g, const weft_node *node)
{
    weft_group group = {.graph = g, .node = {node}, .count = 1, .out_count = node->out_count};
    const weft_layout *in[WEFT_GROUP_VALUES] = {NULL};
    weft_candidate list[WEFT_CANDIDATES];
    for (int i = 0; i < node->in_count; i++)
        if (weft_group_in(&group, node->in[i]) < 0) group.in[group.in_count++] = node->in[i];
    for (int o = 0; o < node->out_count; o++) group.out[o] = node->out + o;
    return kept->ops->candidates(kept, &group, in, list) > 0;
}

/* Only these nodes are computed on the host: learning rates that follow a measured loss, tensors
 * that are attributes, and random rounding to bf16. */
static void test_nothing_falls_back(void **state)
{
    (void)state;
    if (!kept) skip();
    for (int c = 0; c < op_case_count; c++) {
        fixture f;
        fixture_start(&f, &op_cases[c], WEFT_F32);
        for (size_t n = 0; n < f.graph->node_count; n++) {
            const weft_node *node = f.graph->nodes[n];
            bool measured = strcmp(node->op->name, "schedule") == 0 && node->in_count > 1;
            bool of_host = measured || weft_node_attr(node, "data") ||
                           strcmp(node->op->name, "stochastic_round") == 0;
            if (has_kernel(f.graph, node) == of_host)
                fail_msg("%s: operator %s has %s kernel on " DEVICE, op_cases[c].name,
                         node->op->name, of_host ? "a" : "no");
        }
        fixture_end(&f);
    }
}

/* Prints the functions that a case launches in f32, with the definitions that choose their code. */
static void print_launches(const op_case *c)
{
    fixture f;
    weft_store *store;
    weft_program *p;
    weft_program_options o;
    weft_value fetch[MOST_INPUTS + MOST_OUTPUTS];
    fixture_start(&f, c, WEFT_F32);
    weft_program_options_init(&o);
    o.fetch = fetch;
    o.fetch_count = fixture_fetch(&f, fetch);
    assert_ok(weft_store_create(f.context, DEVICE, 1, &store));
    assert_ok(weft_program_create_with(store, f.graph, &o, &p));
    for (size_t i = 0; i < p->code_count; i++) {
        const gpu_kernel *k = (const gpu_kernel *)p->code[i].kernel;
        bool own = k->head.device && strcmp(k->head.device->ops->name, DEVICE) == 0;
        for (int l = 0; own && l < k->count; l++) {
            const char *kind = strstr(k->launch[l].definitions, "KIND ");
            (void)printf("%s %s %d\n", c->name, k->launch[l].function, kind ? atoi(kind + 5) : 0);
        }
    }
    weft_program_destroy(&p);
    weft_store_destroy(&store);
    fixture_end(&f);
}

/* An argument is the name of the only case to run; "list" prints the names, and "launches" what
 * each case launches. */
int main(int count, char **arguments)
{
    if (count > 1) only = arguments[1];
    bool launches = only && strcmp(only, "launches") == 0;
    if (launches || (only && strcmp(only, "list") == 0)) {
        for (int c = 0; c < op_case_count; c++)
            if (launches)
                print_launches(&op_cases[c]);
            else
                (void)puts(op_cases[c].name);
        (void)puts(launches ? "reorder copy_bytes 0\nwatch watch 0" : "reorder\nwatch");
        return 0;
    }
    if (!in_full()) setenv("POCL_EXTRA_BUILD_FLAGS", "-cl-opt-disable", 0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f32),
        cmocka_unit_test(test_f64),
        cmocka_unit_test(test_nothing_falls_back),
        cmocka_unit_test(test_new_memory),
        cmocka_unit_test(test_reorder),
        cmocka_unit_test(test_watch),
        cmocka_unit_test(test_tiles),
        cmocka_unit_test(test_large),
    };
    return cmocka_run_group_tests_name(DEVICE "_ops", tests, begin, end);
}
