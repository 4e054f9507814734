/* Tests the parts of dynamic batching without threads and in made-up time: the request queue, the
 * learned batch times and arrival rates, A/B trials, closed-loop clients, and fair sharing of
 * executors. */
#include <math.h>
#include <stdio.h>
#include <time.h>

#include "serve/batch/adaptive_internal.h"
#include "one_context.h"
#include "support.h"

/* --- weft_request_queue against a plain list --- */

enum { MOST = 200, KINDS = 5 };
typedef struct plain {
    weft_request request;
    double came, until;
    uint64_t ticket;
    bool there;
} plain;

static bool has_turn(const plain *a, const plain *b)
{
    return a->request.priority != b->request.priority ? a->request.priority > b->request.priority
                                                      : a->came < b->came;
}

/* Does by a search of the list what weft_request_queue_due does. A kind is due if it has `need`
 * rows or its oldest request has waited for `wait`. Returns the first request by priority and time
 * of the due kinds, or -1; *when: when the next kind becomes due by waiting. */
static int plain_due(const plain *list, int64_t need, double wait, double now, double *when)
{
    int due = -1;
    *when = INFINITY;
    for (uint64_t like = 0; like < KINDS; like++) {
        int64_t rows = 0;
        double oldest = INFINITY;
        int head = -1;
        for (int i = 0; i < MOST; i++) {
            if (!list[i].there || list[i].request.batch_key != like) continue;
            rows += list[i].request.rows;
            oldest = fmin(oldest, list[i].came);
            if (head < 0 || has_turn(&list[i], &list[head])) head = i;
        }
        if (head < 0) continue;
        if (rows >= need || oldest + wait <= now) {
            if (due < 0 || has_turn(&list[head], &list[due])) due = head;
        } else {
            *when = fmin(*when, oldest + wait);
        }
    }
    return due;
}

static void test_queue(void **state)
{
    (void)state;
    static plain list[MOST];
    weft_request_queue q = {0};
    weft_random r;
    weft_request_queue_init(&q);
    weft_random_start(&r, 3, 0);
    int64_t count = 0;
    for (int step = 0; step < 20000; step++) {
        int i = (int)(weft_random_u32(&r) % MOST), slot = -1;
        double now = step, when, expected;
        plain *p = &list[i];
        bool crowded = step / 2000 % 2; /* fills up and empties in turns */
        if (!p->there && (crowded || weft_random_u32(&r) % 4 == 0)) {
            weft_request_init(&p->request);
            p->request.rows = 1 + weft_random_u32(&r) % 4;
            p->request.batch_key = weft_random_u32(&r) % KINDS;
            p->request.priority = (int)(weft_random_u32(&r) % 3) - 1;
            p->request.queue_timeout = weft_random_u32(&r) % 2 ? 0 : 1 + weft_random_u32(&r) % 300;
            p->came = now;
            p->until = p->request.queue_timeout > 0 ? now + p->request.queue_timeout : INFINITY;
            p->there = true;
            assert_ok(weft_request_queue_add(&q, &p->request, now, &p->ticket));
            count++;
        } else if (weft_request_queue_find(&q, p->ticket) >= 0 && weft_random_u32(&r) % 2 == 0) {
            assert_true(p->there);
            weft_request_queue_remove(&q, weft_request_queue_find(&q, p->ticket));
            assert_int_equal(weft_request_queue_find(&q, p->ticket), -1);
            p->there = false;
            count--;
        }
        int64_t need = 1 + weft_random_u32(&r) % 60;
        double wait = weft_random_u32(&r) % 400;
        int due = plain_due(list, need, wait, now, &expected);
        int kind = weft_request_queue_due(&q, need, wait, now, &when);
        assert_int_equal(kind >= 0, due >= 0);
        if (kind >= 0) slot = weft_request_queue_head(&q, kind);
        if (kind >= 0) assert_int_equal(slot, weft_request_queue_find(&q, list[due].ticket));
        assert_true(when == expected);
        int late = weft_request_queue_next_deadline(&q);
        double least = INFINITY;
        for (int k = 0; k < MOST; k++)
            if (list[k].there) least = fmin(least, list[k].until);
        assert_true((late < 0 ? INFINITY : q.slots[late].deadline) == least);
        assert_int_equal(q.count, count);
        assert_int_equal(weft_request_queue_first(&q) >= 0, count > 0);
    }
    weft_request_queue_free(&q);
}

