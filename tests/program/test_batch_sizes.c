/* Programs of several batch sizes on one store: a weight is reordered once for all of them. */
#include "program_fixture.h"

/* Counts the reorders of weights since the trace began, and begins a new trace. */
static int reorders(weft_instance *x)
{
    char *text;
    int count = 0;
    assert_ok(weft_instance_trace_events(x, 0, -1, &text));
    const char *first = strstr(text, "\"ts\":"); /* time begins with the first event */
    if (first) assert_int_equal(strncmp(first, "\"ts\":0.000,", 11), 0);
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

/* A store that no other program uses gives the same bits for one sample. */
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

/* Runs each batch size more than once: after its first run no weight is reordered. Backward reads
 * weights in another layout than forward, at least on the device cpu. */
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
    for (int b = 0; b < SIZES; b++) { /* a weight that one size has reordered serves all */
        assert_ok(weft_instance_run(x[b], WEFT_PHASE_MICRO));
        assert_int_equal(reorders(x[b]), 0);
    }
    /* A sample has the same logits in any batch, up to rounding. */
    const float *one = weft_instance_output(x[0], PORT(l[0].values, LOGITS));
    const float *many = weft_instance_output(x[2], PORT(l[2].values, LOGITS));
    for (int c = 0; c < CLASSES; c++) assert_float_equal(one[c], many[c], 1e-4);
}

/* Weights are reordered into a program's layout after they have changed, not in every run. */
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
        copy_values(trained, store); /* parameters written by hand */
        run_sizes(device, l, x);
        check_fresh(context, device, trained,
                    weft_instance_output(x[0], PORT(l[0].values, LOGITS)));
        assert_ok(weft_instance_create(training.program, store, NULL, &trains));
        train(&training, trains, 64, 2, 1); /* parameters written by an update */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_batches_share_weights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
