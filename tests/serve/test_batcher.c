/* Runs the batcher in real time: with many clients, executors and policies, each request is
 * answered, refused or cancelled exactly once, and the statistics of a queue count it. */
#include <pthread.h>

#include "base/base.h"
#include "batch_gate.h"

enum { CLIENTS = 4, EACH = 600, LIMIT = 7 };

typedef struct client {
    weft_batch_queue *line;
    weft_batcher *batcher;
    uint64_t seed;
    int lends;
    struct sent *sent; /* [EACH] requests */
} client;

typedef struct sent {
    int64_t rows, computed_rows;
    uint64_t like;
    int computed, answered, refused, cancelled; /* counts, by atomic operations */
    weft_status status;
    bool bad; /* its batch fails */
} sent;

typedef struct model {
    int at_once[4]; /* batches that each executor computes now; at most 1 is right */
    int wrong;
    bool fails;
} model;

static weft_status run(void *user, int executor, void *const *requests, int count, int64_t rows)
{
    model *m = user;
    int64_t all = 0;
    bool bad = false;
    if (__atomic_add_fetch(&m->at_once[executor], 1, __ATOMIC_SEQ_CST) != 1) m->wrong++;
    for (int i = 0; i < count; i++) {
        sent *s = requests[i];
        all += s->rows;
        bad |= s->bad;
        if (s->like != ((sent *)requests[0])->like) m->wrong++;
    }
    if (all != rows || rows > LIMIT) m->wrong++;
    nap(2e-5 * (double)rows);
    for (int i = 0; i < count && !bad; i++)
        __atomic_add_fetch(&((sent *)requests[i])->computed, 1, __ATOMIC_SEQ_CST);
    __atomic_sub_fetch(&m->at_once[executor], 1, __ATOMIC_SEQ_CST);
    return bad ? weft_fail(WEFT_ERR_NUMERIC, "this one is bad") : WEFT_OK;
}

static void done(void *user, const weft_request_result *a)
{
    sent *s = user;
    s->status = a->status;
    if (a->status != WEFT_OK && !*a->message) s->status = WEFT_ERR_INTERNAL;
    __atomic_add_fetch(&s->answered, 1, __ATOMIC_SEQ_CST);
}

static void *ask(void *user)
{
    client *c = user;
    weft_random r;
    weft_random_start(&r, c->seed, 1);
    for (int i = 0; i < EACH; i++) {
        sent *s = &c->sent[i];
        weft_request request;
        uint64_t ticket;
        weft_request_init(&request);
        s->rows = request.rows = 1 + weft_random_u32(&r) % LIMIT;
        s->like = request.batch_key = weft_random_u32(&r) % 3;
        s->bad = weft_random_u32(&r) % 50 == 0;
        request.priority = (int)(weft_random_u32(&r) % 3);
        request.queue_timeout = weft_random_u32(&r) % 4 ? 0 : 1e-4;
        request.user = s;
        request.done = done;
        request.no_wake = c->lends;
        if (weft_batch_queue_submit(c->line, &request, &ticket) != WEFT_OK) {
            s->refused = 1;
        } else if (weft_random_u32(&r) % 10 == 0) {
            s->cancelled = weft_batch_queue_cancel(c->line, ticket);
        }
        if (c->lends) (void)weft_batcher_run_due(c->batcher, 1e-3 * (weft_random_u32(&r) % 2));
        if (weft_random_u32(&r) % 8 == 0) nap(1e-4);
    }
    return NULL;
}