/* With 100000 waiting requests of 10000 kinds, no operation of the queue may look at all of them;
 * otherwise this test would take minutes. */
static void test_scale(void **state)
{
    (void)state;
    enum { WAIT = 100000, SHAPES = 10000 };
    weft_request_queue q = {0};
    weft_random r;
    uint64_t *ticket;
    double when, now = 0;
    struct timespec begun, ended;
    int taken = 0;
    weft_request_queue_init(&q);
    weft_random_start(&r, 6, 0);
    assert_ok(WEFT_NEW(&ticket, WAIT));
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begun);
    for (int i = 0; i < WAIT; i++, now += 1e-5) {
        weft_request request;
        weft_request_init(&request);
        request.batch_key = weft_random_u32(&r) % SHAPES * 64;
        request.priority = (int)(weft_random_u32(&r) % 5);
        request.queue_timeout = weft_random_u32(&r) % 2 ? 10 + weft_random_unit(&r) : 0;
        assert_ok(weft_request_queue_add(&q, &request, now, &ticket[i]));
        assert_int_equal(weft_request_queue_due(&q, 1000, 100, now, &when), -1);
        assert_true(when == 100);
    }
    for (int i = 0; i < WAIT; i += 2) {
        weft_request_queue_remove(&q, weft_request_queue_find(&q, ticket[i]));
        assert_int_equal(weft_request_queue_due(&q, 1000, 100, now, &when), -1);
    }
    double until = 0;
    for (int slot = weft_request_queue_next_deadline(&q); slot >= 0;
         slot = weft_request_queue_next_deadline(&q), taken++) {
        assert_true(q.slots[slot].deadline >= until);
        until = q.slots[slot].deadline;
        weft_request_queue_remove(&q, slot);
    }
    for (now += 100;; taken++) {
        int kind = weft_request_queue_due(&q, 1000, 100, now, &when);
        if (kind < 0) break;
        weft_request_queue_remove(&q, weft_request_queue_head(&q, kind));
    }
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ended);
    assert_int_equal(taken, WAIT / 2);
    assert_int_equal(q.count, 0);
    double seconds =
        (double)(ended.tv_sec - begun.tv_sec) + 1e-9 * (double)(ended.tv_nsec - begun.tv_nsec);
    if (seconds > 5) fail_msg("%g s for %d requests", seconds, WAIT);
    print_message("%d requests of %d kinds, %.2f us each\n", WAIT, SHAPES, 1e6 * seconds / WAIT);
    weft_free(ticket);
    weft_request_queue_free(&q);
}

/* --- batch times --- */

static void test_curve(void **state)
{
    (void)state;
    weft_curve c;
    weft_random r;
    weft_random_start(&r, 9, 0);
    assert_ok(weft_curve_make(NULL, NULL, 0, NULL, 2, &c));
    assert_true(weft_curve_time(&c, 4) == 0);
    /* The first time is that of a cold start, and every twentieth of the others is 50 times too
     * long, as if interrupted. Both must hardly change the curve. */
    weft_curve_learn(&c, 64, 3, 1, 0.5);
    for (int i = 0; i < 3000; i++) {
        int64_t rows = 1 + weft_random_u32(&r) % 64;
        double seconds = (1e-3 + 1e-4 * (double)rows) * (1 + 0.1 * (weft_random_unit(&r) - 0.5));
        if (weft_random_u32(&r) % 20 == 0) seconds *= 50;
        weft_curve_learn(&c, 64, rows, 1, seconds);
    }
    double before = 0;
    for (int rows = 1; rows <= 64; rows++) {
        double time = weft_curve_time(&c, rows), truth = 1e-3 + 1e-4 * rows;
        if (fabs(time / truth - 1) > 0.1) fail_msg("%d rows: %g s, not %g", rows, time, truth);
        assert_true(time >= before);
        before = time;
    }
    /* Two batches at a time take 1.7 times as long each. */
    for (int i = 0; i < 400; i++) weft_curve_learn(&c, 64, 16, 2, 1.7 * weft_curve_time(&c, 16));
    assert_true(fabs(c.slowdown[1] - 1.7) < 0.02);
    /* When the machine becomes slower, the curve follows. */
    for (int i = 0; i < 100; i++) weft_curve_learn(&c, 64, 16, 1, 8e-3);
    assert_true(fabs(weft_curve_time(&c, 16) / 8e-3 - 1) < 0.01);
    assert_true(weft_curve_time(&c, 64) >= weft_curve_time(&c, 16));
    weft_curve_free(&c);
}

