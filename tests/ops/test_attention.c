/* The operator attention and its gradient: values that tests/golden/make.py took from PyTorch,
 * queries that see no key, the same bits with any number of threads, and memory that is linear in
 * the length. test_ops.c checks finite differences, test_rewrite.c meshes that split queries or
 * heads. */
#include <math.h>

#include "device/cpu/simd.h"
#include "golden_lines.h"
#include "support.h"

/* The operands of attention, and how it is run. */
typedef struct shape_case {
    const char *name;
    int64_t b, t, s, h, g, d, e;
    bool causal, grad; /* grad: with dq, dk and dv */
    double scale;      /* 0: the default */
    int64_t first;     /* -1: the default */
    int32_t lengths[4];
} shape_case;

/* values: q, k, v, lengths, the weight of y in the loss; y, lse, dq, dk, dv. */
enum { Q, K, V, LENGTHS, BY, Y, LSE, DQ, DK, DV, VALUES };
typedef struct fixture {
    weft_context *context;
    weft_graph *graph;
    weft_store *store;
    weft_instance *program;
    weft_value at[VALUES];
} fixture;

static weft_value leaf(fixture *f, const char *name, int64_t b, int64_t n, int64_t heads, int64_t w)
{
    weft_shape shape = weft_shape_of(4, (int64_t[]){b, n, heads, w});
    weft_value v = weft_graph_leaf(f->graph, WEFT_VALUE_INPUT, name, weft_graph_real(f->graph),
                                   &shape, (weft_init){WEFT_INIT_CONSTANT, 0});
    weft_graph_want_gradient(f->graph, v);
    return v;
}

static void build(fixture *f, const shape_case *c, weft_dtype real, int threads)
{
    weft_attr attrs[3], axes = {.name = "axes", .count = 4, .ints = {0, 1, 2, 3}};
    weft_shape batch = weft_shape_of(1, &c->b);
    int count = 0;
    if (c->causal) attrs[count++] = (weft_attr)WEFT_ATTR_INT("causal", 1);
    if (c->scale != 0) attrs[count++] = (weft_attr)WEFT_ATTR_REAL("scale", c->scale);
    if (c->first >= 0) attrs[count++] = (weft_attr)WEFT_ATTR_INT("first", c->first);
    assert_ok(weft_context_create(&f->context));
    assert_ok(weft_context_set_threads(f->context, threads));
    assert_ok(weft_graph_create(f->context, real, &f->graph));
    f->at[Q] = leaf(f, "q", c->b, c->t, c->h, c->d);
    f->at[K] = leaf(f, "k", c->b, c->s, c->g, c->d);
    f->at[V] = leaf(f, "v", c->b, c->s, c->g, c->e);
    f->at[BY] = leaf(f, "by", c->b, c->t, c->h, c->e);
    f->at[LENGTHS] = weft_graph_leaf(f->graph, WEFT_VALUE_INPUT, "lengths", WEFT_I32, &batch,
                                     (weft_init){WEFT_INIT_CONSTANT, 0});
    f->at[Y] =
        weft_graph_node(f->graph, "attention", "y", f->at, c->lengths[0] ? 4 : 3, attrs, count);
    f->at[LSE] = f->at[Y] + 1;
    weft_value loss =
        weft_graph_node(f->graph, "mul", "by", (weft_value[]){f->at[Y], f->at[BY]}, 2, NULL, 0);
    loss = weft_graph_node(f->graph, "reduce_sum", "loss", &loss, 1, &axes, 1);
    if (c->grad) assert_ok(weft_graph_differentiate(f->graph, loss));
    for (int i = 0; i < 3 && c->grad; i++) f->at[DQ + i] = weft_graph_gradient(f->graph, f->at[i]);
    assert_ok(weft_graph_status(f->graph));
}

static void start(fixture *f, const shape_case *c, const char *device, weft_dtype real, int threads)
{
    static const uint32_t stream[] = {1, 2, 4};
    build(f, c, real, threads);
    assert_ok(weft_store_create(f->context, device, 1, &f->store));
    assert_ok(weft_instance_build(f->store, f->graph, &f->at[Y], c->grad ? 5 : 2, &f->program));
    for (int i = 0; i < 3; i++) golden_feed(f->program, f->graph, f->at[i], stream[i]);
    if (c->grad) golden_feed(f->program, f->graph, f->at[BY], 3);
    int32_t *lengths = weft_instance_input(f->program, f->at[LENGTHS]);
    for (int64_t i = 0; lengths && c->lengths[0] && i < c->b; i++) lengths[i] = c->lengths[i];
}

