/* Compares single steps and long runs of every optimizer that is an operator of its own, on every
 * device and in both precisions, with the formulas of the papers in long double. Hyperparameters
 * are extreme: betas and momentum from 0 to almost 1, and learning rates, epsilons and weight
 * decays over many powers of ten. Each constant may be rounded once, which bounds the differences.
 */
#include <float.h>
#include <math.h>

#include "context.h"
#include "weft/weft.h"

enum { COUNT = 23, DRAWS = 60, STEPS = 4 };

typedef long double wide;

/* A training graph of one parameter, whose gradient is an input. */
typedef struct bench {
    weft_optimizer_options o;
    weft_dtype real;
    wide unit; /* the distance of 1 to the next number */
    weft_graph *graph;
    weft_store *store;
    weft_instance *instance;
    weft_value gradient;
    int w, m, v; /* tensors of the store; -1: none */
    bool adam, decoupled;
} bench;

static weft_value make_leaf(weft_graph *g, weft_value_kind kind, const char *name)
{
    weft_shape shape = weft_shape_of(1, (int64_t[]){COUNT});
    return weft_graph_leaf(g, kind, name, weft_graph_real(g), &shape,
                           (weft_init){WEFT_INIT_CONSTANT, 0});
}

static void open_bench(bench *b, const char *device)
{
    weft_optimizer_values values;
    weft_attr axes = WEFT_ATTR_INT("axes", 0);
    assert_ok(weft_graph_create(context, b->real, &b->graph));
    weft_value w = make_leaf(b->graph, WEFT_VALUE_PARAM, "w");
    b->gradient = make_leaf(b->graph, WEFT_VALUE_INPUT, "gradient");
    weft_value sum =
        weft_graph_node(b->graph, "mul", "product", (weft_value[]){w, b->gradient}, 2, NULL, 0);
    weft_value loss = weft_graph_node(b->graph, "reduce_sum", "loss", &sum, 1, &axes, 1);
    assert_ok(weft_graph_differentiate(b->graph, loss));
    assert_ok(weft_optimizer_build(b->graph, &b->o, &values));
    assert_ok(weft_store_create(context, device, 1, &b->store));
    assert_ok(weft_instance_build(b->store, b->graph, &loss, 1, &b->instance));
    b->adam = strncmp(b->o.name, "adam", 4) == 0;
    b->decoupled = strcmp(b->o.name, "adamw") == 0;
    b->unit = b->real == WEFT_F32 ? (wide)FLT_EPSILON : (wide)DBL_EPSILON;
    b->w = weft_store_find(b->store, "w");
    b->m = weft_store_find(b->store, b->adam ? "w/m" : "w/momentum");
    b->v = weft_store_find(b->store, "w/v");
}

static void close_bench(bench *b)
{
    weft_instance_destroy(&b->instance);
    weft_store_destroy(&b->store);
    weft_graph_destroy(&b->graph);
}

static void put(const bench *b, void *to, int i, wide value)
{
    if (b->real == WEFT_F32)
        ((float *)to)[i] = (float)value;
    else
        ((double *)to)[i] = (double)value;
}

static wide get(const bench *b, const void *from, int i)
{
    return b->real == WEFT_F32 ? (wide)((const float *)from)[i] : (wide)((const double *)from)[i];
}

static void read_tensor(const bench *b, int tensor, wide out[COUNT])
{
    double data[COUNT] = {0};
    if (tensor >= 0) assert_ok(weft_store_read(b->store, tensor, data));
    for (int i = 0; i < COUNT; i++) out[i] = get(b, data, i);
}

static void write_tensor(const bench *b, int tensor, const wide value[COUNT])
{
    double data[COUNT];
    for (int i = 0; i < COUNT; i++) put(b, data, i, value[i]);
    assert_ok(weft_store_write(b->store, tensor, data));
}

/* Makes a step; g: the gradient, which is rounded to the type of the graph. */
static void make_step(const bench *b, wide g[COUNT])
{
    void *to = weft_instance_input(b->instance, b->gradient);
    assert_non_null(to);
    for (int i = 0; i < COUNT; i++) {
        put(b, to, i, g[i]);
        g[i] = get(b, to, i);
    }
    assert_ok(weft_instance_run(b->instance, WEFT_PHASE_MICRO));
    assert_ok(weft_instance_run(b->instance, WEFT_PHASE_UPDATE));
}

/* --- the formulas --- */

/* One parameter with its moments, and for each the sum of the amounts of what it was made of, to
 * which rounding errors are relative. */
typedef struct element {
    wide w, m, v, size_w, size_m, size_v;
} element;

static wide rounded(const bench *b, double x)
{
    return b->real == WEFT_F32 ? (wide)(float)x : (wide)x;
}

/* 1 - beta^step */
static wide weight_of(double beta, int step)
{
    return -expm1l((wide)step * log1pl((wide)beta - 1));
}