/* For numbers of rows that were never measured, the curve gives times that grow with the rows. */
static void test_few_sizes(void **state)
{
    (void)state;
    for (int64_t rows = 1; rows <= 100; rows += 33) {
        weft_curve c;
        assert_ok(weft_curve_make(NULL, NULL, 0, NULL, 1, &c));
        for (int i = 0; i < 3; i++) weft_curve_learn(&c, 100, rows, 1, 2e-3);
        for (int n = 2; n <= 100; n++)
            assert_true(weft_curve_time(&c, n) > 0 &&
                        weft_curve_time(&c, n) >= weft_curve_time(&c, n - 1));
        assert_true(weft_curve_time(&c, 100) > weft_curve_time(&c, 1));
        assert_true(fabs(weft_curve_time(&c, (double)rows) / 2e-3 - 1) < 0.35);
        weft_curve_free(&c);
    }
}

/* --- arrivals --- */

static void test_gaps(void **state)
{
    (void)state;
    weft_interarrivals *g;
    weft_random r;
    double now = 0;
    assert_ok(WEFT_NEW(&g, 1));
    g->last = -1;
    weft_random_start(&r, 4, 0);
    for (int i = 0; i < 5000; i++) {
        now += -log(1 - weft_random_unit(&r)) / 100;
        (void)weft_interarrivals_add(g, now, 1 + i % 3);
    }
    assert_true(fabs(weft_interarrivals_rate(g) / 100 - 1) < 0.1);
    assert_true(fabs(weft_interarrivals_burstiness(g) - 1) < 0.15);
    /* The running sums equal those of the gaps that are kept. */
    double sum = 0;
    int kept = (int)WEFT_MIN(g->count, WEFT_INTERARRIVALS);
    for (int i = 0; i < kept; i++) sum += g->gap[i];
    assert_true(fabs(weft_interarrivals_rate(g) * sum / kept - 1) < 1e-9);
    /* A pause of hours does not change the measured rate. */
    now += 3e4;
    assert_false(weft_interarrivals_add(g, now, 1));
    assert_true(fabs(weft_interarrivals_rate(g) / 100 - 1) < 0.1);
    weft_free(g);
}

/* A change of the arrival rate is found within 100 arrivals, wherever in the ring buffer it
 * happens; then only arrivals since the change are kept. */
static void test_changes(void **state)
{
    (void)state;
    weft_interarrivals *g;
    assert_ok(WEFT_NEW(&g, 1));
    for (int up = 0; up < 2; up++)
        for (int begin = 300; begin < 4400; begin += 41) {
            double now = 0, slow = 1e-2, fast = 2.5e-3;
            int found = -1;
            *g = (weft_interarrivals){.last = -1};
            for (int i = 0; i < begin + 150 && found < 0; i++) {
                now += i <= begin ? (up ? slow : fast) : (up ? fast : slow);
                if (weft_interarrivals_add(g, now, i)) found = i;
            }
            if (found < begin || found > begin + 100)
                fail_msg("changed at %d, found at %d", begin, found);
            for (int k = 0; k < g->count; k++)
                assert_int_equal(g->rows[k], found - g->count + 1 + k);
        }
    weft_free(g);
}

