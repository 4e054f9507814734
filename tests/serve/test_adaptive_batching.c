/* Compares the adaptive batching policy, by simulation of the dispatch, with the best fixed setting
 * and with the optimal policy. */
#include <math.h>
#include <stdio.h>

#include "base/base.h"
#include "forecast_fixture.h"

/* --- against brute force --- */

static const goal goals[] = {
    {"adaptive", mean_of}, {"adaptive:goal=p95", p95_of}, {"adaptive:goal=p99", p99_of}};

/* The policy's value of a goal, divided by that of the best fixed setting for the same arrivals. */
static double against_best(weft_forecast_options *o, const goal *g, double single)
{
    o->policy = g->policy;
    weft_forecast f = forecast(o);
    return g->of(&f) / best_fixed(o, g, single);
}

/* The best of 130 settings for some arrivals is best for these by chance, too, and of 8000 requests
 * only 80 are above p99. So a load whose ratio is above the bound counts with the ratio over more
 * arrivals. */
static const double MOST_ABOVE = 1.05;

static void test_brute_force(void **state)
{
    (void)state;
    int loads = getenv("WEFT_FAST") ? 12 : 200;
    double worst = 0, sum = 0;
    for (int i = 0; i < loads; i++) {
        weft_random r;
        weft_random_start(&r, 5, (uint64_t)i);
        double a = weft_random_between(&r, 0.2e-3, 5e-3),
               b = a * exp(weft_random_between(&r, -5, 0));
        int64_t limit = 1 << (2 + weft_random_u32(&r) % 4);
        curve c = linear(a, b, limit);
        int executors = 1 + (int)(weft_random_u32(&r) % 3);
        double shared = weft_random_unit(&r) < 0.5 ? 1 : 0, slower[3];
        for (int e = 0; e < 3; e++) slower[e] = 1 + shared * e;
        double capacity =
            (double)limit / (a + b * (double)limit) * executors / slower[executors - 1];
        weft_forecast_options o = with(&c, limit, capacity * weft_random_between(&r, 0.05, 0.95));
        o.executors = executors;
        o.slowdown = slower;
        o.requests = 8000;
        o.seed = (uint64_t)i;
        const goal *g = &goals[i % 3];
        double ratio = against_best(&o, g, a + b);
        if (ratio > MOST_ABOVE) {
            o.requests *= 8;
            double longer = against_best(&o, g, a + b);
            print_message("load %d (%s, %d executors%s, %.0f %%, limit %lld): %.3f, and %.3f over "
                          "%lld requests\n",
                          i, g->policy, executors, shared > 0 ? " sharing" : "",
                          100 * o.rate / capacity, (long long)limit, ratio, longer,
                          (long long)o.requests);
            ratio = longer;
        }
        if (ratio > worst) worst = ratio;
        sum += ratio;
    }
    print_message(
        "against the best fixed setting of %d loads: %.3f in the mean, %.3f at the worst\n", loads,
        sum / loads, worst);
    assert_true(worst < MOST_ABOVE);
    assert_true(sum / loads < (loads < 200 ? 1 : 0.9));
}

/* Tests the adaptive policy with each goal, and with a bound on p99 (slo). */
static double p50_of(const weft_forecast *f)
{
    return f->p50;
}

static double bound;
static double bounded_mean(const weft_forecast *f)
{
    return f->p99 <= bound ? f->mean : INFINITY;
}

