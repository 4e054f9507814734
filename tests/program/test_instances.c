/* One program that many stores and several threads share. */
#include <pthread.h>

#include "program_fixture.h"

/* Clones of a store that share a program train as separate stores do, with an instance each, or
 * with one instance that moves from store to store. */
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

/* Two instances that take turns on one store leave the values of one instance that makes all steps,
 * though the host waits neither between the turns nor before it reads: each has a queue of its own
 * on a device that has queues. */
static void test_instances_of_a_store_take_turns(void **state)
{
    (void)state;
    enum { BATCH = 5, TURNS = 4 };
    for (int d = 0; built_in(WEFT_KIND_DEVICE, d); d++) {
        weft_context *context;
        weft_store *store, *expected;
        weft_instance *x[2], *one;
        lowered l;
        open_context(&context);
        assert_ok(weft_store_create(context, built_in(WEFT_KIND_DEVICE, d), 7, &store));
        lower(&l, context, store, "lenet", TRAINING, BATCH);
        assert_ok(weft_store_clone(store, &expected));
        assert_ok(weft_instance_create(l.program, expected, NULL, &one));
        for (int i = 0; i < 2; i++) assert_ok(weft_instance_create(l.program, store, NULL, &x[i]));
        for (int t = 0; t < TURNS; t++) {
            train(&l, x[t % 2], BATCH, 10 * t, 1);
            train(&l, one, BATCH, 10 * t, 1);
        }
        weft_instance_destroy(&one); /* waits for its queue */
        same_values(store, expected);
        for (int i = 0; i < 2; i++) weft_instance_destroy(&x[i]);
        weft_store_destroy(&expected);
        weft_store_destroy(&store);
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
    same_values(w->store, w->store); /* reads use layouts, which all stores share */
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

/* Initial values do not depend on the number of threads that draw them. */
static void test_threads_draw_the_same_values(void **state)
{
    (void)state;
    static const int threads[] = {2, 3, 7};
    for (int d = 0; built_in(WEFT_KIND_DEVICE, d); d++) {
        weft_context *context;
        weft_store *one, *many;
        open_context(&context);
        assert_ok(weft_context_set_threads(context, 1));
        alone(context, built_in(WEFT_KIND_DEVICE, d), "lenet", THREAD_BATCH, 1, 0, &one);
        for (size_t t = 0; t < sizeof(threads) / sizeof(threads[0]); t++) {
            assert_ok(weft_context_set_threads(context, threads[t]));
            alone(context, built_in(WEFT_KIND_DEVICE, d), "lenet", THREAD_BATCH, 1, 0, &many);
            same_values(many, one);
            weft_store_destroy(&many);
        }
        weft_store_destroy(&one);
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

/* A thousand stores take the memory of their values, and at most 5 % more. */
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
    assert_refused(weft_store_read(early, 0, &value), WEFT_ERR_ARGUMENT,
                   "not allocated in this store");
    assert_ok(weft_instance_create(l.program, early, NULL, &x));
    same_values(early, store); /* initial values of the seed */
    weft_instance_destroy(&x);
    weft_store_destroy(&early);
    assert_refused(weft_instance_create(l.program, other, NULL, &x), WEFT_ERR_ARGUMENT,
                   "of another model");
    assert_ok(weft_instance_create(l.program, store, NULL, &x));
    assert_refused(weft_instance_use(x, other), WEFT_ERR_ARGUMENT, "of another model");
    weft_store_destroy(&other);
    drop(&l); /* the instance keeps its program */
    feed(&l, x, 2, 1);
    weft_instance_destroy(&x);
    weft_store_destroy(&store);
    weft_context_destroy(&context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clones_share_a_program),
        cmocka_unit_test(test_instances_of_a_store_take_turns),
        cmocka_unit_test(test_threads_share_a_program),
        cmocka_unit_test(test_threads_draw_the_same_values),
        cmocka_unit_test(test_a_thousand_stores),
        cmocka_unit_test(test_foreign_stores_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