/* --- A/B trials of the adaptive policy's choice --- */

/* Reports `count` latencies: `followed` whenever the trial uses the policy's choice, `greedy`
 * whenever it uses greedy. The predicted latency is 1 ms. */
static void answer(weft_ab_trial *t, double followed, double greedy, int count)
{
    const weft_goal mean = {0};
    for (int i = 0; i < count; i++)
        (void)weft_ab_trial_answered(t, &mean, 1e-3, true,
                                     weft_ab_trial_uses_choice(t) ? followed : greedy);
}

static void test_doubts(void **state)
{
    (void)state;
    weft_ab_trial *t;
    assert_ok(WEFT_NEW(&t, 1));
    /* A latency of less than twice the predicted one starts no trial. */
    answer(t, 1.9e-3, 1e-4, 4096);
    assert_int_equal(t->phase, WEFT_TRIAL_ACCEPTED);
    answer(t, 2.1e-3, 1e-4, 4000);
    assert_int_equal(t->phase, WEFT_TRIAL_REJECTED);
    /* A latency far above the prediction soon starts a trial, which rejects the choice. */
    *t = (weft_ab_trial){.turn = 0};
    answer(t, 0.5, 1e-3, 256);
    assert_int_equal(t->phase, WEFT_TRIAL_RUNNING);
    answer(t, 0.5, 1e-3, 6 * 128);
    assert_int_equal(t->phase, WEFT_TRIAL_REJECTED);
    /* A choice that is better than greedy is kept, although it misses its prediction. */
    *t = (weft_ab_trial){.turn = 0};
    answer(t, 2.1e-3, 2.3e-3, 4000);
    assert_int_equal(t->phase, WEFT_TRIAL_ACCEPTED);
    /* While the choice keeps its prediction, greedy is still tried for a small share of
     * requests. */
    *t = (weft_ab_trial){.turn = 0};
    int tried = 0;
    for (int i = 0; i < 200000; i++) {
        answer(t, 1e-3, 1.5e-3, 1);
        tried += !weft_ab_trial_uses_choice(t);
    }
    assert_true(tried > 0 && tried < 200000 / 50);
    /* A choice that keeps its prediction but is worse than greedy is rarely followed. */
    *t = (weft_ab_trial){.turn = 0};
    int followed = 0;
    for (int i = 0; i < 200000; i++) {
        answer(t, 1e-3, 0.9e-3, 1);
        followed += weft_ab_trial_uses_choice(t);
    }
    assert_true(followed < 200000 / 15);
    weft_free(t);
}

/* --- closed-loop clients --- */

static void test_crowd(void **state)
{
    (void)state;
    enum { CLIENTS = 6 };
    weft_closed_loop *c;
    double now = 0;
    assert_ok(WEFT_NEW(&c, 1));
    for (int round = 0; round < 200; round++) {
        for (int i = 1; i <= CLIENTS; i++) weft_closed_loop_arrived(c, now += 1e-4, i);
        now += 5e-3;
        for (int i = CLIENTS; i-- > 0;) weft_closed_loop_answered(c, now, i);
        now += 1e-3;
    }
    assert_int_equal(weft_closed_loop_bound(c, 1000, 3), CLIENTS);
    double sum = 0;
    for (int i = 0; i < WEFT_MOST_CLOSED_CLIENTS; i++) sum += c->think_time[i];
    assert_true(fabs(sum / WEFT_MOST_CLOSED_CLIENTS / 1.35e-3 - 1) <
                0.02); /* the clients' pauses are 1.1, 1.2, ... 1.6 ms */
    weft_closed_loop_arrived(c, now, CLIENTS + 1);
    assert_int_equal(weft_closed_loop_bound(c, 1000, 3), 0); /* more clients: no bound */
    weft_free(c);
}