static void test_goals(void **state)
{
    (void)state;
    static const goal all[] = {{"adaptive:goal=mean", mean_of},
                               {"adaptive:goal=p50", p50_of},
                               {"adaptive:goal=p95", p95_of},
                               {"adaptive:goal=p99", p99_of}};
    static const double loads[] = {0.2, 0.5, 0.8}, slower[] = {1, 2};
    curve c = linear(4e-3, 1e-4, 16);
    for (size_t l = 0; l < WEFT_COUNT(loads); l++) {
        weft_forecast_options o = with(&c, 16, loads[l] * 16 / c.time[c.sizes - 1]);
        if (!in_full() && l != 1) continue;
        double of_itself[4], other[4], fixed[4];
        o.executors = 2;
        o.slowdown = slower;
        for (int g = 0; g < 4; g++) {
            o.policy = all[g].policy;
            weft_forecast f = forecast(&o);
            of_itself[g] = all[g].of(&f);
            if (g == 0)
                for (int k = 0; k < 4; k++) other[k] = all[k].of(&f);
            fixed[g] = best_fixed(&o, &all[g], c.time[0]);
            double ratio = of_itself[g] / fixed[g];
            if (ratio > 1.05) fail_msg("%s at %g: %.3f", all[g].policy, loads[l], ratio);
        }
        for (int g = 1; g < 4; g++) assert_true(of_itself[g] < 1.02 * other[g]);
        /* With a bound, the policy must have nearly the least mean latency of all fixed settings
         * that keep the bound, and may exceed the bound by 5 % only. */
        char policy[64];
        bound = 1.05 * fixed[3];
        goal bounded = {policy, bounded_mean};
        double best = best_fixed(&o, &bounded, c.time[0]);
        (void)snprintf(policy, sizeof(policy), "adaptive:slo=%g", 1e3 * bound);
        o.policy = policy;
        weft_forecast f = forecast(&o);
        print_message("p99 below %.2f ms: %.2f ms, and the mean is %.3f of the best fixed one\n",
                      1e3 * bound, 1e3 * f.p99, f.mean / best);
        assert_true(f.p99 < 1.05 * bound);
        assert_true(f.mean < 1.05 * best);
    }
}

/* --- a bound on p99 --- */

static void test_slo(void **state)
{
    (void)state;
    curve c = linear(4e-3, 5e-5, 16);
    double slower[] = {1, 2};
    weft_forecast_options o = with(&c, 16, 0.5 * 16 / c.time[c.sizes - 1]);
    o.executors = 2;
    o.slowdown = slower;
    o.requests = 40000;
    char policy[64];
    o.policy = "adaptive";
    weft_forecast least = forecast(&o);
    o.policy = "adaptive:goal=p99";
    weft_forecast p99 = forecast(&o);
    /* Three bounds: one that goal=p99 can keep, one so large that it changes nothing, and one that
     * no setting can keep. */
    o.policy = policy;
    (void)snprintf(policy, sizeof(policy), "adaptive:slo=%g", 1e3 * 1.1 * p99.p99);
    weft_forecast kept = forecast(&o);
    assert_true(kept.p99 < 1.05 * 1.1 * p99.p99);
    assert_true(kept.mean < 1.02 * p99.mean);
    (void)snprintf(policy, sizeof(policy), "adaptive:slo=%g", 1e3 * 10 * least.p99);
    assert_true(fabs(forecast(&o).mean / least.mean - 1) < 0.02);
    (void)snprintf(policy, sizeof(policy), "adaptive:slo=1");
    assert_true(forecast(&o).p99 < 1.05 * p99.p99);
}

/* --- against the optimum of the semi-Markov decision process --- */

/* The least possible mean latency of one executor with Poisson arrivals, by relative value
 * iteration (Markov decision process). States are the numbers of waiting requests whenever the
 * executor is free. Actions are to wait for one more request, or to compute a batch of all, up to
 * the limit. */
static double optimum(const curve *c, int64_t limit, double rate, double above)
{
    enum { STATES = 250 };
    static double p[64][STATES];
    double time[65], h[STATES] = {0}, next[STATES], low = 0, high = above * rate;
    for (int n = 1; n <= limit; n++) {
        int i = 0;
        while (c->rows[i] < n) i++;
        time[n] = i ? c->time[i - 1] + (c->time[i] - c->time[i - 1]) *
                                           (double)(n - c->rows[i - 1]) /
                                           (double)(c->rows[i] - c->rows[i - 1])
                    : c->time[0];
        double x = exp(-rate * time[n]);
        for (int k = 0; k < STATES; k++, x *= rate * time[n] / k) p[n - 1][k] = x;
    }
    /* Bisection finds the mean number of requests in the system: the least g for which the relative
     * values stay bounded. The sign of the value of a cycle from state 0 to state 0 tells the
     * direction. */
    for (int step = 0; step < 22; step++) {
        double g = (low + high) / 2;
        memset(h, 0, sizeof(h));
        for (int sweep = 0; sweep < 400; sweep++) {
            double change = 0;
            for (int s = STATES - 1; s >= 0; s--) {
                int more = s + 1 < STATES ? s + 1 : s;
                double wait = (s - g) / rate + h[more], best = s + 1 < STATES ? wait : INFINITY;
                if (s > 0) {
                    int n = s < limit ? s : (int)limit;
                    double t = time[n], cost = (s - g) * t + rate * t * t / 2, after = 0;
                    for (int k = 0; k < 70; k++)
                        after += p[n - 1][k] * h[s - n + k < STATES ? s - n + k : STATES - 1];
                    if (cost + after < best) best = cost + after;
                }
                next[s] = s == 0 ? wait : best;
                change = fmax(change, fabs(next[s] - h[s]));
                if (s > 0) h[s] = next[s];
            }
            if (change < 1e-9) break;
        }
        /* next[0] is the value of a cycle from state 0 to state 0 at this g */
        *(next[0] > 0 ? &low : &high) = g;
    }
    return high / rate;
}

