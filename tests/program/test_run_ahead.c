/* Steps that are queued before the host knows the loss of the step before: the same numbers as of
 * steps that are waited for, and a loss that is not finite stops what follows. */
#include <math.h>

#include "program/instance.h"
#include "program_fixture.h"

enum { BATCH = 5, MOST = 3 };

static const char *const devices[] = {"distant", "opencl", "cuda"};

/* The passes of a step, by the most micro-batches that have run forward and not yet backward. */
#define F(m)                                                                                       \
    {                                                                                              \
        WEFT_PHASE_FORWARD, m                                                                      \
    }
#define B(m)                                                                                       \
    {                                                                                              \
        WEFT_PHASE_BACKWARD, m                                                                     \
    }
static weft_action alone_actions[] = {F(0), B(0)};
static weft_action in_turn_actions[] = {F(0), B(0), F(1), B(1), F(2), B(2)};
static weft_action two_actions[] = {F(0), F(1), B(0), F(2), B(1), B(2)};
static weft_action all_actions[] = {F(0), F(1), F(2), B(0), B(1), B(2)};

typedef struct way {
    const char *model;
    bool captures;
    weft_schedule schedule;
} way;
static const way ways[] = {
    {"mlp", true, {alone_actions, 2, 1}},  {"lenet", true, {alone_actions, 2, 1}},
    {"mlp", false, {alone_actions, 2, 1}}, {"mlp", true, {in_turn_actions, 6, 1}},
    {"lenet", false, {two_actions, 6, 2}}, {"mlp", true, {two_actions, 6, 2}},
    {"mlp", true, {all_actions, 6, 3}},
};

/* A program with two stores: `ahead` queues steps on the one, and `sync` waits on the other. */
typedef struct pair {
    weft_context *context;
    weft_store *store[2];
    weft_instance *ahead, *sync;
    const way *way;
    lowered l;
} pair;

/* False: the device is not here. */
static bool open_pair(pair *p, const char *device, const way *w)
{
    bool can;
    p->way = w;
    open_context(&p->context);
    weft_status status = weft_store_create(p->context, device, 7, &p->store[0]);
    if (status != WEFT_OK) {
        assert_true(status == WEFT_ERR_UNSUPPORTED);
        print_message("SKIPPED: %s\n", weft_last_message());
        weft_context_destroy(&p->context);
        return false;
    }
    lower_micro(&p->l, p->context, p->store[0], w->model, w->schedule.count / 2, w->schedule.slots,
                BATCH);
    assert_ok(weft_store_clone(p->store[0], &p->store[1]));
    assert_ok(weft_instance_create(p->l.program, p->store[0], NULL, &p->ahead));
    assert_ok(weft_instance_create(p->l.program, p->store[1], NULL, &p->sync));
    const weft_ahead_options o = {.loss = PORT(p->l.values, LOSS),
                                  .dtype = WEFT_F32,
                                  .schedule = &w->schedule,
                                  .captures = w->captures};
    assert_ok(weft_run_ahead_open(p->ahead, &o, &can));
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

static int micros_of(const pair *p)
{
    return p->way->schedule.count / 2;
}

static void feed_micro(const pair *p, weft_instance *x, int s, int m)
{
    assert_ok(weft_instance_micro(x, m));
    feed(&p->l, x, BATCH, s * MOST + m);
    if (p->l.keep != WEFT_NO_VALUE) *(float *)weft_instance_input(x, p->l.keep) = m > 0;
}

/* Queues step s, with a sample weight that is not a number in micro-batch `bad`; -1: in none. */
static void queue(const pair *p, int s, int bad)
{
    weft_comm_stats none;
    for (int m = 0; m < micros_of(p); m++) {
        feed_micro(p, p->ahead, s, m);
        if (m == bad) weights_of(p)[1] = NAN;
    }
    assert_ok(weft_run_ahead_queue(p->ahead, &none));
    assert_int_equal(none.bytes, 0);
}

/* Takes step s and waits for each pass. */
static void wait_for_step(const pair *p, int s, float *loss)
{
    const weft_schedule *all = &p->way->schedule;
    for (int i = 0; i < all->count; i++) {
        int m = all->actions[i].micro;
        assert_ok(weft_instance_micro(p->sync, m));
        if (all->actions[i].phase == WEFT_PHASE_FORWARD) feed_micro(p, p->sync, s, m);
        assert_ok(weft_instance_run(p->sync, all->actions[i].phase));
        if (all->actions[i].phase == WEFT_PHASE_FORWARD) loss[m] = loss_of(p, p->sync);
    }
    assert_ok(weft_instance_run(p->sync, WEFT_PHASE_UPDATE));
}

/* Waits for the oldest queued step, whose losses are those of step s. */
static void compare(const pair *p, int s)
{
    float wanted[MOST];
    wait_for_step(p, s, wanted);
    assert_ok(weft_run_ahead_wait(p->ahead));
    for (int m = 0; m < micros_of(p); m++) {
        assert_ok(weft_instance_micro(p->ahead, m));
        float had = loss_of(p, p->ahead);
        assert_memory_equal(&had, &wanted[m], sizeof(had));
    }
}

static void take_steps(const pair *p, int first, int count)
{
    for (int s = 0; s < count; s++) {
        queue(p, first + s, -1);
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
            float loss[MOST];
            if (d > 0 && w % 2 != d % 2 && !in_full()) continue;
            if (!open_pair(&p, devices[d], &ways[w])) continue;
            take_steps(&p, 0, 4);
            take_steps(&p, 20, 3);
            /* Other instances and the host see the step that is queued. */
            queue(&p, 30, -1);
            wait_for_step(&p, 30, loss);
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

static void stop_at(const way *w, const char *device, int bad, bool more)
{
    pair p;
    bool finite = true;
    if (!open_pair(&p, device, w)) return;
    take_steps(&p, 0, 3);
    queue(&p, 3, -1);
    queue(&p, 4, bad);
    compare(&p, 3);
    if (more) queue(&p, 5, -1);
    assert_ok(weft_run_ahead_wait(p.ahead));
    for (int m = 0; m < micros_of(&p); m++) {
        assert_ok(weft_instance_micro(p.ahead, m));
        finite = finite && isfinite(loss_of(&p, p.ahead));
        assert_int_equal(isnan(weights_of(&p)[1]), m == bad);
    }
    assert_false(finite);
    assert_ok(weft_run_ahead_stop(p.ahead));
    same_values(p.store[0], p.store[1]);
    take_steps(&p, 6, 4);
    close_pair(&p);
}

static void test_loss_that_is_not_finite(void **state)
{
    (void)state;
    for (size_t d = 0; d < WEFT_COUNT(devices); d++)
        for (size_t w = 0; w < WEFT_COUNT(ways); w += 3)
            for (int more = 0; more < 2; more++)
                stop_at(&ways[w], devices[d], more ? 0 : ways[w].schedule.count / 2 - 1, more);
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
        const weft_ahead_options o = {.loss = PORT(l.values, LOSS),
                                      .dtype = WEFT_F32,
                                      .schedule = &ways[0].schedule,
                                      .captures = true};
        assert_ok(weft_run_ahead_open(x, &o, &can));
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