static void update_element(const bench *b, element *e, wide g, int step)
{
    const weft_optimizer_options *o = &b->o;
    wide lr = rounded(b, o->lr), w = e->w, decay = b->decoupled ? 0 : (wide)o->weight_decay * w;
    wide size = fabsl(g) + fabsl(decay), moved;
    g += decay;
    if (b->adam) {
        wide b1 = o->beta1, b2 = o->beta2;
        e->size_m = b1 * fabsl(e->m) + (1 - b1) * size;
        e->size_v = b2 * e->v + (1 - b2) * size * size;
        e->m = b1 * e->m + (1 - b1) * g;
        e->v = b2 * e->v + (1 - b2) * g * g;
        wide root = sqrtl(e->v / weight_of(o->beta2, step));
        moved = lr / weight_of(o->beta1, step) / (root + (wide)o->epsilon);
        /* relative errors of the denominator count as such of the step */
        e->size_w = moved * (e->size_m + fabsl(e->m) * (e->v > 0 ? e->size_v / e->v : 0));
        moved *= e->m;
    } else {
        e->size_m = (wide)o->momentum * fabsl(e->m) + size;
        e->m = (wide)o->momentum * e->m + g;
        moved = lr * (o->nesterov ? g + (wide)o->momentum * e->m : e->m);
        e->size_w = lr * (size + e->size_m);
    }
    if (b->decoupled) moved += lr * (wide)o->weight_decay * w;
    e->size_w += fabsl(w) + (b->decoupled ? lr * (wide)o->weight_decay * fabsl(w) : 0);
    e->w = w - moved;
}

static void expect(const bench *b, const char *what, int i, wide have, wide want, wide allowed)
{
    const weft_optimizer_options *o = &b->o;
    if (!(fabsl(have - want) <= allowed))
        fail_msg("%s of element %d is %.9Lg, not %.9Lg (%.3Lg units away): %s in %s, lr %g, "
                 "momentum %.17g%s, decay %g, betas %.17g and %.17g, epsilon %g",
                 what, i, have, want, fabsl(have - want) / fabsl(want) / b->unit, o->name,
                 b->real == WEFT_F32 ? "f32" : "f64", o->lr, o->momentum,
                 o->nesterov ? " (Nesterov)" : "", o->weight_decay, o->beta1, o->beta2, o->epsilon);
}

/* --- single steps --- */

static double pick(uint32_t *seed, const double *from, int count)
{
    *seed = *seed * 1664525 + 1013904223;
    return from[(*seed >> 10) % (uint32_t)count];
}
#define PICK(seed, ...)                                                                            \
    pick(seed, (const double[]){__VA_ARGS__},                                                      \
         (int)(sizeof((const double[]){__VA_ARGS__}) / sizeof(double)))

static void draw(weft_optimizer_options *o, uint32_t *seed)
{
    bool sgd = strcmp(o->name, "sgd") == 0;
    o->lr = PICK(seed, 1e-20, 1e-8, 1e-3, 0.1, 1, 1e4);
    o->weight_decay = PICK(seed, 0, 0, 1e-9, 1e-4, 0.01, 0.5) / fmax(1, o->lr);
    o->beta1 = PICK(seed, 0, 1e-5, 0.3, 0.5, 0.9, 0.999, 0.9999999, 1 - 1e-12);
    o->beta2 = PICK(seed, 0, 1e-5, 0.3, 0.5, 0.99, 0.999, 0.9999999, 0.99999999, 1 - 1e-12);
    o->epsilon = PICK(seed, 1e-300, 1e-45, 1e-38, 1e-20, 1e-8, 1e-8, 1e-3, 1, 1e10);
    if (sgd) o->momentum = PICK(seed, 0, 1e-5, 0.3, 0.9, 0.9999999, 0.99999999, 1 - 1e-12);
    o->nesterov = o->momentum > 0 && PICK(seed, 0, 1) > 0;
}

/* Gradients over many powers of ten, whose sizes and signs change from step to step. */
static wide gradient_of(int i, int step)
{
    wide size = powl(10, i * 7 % 11 - 6 + (step * 5 + i) % 3);
    return (i + step) % 3 ? size * (1 + (wide)i / 7) : -size;
}

/* Each step is compared with one from the state that the device had before it. */
static void check_steps(bench *b)
{
    wide w[COUNT], m[COUNT], v[COUNT], g[COUNT];
    for (int i = 0; i < COUNT; i++)
        w[i] = (i % 2 ? 1 : -1) * powl(10, i % 7 - 3) * (1 + (wide)i / 9);
    write_tensor(b, b->w, w);
    for (int step = 1; step <= STEPS; step++) {
        element e[COUNT];
        read_tensor(b, b->w, w);
        read_tensor(b, b->m, m);
        read_tensor(b, b->v, v);
        for (int i = 0; i < COUNT; i++) g[i] = gradient_of(i, step);
        make_step(b, g);
        for (int i = 0; i < COUNT; i++) {
            e[i] = (element){.w = w[i], .m = m[i], .v = v[i]};
            update_element(b, &e[i], g[i], step);
        }
        read_tensor(b, b->w, w);
        read_tensor(b, b->m, m);
        read_tensor(b, b->v, v);
        for (int i = 0; i < COUNT; i++) {
            if (b->m >= 0)
                expect(b, "the first moment", i, m[i], e[i].m, 4 * b->unit * e[i].size_m);
            if (b->v >= 0)
                expect(b, "the second moment", i, v[i], e[i].v, 6 * b->unit * e[i].size_v);
            expect(b, "the parameter", i, w[i], e[i].w, 12 * b->unit * e[i].size_w);
        }
    }
}

