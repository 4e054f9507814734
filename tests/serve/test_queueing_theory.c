/* Compares simulated batching with results that are known: formulas of queueing theory, policies
 * that are equal in special cases, and the simulation of a queue (weft_queue_sim). */
#include <math.h>
#include <stdio.h>

#include "forecast_fixture.h"
#include "load/load.h"
#include "serve/batch/batch_internal.h"

static void test_closed_formulas(void **state)
{
    (void)state;
    /* One request at a time is an M/D/1 queue (Pollaczek and Khinchine). */
    curve c = linear(1e-3, 0, 1);
    for (double rho = 0.2; rho < 0.85; rho += 0.3) {
        weft_forecast_options o = with(&c, 1, rho / 1e-3);
        o.policy = "none";
        o.requests = 400000;
        double latency = 1e-3 * (1 + rho / (2 * (1 - rho)));
        double off = forecast(&o).mean / latency;
        if (fabs(off - 1) > 0.03) fail_msg("M/D/1 at %g: %g of the formula", rho, off);
    }
    /* Greedy with batch times a + b n has a mean latency below Inoue's bound (arXiv 1912.06322,
     * Theorem 2). */
    for (double rho = 0.1; rho < 0.95; rho += 0.2) {
        double a = 1e-3, b = 1e-4, rate = rho / b, tau0 = a, alpha = b;
        c = linear(a, b, 1 << 15);
        weft_forecast_options o = with(&c, 1 << 15, rate);
        o.policy = "greedy";
        o.requests = 200000;
        double load = rate * alpha;
        double zero = (alpha + tau0) / (2 * (1 - load)) *
                      (1 + 2 * rate * tau0 + (1 - rate * tau0) / (1 + load));
        double one = 1.5 * tau0 / (1 - load) + alpha / 2 * (load + 2) / (1 - load * load);
        double bound = zero < one ? zero : one;
        double mean = forecast(&o).mean;
        if (mean > bound * 1.01)
            fail_msg("greedy at %g: %g s, above the bound of %g s", rho, mean, bound);
    }
}

/* One request at a time with batch times that vary is an M/G/1 queue (Pollaczek and Khinchine). */
static void test_variation(void **state)
{
    (void)state;
    curve c = linear(1e-3, 0, 1);
    static const double variations[] = {0.5, 1};
    for (size_t i = 0; i < WEFT_COUNT(variations); i++) {
        double rho = 0.5, v = variations[i];
        weft_forecast_options o = with(&c, 1, rho / 1e-3);
        o.policy = "none";
        o.variation = v;
        o.requests = 400000;
        weft_forecast f = forecast(&o);
        double off = f.mean / (1e-3 * (1 + rho * (1 + v * v) / (2 * (1 - rho))));
        if (fabs(off - 1) > 0.04) fail_msg("M/G/1 of variation %g: %g of the formula", v, off);
        assert_true(fabs(f.utilisation - rho) < 0.02);
    }
}

/* The exact mean latency of greedy with batch times a + b n and no limit, from the Markov chain of
 * batch sizes. After a batch of s seconds the next batch has all requests that arrived meanwhile,
 * Poisson with mean rate * s, or the next request if there are none. Arrivals are uniform over the
 * s seconds, so they wait s / 2 on average before they are computed together. */
static double exact_greedy(double a, double b, double rate)
{
    enum { SIZES = 400 };
    static double p[SIZES], next[SIZES];
    double latency = 0, served = 0;
    memset(p, 0, sizeof(p));
    p[1] = 1;
    for (int turn = 0; turn < 300; turn++) {
        memset(next, 0, sizeof(next));
        latency = served = 0;
        for (int n = 1; n < SIZES; n++) {
            double s = a + b * n, mean = rate * s, x = exp(-mean) * p[n];
            if (p[n] < 1e-14) continue;
            latency += p[n] * mean * s / 2;
            for (int k = 0; k < SIZES; k++, x *= mean / k) {
                int size = k > 0 ? k : 1;
                next[size] += x;
                latency += x * size * (a + b * size);
                served += x * size;
            }
        }
        memcpy(p, next, sizeof(p));
    }
    return latency / served;
}

static void test_exact_greedy(void **state)
{
    (void)state;
    static const double loads[] = {0.1, 0.5, 0.8};
    for (size_t i = 0; i < WEFT_COUNT(loads); i++) {
        double a = 1e-3, b = 1e-4, exact = exact_greedy(a, b, loads[i] / b);
        curve c = linear(a, b, 1 << 12);
        weft_forecast_options o = with(&c, 1 << 12, loads[i] / b);
        o.policy = "greedy";
        o.requests = 1000000;
        double off = forecast(&o).mean / exact;
        if (fabs(off - 1) > 0.015) fail_msg("greedy at %g: %g of what it is", loads[i], off);
    }
}

