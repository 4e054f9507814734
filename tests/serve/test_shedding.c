/* Tests the refusal of requests on arrival that would be late, in made-up time: random loads with
 * deadlines on the dispatch, whose batches take exactly the times of its curve. */
#include <math.h>
#include <stdio.h>

#include "forecast_fixture.h"
#include "serve/batch/batch_internal.h"

enum { REQUESTS = 1000, MOST_EXECUTORS = 3 };
typedef struct load {
    char policy[48];
    curve curve;
    int executors;
    int64_t limit;
    double slowdown[MOST_EXECUTORS];
    struct {
        double at, timeout; /* timeout 0: no deadline */
        int64_t rows;
        int priority;
    } request[REQUESTS];
} load;

/* How each request ended: the latency of one that was computed, REFUSED on its arrival, or LATE in
 * the queue. */
static const double REFUSED = -1, LATE = -2;
/* Which requests are queued although the dispatch refuses them: all, none, or the one of this
 * index. */
enum { ALL = -1, NONE = -2 };

typedef struct machine {
    const load *load;
    weft_dispatch dispatch;
    weft_batch_queue *queue;
    weft_batch_job *batch[MOST_EXECUTORS];
    double left[MOST_EXECUTORS], now, due;
    double *outcome;
} machine;

static void start_batches(machine *m)
{
    m->due = INFINITY;
    for (int e = 0; e < m->load->executors; e++) {
        if (m->batch[e]) continue;
        m->batch[e] = weft_dispatch_next(&m->dispatch, e, m->now, false, &m->due);
        if (!m->batch[e]) return;
        m->left[e] = weft_curve_time(&m->queue->curve, (double)m->batch[e]->rows);
    }
}

/* Queues request i, or refuses it. forced: the index of the request that is queued in any case. */
static void arrive(machine *m, int i, int forced)
{
    weft_request r;
    bool look;
    weft_request_init(&r);
    r.rows = m->load->request[i].rows;
    r.priority = m->load->request[i].priority;
    r.queue_timeout = m->load->request[i].timeout;
    r.user = (void *)(intptr_t)i;
    if (forced != ALL && forced != i) {
        weft_status status = weft_dispatch_put(m->queue, &r, m->now, &look, NULL);
        if (status == WEFT_ERR_LATE) m->outcome[i] = REFUSED;
        if (status != WEFT_ERR_LATE) assert_ok(status);
        return;
    }
    weft_policy *p = m->queue->policy;
    assert_ok(weft_request_queue_add(&m->queue->requests, &r, m->now, NULL));
    if (p->ops->arrived)
        p->ops->arrived(p, m->now, r.rows, m->queue->requests.count + m->queue->in_service);
}

static void finish(machine *m, int e)
{
    weft_batch_job *b = m->batch[e];
    for (int k = 0; k < b->count; k++) {
        b->requests[k].ended = m->now;
        m->outcome[(intptr_t)b->users[k]] = m->now - b->requests[k].arrived;
    }
    m->batch[e] = NULL;
    weft_dispatch_end(&m->dispatch, b, m->now);
}

/* Answers the requests that are late, and returns the next deadline. */
static double expire(machine *m)
{
    weft_dequeued_request late;
    weft_batch_queue *queue;
    double when;
    while (weft_dispatch_expire(&m->dispatch, m->now, &late, &queue, &when))
        m->outcome[(intptr_t)late.request.user] = LATE;
    return when;
}

static void search(machine *m)
{
    weft_policy *p = m->queue->policy;
    if (!p->ops->wants_search || !p->ops->wants_search(p, m->now)) return;
    p->ops->copy_input(p, m->now);
    p->ops->search(p);
    p->ops->apply(p);
}

