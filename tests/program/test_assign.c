/* Assignments to tensors of a store: an assigned value must fit the tensor, arrive in the layout
 * that the store has, and not be written beyond the tensor's end or before its last reader. */
#include <math.h>

#include "support.h"

/* A value is written or copied over the old value, unless a later node reads that: whether its
 * kernel works in place (relu) or does not (softmax). */
static void assign_result(const char *device, const char *op, bool read_later)
{
    const bool relu = strcmp(op, "relu") == 0;
    weft_context *context;
    weft_graph *g;
    weft_store *store;
    weft_instance *p;
    weft_shape shape = weft_shape_of(2, (int64_t[]){2, 3});
    assert_ok(weft_context_create(&context));
    assert_ok(weft_graph_create(context, WEFT_F32, &g));
    assert_ok(weft_store_create(context, device, 1, &store));
    weft_value w = weft_graph_leaf(g, WEFT_VALUE_PARAM, "w", WEFT_F32, &shape, (weft_init){0});
    weft_value s = weft_graph_node(g, op, "s", &w, 1, NULL, 0);
    weft_value later = WEFT_NO_VALUE;
    if (read_later) later = weft_graph_node(g, "tanh", "later", &w, 1, NULL, 0);
    weft_graph_assign(g, w, s);
    weft_status status = weft_instance_build(store, g, &later, read_later, &p);
    if (read_later) {
        assert_refused(status, WEFT_ERR_ARGUMENT, "cannot be written in its place");
    } else {
        const float first[] = {0, 0, 0, 1, 2, 3};
        float now[6];
        assert_ok(status);
        assert_ok(weft_store_write(store, 0, first));
        assert_ok(weft_instance_run(p, WEFT_PHASE_MICRO));
        assert_ok(weft_store_read(store, 0, now));
        for (int i = 0; i < 6; i++) {
            double sum = i < 3 ? 3 : exp(1) + exp(2) + exp(3);
            assert_float_equal(now[i], relu ? first[i] : (float)(exp(first[i]) / sum), 1e-6);
        }
        weft_instance_destroy(&p);
    }
    weft_store_destroy(&store);
    weft_graph_destroy(&g);
    weft_context_destroy(&context);
}

static void test_assignment_needs_the_place(void **state)
{
    (void)state;
    for (int d = 0; built_in(WEFT_KIND_DEVICE, d); d++)
        for (int i = 0; i < 4; i++)
            assign_result(built_in(WEFT_KIND_DEVICE, d), i < 2 ? "softmax" : "relu", i % 2);
}

/* An assigned value reaches a parameter in the layout that a convolution has chosen for it. */
static void test_assignment_is_laid_as_the_store(void **state)
{
    (void)state;
    enum { FROM = 16, TO = 32, TAPS = 9, COUNT = FROM * TO * TAPS };
    for (int d = 0; built_in(WEFT_KIND_DEVICE, d); d++) {
        weft_context *context;
        weft_graph *g;
        weft_store *store;
        weft_instance *p;
        static float v[COUNT], w[COUNT];
        const weft_init none = {WEFT_INIT_CONSTANT, 0};
        weft_shape image = weft_shape_of(4, (int64_t[]){2, FROM, 9, 9}),
                   filters = weft_shape_of(4, (int64_t[]){TO, FROM, 3, 3}),
                   turned = weft_shape_of(4, (int64_t[]){FROM, TO, 3, 3});
        const weft_attr perm = {"perm", 4, {1, 0, 2, 3}, 0};
        assert_ok(weft_context_create(&context));
        assert_ok(weft_graph_create(context, WEFT_F32, &g));
        weft_value in[] = {weft_graph_leaf(g, WEFT_VALUE_INPUT, "x", WEFT_F32, &image, none),
                           weft_graph_leaf(g, WEFT_VALUE_PARAM, "w", WEFT_F32, &filters, none)};
        weft_value from = weft_graph_leaf(g, WEFT_VALUE_PARAM, "v", WEFT_F32, &turned, none);
        weft_value y = weft_graph_node(g, "conv", "y", in, 2, NULL, 0);
        weft_graph_assign(g, in[1], weft_graph_node(g, "transpose", "t", &from, 1, &perm, 1));
        assert_ok(weft_store_create(context, built_in(WEFT_KIND_DEVICE, d), 1, &store));
        assert_ok(weft_instance_build(store, g, &y, 1, &p));
        for (int i = 0; i < COUNT; i++) v[i] = (float)i;
        assert_ok(weft_store_write(store, weft_store_find(store, "v"), v));
        assert_ok(weft_instance_run(p, WEFT_PHASE_MICRO));
        assert_ok(weft_instance_run(p, WEFT_PHASE_UPDATE));
        assert_ok(weft_store_read(store, weft_store_find(store, "w"), w));
        for (int o = 0; o < TO; o++)
            for (int i = 0; i < FROM * TAPS; i++)
                assert_true(w[o * FROM * TAPS + i] == v[(i / TAPS * TO + o) * TAPS + i % TAPS]);
        weft_instance_destroy(&p);
        weft_store_destroy(&store);
        weft_graph_destroy(&g);
        weft_context_destroy(&context);
    }
}

