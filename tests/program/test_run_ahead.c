/* Steps that are queued before the host knows the loss of the step before: the same numbers as of
 * steps that are waited for, and a loss that is not finite stops what follows. */
#include <math.h>

#include "program/instance.h"
#include "program_fixture.h"

enum { BATCH = 5 };

static const char *const devices[] = {"distant", "opencl", "cuda"};

static const struct {
    const char *model;
    bool captures;
} ways[] = {{"mlp", true}, {"lenet", true}, {"mlp", false}};

/* A program with two stores: `ahead` queues steps on the one, and `sync` waits on the other. */
typedef struct pair {
    weft_context *context;
    weft_store *store[2];
    weft_instance *ahead, *sync;
    lowered l;
} pair;

/* False: the device is not here. */
static bool open_pair(pair *p, const char *device, const char *model, bool captures)
{
    bool can;
    open_context(&p->context);
    weft_status status = weft_store_create(p->context, device, 7, &p->store[0]);
    if (status != WEFT_OK) {
        assert_true(status == WEFT_ERR_UNSUPPORTED);
        print_message("SKIPPED: %s\n", weft_last_message());
        weft_context_destroy(&p->context);
        return false;
    }
    lower(&p->l, p->context, p->store[0], model, TRAINING, BATCH);
    assert_ok(weft_store_clone(p->store[0], &p->store[1]));
    assert_ok(weft_instance_create(p->l.program, p->store[0], NULL, &p->ahead));
    assert_ok(weft_instance_create(p->l.program, p->store[1], NULL, &p->sync));
    assert_ok(weft_run_ahead_open(p->ahead, PORT(p->l.values, LOSS), captures, &can));
    assert_true(can);
    return true;
}

static void close_pair(pair *p)
{
    weft_instance_destroy(&p->ahead);
    weft_instance_destroy(&p->sync);
    for (int i = 0; i < 2; i++) weft_store_destroy(&p->store[i]);
    drop(&p->l);
    weft_context_destroy(&p->context);
}

static float loss_of(const pair *p, const weft_instance *x)
{
    return *(const float *)weft_instance_output(x, PORT(p->l.values, LOSS));
}

static float *weights_of(const pair *p)
{
    return weft_instance_input(p->ahead, PORT(p->l.values, WEIGHTS));
}

/* Queues step s, with a sample weight that is not a number if `bad`. */
static void queue(const pair *p, int s, bool bad)
{
    feed(&p->l, p->ahead, BATCH, s);
    if (bad) weights_of(p)[1] = NAN;
    assert_ok(weft_run_ahead_queue(p->ahead));
}

/* Waits for the oldest queued step, whose loss is that of step s. */
static void compare(const pair *p, int s)
{
    train(&p->l, p->sync, BATCH, s, 1);
    assert_ok(weft_run_ahead_wait(p->ahead));
    float ahead = loss_of(p, p->ahead), sync = loss_of(p, p->sync);
    assert_memory_equal(&ahead, &sync, sizeof(ahead));
}

static void take_steps(const pair *p, int first, int count)
{
    for (int s = 0; s < count; s++) {
        queue(p, first + s, false);
        if (s > 0) compare(p, first + s - 1);
    }
    compare(p, first + count - 1);
    same_values(p->store[0], p->store[1]);
}

static void test_same_numbers(void **state)
{
    (void)state;
    for (size_t d = 0; d < WEFT_COUNT(devices); d++)
        for (size_t w = 0; w < WEFT_COUNT(ways); w++) {
            pair p;
            if (!open_pair(&p, devices[d], ways[w].model, ways[w].captures)) continue;
            take_steps(&p, 0, 4);
            take_steps(&p, 20, 3);
            /* Other instances and the host see the step that is queued. */
            queue(&p, 30, false);
            train(&p.l, p.sync, BATCH, 30, 1);
            same_values(p.store[0], p.store[1]);
            assert_ok(weft_run_ahead_wait(p.ahead));
            /* Another store, then the first one again. */
            assert_ok(weft_instance_use(p.ahead, p.store[1]));
            assert_ok(weft_instance_use(p.sync, p.store[0]));
            take_steps(&p, 40, 5);
            const weft_device *device = p.store[0]->schema->devices[0];
            assert_int_equal(p.ahead->replays > 0, ways[w].captures && device->ops->capture);
            close_pair(&p);
        }
}

static void test_loss_that_is_not_finite(void **state)
{
    (void)state;
    for (size_t d = 0; d < WEFT_COUNT(devices); d++)
        for (int more = 0; more < 2; more++) {
            pair p;
            if (!open_pair(&p, devices[d], "mlp", true)) continue;
            take_steps(&p, 0, 3);
            queue(&p, 3, false);
            queue(&p, 4, true);
            compare(&p, 3);
            if (more) queue(&p, 5, false);
            assert_ok(weft_run_ahead_wait(p.ahead));
            assert_false(isfinite(loss_of(&p, p.ahead)));
            assert_ok(weft_run_ahead_stop(p.ahead));
            assert_true(isnan(weights_of(&p)[1]));
            same_values(p.store[0], p.store[1]);
            take_steps(&p, 6, 4);
            close_pair(&p);
        }
}

/* Programs of which the host computes a part, or on devices that share its memory, do not. */
static void test_others_wait(void **state)
{
    (void)state;
    static const char *const others[] = {"cpu", "reference", "distant:lacks=relu",
                                         "distant:of=cpu"};
    for (size_t d = 0; d < WEFT_COUNT(others); d++) {
        weft_context *context;
        weft_store *store;
        weft_instance *x;
        lowered l;
        bool can = true;
        open_context(&context);
        assert_ok(weft_store_create(context, others[d], 7, &store));
        lower(&l, context, store, "lenet", TRAINING, BATCH);
        assert_ok(weft_instance_create(l.program, store, NULL, &x));
        assert_ok(weft_run_ahead_open(x, PORT(l.values, LOSS), true, &can));
        assert_false(can);
        train(&l, x, BATCH, 1, 1);
        weft_instance_destroy(&x);
        drop(&l);
        weft_store_destroy(&store);
        weft_context_destroy(&context);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_numbers),
                                       cmocka_unit_test(test_loss_that_is_not_finite),
                                       cmocka_unit_test(test_others_wait)};
    return cmocka_run_group_tests_name("run_ahead", tests, NULL, NULL);
}