/* Rounds of closed-loop clients: all clients send, all are answered, and all pause. */
static void rounds(weft_policy *p, double *now, int count, int clients, double seconds)
{
    const weft_policy_ops *ops = p->ops;
    for (; count > 0; count--) {
        for (int i = 1; i <= clients; i++) ops->arrived(p, *now += 1e-4, 1, i);
        *now += seconds;
        for (int i = clients; i-- > 0;) ops->answered(p, *now, seconds, i);
        *now += 1e-3;
    }
}

/* Clients leave and return between two of the policy's estimates of their number. A search that
 * begins right then has no think times of the returned clients, and must not bound the requests by
 * too few. */
static void test_clients_return(void **state)
{
    (void)state;
    enum { LIMIT = 16 };
    static const int64_t rows[] = {1, LIMIT};
    static const double times[] = {1e-3, 3e-3};
    double slack = 0, now = 0;
    weft_curve c;
    weft_policy *p;
    assert_ok(weft_curve_make(rows, times, 2, NULL, 1, &c));
    const weft_policy_input input = {.limit = LIMIT, .curve = &c, .timer_slack = &slack};
    int bounded = 0;
    for (int late = 0; late < 32; late++) { /* pauses shift the policy's counts of arrivals */
        assert_ok(weft_policy_open(context, "adaptive", &input, &p));
        for (int i = 0; i < 76; i++) {
            now += i >= 10 && i < 10 + late ? 10 : 0;
            rounds(p, &now, 1, 5, 5e-3);
        }
        bounded += p->setting.max_in_system == 5;
        rounds(p, &now, 1, 4, 5e-3);
        rounds(p, &now, 128, 3, 3e-3);
        for (int i = 1; i <= 5; i++) {
            p->ops->arrived(p, now += 1e-4, 1, i);
            p->ops->copy_input(p, now);
            p->ops->search(p);
            p->ops->apply(p);
        }
        assert_true(p->setting.max_in_system == 0 || p->setting.max_in_system >= 5);
        weft_policy_close(&p);
    }
    assert_true(bounded > 0);
    weft_curve_free(&c);
}

/* --- queues that share executors (weighted fair queueing) --- */

static weft_status nothing(void *user, int executor, void *const *requests, int n, int64_t rows)
{
    (void)user, (void)executor, (void)requests, (void)n, (void)rows;
    return WEFT_OK;
}

static weft_batch_queue *line_of(weft_dispatch *d, double share, int64_t limit, double time)
{
    int64_t one = 1;
    weft_batch_queue *queue;
    weft_batch_queue_options o;
    weft_batch_queue_options_init(&o);
    o.policy = "greedy";
    o.share = share;
    o.limit = limit;
    o.curve_rows = &one;
    o.curve_times = &time;
    o.curve_sizes = 1;
    o.run = nothing;
    assert_ok(weft_dispatch_add(d, context, &o, &queue));
    return queue;
}

static void ask(weft_batch_queue *queue, double now)
{
    weft_request request;
    bool look;
    weft_request_init(&request);
    while (queue->requests.count < 20)
        assert_ok(weft_dispatch_put(queue, &request, now, &look, NULL));
}

/* Keeps the two queues filled until time `end`; a queue that is NULL gets no requests. used:
 * seconds of the executors for each queue. */
static void share_out(weft_dispatch *d, weft_batch_queue *lines[2], double *now, double end,
                      double used[2])
{
    weft_batch_job *job[3] = {NULL};
    double ends[3] = {0}, when;
    used[0] = used[1] = 0;
    while (*now < end) {
        for (int i = 0; i < 2; i++)
            if (lines[i]) ask(lines[i], *now);
        int first = 0;
        for (int e = 0; e < d->executors; e++) {
            if (!job[e]) {
                job[e] = weft_dispatch_next(d, e, *now, false, &when);
                assert_non_null(job[e]);
                double takes = weft_curve_time(&job[e]->queue->curve, (double)job[e]->rows);
                ends[e] = *now + takes;
                used[job[e]->queue == lines[1]] += takes;
            }
            if (ends[e] < ends[first]) first = e;
        }
        *now = ends[first];
        for (int i = 0; i < job[first]->count; i++) job[first]->requests[i].ended = *now;
        weft_dispatch_end(d, job[first], *now);
        job[first] = NULL;
    }
    for (int e = 0; e < d->executors; e++) /* ends the running batches */
        if (job[e]) weft_dispatch_end(d, job[e], *now);
}