static void crowd(const char *policy, int executors, bool finish)
{
    weft_batcher_options bo;
    weft_batch_queue_options lo;
    weft_batcher *batcher;
    weft_batch_queue *queue;
    model m = {.wrong = 0};
    client clients[CLIENTS];
    pthread_t threads[CLIENTS];
    weft_batcher_options_init(&bo);
    bo.executors = executors;
    assert_ok(weft_batcher_create(context, &bo, &batcher));
    weft_batch_queue_options_init(&lo);
    lo.policy = policy;
    lo.limit = LIMIT;
    lo.max_waiting = 40;
    lo.run = run;
    lo.user = &m;
    lo.run_in_caller = true;
    assert_ok(weft_batch_queue_add(batcher, &lo, &queue));
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] =
            (client){.line = queue, .batcher = batcher, .seed = (uint64_t)i, .lends = i % 2};
        assert_ok(WEFT_NEW(&clients[i].sent, EACH));
        assert_int_equal(pthread_create(&threads[i], NULL, ask, &clients[i]), 0);
    }
    for (int i = 0; i < CLIENTS; i++) pthread_join(threads[i], NULL);
    weft_batch_queue_stats stats;
    weft_batch_queue_remove(&queue, finish);
    assert_null(queue);
    weft_batcher_destroy(&batcher);
    (void)stats;
    int answered = 0;
    for (int i = 0; i < CLIENTS; i++) {
        for (int k = 0; k < EACH; k++) {
            const sent *s = &clients[i].sent[k];
            if (s->answered + s->refused + s->cancelled != 1)
                fail_msg("%s: answered %d times, refused %d, cancelled %d", policy, s->answered,
                         s->refused, s->cancelled);
            if (s->answered && s->status == WEFT_OK) assert_int_equal(s->computed, 1);
            if (s->answered && s->bad)
                assert_true(s->status == WEFT_ERR_NUMERIC || s->status == WEFT_ERR_LATE ||
                            s->status == WEFT_ERR_BUSY);
            if (s->answered && !s->bad)
                assert_true(s->status == WEFT_OK || s->status == WEFT_ERR_LATE ||
                            (!finish && s->status == WEFT_ERR_BUSY));
            answered += s->answered;
        }
        free(clients[i].sent);
    }
    assert_int_equal(m.wrong, 0);
    assert_true(answered > 0);
}

static void test_crowd(void **state)
{
    (void)state;
    char policy[128];
    assert_ok(weft_serve_register(context));
    for (int i = 0; weft_context_name(context, WEFT_KIND_POLICY, i); i++)
        for (int executors = 1; executors <= 3; executors++)
            crowd(weft_context_name(context, WEFT_KIND_POLICY, i), executors, executors != 2);
    (void)snprintf(policy, sizeof(policy), "fixed:wait=300,max=5");
    crowd(policy, 2, true);
}

/* Queues are removed while their policy computes a setting; each request is answered once. */
static void test_come_and_go(void **state)
{
    (void)state;
    for (int round = 0; round < 12; round++) {
        gate g;
        weft_batcher *batcher;
        weft_batch_queue *queue;
        enum { ASKED = 300 };
        static asked r[ASKED];
        memset(r, 0, sizeof(r));
        open_gate(&g, "adaptive:goal=p99", 16, &batcher, &queue);
        let(&g, 1 << 20);
        for (int i = 0; i < ASKED; i++) {
            submit(queue, &r[i], 0, 0, 0);
            if (i % 8 == 0) nap(1e-5);
        }
        if (round % 3 == 2) nap(1e-2 * round);
        if (round % 3) weft_batch_queue_remove(&queue, round % 2);
        close_gate(&g, &batcher);
        for (int i = 0; i < ASKED; i++) assert_int_equal(r[i].answered, 1);
    }
}

/* Counts an answer; the test compares the statistics of a queue with these counts. */
static void count(void *user, const weft_request_result *a)
{
    (void)a;
    __atomic_add_fetch((int *)user, 1, __ATOMIC_SEQ_CST);
}

static weft_status slow(void *user, int executor, void *const *requests, int n, int64_t rows)
{
    (void)user, (void)executor, (void)requests, (void)n, (void)rows;
    nap(2e-3);
    return WEFT_OK;
}