/* Runs `check` for every optimizer, device and precision. */
static void for_each(void (*check)(bench *b, const char *device, uint32_t *seed))
{
    static const weft_dtype reals[] = {WEFT_F32, WEFT_F64};
    uint32_t seed = 7;
    static const char *const own[] = {"sgd", "adam", "adamw"};
    for (size_t o = 0; o < sizeof(own) / sizeof(own[0]); o++)
        for (int d = 0; built_in(WEFT_KIND_DEVICE, d); d++)
            for (int r = 0; r < 2; r++) {
                bench b = {.real = reals[r]};
                weft_optimizer_options_init(&b.o);
                b.o.name = own[o];
                check(&b, built_in(WEFT_KIND_DEVICE, d), &seed);
            }
}

static void draw_steps(bench *b, const char *device, uint32_t *seed)
{
    for (int n = 0; n < (paths_alone() ? 6 : DRAWS); n++) {
        draw(&b->o, seed);
        open_bench(b, device);
        check_steps(b);
        close_bench(b);
    }
}

static void test_steps(void **state)
{
    (void)state;
    for_each(draw_steps);
}

/* --- long runs --- */

/* After three times the reach of a moving average, errors of its constants have had their whole
 * effect, while rounding errors of the steps, of which none is larger than half a unit, average
 * out. */
static void check_long(bench *b, const char *device, uint32_t *seed)
{
    enum { LONG = 30000 };
    wide g[COUNT], m[COUNT], v[COUNT], w[COUNT];
    element e[COUNT] = {{0}};
    b->o.beta1 = b->o.beta2 = 0.9999;
    b->o.momentum = strcmp(b->o.name, "sgd") == 0 ? 0.9999 : 0;
    b->o.lr = 1e-6;
    open_bench(b, device);
    for (int step = 1; step <= LONG; step++) {
        for (int i = 0; i < COUNT; i++) {
            *seed = *seed * 1664525 + 1013904223;
            g[i] = 0.2L + (wide)(*seed >> 8) / (1 << 24);
        }
        make_step(b, g);
        for (int i = 0; i < COUNT; i++) update_element(b, &e[i], g[i], step);
    }
    read_tensor(b, b->m, m);
    read_tensor(b, b->v, v);
    read_tensor(b, b->w, w);
    wide allowed = 2 * sqrtl(LONG) * b->unit;
    for (int i = 0; i < COUNT; i++) {
        expect(b, "the first moment", i, m[i], e[i].m, allowed * e[i].m);
        if (b->v >= 0) expect(b, "the second moment", i, v[i], e[i].v, allowed * e[i].v);
        /* the steps of a parameter are nearly equal, and so are their rounding errors */
        expect(b, "the parameter", i, w[i], e[i].w, LONG / 4 * b->unit * fabsl(e[i].w));
    }
    close_bench(b);
}

static void test_long(void **state)
{
    (void)state;
    if (!paths_alone()) for_each(check_long); /* the path of test_steps */
}

/* --- gradients whose squares are lost --- */

/* A parameter without a gradient stays, and no gradient makes a step of more than a few learning
 * rates, however small the epsilon is. */
static void check_lost(bench *b, const char *device, uint32_t *seed)
{
    (void)seed;
    wide g[COUNT] = {0}, w[COUNT];
    if (strcmp(b->o.name, "sgd") == 0) return;
    for (int beta = 0; beta < 3; beta++) {
        b->o.lr = 1;
        b->o.epsilon = 1e-310;
        b->o.beta2 = (const double[]){0.5, 0.999, 1 - 1e-12}[beta];
        open_bench(b, device);
        for (int step = 1; step <= 3; step++) {
            for (int i = 1; i < COUNT; i++) g[i] = powl(10, -(b->real == WEFT_F32 ? 1 : 8) * i - 5);
            make_step(b, g);
            read_tensor(b, b->w, w);
            assert_true(w[0] == 0);
            for (int i = 1; i < COUNT; i++) expect(b, "the parameter", i, w[i], 0, 1.5L * step);
        }
        close_bench(b);
    }
}

static void test_lost(void **state)
{
    (void)state;
    for_each(check_lost);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps),
        cmocka_unit_test(test_long),
        cmocka_unit_test(test_lost),
    };
    return cmocka_run_group_tests_name("optimizer_extremes", tests, setup, teardown);
}