static void run(const load *l, int forced, double *outcome)
{
    machine m = {.load = l, .outcome = outcome, .dispatch = {.executors = l->executors}};
    weft_batch_queue_options o;
    weft_batch_queue_options_init(&o);
    o.policy = l->policy;
    o.limit = l->limit;
    o.max_waiting = 1 << 30;
    o.curve_rows = l->curve.rows;
    o.curve_times = l->curve.time;
    o.curve_sizes = l->curve.sizes;
    o.slowdown = l->slowdown;
    assert_ok(weft_dispatch_add(&m.dispatch, context, &o, &m.queue));
    m.due = INFINITY;
    double deadline = INFINITY;
    for (int i = 0; i < REQUESTS || m.queue->requests.count > 0 || m.dispatch.busy > 0;) {
        int next = -1;
        double slow = m.dispatch.busy ? l->slowdown[m.dispatch.busy - 1] : 1, to = INFINITY;
        for (int e = 0; e < l->executors; e++)
            if (m.batch[e] && m.now + fmax(m.left[e], 0) * slow < to) {
                to = m.now + fmax(m.left[e], 0) * slow;
                next = e;
            }
        double comes = i < REQUESTS ? l->request[i].at : INFINITY, ends = to;
        to = fmin(fmin(to, comes), fmin(m.due, deadline));
        for (int e = 0; e < l->executors; e++) m.left[e] -= (to - m.now) / slow;
        m.now = to;
        if (next >= 0 && to == ends)
            finish(&m, next);
        else if (to == comes)
            arrive(&m, i++, forced);
        deadline = expire(&m);
        search(&m);
        start_batches(&m);
    }
    weft_dispatch_remove(&m.dispatch, &m.queue);
    free(m.dispatch.queues);
}

/* --- random loads --- */

enum { ROWS_DIFFER = 1, TIMEOUTS_DIFFER = 2, PRIORITIES = 4 };
/* Draws a load between half and three times the capacity. Timeouts are some batch times. */
static void draw(uint64_t seed, const char *policy, int how, load *l)
{
    weft_random r;
    weft_random_start(&r, 31, seed);
    double a = weft_random_between(&r, 0.2e-3, 5e-3), b = a * exp(weft_random_between(&r, -4, 0));
    bool shared = weft_random_u32(&r) % 2;
    l->limit = 1 << weft_random_u32(&r) % 6;
    l->curve = linear(a, b, l->limit);
    l->executors = 1 + (int)(weft_random_u32(&r) % MOST_EXECUTORS);
    for (int e = 0; e < MOST_EXECUTORS; e++) l->slowdown[e] = shared ? 1 + 0.8 * e : 1;
    int64_t rows = how & ROWS_DIFFER ? 1 + l->limit / 2 : 1;
    double full = l->curve.time[l->curve.sizes - 1], now = 0;
    bool single = strcmp(policy, "none") == 0;
    double rate = (single ? 1 / (a + b * (double)rows / 2) : (double)l->limit / full) *
                  l->executors / l->slowdown[l->executors - 1] / ((1 + (double)rows) / 2) *
                  weft_random_between(&r, 0.5, 3);
    double timeout = full * exp(weft_random_between(&r, -1, 3));
    (void)snprintf(l->policy, sizeof(l->policy), "%s", policy);
    if (strcmp(policy, "fixed") == 0)
        (void)snprintf(l->policy, sizeof(l->policy), "fixed:wait=%g,max=%lld", 1e6 * a,
                       (long long)l->limit);
    for (int i = 0; i < REQUESTS; i++) {
        l->request[i].at = now -= log(1 - weft_random_unit(&r)) / rate;
        l->request[i].rows = 1 + weft_random_u32(&r) % rows;
        double factor = exp(weft_random_between(&r, -2, 1));
        bool none = weft_random_u32(&r) % 8 == 0;
        l->request[i].timeout = how & TIMEOUTS_DIFFER ? (none ? 0 : timeout * factor) : timeout;
        l->request[i].priority = how & PRIORITIES ? (int)(weft_random_u32(&r) % 3) : 0;
    }
}

static const char *const policies[] = {"none", "greedy", "fixed", "adaptive"};
enum { FIXED = 3 }; /* the first ones, whose setting never changes */
static load l;
static double shed[REQUESTS], unshed[REQUESTS], forced[REQUESTS];

/* Loads that are drawn for a policy; the searches of the adaptive one take most of the time. */
static int loads_of(size_t policy)
{
    int loads = in_full() ? 48 : 12;
    return strcmp(policies[policy], "adaptive") == 0 ? loads / 12 : loads;
}

static int count(const double *outcome, double what)
{
    int n = 0;
    for (int i = 0; i < REQUESTS; i++) n += what >= 0 ? outcome[i] >= 0 : outcome[i] == what;
    return n;
}

