/* Steps of several ranks and micro-batches that are queued before the host knows the loss of the
 * step before: the same losses and values as of steps that are waited for; a loss that is not
 * finite on one rank stops the update on all of them, with the same message; the host is a step
 * ahead of its device; and a rank that fails ends the others. */
#include <math.h>

#include "program/instance.h"
#include "train/trainer.h"
#include "trainer_runs.h"

enum { MOST = 4, BATCH = 8, STEPS = 5, BAD = 3 };

static const char *const devices[] = {"distant", "opencl", "cuda"};

static const char *const ways[] = {
    "microbatches=2",
    "ranks=2",
    "ranks=2 microbatches=2 clip-norm=1",
    "ranks=2 zero=1",
    "ranks=3 zero=2 microbatches=2",
    "ranks=2 zero=3 optimizer=sgd",
    "ranks=2 virtual-workers=4",
    "ranks=2 mesh=pipeline=2 microbatches=4",
    "ranks=2 mesh=pipeline=2 microbatches=4 schedule=gpipe",
    "ranks=4 mesh=data=2,pipeline=2 microbatches=2",
};

/* The work of the ranks, and its results. */
static struct scene {
    bool ahead, fails;
    int bad; /* the row of step BAD whose weight is not a number; -1: none */
    double loss[MOST][STEPS];
    char message[MOST][768];
    bool was_ahead[MOST];
} now;

