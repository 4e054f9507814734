/* Programs that are shared: many stores, several threads, several batch sizes. */
#include <pthread.h>

#include "support.h"

enum { CLASSES = 7, SIDE = 17, SAMPLE = SIDE * SIDE };

/* What a graph does beyond forward. */
typedef enum kind { GRADIENTS, TRAINING } kind;

/* A graph, and a program of it on somebody's store. */
typedef struct lowered {
    weft_graph *graph;
    weft_model_values values;
    weft_program *program;
} lowered;

static void build_graph(lowered *l, weft_context *context, const char *model, kind what,
                        int64_t batch)
{
    weft_model_options o;
    weft_optimizer_options optimizer;
    weft_optimizer_values ignored;
    weft_model_options_init(&o);
    o.model = model;
    o.sample = weft_shape_of(3, (int64_t[]){1, SIDE, SIDE});
    o.batch = batch;
    o.classes = CLASSES;
    o.training = true;
    assert_ok(weft_graph_create(context, WEFT_F32, &l->graph));
    assert_ok(weft_model_build(l->graph, &o, &l->values));
    assert_ok(weft_graph_differentiate(l->graph, PORT(l->values, LOSS)));
    if (what == GRADIENTS) return;
    weft_optimizer_options_init(&optimizer);
    assert_ok(weft_optimizer_build(l->graph, &optimizer, &ignored));
}

static void lower(lowered *l, weft_context *context, weft_store *store, const char *model,
                  kind what, int64_t batch)
{
    build_graph(l, context, model, what, batch);
    weft_value fetch[] = {PORT(l->values, LOGITS), PORT(l->values, LOSS), WEFT_NO_VALUE};
    /* The gradient of the first weight needs those of all layers behind it. */
    weft_value first =
        weft_graph_find(l->graph, strcmp(model, "mlp") ? "conv1/weight" : "fc1/weight");
    fetch[2] = weft_graph_gradient(l->graph, first);
    assert_ok(weft_program_create(store, l->graph, fetch, what == GRADIENTS ? 3 : 2, &l->program));
}

static void drop(lowered *l)
{
    weft_program_destroy(&l->program);
    weft_graph_destroy(&l->graph);
}

/* One thread for each instance: what is shared here are programs, not loops. */
static void open_context(weft_context **out)
{
    assert_ok(weft_context_create(out));
    assert_ok(weft_context_set_threads(*out, 1));
}

/* Data that differs with `seed`. */
static void feed(const lowered *l, weft_instance *x, int64_t batch, int seed)
{
    float *in = weft_instance_input(x, PORT(l->values, FEATURES));
    float *weights = weft_instance_input(x, PORT(l->values, WEIGHTS));
    int32_t *labels = weft_instance_input(x, PORT(l->values, TARGET));
    for (int64_t i = 0; i < batch * SAMPLE; i++) in[i] = (float)((i * 37 + seed * 11) % 101) / 101;
    for (int64_t b = 0; b < batch && weights; b++) weights[b] = 1.0f / (float)batch;
    for (int64_t b = 0; b < batch && labels; b++) labels[b] = (int32_t)((b + seed) % CLASSES);
}

static void train(const lowered *l, weft_instance *x, int64_t batch, int seed, int steps)
{
    for (int s = 0; s < steps; s++) {
        feed(l, x, batch, seed + s);
        assert_ok(weft_instance_run(x, WEFT_PHASE_MICRO));
        assert_ok(weft_instance_run(x, WEFT_PHASE_UPDATE));
    }
}

static void same_values(const weft_store *a, const weft_store *b)
{
    assert_int_equal(weft_store_count(a), weft_store_count(b));
    for (int i = 0; i < weft_store_count(a); i++) {
        weft_type type = weft_store_type(a, i);
        size_t bytes = weft_type_bytes(&type);
        void *x = malloc(bytes), *y = malloc(bytes);
        assert_ok(weft_store_read(a, i, x));
        assert_ok(weft_store_read(b, weft_store_find(b, weft_store_name(a, i)), y));
        assert_memory_equal(x, y, bytes);
        free(x);
        free(y);
    }
}