static void test_shares(void **state)
{
    (void)state;
    for (int executors = 1; executors <= 3; executors++) {
        weft_dispatch d = {.executors = executors};
        weft_batch_queue *both[2] = {line_of(&d, 3, 8, 1e-3), line_of(&d, 1, 2, 5e-3)};
        weft_batch_queue *alone[2] = {both[0], NULL};
        double now = 0, used[2];
        share_out(&d, both, &now, 20, used);
        assert_true(fabs(used[0] / used[1] / 3 - 1) < 0.02);
        /* A queue that was empty for long gets only its share when it has requests again. */
        while (both[1]->requests.count > 0)
            weft_request_queue_remove(&both[1]->requests,
                                      weft_request_queue_first(&both[1]->requests));
        share_out(&d, alone, &now, 200, used);
        assert_true(used[1] == 0);
        share_out(&d, both, &now, now + 2, used);
        assert_true(fabs(used[0] / used[1] / 3 - 1) < 0.1);
        /* A new queue gets only its share, too. */
        weft_dispatch_remove(&d, &both[1]);
        both[1] = line_of(&d, 1, 2, 5e-3);
        share_out(&d, both, &now, now + 2, used);
        assert_true(fabs(used[0] / used[1] / 3 - 1) < 0.1);
        for (int i = 0; i < 2; i++) weft_dispatch_remove(&d, &both[i]);
        free(d.queues);
    }
}

/* Nine queues always have more requests than can be served, and one gets a request now and then.
 * That request is served within one round, and the other queues have equal shares. */
static void test_none_starves(void **state)
{
    (void)state;
    enum { LINES = 10, RARE = 9 };
    weft_dispatch d = {.executors = 1};
    weft_batch_queue *queue[LINES];
    double used[LINES] = {0}, now = 0, asked = -1, longest = 0, when;
    for (int i = 0; i < LINES; i++) queue[i] = line_of(&d, 1, 1 + i % 4, 1e-3 * (1 + i % 3));
    for (int turn = 0; turn < 20000; turn++) {
        for (int i = 0; i < RARE; i++) ask(queue[i], now);
        if (asked < 0 && turn % 50 == 0) {
            bool look;
            weft_request request;
            weft_request_init(&request);
            assert_ok(weft_dispatch_put(queue[RARE], &request, now, &look, NULL));
            asked = now;
        }
        weft_batch_job *job = weft_dispatch_next(&d, 0, now, false, &when);
        assert_non_null(job);
        double takes = weft_curve_time(&job->queue->curve, (double)job->rows);
        for (int i = 0; i < LINES; i++)
            if (job->queue == queue[i]) used[i] += takes;
        if (job->queue == queue[RARE]) {
            longest = fmax(longest, now - asked);
            asked = -1;
        }
        now += takes;
        for (int i = 0; i < job->count; i++) job->requests[i].ended = now;
        weft_dispatch_end(&d, job, now);
    }
    for (int i = 1; i < RARE; i++) assert_true(fabs(used[i] / used[0] - 1) < 0.02);
    assert_true(asked < 0 || now - asked < 0.1);
    assert_true(longest < 0.1); /* one batch of each other queue takes 72 ms in all */
    for (int i = 0; i < LINES; i++) weft_dispatch_remove(&d, &queue[i]);
    free(d.queues);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_queue),        cmocka_unit_test(test_scale),
        cmocka_unit_test(test_curve),        cmocka_unit_test(test_few_sizes),
        cmocka_unit_test(test_gaps),         cmocka_unit_test(test_changes),
        cmocka_unit_test(test_crowd),        cmocka_unit_test(test_clients_return),
        cmocka_unit_test(test_doubts),       cmocka_unit_test(test_shares),
        cmocka_unit_test(test_none_starves),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