/* NULL: the device is not here. */
static weft_trainer *open_trainer(const char *device, const char *way)
{
    weft_train_options o = {0};
    weft_trainer *t = NULL;
    const weft_option *table = weft_train_table(context);
    char words[256], *save = NULL;
    assert_ok(weft_train_options_init(context, &o));
    (void)snprintf(words, sizeof(words),
                   "model=mlp data=glyphs:size=9,train=96,test=8 seed=4 threads=1 batch=%d "
                   "device=%s %s",
                   BATCH, device, way);
    for (char *w = strtok_r(words, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
        char *equals = strchr(w, '=');
        *equals = '\0';
        assert_ok(weft_options_set(table, &o, w, equals + 1));
    }
    weft_status status = weft_trainer_create(context, &o, &t);
    if (status != WEFT_OK && status != WEFT_ERR_UNSUPPORTED && status != WEFT_ERR_ARGUMENT)
        fail_msg("%s on %s: %s", way, device, weft_last_message());
    if (status != WEFT_OK) print_message("SKIPPED: %s\n", weft_last_message());
    weft_options_free(table, &o);
    return t;
}

static void make_batch(const weft_run *run, const weft_loader_options *o, int s, weft_batch *b)
{
    weft_batch_make(run->job->data, o, 0, (int64_t)s * BATCH, b);
    if (s != BAD || now.bad < 0) return;
    ((float *)b->data[b->columns - 1])[now.bad] = NAN;
}

/* The place of the loss that the host has fetched, or NULL. */
static float *fetched(const weft_rank *r)
{
    weft_value loss = weft_rank_loss(r), local = weft_rewritten_value(r->mine, loss);
    if (local == WEFT_NO_VALUE) return NULL;
    return (float *)(uintptr_t)weft_instance_output(r->instance, local);
}

/* Ends step s. A loss that is not finite is noted, and is no failure of the rank. */
static weft_status end_step(weft_rank *r, int s, weft_status status, const weft_step_consensus *v)
{
    r->position.step++;
    now.loss[r->rank][s] = v->loss;
    if (status != WEFT_ERR_NUMERIC) return status;
    (void)snprintf(now.message[r->rank], sizeof(now.message[0]), "%s", weft_last_message());
    return WEFT_OK;
}

static weft_status take_step(weft_rank *r, const weft_batch *b, int s, bool *ended)
{
    weft_step_consensus v = {0};
    if (now.ahead) {
        WEFT_TRY(weft_rank_queue(r, b));
        if (s > 0) WEFT_TRY(end_step(r, s - 1, weft_rank_finish(r, &v), &v));
        *ended = now.message[r->rank][0] != '\0';
        if (s == STEPS - 1 && !*ended) WEFT_TRY(end_step(r, s, weft_rank_finish(r, &v), &v));
        return WEFT_OK;
    }
    WEFT_TRY(end_step(r, s, weft_rank_step(r, b, &v), &v));
    *ended = now.message[r->rank][0] != '\0';
    return WEFT_OK;
}

static weft_status take_steps(weft_run *run)
{
    weft_rank *r = &run->rank;
    bool ended = false;
    weft_batch b;
    const weft_loader_options o = {.split = WEFT_TRAIN,
                                   .batch = BATCH,
                                   .slots = run->job->run_spec.slots,
                                   .real = weft_graph_real(r->graph)};
    assert_true(r->runs_ahead);
    assert_ok(weft_batch_open(run->job->data, &o, &b));
    weft_status status = WEFT_OK;
    for (int s = 0; s < STEPS && !ended && status == WEFT_OK; s++) {
        make_batch(run, &o, s, &b);
        status = take_step(r, &b, s, &ended);
        if (now.fails && r->rank == 1 && s == 1) status = weft_fail(WEFT_ERR_IO, "no more of it");
    }
    weft_batch_close(&b);
    return status;
}

static void same_entry(const weft_store *x, const weft_store *y, int i, const char *where)
{
    void *p, *q;
    size_t bytes;
    weft_dtype dtype;
    if (weft_store_role(x, i) == WEFT_ROLE_SUM) return;
    assert_ok(weft_store_map(x, i, &dtype, &p, &bytes));
    assert_ok(weft_store_map(y, i, &dtype, &q, &bytes));
    if (memcmp(p, q, bytes) != 0) fail_msg("%s: another '%s'", where, weft_store_name(x, i));
    weft_store_unmap_read(x, p);
    weft_store_unmap_read(y, q);
}

static void same_stores(const weft_trainer *a, const weft_trainer *b, const char *device,
                        const char *way)
{
    char where[200];
    for (int r = 0; r < a->local; r++) {
        const weft_store *x = a->runs[r].rank.store, *y = b->runs[r].rank.store;
        (void)snprintf(where, sizeof(where), "%s on %s, rank %d", way, device, r);
        for (int i = 0; i < weft_store_count(x); i++) same_entry(x, y, i, where);
    }
}

/* Takes the steps queued, and waited for. */
static void compare(const char *device, const char *way, int bad)
{
    struct scene queued;
    weft_trainer *ahead = open_trainer(device, way),
                 *sync = ahead ? open_trainer(device, way) : NULL;
    if (!ahead) return;
    now = (struct scene){.ahead = true, .bad = bad};
    assert_ok(weft_trainer_everywhere(ahead, take_steps));
    queued = now;
    now = (struct scene){.bad = bad};
    assert_ok(weft_trainer_everywhere(sync, take_steps));
    for (int r = 0; r < sync->local; r++) {
        assert_string_equal(queued.message[r], now.message[r]);
        assert_int_equal(bad >= 0, now.message[r][0] != '\0');
        for (int s = 0; s < (bad < 0 ? STEPS : BAD); s++)
            assert_memory_equal(&queued.loss[r][s], &now.loss[r][s], sizeof(double));
    }
    same_stores(ahead, sync, device, way);
    const weft_instance *x = ahead->runs[0].rank.instance;
    const weft_device *d = x->program->schema->devices[0];
    assert_int_equal(x->replays > 0, ahead->size == 1 && d->ops->capture);
    weft_trainer_destroy(&ahead);
    weft_trainer_destroy(&sync);
}

static void test_same_numbers(void **state)
{
    (void)state;
    for (size_t d = 0; d < WEFT_COUNT(devices); d++)
        for (size_t w = 0; w < WEFT_COUNT(ways); w++)
            if (d == 0 || w % 3 == d || in_full()) compare(devices[d], ways[w], -1);
}

/* The weight of a row of any rank. */
static void test_loss_that_is_not_finite(void **state)
{
    (void)state;
    for (size_t d = 0; d < WEFT_COUNT(devices); d++)
        for (size_t w = 0; w < WEFT_COUNT(ways); w++)
            for (int last = 0; last < 2; last++)
                if ((w % 3 == d && (int)w % 2 == last) || in_full())
                    compare(devices[d], ways[w], last * (BATCH - 1));
}

/* The device distant executes nothing before a host waits for it. */
static weft_status queue_two(weft_run *run)
{
    weft_rank *r = &run->rank;
    weft_batch b;
    weft_step_consensus v;
    const weft_loader_options o = {.split = WEFT_TRAIN,
                                   .batch = BATCH,
                                   .slots = run->job->run_spec.slots,
                                   .real = weft_graph_real(r->graph)};
    float *loss = fetched(r);
    assert_ok(weft_batch_open(run->job->data, &o, &b));
    if (loss) *loss = -1;
    for (int s = 0; s < 2; s++) {
        make_batch(run, &o, s, &b);
        assert_ok(weft_rank_queue(r, &b));
    }
    now.was_ahead[r->rank] = !loss || *loss == -1;
    WEFT_TRY(weft_comm_barrier(r->learner)); /* others wait for their devices after it */
    for (int s = 0; s < 2; s++) WEFT_TRY(weft_rank_finish(r, &v));
    assert_true(!loss || *loss != -1);
    weft_batch_close(&b);
    return WEFT_OK;
}

static void test_host_is_ahead(void **state)
{
    (void)state;
    for (size_t w = 0; w < WEFT_COUNT(ways); w++) {
        weft_trainer *t = open_trainer("distant", ways[w]);
        now = (struct scene){.bad = -1};
        assert_ok(weft_trainer_everywhere(t, queue_two));
        for (int r = 0; r < t->local; r++)
            if (!now.was_ahead[r]) fail_msg("%s: rank %d has waited", ways[w], r);
        weft_trainer_destroy(&t);
    }
}

/* Its queued steps end with it, or with the trainer. */
static void test_rank_fails(void **state)
{
    (void)state;
    for (size_t d = 0; d < WEFT_COUNT(devices); d++)
        for (size_t w = 1; w < WEFT_COUNT(ways); w++) {
            weft_trainer *t =
                w % 6 == d + 1 || in_full() ? open_trainer(devices[d], ways[w]) : NULL;
            if (!t) continue;
            now = (struct scene){.ahead = true, .fails = true, .bad = -1};
            assert_refused(weft_trainer_everywhere(t, take_steps), WEFT_ERR_IO, "no more of it");
            weft_trainer_destroy(&t);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_numbers), cmocka_unit_test(test_loss_that_is_not_finite),
        cmocka_unit_test(test_host_is_ahead), cmocka_unit_test(test_rank_fails)};
    return cmocka_run_group_tests_name("queued_ranks", tests, setup, teardown);
}