/* What a store of its own comes to after so many steps on this data. */
static void alone(weft_context *context, const char *device, const char *model, int64_t batch,
                  int seed, int steps, weft_store **out)
{
    lowered l;
    weft_instance *x;
    assert_ok(weft_store_create(context, device, 7, out));
    lower(&l, context, *out, model, TRAINING, batch);
    assert_ok(weft_instance_create(l.program, *out, NULL, &x));
    train(&l, x, batch, seed, steps);
    weft_instance_destroy(&x);
    drop(&l);
}

/* Clones on one program go the ways that stores of their own go, by instances of their own as well
 * as by one that goes from store to store. */
static void test_clones_share_a_program(void **state)
{
    (void)state;
    enum { STORES = 3, BATCH = 5, STEPS = 2 };
    for (int d = 0; built_in(WEFT_KIND_DEVICE, d); d++)
        for (int travels = 0; travels < 2; travels++) {
            weft_context *context;
            weft_store *store[STORES], *expected;
            weft_instance *x = NULL;
            lowered l;
            open_context(&context);
            assert_ok(weft_store_create(context, built_in(WEFT_KIND_DEVICE, d), 7, &store[0]));
            lower(&l, context, store[0], "lenet", TRAINING, BATCH);
            for (int i = 1; i < STORES; i++) assert_ok(weft_store_clone(store[0], &store[i]));
            for (int i = 0; i < STORES; i++) {
                if (!travels || !x)
                    assert_ok(weft_instance_create(l.program, store[i], NULL, &x));
                else
                    assert_ok(weft_instance_use(x, store[i]));
                train(&l, x, BATCH, 10 * i, STEPS);
                if (!travels) weft_instance_destroy(&x);
            }
            weft_instance_destroy(&x);
            for (int i = 0; i < STORES; i++) {
                alone(context, built_in(WEFT_KIND_DEVICE, d), "lenet", BATCH, 10 * i, STEPS,
                      &expected);
                same_values(store[i], expected);
                weft_store_destroy(&expected);
                weft_store_destroy(&store[i]);
            }
            drop(&l);
            weft_context_destroy(&context);
        }
}

/* --- threads --- */

typedef struct worker {
    const lowered *l;
    weft_store *store;
    int seed;
    pthread_t thread;
} worker;

enum { WORKERS = 8, THREAD_BATCH = 3, THREAD_STEPS = 3 };

static void *work(void *user)
{
    worker *w = user;
    weft_instance *x;
    assert_ok(weft_instance_create(w->l->program, w->store, NULL, &x));
    train(w->l, x, THREAD_BATCH, w->seed, THREAD_STEPS);
    weft_instance_destroy(&x);
    same_values(w->store, w->store); /* reading takes layouts, which all stores share */
    return NULL;
}

static void test_threads_share_a_program(void **state)
{
    (void)state;
    for (int d = 0; built_in(WEFT_KIND_DEVICE, d); d++) {
        weft_context *context;
        weft_store *first, *expected;
        worker all[WORKERS];
        lowered l;
        open_context(&context);
        assert_ok(weft_store_create(context, built_in(WEFT_KIND_DEVICE, d), 7, &first));
        lower(&l, context, first, "lenet", TRAINING, THREAD_BATCH);
        for (int i = 0; i < WORKERS; i++) {
            all[i] = (worker){.l = &l, .seed = 5 * i};
            assert_ok(weft_store_clone(first, &all[i].store));
        }
        for (int i = 0; i < WORKERS; i++)
            assert_int_equal(pthread_create(&all[i].thread, NULL, work, &all[i]), 0);
        for (int i = 0; i < WORKERS; i++) pthread_join(all[i].thread, NULL);
        for (int i = 0; i < WORKERS; i++) {
            alone(context, built_in(WEFT_KIND_DEVICE, d), "lenet", THREAD_BATCH, 5 * i,
                  THREAD_STEPS, &expected);
            same_values(all[i].store, expected);
            weft_store_destroy(&expected);
            weft_store_destroy(&all[i].store);
        }
        drop(&l);
        weft_store_destroy(&first);
        weft_context_destroy(&context);
    }
}

/* --- batch sizes --- */

