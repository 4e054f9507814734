/* Tests the parts of the adaptive batching policy in made-up time: the learned batch times and
 * arrival rates, A/B trials of its choice, and closed-loop clients. */
#include <math.h>

#include "serve/batch/adaptive_internal.h"
#include "one_context.h"
#include "support.h"

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
                assert_int_equal(g->rows[(g->first + k) % WEFT_INTERARRIVALS],
                                 found - g->count + 1 + k);
        }
    weft_free(g);
}

static double exponential(weft_random *r, double mean)
{
    return -log(1 - weft_random_unit(r)) * mean;
}

/* The arrivals of a Poisson process hardly ever change by chance; a rate that falls or grows by a
 * quarter is found within 2,000 arrivals, four times of five. */
static void test_small_changes(void **state)
{
    (void)state;
    weft_interarrivals *g;
    weft_random r;
    assert_ok(WEFT_NEW(&g, 1));
    int false_alarms = 0, unseen = 0;
    for (int run = 0; run < 200; run++) {
        double now = 0;
        bool found = false;
        weft_random_start(&r, 6, (uint64_t)run);
        *g = (weft_interarrivals){.last = -1};
        for (int i = 0; i < 10000; i++)
            false_alarms += weft_interarrivals_add(g, now += exponential(&r, 1e-3), 1);
        for (int i = 0; i < 2000 && !found; i++)
            found = weft_interarrivals_add(g, now += exponential(&r, run % 2 ? 8e-4 : 1.25e-3), 1);
        unseen += !found;
    }
    if (false_alarms > 40 || unseen > 40)
        fail_msg("of 200 runs with 10,000 arrivals each %d false alarms, and %d changes not found",
                 false_alarms, unseen);
    weft_free(g);
}

/* Clients that all send at once when a batch is answered give way to single arrivals at two thirds
 * of the rate: the long gaps between the bursts do not hide the change. */
static void test_end_of_bursts(void **state)
{
    (void)state;
    weft_interarrivals *g;
    weft_random r;
    assert_ok(WEFT_NEW(&g, 1));
    weft_random_start(&r, 7, 0);
    double now = 0;
    int found = -1;
    g->last = -1;
    for (int i = 0; i < 3000; i++) {
        now += i % 64 ? exponential(&r, 1e-5) : exponential(&r, 4e-2);
        assert_false(weft_interarrivals_add(g, now, 1) && i > 500);
    }
    for (int i = 0; i < 200 && found < 0; i++)
        if (weft_interarrivals_add(g, now += exponential(&r, 1e-3), 1)) found = i;
    assert_in_range(found, 0, 100);
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
    *t = (weft_ab_trial){.round = 0};
    answer(t, 0.5, 1e-3, 256);
    assert_int_equal(t->phase, WEFT_TRIAL_RUNNING);
    answer(t, 0.5, 1e-3, 6 * 128);
    assert_int_equal(t->phase, WEFT_TRIAL_REJECTED);
    /* A choice that is better than greedy is kept, although it misses its prediction. */
    *t = (weft_ab_trial){.round = 0};
    answer(t, 2.1e-3, 2.3e-3, 4000);
    assert_int_equal(t->phase, WEFT_TRIAL_ACCEPTED);
    /* While the choice keeps its prediction, greedy is still tried for a small share of
     * requests. */
    *t = (weft_ab_trial){.round = 0};
    int tried = 0;
    for (int i = 0; i < 200000; i++) {
        answer(t, 1e-3, 1.5e-3, 1);
        tried += !weft_ab_trial_uses_choice(t);
    }
    assert_true(tried > 0 && tried < 200000 / 50);
    /* A choice that keeps its prediction but is worse than greedy is rarely followed. */
    *t = (weft_ab_trial){.round = 0};
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_curve),         cmocka_unit_test(test_few_sizes),
        cmocka_unit_test(test_gaps),          cmocka_unit_test(test_changes),
        cmocka_unit_test(test_small_changes), cmocka_unit_test(test_end_of_bursts),
        cmocka_unit_test(test_crowd),         cmocka_unit_test(test_clients_return),
        cmocka_unit_test(test_doubts),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