/* A request that is refused on its arrival would have been late: each one is queued all the same in
 * another run of the same load. */
static void test_never_in_time(void **state)
{
    (void)state;
    int tried = 0;
    for (int how = 0; how < PRIORITIES; how++)
        for (size_t p = 0; p < FIXED; p++)
            for (int seed = 0; seed < loads_of(p); seed++) {
                draw((uint64_t)seed, policies[p], how, &l);
                run(&l, NONE, shed);
                int refused = count(shed, REFUSED), step = 1 + refused / 5, n = 0;
                for (int i = 0; i < REQUESTS; i++) {
                    if (shed[i] != REFUSED || n++ % step != step / 2) continue;
                    run(&l, i, forced);
                    tried++;
                    if (forced[i] != LATE)
                        fail_msg(
                            "%s, load %d of kind %d, request %d of %d refused ones: %g s after "
                            "its arrival, and its timeout is %g s",
                            l.policy, seed, how, n, refused, forced[i], l.request[i].timeout);
                }
            }
    print_message("%d refused requests would have been late\n", tried);
    assert_true(tried > 500);
}

/* Requests of one row that are refused do not change how others of a fixed policy are computed, and
 * where a batch waits for nothing but an executor, each one that would be late is refused. */
static void test_same_answers(void **state)
{
    (void)state;
    int late = 0, refused = 0;
    for (int how = 0; how < PRIORITIES; how += TIMEOUTS_DIFFER)
        for (size_t p = 0; p < FIXED; p++)
            for (int seed = 0; seed < loads_of(p); seed++) {
                draw((uint64_t)seed, policies[p], how, &l);
                run(&l, NONE, shed);
                run(&l, ALL, unshed);
                for (int i = 0; i < REQUESTS; i++)
                    if ((shed[i] < 0) != (unshed[i] < 0) ||
                        (shed[i] >= 0 && fabs(shed[i] - unshed[i]) > 1e-9))
                        fail_msg(
                            "%s, load %d of kind %d, request %d: %g, and %g where none is refused",
                            l.policy, seed, how, i, shed[i], unshed[i]);
                if (p < 2) assert_int_equal(count(shed, LATE), 0);
                late += count(shed, LATE);
                refused += count(shed, REFUSED);
            }
    print_message("%d requests refused, and %d late\n", refused, late);
    assert_true(late < refused / 4);
}

/* As many requests are answered in time as without refusals, with every policy and in any mixture
 * of rows, timeouts and priorities; more where a large late request would keep those behind it out
 * of a batch. A request that a later one of a higher priority overtakes is not foreseen, and with
 * requests of several rows others share a batch after a refusal, so single loads may lose some. */
static void test_goodput(void **state)
{
    (void)state;
    for (int how = 0; how < 2 * PRIORITIES; how++)
        for (size_t p = 0; p < WEFT_COUNT(policies); p++) {
            double worst = INFINITY, with = 0, without = 0;
            for (int seed = 0; seed < loads_of(p); seed++) {
                draw((uint64_t)seed, policies[p], how, &l);
                run(&l, NONE, shed);
                run(&l, ALL, unshed);
                int a = count(shed, 0), b = count(unshed, 0);
                with += a;
                without += b;
                worst = fmin(worst, (double)a / b);
            }
            print_message("%s, kind %d: %.4f of the answers, %.3f at the worst\n", policies[p], how,
                          with / without, worst);
            assert_true(with >= 0.995 * without && worst >= 0.9);
        }
}

/* Without deadlines nothing is refused, and nothing changes. */
static void test_without_deadlines(void **state)
{
    (void)state;
    for (size_t p = 0; p < WEFT_COUNT(policies); p++)
        for (int seed = 0; seed < loads_of(p); seed++) {
            draw((uint64_t)seed, policies[p], ROWS_DIFFER | PRIORITIES, &l);
            for (int i = 0; i < REQUESTS; i++) l.request[i].timeout = 0;
            run(&l, NONE, shed);
            run(&l, ALL, unshed);
            assert_memory_equal(shed, unshed, sizeof(shed));
            assert_int_equal(count(shed, 0), REQUESTS);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_never_in_time),
        cmocka_unit_test(test_same_answers),
        cmocka_unit_test(test_goodput),
        cmocka_unit_test(test_without_deadlines),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