/* Reorders that ran since the trace began. */
static int reorders(weft_instance *x)
{
    char *text;
    int count = 0;
    assert_ok(weft_instance_trace_events(x, 0, -1, &text));
    for (const char *at = text; (at = strstr(at, "\"name\":\"reorder ")); at++)
        count += strstr(at, "/weight\"") && strstr(at, "/weight\"") < strchr(at, ',');
    weft_free(text);
    assert_ok(weft_instance_trace(x, 1000));
    return count;
}

static void copy_values(const weft_store *from, weft_store *to)
{
    for (int i = 0; i < weft_store_count(to); i++) {
        weft_type type = weft_store_type(to, i);
        void *data = malloc(weft_type_bytes(&type));
        assert_ok(weft_store_read(from, weft_store_find(from, weft_store_name(to, i)), data));
        assert_ok(weft_store_write(to, i, data));
        free(data);
    }
}

/* A store that no other program knows gives one sample the same bits. */
static void check_fresh(weft_context *context, const char *device, const weft_store *values,
                        const void *logits)
{
    lowered l;
    weft_instance *x;
    weft_store *store;
    assert_ok(weft_store_create(context, device, 8, &store));
    lower(&l, context, store, "lenet", GRADIENTS, 1);
    copy_values(values, store);
    assert_ok(weft_instance_create(l.program, store, NULL, &x));
    feed(&l, x, 1, 1);
    assert_ok(weft_instance_run(x, WEFT_PHASE_MICRO));
    assert_memory_equal(weft_instance_output(x, PORT(l.values, LOGITS)), logits,
                        CLASSES * sizeof(float));
    weft_instance_destroy(&x);
    drop(&l);
    weft_store_destroy(&store);
}

enum { SIZES = 3 };
static const int64_t batches[SIZES] = {1, 8, 64};

/* Each size more than once: after the first time, no weight is turned. Backward reads weights
 * another way than forward, at least on the cpu device. */
static void run_sizes(const char *device, const lowered *l, weft_instance **x)
{
    int turned = 0;
    for (int b = 0; b < SIZES; b++) {
        feed(&l[b], x[b], batches[b], 1);
        assert_ok(weft_instance_run(x[b], WEFT_PHASE_MICRO));
        int first = reorders(x[b]);
        turned += first;
        assert_ok(weft_instance_run(x[b], WEFT_PHASE_MICRO));
        print_message("%s, batch %lld: %d weights brought into another layout\n", device,
                      (long long)batches[b], first);
        assert_int_equal(reorders(x[b]), 0);
    }
    if (strcmp(device, "cpu") == 0) assert_true(turned > 0);
    for (int b = 0; b < SIZES; b++) { /* what one size had turned is there for all, and stays */
        assert_ok(weft_instance_run(x[b], WEFT_PHASE_MICRO));
        assert_int_equal(reorders(x[b]), 0);
    }
    /* One sample gives the same in any batch, to rounding. */
    const float *one = weft_instance_output(x[0], PORT(l[0].values, LOGITS));
    const float *many = weft_instance_output(x[2], PORT(l[2].values, LOGITS));
    for (int c = 0; c < CLASSES; c++) assert_float_equal(one[c], many[c], 1e-4);
}

/* Weights are brought into a program's own layout when they have changed, not in every run. */
static void test_batches_share_weights(void **state)
{
    (void)state;
    for (int d = 0; built_in(WEFT_KIND_DEVICE, d); d++) {
        const char *device = built_in(WEFT_KIND_DEVICE, d);
        weft_context *context;
        weft_store *store, *trained;
        lowered training, l[SIZES];
        weft_instance *x[SIZES], *trains;
        open_context(&context);
        assert_ok(weft_store_create(context, device, 7, &store));
        lower(&training, context, store, "lenet", TRAINING, 64); /* chooses the layouts */
        for (int b = 0; b < SIZES; b++)
            lower(&l[b], context, store, "lenet", GRADIENTS, batches[b]);
        for (int b = 0; b < SIZES; b++) {
            assert_ok(weft_instance_create(l[b].program, store, NULL, &x[b]));
            assert_ok(weft_instance_trace(x[b], 1000));
        }
        run_sizes(device, l, x);
        check_fresh(context, device, store, weft_instance_output(x[0], PORT(l[0].values, LOGITS)));
        alone(context, device, "lenet", 5, 3, 2, &trained);
        copy_values(trained, store); /* written by hand */
        run_sizes(device, l, x);
        check_fresh(context, device, trained,
                    weft_instance_output(x[0], PORT(l[0].values, LOGITS)));
        assert_ok(weft_instance_create(training.program, store, NULL, &trains));
        train(&training, trains, 64, 2, 1); /* written by an update */
        weft_instance_destroy(&trains);
        run_sizes(device, l, x);
        check_fresh(context, device, store, weft_instance_output(x[0], PORT(l[0].values, LOGITS)));
        for (int b = 0; b < SIZES; b++) {
            weft_instance_destroy(&x[b]);
            drop(&l[b]);
        }
        drop(&training);
        weft_store_destroy(&trained);
        weft_store_destroy(&store);
        weft_context_destroy(&context);
    }
}

