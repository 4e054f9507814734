/* The batcher in real time: with many clients, executors and policies, each request is answered,
 * refused or cancelled exactly once. */
#include <pthread.h>
#include <time.h>

#include "base/base.h"
#include "support.h"

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

static weft_context *context;

static void nap(double seconds)
{
    struct timespec t = {.tv_nsec = (long)(seconds * 1e9)};
    nanosleep(&t, NULL);
}

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
    for (int i = 0; weft_context_name(context, WEFT_KIND_POLICY, i); i++)
        for (int executors = 1; executors <= 3; executors++)
            crowd(weft_context_name(context, WEFT_KIND_POLICY, i), executors, executors != 2);
    (void)snprintf(policy, sizeof(policy), "fixed:wait=300,max=5");
    crowd(policy, 2, true);
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

/* --- one queue whose batches wait at a gate until the test lets them go on --- */

typedef struct gate {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int begun, let; /* batches that have begun; batches that may end */
    int64_t rows[64];
    int first[64]; /* number of the first request of each batch */
} gate;

typedef struct asked {
    int number, answered;
    weft_status status;
    bool bad;
    double slowly; /* seconds that its callback takes */
} asked;

static weft_status pass(void *user, int executor, void *const *requests, int n, int64_t rows)
{
    gate *g = user;
    (void)executor;
    pthread_mutex_lock(&g->lock);
    int batch = g->begun++;
    g->rows[batch % 64] = rows;
    g->first[batch % 64] = ((asked *)requests[0])->number;
    pthread_cond_broadcast(&g->changed);
    while (g->let <= batch) pthread_cond_wait(&g->changed, &g->lock);
    pthread_mutex_unlock(&g->lock);
    for (int i = 0; i < n; i++)
        if (((asked *)requests[i])->bad) return weft_fail(WEFT_ERR_NUMERIC, "this one is bad");
    return WEFT_OK;
}

static void let(gate *g, int batches)
{
    pthread_mutex_lock(&g->lock);
    g->let = batches;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->lock);
}

static void until_begun(gate *g, int batches)
{
    pthread_mutex_lock(&g->lock);
    while (g->begun < batches) pthread_cond_wait(&g->changed, &g->lock);
    pthread_mutex_unlock(&g->lock);
}

static void told(void *user, const weft_request_result *a)
{
    asked *r = user;
    r->status = a->status;
    if (r->slowly > 0) nap(r->slowly);
    __atomic_add_fetch(&r->answered, 1, __ATOMIC_SEQ_CST);
}

static void until_answered(const asked *r)
{
    while (__atomic_load_n(&r->answered, __ATOMIC_SEQ_CST) == 0) nap(1e-4);
}

static void open_gate(gate *g, const char *policy, int64_t limit, weft_batcher **batcher,
                      weft_batch_queue **queue)
{
    weft_batcher_options bo;
    weft_batch_queue_options lo;
    *g = (gate){.begun = 0};
    pthread_mutex_init(&g->lock, NULL);
    pthread_cond_init(&g->changed, NULL);
    weft_batcher_options_init(&bo);
    assert_ok(weft_batcher_create(context, &bo, batcher));
    weft_batch_queue_options_init(&lo);
    lo.run = pass;
    lo.user = g;
    lo.policy = policy;
    lo.limit = limit;
    lo.run_in_caller = true;
    assert_ok(weft_batch_queue_add(*batcher, &lo, queue));
}

static void close_gate(gate *g, weft_batcher **batcher)
{
    weft_batcher_destroy(batcher);
    pthread_cond_destroy(&g->changed);
    pthread_mutex_destroy(&g->lock);
}

static void submit(weft_batch_queue *queue, asked *r, int priority, uint64_t like, double patience)
{
    weft_request request;
    weft_request_init(&request);
    request.priority = priority;
    request.batch_key = like;
    request.queue_timeout = patience;
    request.user = r;
    request.done = told;
    assert_ok(weft_batch_queue_submit(queue, &request, NULL));
}

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_crowd),      cmocka_unit_test(test_counts),
        cmocka_unit_test(test_reasons),    cmocka_unit_test(test_caller_leaves_others),
        cmocka_unit_test(test_late),       cmocka_unit_test(test_late_on_arrival),
        cmocka_unit_test(test_order),      cmocka_unit_test(test_occupied),
        cmocka_unit_test(test_full),       cmocka_unit_test(test_lend),
        cmocka_unit_test(test_come_and_go)};
    if (weft_context_create(&context) != WEFT_OK) return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    weft_context_destroy(&context);
    return failed;
}