static void end(fixture *f)
{
    weft_instance_destroy(&f->program);
    weft_store_destroy(&f->store);
    weft_graph_destroy(&f->graph);
    weft_context_destroy(&f->context);
}

static const struct {
    const char *device;
    weft_dtype real;
} on[] = {{"reference", WEFT_F64}, {"reference", WEFT_F32}, {"cpu", WEFT_F32}};
enum { WAYS = sizeof(on) / sizeof(on[0]) };

static double at(const fixture *f, int v, int64_t i)
{
    return golden_get(weft_instance_output(f->program, f->at[v]), weft_graph_real(f->graph), i);
}

static int64_t size_of(const fixture *f, int v)
{
    weft_type type = weft_graph_value_type(f->graph, f->at[v]);
    return weft_shape_elements(&type.shape);
}

/* Compares the sum of the two parts of the log-sum-exp. */
static void check_log_sums(const fixture *f, const char *name)
{
    weft_type type = weft_graph_value_type(f->graph, f->at[LSE]);
    int64_t n = size_of(f, LSE) / 2;
    double *sum = malloc((size_t)n * sizeof(double));
    for (int64_t i = 0; i < n; i++) {
        double value = at(f, LSE, 2 * i) + at(f, LSE, 2 * i + 1);
        if (type.dtype == WEFT_F32)
            ((float *)sum)[i] = (float)value;
        else
            sum[i] = value;
    }
    type.shape.rank = 3;
    golden_check("attention.txt", name, "lse", sum, &type);
    free(sum);
}

/* The cases of make.py. */
static void test_golden(void **state)
{
    (void)state;
    static const shape_case cases[] = {
        {"plain", 2, 5, 7, 3, 3, 4, 6, false, true, 0, -1, {0}},
        {"causal", 2, 7, 7, 4, 2, 5, 3, true, true, 0, -1, {0}},
        {"cache", 1, 3, 9, 6, 2, 4, 4, true, true, 0, -1, {0}},
        {"first", 2, 4, 8, 2, 1, 3, 5, true, true, 0.3, 1, {0}},
        {"lengths", 3, 4, 6, 2, 2, 3, 5, false, true, 0, -1, {6, 1, 4}},
        {"tiles", 1, 130, 200, 2, 1, 20, 33, true, true, 0, -1, {150}},
    };
    static const char *const operand[] = {"y", "lse", "q", "k", "v"};
    for (int w = 0; w < WAYS; w++)
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
            fixture f;
            start(&f, &cases[i], on[w].device, on[w].real, 1);
            assert_ok(weft_instance_run(f.program, WEFT_PHASE_MICRO));
            check_log_sums(&f, cases[i].name);
            for (int o = 0; o < 5; o++) {
                weft_type type = weft_graph_value_type(f.graph, f.at[Y + o]);
                if (Y + o == LSE) continue;
                golden_check("attention.txt", cases[i].name, operand[o],
                             weft_instance_output(f.program, f.at[Y + o]), &type);
            }
            end(&f);
        }
}

/* A query without a visible key has result 0, largest score -inf and gradient 0; keys beyond the
 * length count as little if they are NaN. Sample 0 has a negative length, sample 1 three of five
 * keys, and sample 2 more than there are. The mask hides all keys from query 0. */
static void test_nothing_seen(void **state)
{
    (void)state;
    const shape_case c = {"unseen", 3, 6, 5, 2, 2, 3, 4, true, true, 0, -1, {-2, 3, 9}};
    for (int w = 0; w < WAYS; w++) {
        fixture f;
        start(&f, &c, on[w].device, on[w].real, 1);
        for (int v = K; v <= V; v++)
            for (int64_t i = 0, n = size_of(&f, v) / 3 / 5; i < 2 * n; i++) {
                void *to = weft_instance_input(f.program, f.at[v]);
                if (on[w].real == WEFT_F32)
                    ((float *)to)[8 * n + i] = NAN; /* keys 3 and 4 of sample 1 */
                else
                    ((double *)to)[8 * n + i] = NAN;
            }
        assert_ok(weft_instance_run(f.program, WEFT_PHASE_MICRO));
        for (int v = Y; v < VALUES; v++)
            for (int64_t i = 0, n = size_of(&f, v); i < n; i++) {
                bool sample = i < n / 3; /* of the sample without keys */
                int64_t row = v == LSE ? i / 2 % 6 : i / (n / 18), key = i / (n / 15);
                bool unseen =
                    v == DK || v == DV ? key < 5 || key == 8 || key == 9 : sample || row % 6 == 0;
                double want = v == LSE && i % 2 == 0 ? -INFINITY : 0;
                if (unseen ? at(&f, v, i) != want : !isfinite(at(&f, v, i)))
                    fail_msg("%s: value %d, element %d is %g", on[w].device, v, (int)i,
                             at(&f, v, i));
            }
        end(&f);
    }
}