static void test_counts(void **state)
{
    (void)state;
    enum { ASKED = 60 };
    weft_batcher_options bo;
    weft_batch_queue_options lo;
    weft_batcher *batcher;
    weft_batch_queue *queue;
    weft_batch_queue_stats s;
    int answered = 0;
    weft_batcher_options_init(&bo);
    assert_ok(weft_batcher_create(context, &bo, &batcher));
    weft_batch_queue_options_init(&lo);
    lo.run = slow;
    lo.policy = "greedy";
    lo.limit = 4;
    assert_ok(weft_batch_queue_add(batcher, &lo, &queue));
    for (int i = 0; i < ASKED; i++) {
        weft_request r;
        weft_request_init(&r);
        r.rows = 1 + i % 2;
        r.user = &answered;
        r.done = count;
        assert_ok(weft_batch_queue_submit(queue, &r, NULL));
    }
    do {
        nap(1e-3);
        weft_batch_queue_describe(queue, &s);
    } while (s.requests < ASKED);
    assert_int_equal(answered, ASKED);
    assert_int_equal(s.rows, ASKED * 3 / 2);
    assert_int_equal(s.failed + s.expired + s.refused + s.cancelled + s.waiting, 0);
    int64_t cells = 0, batches = 0;
    for (int i = 0; i < WEFT_LATENCY_CELLS; i++) cells += s.latency[i];
    for (int i = 0; i < WEFT_BATCH_CELLS; i++) batches += s.batch[i];
    assert_int_equal(cells, ASKED);
    assert_int_equal(batches, s.batches);
    assert_true(s.batches >= ASKED * 3 / 2 / 4);
    assert_true(weft_batch_queue_batch_time(queue, 1, 1) > 0);
    assert_true(weft_latency_quantile(s.latency, 0.99) >= 2e-3);
    weft_request bad;
    weft_request_init(&bad);
    bad.rows = 5;
    bad.done = done;
    assert_refused(weft_batch_queue_submit(queue, &bad, NULL), WEFT_ERR_ARGUMENT,
                   "5 rows, must be from 1 to 4");
    lo.policy = "greedily";
    weft_batch_queue *none;
    assert_refused(weft_batch_queue_add(batcher, &lo, &none), WEFT_ERR_ARGUMENT,
                   "did you mean 'greedy'");
    weft_batcher_destroy(&batcher); /* while a queue is left */
}

/* --- why batches begin --- */

static weft_status compute_at_once(void *user, int executor, void *const *requests, int n,
                                   int64_t rows)
{
    (void)user, (void)executor, (void)requests, (void)n, (void)rows;
    return WEFT_OK;
}

/* The reason of the first batch of a queue, whose requests come at once. */
static weft_batch_reason reason_of(const char *policy, int64_t max_waiting, int requests)
{
    weft_batcher_options bo;
    weft_batch_queue_options lo;
    weft_batcher *batcher;
    weft_batch_queue *queue;
    weft_batch_queue_stats s;
    sent all[8] = {{.rows = 0}};
    weft_batcher_options_init(&bo);
    assert_ok(weft_batcher_create(context, &bo, &batcher));
    weft_batch_queue_options_init(&lo);
    lo.policy = policy;
    lo.limit = 8;
    lo.max_waiting = max_waiting;
    lo.run = compute_at_once;
    assert_ok(weft_batch_queue_add(batcher, &lo, &queue));
    for (int i = 0; i < requests; i++) {
        weft_request r;
        weft_request_init(&r);
        r.user = &all[i];
        r.done = done;
        weft_status status = weft_batch_queue_submit(queue, &r, NULL);
        assert_int_equal(status, i < max_waiting ? WEFT_OK : WEFT_ERR_BUSY);
    }
    do {
        nap(1e-3);
        weft_batch_queue_describe(queue, &s);
    } while (s.batches < 1);
    assert_int_equal(s.batches, 1);
    weft_batcher_destroy(&batcher);
    int reason = 0;
    while (s.reasons[reason] == 0) reason++;
    return (weft_batch_reason)reason;
}

static void test_reasons(void **state)
{
    (void)state;
    assert_int_equal(reason_of("fixed:wait=1e9,max=3", 8, 3), WEFT_BATCH_FULL);
    assert_int_equal(reason_of("greedy", 8, 1), WEFT_BATCH_ENOUGH);
    assert_int_equal(reason_of("none", 8, 1), WEFT_BATCH_ENOUGH);
    assert_int_equal(reason_of("fixed:wait=1000,max=3", 8, 1), WEFT_BATCH_WAITED);
    assert_int_equal(reason_of("fixed:wait=1e9,max=3", 2, 3), WEFT_BATCH_NO_MORE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_crowd),
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_reasons),
        cmocka_unit_test(test_come_and_go),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
