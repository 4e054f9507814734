/* Tests in real time which requests make the next batch: by priority and batch key, before their
 * deadlines, and of a full queue; and the threads that compute batches in place of an executor. */
#include <pthread.h>

#include "batch_gate.h"

static weft_status compute_nothing(void *user, int executor, void *const *requests, int n,
                                   int64_t rows)
{
    (void)user, (void)executor, (void)requests, (void)n, (void)rows;
    return WEFT_OK;
}

static void submit_without_wake(weft_batch_queue *queue, asked *r)
{
    weft_request request;
    weft_request_init(&request);
    request.no_wake = true;
    request.user = r;
    request.done = told;
    assert_ok(weft_batch_queue_submit(queue, &request, NULL));
}

static void *run_due(void *batcher)
{
    (void)weft_batcher_run_due(batcher, 3600);
    return NULL;
}

/* While a thread computes a batch in the place of an executor, another executor computes the
 * requests of a queue that the thread may not take. */
static void test_caller_leaves_others(void **state)
{
    (void)state;
    gate g;
    weft_batcher_options bo;
    weft_batch_queue_options lo;
    weft_batcher *batcher;
    weft_batch_queue *in_caller, *other;
    asked r[2] = {{.number = 0}, {.number = 1}};
    pthread_t caller;
    g = (gate){.begun = 0};
    pthread_mutex_init(&g.lock, NULL);
    pthread_cond_init(&g.changed, NULL);
    weft_batcher_options_init(&bo);
    bo.executors = 2;
    assert_ok(weft_batcher_create(context, &bo, &batcher));
    weft_batch_queue_options_init(&lo);
    lo.policy = "greedy";
    lo.run = compute_nothing;
    assert_ok(weft_batch_queue_add(batcher, &lo, &other));
    lo.run = pass;
    lo.user = &g;
    lo.run_in_caller = true;
    assert_ok(weft_batch_queue_add(batcher, &lo, &in_caller));
    submit_without_wake(in_caller, &r[0]);
    submit_without_wake(other, &r[1]);
    assert_int_equal(pthread_create(&caller, NULL, run_due, batcher), 0);
    until_begun(&g, 1);
    until_answered(&r[1]); /* the first batch is still being computed */
    assert_int_equal(__atomic_load_n(&r[0].answered, __ATOMIC_SEQ_CST), 0);
    let(&g, 1);
    pthread_join(caller, NULL);
    until_answered(&r[0]);
    close_gate(&g, &batcher);
}

/* A request whose queue timeout passes is answered with LATE at once, although every executor is
 * busy, and is never computed. */
static void test_late(void **state)
{
    (void)state;
    gate g;
    weft_batcher *batcher;
    weft_batch_queue *queue;
    weft_batch_queue_stats s;
    asked r[3] = {{.number = 0}, {.number = 1}, {.number = 2}};
    open_gate(&g, "greedy", 8, &batcher, &queue);
    submit(queue, &r[0], 0, 0, 0);
    until_begun(&g, 1);
    submit(queue, &r[1], 0, 0, 3600);
    submit(queue, &r[2], 0, 0, 1e-3);
    until_answered(&r[2]); /* while the first batch is still at the gate */
    assert_int_equal(r[2].status, WEFT_ERR_LATE);
    assert_int_equal(r[0].answered + r[1].answered, 0);
    let(&g, 64);
    until_answered(&r[1]);
    assert_int_equal(r[1].status, WEFT_OK);
    do weft_batch_queue_describe(queue, &s);
    while (s.requests < 2);
    assert_int_equal(s.expired, 1);
    assert_int_equal(s.rows, 2);
    close_gate(&g, &batcher);
}

/* A request that cannot begin before its deadline, since the batch in progress takes longer, is
 * refused when it is submitted. */
static void test_late_on_arrival(void **state)
{
    (void)state;
    gate g;
    weft_batch_queue_options lo;
    weft_batcher *batcher;
    weft_batch_queue *unused, *queue;
    weft_batch_queue_stats s;
    weft_request request;
    asked r[2] = {{.number = 0}, {.number = 1}};
    static const int64_t rows[] = {1};
    static const double times[] = {36000};
    open_gate(&g, "greedy", 8, &batcher, &unused);
    weft_batch_queue_options_init(&lo);
    lo.policy = "greedy";
    lo.run = pass;
    lo.user = &g;
    lo.curve_rows = rows;
    lo.curve_times = times;
    lo.curve_sizes = 1;
    assert_ok(weft_batch_queue_add(batcher, &lo, &queue));
    submit(queue, &r[0], 0, 0, 0);
    until_begun(&g, 1);
    weft_request_init(&request);
    request.queue_timeout = 3600;
    request.done = told;
    assert_refused(weft_batch_queue_submit(queue, &request, NULL), WEFT_ERR_LATE,
                   "the requests before it");
    submit(queue, &r[1], 0, 0, 360000);
    weft_batch_queue_describe(queue, &s);
    assert_int_equal(s.expired, 1);
    assert_int_equal(s.waiting, 1);
    let(&g, 64);
    until_answered(&r[1]);
    assert_int_equal(r[0].status, WEFT_OK);
    assert_int_equal(r[1].status, WEFT_OK);
    close_gate(&g, &batcher);
}

/* Requests are taken by priority, then in order of arrival, and only requests with equal batch keys
 * share a batch. The requests of a batch that fails are computed again one by one, and each is
 * counted by its own result. */