static void test_optimum(void **state)
{
    (void)state;
    static const double loads[] = {0.15, 0.4, 0.7};
    for (int kind = getenv("WEFT_FAST") ? 1 : 0; kind < 2; kind++)
        for (size_t i = 0; i < sizeof(loads) / sizeof(*loads); i++) {
            int64_t limit = 16;
            curve c = kind ? linear(1e-3, 1e-4, limit) : linear(4e-3, 5e-5, limit);
            double capacity = (double)limit / c.time[c.sizes - 1];
            weft_forecast_options o = with(&c, limit, loads[i] * capacity);
            o.requests = 300000;
            double mean = forecast(&o).mean, ratio = mean / optimum(&c, limit, o.rate, 1.3 * mean);
            print_message("adaptive at %.0f %% of capacity: %.4f of the optimum\n", 100 * loads[i],
                          ratio);
            if (ratio > 1.03 || ratio < 0.97) fail_msg("%g of the optimum", ratio);
        }
}

/* --- a step in load --- */

typedef struct part {
    int64_t i, first, end;
    double sum;
} part;
static void add(void *user, double latency)
{
    part *p = user;
    if (p->i >= p->first && p->i < p->end) p->sum += latency;
    p->i++;
}

static void test_step(void **state)
{
    (void)state;
    enum { BEFORE = 4000, AFTER = 6000 };
    int runs = getenv("WEFT_FAST") ? 8 : 40;
    double sum[2][2] = {{0}};
    for (int up = 0; up < 2; up++)
        for (int run = 0; run < runs; run++) {
            curve c = linear(4e-3, 5e-5, 16);
            double slow = 0.15 * 16 / c.time[c.sizes - 1], fast = 4 * slow;
            weft_forecast_options o = with(&c, 16, up ? slow : fast);
            o.seed = (uint64_t)run + 1;
            o.requests = BEFORE + AFTER;
            o.step = BEFORE;
            o.step_rate = up ? fast : slow;
            weft_forecast f;
            int64_t batches = 200 * (up ? 8 : 2); /* requests in 200 batches, about */
            part p = {.first = BEFORE + batches, .end = BEFORE + AFTER};
            assert_ok(weft_forecast_run(context, &o, add, &p, &f));
            sum[up][0] += p.sum;
            double best = INFINITY;
            for (int need = 1; need <= 16; need++) {
                char policy[48];
                snprintf(policy, sizeof(policy), "fixed:wait=%g,max=%d",
                         1e6 * need * 20 / o.step_rate, need);
                o.policy = need == 1 ? "greedy" : policy;
                part q = {.first = p.first, .end = p.end};
                assert_ok(weft_forecast_run(context, &o, add, &q, &f));
                if (q.sum < best) best = q.sum;
            }
            sum[up][1] += best;
        }
    for (int up = 0; up < 2; up++) {
        double ratio = sum[up][0] / sum[up][1];
        print_message("200 batches after a step %s: %.3f of the best fixed setting\n",
                      up ? "up" : "down", ratio);
        assert_true(ratio < 1.05);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_brute_force), cmocka_unit_test(test_goals),
        cmocka_unit_test(test_optimum),     cmocka_unit_test(test_step),
        cmocka_unit_test(test_slo),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