/* A program that adds an input to each of the tensors a, b, c, or (turned) c, b, a. */
enum { SUMS = 3 };
typedef struct sums {
    weft_graph *graph;
    weft_instance *program;
    weft_value x[SUMS], keep;
} sums;

static void make_sums(sums *s, weft_context *context, weft_store *store, int64_t size, bool turned)
{
    weft_shape shape = weft_shape_of(1, &size), scalar = {0};
    const weft_init none = {WEFT_INIT_CONSTANT, 0};
    assert_ok(weft_graph_create(context, WEFT_F32, &s->graph));
    s->keep = weft_graph_leaf(s->graph, WEFT_VALUE_INPUT, "keep", WEFT_F32, &scalar, none);
    for (int i = 0; i < SUMS; i++) {
        int of = turned ? SUMS - 1 - i : i;
        char name[3][8] = {{(char)('a' + of)}, {'x', (char)('a' + of)}, {'n', (char)('a' + of)}};
        weft_value sum =
            weft_graph_leaf(s->graph, WEFT_VALUE_STATE, name[0], WEFT_F32, &shape, none);
        s->x[of] = weft_graph_leaf(s->graph, WEFT_VALUE_INPUT, name[1], WEFT_F32, &shape, none);
        weft_value in[] = {sum, s->x[of], s->keep};
        weft_graph_assign(s->graph, sum,
                          weft_graph_node(s->graph, "accumulate", name[2], in, 3, NULL, 0));
    }
    assert_ok(weft_instance_build(store, s->graph, NULL, 0, &s->program));
}

static float added(int i, int64_t e)
{
    return (float)(e % 97 + 100 * i + 1);
}

/* Writes end with the tensor: tensors that fill whole cache lines lie side by side, and each holds
 * the sum of what was added to it, in either order. */
static void test_sums_stay_in_their_place(void **state)
{
    (void)state;
    static const int64_t sizes[] = {16, 64, 1024, 65536};
    for (int d = 0; built_in(WEFT_KIND_DEVICE, d); d++)
        for (int k = 0; k < 4; k++) {
            weft_context *context;
            weft_store *store;
            sums s[2];
            float *have = malloc((size_t)sizes[k] * sizeof(*have));
            assert_ok(weft_context_create(&context));
            assert_ok(weft_store_create(context, built_in(WEFT_KIND_DEVICE, d), 1, &store));
            for (int turned = 0; turned < 2; turned++)
                make_sums(&s[turned], context, store, sizes[k], turned);
            for (int run = 0; run < 4; run++) { /* runs 2 and 3 add to the sums of run 1 */
                const sums *now = &s[run % 2];
                for (int i = 0; i < SUMS; i++)
                    for (int64_t e = 0; e < sizes[k]; e++)
                        ((float *)weft_instance_input(now->program, now->x[i]))[e] = added(i, e);
                *(float *)weft_instance_input(now->program, now->keep) = run > 1;
                assert_ok(weft_instance_run(now->program, WEFT_PHASE_MICRO));
                assert_ok(weft_instance_run(now->program, WEFT_PHASE_UPDATE));
                for (int i = 0; i < SUMS; i++) {
                    char name[2] = {(char)('a' + i)};
                    assert_ok(weft_store_read(store, weft_store_find(store, name), have));
                    for (int64_t e = 0; e < sizes[k]; e++)
                        assert_true(have[e] == (float)(run < 2 ? 1 : run) * added(i, e));
                }
            }
            free(have);
            for (int turned = 0; turned < 2; turned++) {
                weft_instance_destroy(&s[turned].program);
                weft_graph_destroy(&s[turned].graph);
            }
            weft_store_destroy(&store);
            weft_context_destroy(&context);
        }
}

/* A value of another type would be copied as if it were of the tensor's. */
static void test_assignment_needs_the_type(void **state)
{
    (void)state;
    weft_context *context;
    weft_graph *g;
    weft_shape shape = weft_shape_of(2, (int64_t[]){2, 3});
    weft_attr narrow = WEFT_ATTR_INT("dtype", WEFT_BF16);
    assert_ok(weft_context_create(&context));
    assert_ok(weft_graph_create(context, WEFT_F32, &g));
    weft_value w = weft_graph_leaf(g, WEFT_VALUE_PARAM, "w", WEFT_F32, &shape, (weft_init){0});
    weft_graph_assign(g, w, weft_graph_node(g, "cast", "half", &w, 1, &narrow, 1));
    assert_refused(weft_graph_status(g), WEFT_ERR_ARGUMENT,
                   "'w' is f32, and is assigned 'half', which is bf16");
    weft_graph_destroy(&g);
    weft_context_destroy(&context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_assignment_needs_the_place),
        cmocka_unit_test(test_assignment_needs_the_type),
        cmocka_unit_test(test_assignment_is_laid_as_the_store),
        cmocka_unit_test(test_sums_stay_in_their_place),
    };
    return cmocka_run_group_tests_name("assign", tests, NULL, NULL);
}