static void test_degenerate(void **state)
{
    (void)state;
    curve c = linear(1e-3, 2e-4, 16);
    const char *const same[][2] = {{"fixed:wait=0", "greedy"}, {"fixed:max=1", "none"}};
    for (int executors = 1; executors <= 3; executors++)
        for (size_t i = 0; i < sizeof(same) / sizeof(*same); i++) {
            weft_forecast_options o = with(&c, 16, 700.0 * executors);
            o.executors = executors;
            o.policy = same[i][0];
            weft_forecast a = forecast(&o);
            o.policy = same[i][1];
            weft_forecast b = forecast(&o);
            assert_true(a.mean == b.mean && a.p99 == b.p99 && a.batches == b.batches);
        }
    curve one = linear(1e-3, 0, 1);
    weft_forecast_options o = with(&one, 1, 600);
    o.policy = "adaptive";
    double adaptive = forecast(&o).mean;
    o.policy = "none";
    assert_true(adaptive == forecast(&o).mean);
}

/* --- weft_queue_sim agrees with the simulated dispatch --- */

enum { PLAYED = 4000, NOT_COUNTED = PLAYED / 10, AT_THE_END = 200 };
typedef struct heard {
    double latency[PLAYED];
    int count;
} heard;
static void hear(void *user, double latency)
{
    heard *h = user;
    h->latency[h->count++] = latency;
}

static void test_rehearsal(void **state)
{
    (void)state;
    static heard h;
    static double at[PLAYED + NOT_COUNTED], latency[PLAYED + NOT_COUNTED];
    static int64_t rows[PLAYED + NOT_COUNTED];
    static const char *const arrivals[] = {"poisson", "bursts:size=9"};
    for (int i = 0; i < 24; i++) {
        weft_random r;
        weft_arrivals *a;
        weft_curve known;
        weft_forecast f;
        char policy[64];
        double now = 0, slower[] = {1, 1.6, 2.5};
        curve c = linear(1e-3, 1e-4, 16);
        weft_random_start(&r, 21, (uint64_t)i);
        int64_t max = 1 + weft_random_u32(&r) % 16, wait = weft_random_u32(&r) % 4000;
        weft_forecast_options o = with(&c, 16, 800);
        o.executors = 1 + i % 3;
        o.slowdown = slower;
        o.requests = PLAYED;
        o.seed = (uint64_t)i;
        o.rows = 1 + i / 12;
        o.arrivals = arrivals[i / 6 % 2];
        max = WEFT_MAX(max, o.rows);
        o.policy = policy;
        (void)snprintf(policy, sizeof(policy), "fixed:wait=%lld,max=%lld", (long long)wait,
                       (long long)max);
        h.count = 0;
        assert_ok(weft_forecast_run(context, &o, hear, &h, &f));
        assert_int_equal(f.refused, 0);
        assert_ok(weft_arrivals_open(context, o.arrivals, o.seed, &a));
        for (int k = 0; k < PLAYED + NOT_COUNTED; k++) {
            at[k] = now += weft_arrivals_next(a, o.rate);
            rows[k] = o.rows;
        }
        weft_arrivals_close(&a);
        assert_ok(weft_curve_make(c.rows, c.time, c.sizes, slower, o.executors, &known));
        weft_queue_sim rehearsal = {
            .at = at, .rows = rows, .count = PLAYED + NOT_COUNTED, .latency = latency};
        weft_queue_sim_run(&rehearsal, &known,
                           &(weft_batch_setting){
                               .min_rows = max, .max_rows = max, .max_delay = 1e-6 * (double)wait});
        for (int k = 0; k < PLAYED - AT_THE_END; k++)
            if (fabs(latency[k + NOT_COUNTED] - h.latency[k]) > 1e-7)
                fail_msg("%s, %d executors, request %d: %g s, and %g s when it is rehearsed",
                         policy, o.executors, k, h.latency[k], latency[k + NOT_COUNTED]);
        weft_curve_free(&known);
    }
}

static void test_bad_input(void **state)
{
    (void)state;
    curve c = linear(1e-3, 1e-4, 8);
    static const char *const bad[] = {"adaptve",  "fixed:max=0",   "adaptive:goal=p98",
                                      "none:x=1", "fixed:wait=-1", ""};
    weft_forecast f;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        weft_forecast_options o = with(&c, 8, 100);
        o.policy = bad[i];
        assert_int_equal(weft_forecast_run(context, &o, NULL, NULL, &f), WEFT_ERR_ARGUMENT);
    }
    weft_forecast_options o = with(&c, 8, 0);
    assert_int_equal(weft_forecast_run(context, &o, NULL, NULL, &f), WEFT_ERR_ARGUMENT);
    /* Far beyond the capacity, requests are refused, so that the simulation ends. */
    o = with(&c, 8, 1e6);
    o.waiting = 100;
    assert_true(forecast(&o).refused > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_closed_formulas), cmocka_unit_test(test_degenerate),
        cmocka_unit_test(test_variation),       cmocka_unit_test(test_exact_greedy),
        cmocka_unit_test(test_rehearsal),       cmocka_unit_test(test_bad_input),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