static void test_order(void **state)
{
    (void)state;
    gate g;
    weft_batcher *batcher;
    weft_batch_queue *queue;
    weft_batch_queue_stats s;
    asked r[10] = {{.number = 0}};
    for (int i = 0; i < 10; i++) r[i].number = i;
    r[6].bad = true;
    open_gate(&g, "greedy", 4, &batcher, &queue);
    submit(queue, &r[0], 0, 0, 0);
    until_begun(&g, 1);
    for (int i = 1; i < 6; i++) submit(queue, &r[i], 0, (uint64_t)i % 2, 0); /* key 1: 1, 3, 5 */
    for (int i = 6; i < 10; i++) submit(queue, &r[i], 5, 2, 0);
    let(&g, 64);
    for (int i = 0; i < 10; i++) until_answered(&r[i]);
    do weft_batch_queue_describe(queue, &s);
    while (s.requests + s.failed < 10);
    /* Request 0 alone; the four with priority 5, which fail together and are computed again one by
     * one; then keys 1 and 0. */
    static const int first[] = {0, 6, 6, 7, 8, 9, 1, 2};
    static const int64_t rows[] = {1, 4, 1, 1, 1, 1, 3, 2};
    assert_int_equal(g.begun, 8);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(g.first[i], first[i]);
        assert_int_equal(g.rows[i], rows[i]);
    }
    for (int i = 0; i < 10; i++) assert_int_equal(r[i].status, i == 6 ? WEFT_ERR_NUMERIC : WEFT_OK);
    assert_int_equal(s.failed, 1);
    assert_int_equal(s.requests, 9);
    assert_int_equal(s.batches, 4);
    close_gate(&g, &batcher);
}

/* The time of a batch includes its callbacks: the executor is busy until they have returned. */
static void test_occupied(void **state)
{
    (void)state;
    gate g;
    weft_batcher *batcher;
    weft_batch_queue *queue;
    asked r = {.slowly = 2e-3};
    weft_batch_queue_stats s;
    open_gate(&g, "none", 4, &batcher, &queue);
    let(&g, 64);
    for (int i = 0; i < 9; i++) {
        r.answered = 0;
        submit(queue, &r, 0, 0, 0);
        until_answered(&r);
    }
    do weft_batch_queue_describe(queue, &s);
    while (s.requests < 9);
    assert_true(weft_batch_queue_batch_time(queue, 1, 1) >= 2e-3);
    close_gate(&g, &batcher);
}

/* A full queue dispatches its batch, although its policy would wait for more rows. */
static void test_full(void **state)
{
    (void)state;
    enum { ROOM = 5 };
    gate g;
    weft_batcher *batcher;
    weft_batch_queue *queue, *other;
    weft_batch_queue_options lo;
    asked r[ROOM + 1] = {{.number = 0}};
    weft_request request;
    open_gate(&g, "greedy", 8, &batcher, &queue);
    let(&g, 64);
    weft_batch_queue_options_init(&lo);
    lo.run = pass;
    lo.user = &g;
    lo.policy = "fixed:wait=1e9,max=64";
    lo.max_waiting = ROOM;
    assert_ok(weft_batch_queue_add(batcher, &lo, &other));
    for (int i = 0; i < ROOM; i++) submit(other, &r[i], 0, 0, 0);
    weft_request_init(&request);
    request.done = told;
    assert_refused(weft_batch_queue_submit(other, &request, NULL), WEFT_ERR_BUSY,
                   "the queue has 5 rows");
    for (int i = 0; i < ROOM; i++) until_answered(&r[i]);
    assert_int_equal(g.begun, 1);
    assert_int_equal(g.rows[0], ROOM);
    /* A queue that is being removed does not wait for more rows either. */
    submit(other, &r[ROOM], 0, 0, 0);
    weft_batch_queue_remove(&other, true);
    assert_int_equal(r[ROOM].status, WEFT_OK);
    assert_int_equal(r[ROOM].answered, 1);
    close_gate(&g, &batcher);
}

/* A thread that calls weft_batcher_run_due computes the due batches itself. */
static void test_lend(void **state)
{
    (void)state;
    gate g;
    weft_batcher *batcher;
    weft_batch_queue *queue;
    asked r[3] = {{.number = 0}};
    weft_request request;
    open_gate(&g, "greedy", 8, &batcher, &queue);
    let(&g, 64);
    for (int round = 0; round < 100; round++) {
        for (int i = 0; i < 3; i++) {
            weft_request_init(&request);
            request.no_wake = true;
            request.user = &r[i];
            request.done = told;
            assert_ok(weft_batch_queue_submit(queue, &request, NULL));
        }
        (void)weft_batcher_run_due(batcher, round % 2 ? 10 : 0); /* 0: an executor computes */
        for (int i = 0; i < 3; i++) until_answered(&r[i]);
        for (int i = 0; i < 3; i++) {
            assert_int_equal(r[i].status, WEFT_OK);
            assert_int_equal(r[i].answered, 1);
            r[i].answered = 0;
        }
        pthread_mutex_lock(&g.lock);
        g.begun = 0;
        pthread_mutex_unlock(&g.lock);
    }
    assert_int_equal(weft_batcher_run_due(batcher, 1), 0); /* nothing is due */
    close_gate(&g, &batcher);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_caller_leaves_others),
        cmocka_unit_test(test_late),
        cmocka_unit_test(test_late_on_arrival),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_occupied),
        cmocka_unit_test(test_full),
        cmocka_unit_test(test_lend),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