/* --- a thousand stores --- */

#ifndef WEFT_SANITIZED
static size_t resident(void)
{
    size_t pages = 0, unused;
    FILE *f = fopen("/proc/self/statm", "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%zu %zu", &unused, &pages), 2);
    (void)fclose(f);
    return pages * 4096;
}
#endif

/* What many stores take is what their values take. */
static void test_a_thousand_stores(void **state)
{
    (void)state;
#ifdef WEFT_SANITIZED
    skip();
#else
    enum { MANY = 1000, BATCH = 2 };
    weft_context *context;
    weft_store **store = calloc(MANY, sizeof(weft_store *));
    weft_instance *x;
    lowered l;
    assert_non_null(store);
    open_context(&context);
    assert_ok(weft_store_create(context, "cpu", 7, &store[0]));
    lower(&l, context, store[0], "mlp", TRAINING, BATCH);
    assert_ok(weft_instance_create(l.program, store[0], NULL, &x));
    weft_program_info info = weft_program_describe(l.program);
    double values = (double)(info.parameter_bytes + info.state_bytes);
    size_t before = resident();
    for (int i = 1; i < MANY; i++) {
        assert_ok(weft_store_clone(store[0], &store[i]));
        assert_ok(weft_instance_use(x, store[i]));
        train(&l, x, BATCH, i, 1);
    }
    double taken = (double)(resident() - before);
    print_message("%d stores of %.0f kB: %.1f MB, %.1f %% more than their values\n", MANY,
                  values / 1e3, taken / 1e6, 100 * (taken / (values * (MANY - 1)) - 1));
    assert_true(taken < 1.05 * values * (MANY - 1));
    weft_instance_destroy(&x);
    for (int i = 0; i < MANY; i++) weft_store_destroy(&store[i]);
    free(store);
    drop(&l);
    weft_context_destroy(&context);
#endif
}

static void test_foreign_stores_are_refused(void **state)
{
    (void)state;
    weft_context *context;
    weft_store *store, *other;
    weft_instance *x;
    lowered l;
    open_context(&context);
    assert_ok(weft_store_create(context, "reference", 7, &store));
    assert_ok(weft_store_create(context, "reference", 7, &other));
    weft_store *early;
    float value;
    assert_ok(weft_store_clone(store, &early));
    lower(&l, context, store, "mlp", TRAINING, 2);
    assert_refused(weft_store_read(early, 0, &value), WEFT_ERR_ARGUMENT, "no value in this store");
    assert_ok(weft_instance_create(l.program, early, NULL, &x));
    same_values(early, store); /* as the seed says */
    weft_instance_destroy(&x);
    weft_store_destroy(&early);
    assert_refused(weft_instance_create(l.program, other, NULL, &x), WEFT_ERR_ARGUMENT,
                   "of another model");
    assert_ok(weft_instance_create(l.program, store, NULL, &x));
    assert_refused(weft_instance_use(x, other), WEFT_ERR_ARGUMENT, "of another model");
    weft_store_destroy(&other);
    drop(&l); /* the instance holds its program */
    feed(&l, x, 2, 1);
    weft_instance_destroy(&x);
    weft_store_destroy(&store);
    weft_context_destroy(&context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clones_share_a_program),
        cmocka_unit_test(test_threads_share_a_program),
        cmocka_unit_test(test_batches_share_weights),
        cmocka_unit_test(test_a_thousand_stores),
        cmocka_unit_test(test_foreign_stores_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