/* The largest amount of a value's elements. */
static double most(const fixture *f, int v)
{
    double m = 0;
    for (int64_t i = 0, n = size_of(f, v); i < n; i++) m = fmax(m, fabs(at(f, v, i)));
    return m;
}

/* Compares a result in single precision with one in double precision. `error` bounds the relative
 * error of a probability. */
static void check_close(const fixture *have, const fixture *want, int v, double error,
                        const char *device, double size)
{
    double allowed = error * fmax(most(want, v), 1e-3);
    for (int64_t i = 0, n = size_of(want, v); i < n; i++)
        if (!(fabs(at(have, v, i) - at(want, v, i)) <= allowed))
            fail_msg("%s, scores of %g: value %d, element %d is %.9g, not %.9g", device, size, v,
                     (int)i, at(have, v, i), at(want, v, i));
}

/* The probabilities of a query add up to 1, so dv summed over the keys is dy summed over the
 * queries. */
static void check_sum(const fixture *f, const shape_case *c, const char *device, double size)
{
    double have = 0, want = 0, amount = 0;
    for (int64_t i = 0, n = size_of(f, DV); i < n; i++) have += at(f, DV, i);
    for (int64_t i = 0, n = c->b * c->t * c->h * c->e; i < n; i++) {
        want += (double)(float)golden_number(3, i);
        amount += fabs(golden_number(3, i));
    }
    if (!(fabs(have - want) <= 1e-6 * amount))
        fail_msg("%s, scores of %g: probabilities add up to %g times 1", device, size, have / want);
}

/* Scores of any size: probabilities add up to 1 in the result and in the gradient, and as long as
 * the rounding of a score is small, all results are those of double precision. */
static void test_large_scores(void **state)
{
    (void)state;
    for (int power = 0; power <= 30; power += 2)
        for (int w = 1; w < WAYS; w++) {
            double size = pow(10, power);
            const shape_case c = {"",   2,    9,  21,      4, 2, 5, 3, power % 4 == 0,
                                  true, size, -1, {17, 21}};
            double error = 4 * size * (double)c.d * 1.2e-7 + 2e-6;
            fixture f, exact;
            start(&exact, &c, "reference", WEFT_F64, 1);
            start(&f, &c, on[w].device, on[w].real, 1);
            assert_ok(weft_instance_run(exact.program, WEFT_PHASE_MICRO));
            assert_ok(weft_instance_run(f.program, WEFT_PHASE_MICRO));
            for (int v = Y; v < VALUES; v++) {
                for (int64_t i = 0, n = size_of(&f, v); i < n; i++)
                    assert_true(isfinite(at(&f, v, i)));
                if (error < 0.5 && v != LSE) check_close(&f, &exact, v, error, on[w].device, size);
            }
            assert_true(most(&f, Y) <= 1); /* a mean of values within 1 */
            check_sum(&f, &c, on[w].device, size);
            end(&f);
            end(&exact);
        }
}

/* The number of threads changes no bit, with more threads than heads of keys too. */
static void test_threads(void **state)
{
    (void)state;
    static const shape_case cases[] = {
        {"heads", 2, 70, 210, 6, 3, 16, 16, true, true, 0, -1, {0}},
        {"one", 1, 150, 201, 4, 1, 9, 17, false, true, 0, -1, {199}}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (int threads = 2; threads <= 3; threads++) {
            fixture f, one;
            start(&one, &cases[i], "cpu", WEFT_F32, 1);
            start(&f, &cases[i], "cpu", WEFT_F32, threads);
            assert_ok(weft_instance_run(one.program, WEFT_PHASE_MICRO));
            assert_ok(weft_instance_run(f.program, WEFT_PHASE_MICRO));
            for (int v = Y; v < VALUES; v++)
                assert_memory_equal(weft_instance_output(f.program, f.at[v]),
                                    weft_instance_output(one.program, one.at[v]),
                                    (size_t)size_of(&f, v) * sizeof(float));
            end(&f);
            end(&one);
        }
}

/* The bytes of a program in which attention has `length` queries and keys. */
static double planned(const char *device, int64_t length, bool grad)
{
    const shape_case c = {"long", 1, length, length, 2, 2, 32, 32, true, grad, 0, -1, {0}};
    fixture f = {0};
    weft_program *program;
    weft_program_options o;
    build(&f, &c, WEFT_F32, 2);
    assert_ok(weft_store_create(f.context, device, 1, &f.store));
    weft_program_options_init(&o);
    o.dry = true;
    o.fetch = &f.at[Y];
    o.fetch_count = grad ? 5 : 2;
    assert_ok(weft_program_create_with(f.store, f.graph, &o, &program));
    weft_program_info info = weft_program_describe(program);
    weft_program_destroy(&program);
    end(&f);
    return (double)(info.arena_bytes + info.slot_bytes + info.scratch_bytes);
}

/* Doubling the length doubles the memory at most: forward alone, and with the gradient. */
static void test_memory(void **state)
{
    (void)state;
    for (int w = 1; w < WAYS; w++)
        for (int grad = 0; grad < 2; grad++)
            for (int64_t length = 512; length < 2048; length *= 2) {
                double less = planned(on[w].device, length, grad),
                       more = planned(on[w].device, 2 * length, grad);
                print_message("%s: %.0f bytes of %d, %.0f of %d\n", on[w].device, less, (int)length,
                              more, (int)(2 * length));
                assert_true(less > 0 && more < 2.05 * less);
            }
}

/* The exponential function of the cpu device is within 2 units in the last place. */
static void test_exponential(void **state)
{
    (void)state;
    for (double x = -87; x < 88; x += 0x1p-9 + 0x1p-20) {
        float have = weft_exp((float)x);
        double want = exp((double)(float)x);
        int power;
        (void)frexp(want, &power);
        if (fabs((double)have - want) > 2 * ldexp(1, power - 24))
            fail_msg("exp(%.9g) is %.9g, should be %.9g", x, (double)have, want);
    }
    assert_true(weft_exp(-INFINITY) == 0 && weft_exp(-100) == 0 && weft_exp(0) == 1);
    assert_true(isnan(weft_exp(NAN)));
}

static void test_refusals(void **state)
{
    (void)state;
    static const struct {
        shape_case c;
        const char *words;
    } refused[] = {
        {{"", 1, 2, 3, 3, 2, 4, 4, false, false, 0, -1, {0}}, "3 heads and the keys 2"},
        {{"", 1, 2, 3, 2, 2, 4, 4, true, false, NAN, -1, {0}}, "the scale is nan"},
        {{"", 1, 2, 3, 2, 2, 4, 4, true, false, 0, 1LL << 31, {0}}, "within 32 bits"},
    };
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        const shape_case *c = &refused[i].c;
        fixture f;
        assert_ok(weft_context_create(&f.context));
        assert_ok(weft_graph_create(f.context, WEFT_F32, &f.graph));
        weft_attr attrs[] = {WEFT_ATTR_INT("causal", c->causal), WEFT_ATTR_REAL("scale", c->scale),
                             WEFT_ATTR_INT("first", c->first)};
        weft_value in[] = {leaf(&f, "q", c->b, c->t, c->h, c->d),
                           leaf(&f, "k", c->b, c->s, c->g, c->d),
                           leaf(&f, "v", c->b, c->s, c->g, c->e)};
        (void)weft_graph_node(f.graph, "attention", "y", in, 3, attrs, 3);
        assert_refused(weft_graph_status(f.graph), WEFT_ERR_ARGUMENT, refused[i].words);
        weft_graph_destroy(&f.graph);
        weft_context_destroy(&f.context);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),       cmocka_unit_test(test_nothing_seen),
        cmocka_unit_test(test_large_scores), cmocka_unit_test(test_threads),
        cmocka_unit_test(test_memory),       cmocka_unit_test(test_exponential),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests_name("attention", tests, NULL, NULL);
}
