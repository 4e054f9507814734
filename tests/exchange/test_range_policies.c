/* Compares one range of a server with theory: for which step sizes delayed gradient descent is
 * stable, how stale updates are under each policy, and which policies give the same bits. */
#include <math.h>

#include "one_context.h"
#include "range_fixture.h"

/* --- the delayed quadratic --- */

/* Minimizes x^2 / 2 by x -= k x(t - delay), with the weights for stale updates that `scale` names.
 * Returns the largest |x| of the last steps. */
static double delayed(const char *scale, double k, int delay, int steps)
{
    descent d = {.lr = k, .count = 1};
    weft_range *r = open_range(&d, policy_of("async", -1, -1, scale), 1);
    learner l = begin_learner(context, 1, 1);
    double past[16], *x = weft_range_parameters(r);
    l.target = 0;
    for (int i = 0; i < 16; i++) past[i] = 1;
    *x = 1;
    for (int t = 0; t < steps && fabs(*x) < 1e6; t++) {
        past[t % 16] = *x;
        l.w[0] = t < delay ? 1 : past[(t - delay) % 16];
        l.version = WEFT_MAX(t - delay, 0);
        push(&l, r, 1);
        x = weft_range_parameters(r);
    }
    double size = fabs(*x);
    for (int t = 0; t <= delay && size < 1e6; t++)
        size = WEFT_MAX(size, fabs(past[(steps - t + 15) % 16]));
    end_learner(&l);
    weft_range_destroy(&r);
    return size;
}

static void test_delayed_quadratic(void **state)
{
    (void)state;
    for (int delay = 0; delay <= 8; delay++) {
        double limit = 2 * sin(acos(-1) / (2 * (2 * delay + 1)));
        assert_true(delayed("none", 0.98 * limit, delay, 100000) < 1e-3);
        assert_true(delayed("none", 1.02 * limit, delay, 100000) > 1e3);
        assert_true(delayed("inverse", 0.9, delay, 100000) < 1e-3);
        if (delay >= 2) assert_true(delayed("none", 0.9, delay, 100000) > 1e3);
    }
}

/* --- staleness --- */

static double mean_staleness(const weft_range *r, int64_t *most)
{
    size_t size;
    const int64_t *histogram = weft_range_staleness(r, &size);
    double sum = 0, all = 0;
    for (size_t i = 0; i < size; i++) {
        sum += (double)histogram[i] * (double)i;
        all += (double)histogram[i];
    }
    *most = (int64_t)size - 1;
    return sum / all;
}

/* L learners take turns: between fetch and push of one learner, L - 1 others have pushed. */
static void test_round_robin(void **state)
{
    (void)state;
    enum { COUNT = 3, LEARNERS = 7, ROUNDS = 20 };
    descent d = {.lr = 0.01, .count = COUNT};
    weft_range *r = open_range(&d, policy_of("async", -1, -1, NULL), LEARNERS);
    learner all[LEARNERS];
    size_t size;
    for (int i = 0; i < LEARNERS; i++) all[i] = begin_learner(context, i + 1, COUNT);
    for (int t = 0; t < ROUNDS; t++)
        for (int i = 0; i < LEARNERS; i++) {
            push(&all[i], r, COUNT);
            fetch(&all[i], r, COUNT);
        }
    const int64_t *histogram = weft_range_staleness(r, &size);
    assert_int_equal(size, LEARNERS);
    for (int s = 0; s < LEARNERS - 1; s++) assert_int_equal(histogram[s], 1); /* the first round */
    assert_int_equal(histogram[LEARNERS - 1], LEARNERS * (ROUNDS - 1) + 1);
    for (int i = 0; i < LEARNERS; i++) end_learner(&all[i]);
    weft_range_destroy(&r);
}

/* The learner whose step ends next. */
static int next_of(const double *ends, int n)
{
    int first = 0;
    for (int i = 1; i < n; i++)
        if (ends[i] < ends[first]) first = i;
    return first;
}

/* n-softsync makes each version of c = L/n updates; the mean staleness is then about n, and a
 * staleness above 2n is rare. */
static void test_softsync_staleness(void **state)
{
    (void)state;
    enum { COUNT = 1, LEARNERS = 30, STEPS = 12000 };
    for (int n = 2; n <= LEARNERS; n = n == 2 ? 3 : n == 3 ? 5 : n == 5 ? 10 : n * 3) {
        descent d = {.lr = 0.001, .count = COUNT};
        weft_range *r =
            open_range(&d, policy_of("softsync", LEARNERS / n, -1, "inverse"), LEARNERS);
        learner all[LEARNERS];
        double ends[LEARNERS];
        weft_random random;
        int64_t most;
        size_t size;
        weft_random_start(&random, 1, (uint64_t)n);
        for (int i = 0; i < LEARNERS; i++) {
            all[i] = begin_learner(context, i + 1, COUNT);
            ends[i] = weft_random_between(&random, 0, 1);
        }
        for (int t = 0; t < STEPS; t++) {
            int i = next_of(ends, LEARNERS);
            push(&all[i], r, COUNT);
            fetch(&all[i], r, COUNT);
            ends[i] += weft_random_between(&random, 0.5, 1.5);
        }
        double mean = mean_staleness(r, &most);
        const int64_t *histogram = weft_range_staleness(r, &size);
        int64_t late = 0;
        for (size_t s = 2 * (size_t)n + 1; s < size; s++) late += histogram[s];
        print_message("%d-softsync: mean staleness %.2f, %.4f beyond %d\n", n, mean,
                      (double)late / STEPS, 2 * n);
        assert_true(fabs(mean - n) <= 0.1 * n);
        assert_true((double)late / STEPS < 0.01);
        for (int i = 0; i < LEARNERS; i++) end_learner(&all[i]);
        weft_range_destroy(&r);
    }
}

/* --- clocks --- */

/* Lets learners of random speed take steps whenever the policy allows it, and returns the
 * parameters. The clocks of the learners, including running steps, never differ by more than the
 * bound plus one. */
static void race(weft_policy policy, uint64_t seed, double *w, int64_t count)
{
    enum { LEARNERS = 5, STEPS = 40 };
    descent d = {.lr = 0.05, .count = count};
    weft_range *r = open_range(&d, policy, LEARNERS);
    learner all[LEARNERS];
    bool going[LEARNERS] = {false};
    weft_random random;
    weft_random_start(&random, seed, 3);
    for (int i = 0; i < LEARNERS; i++) all[i] = begin_learner(context, i + 1, count);
    for (int done = 0; done < LEARNERS * STEPS;) {
        int i = (int)(weft_random_u32(&random) % LEARNERS);
        if (seed % 2 && i == 0 && weft_random_u32(&random) % 10) continue; /* learner 0 is slow */
        if (all[i].clock == STEPS) continue;
        if (!going[i] && weft_range_may_begin(r, weft_range_slowest(r), all[i].clock)) {
            fetch(&all[i], r, count);
            going[i] = true;
        } else if (going[i]) {
            push(&all[i], r, count);
            going[i] = false;
            done++;
        }
        int64_t low = INT64_MAX, high = 0;
        for (int k = 0; k < LEARNERS; k++) {
            low = WEFT_MIN(low, all[k].clock);
            high = WEFT_MAX(high, all[k].clock + going[k]);
        }
        if (policy.bound != WEFT_NO_BOUND) assert_true(high - low <= policy.bound + 1);
    }
    assert_int_equal(weft_range_slowest(r), STEPS);
    memcpy(w, weft_range_parameters(r), (size_t)count * sizeof(double));
    for (int i = 0; i < LEARNERS; i++) end_learner(&all[i]);
    weft_range_destroy(&r);
}

static void test_clocks(void **state)
{
    (void)state;
    enum { COUNT = 9 };
    double a[COUNT], b[COUNT];
    for (uint64_t seed = 1; seed <= 20; seed++) {
        for (int bound = 1; bound < 5; bound++)
            race(policy_of("ssp", -1, bound, NULL), seed, a, COUNT);
        /* ssp without a bound equals async. ssp with bound 0 equals bsp, whose bits do not depend
         * on the order of the pushes. */
        race(policy_of("ssp", -1, INFINITY, NULL), seed, a, COUNT);
        race(policy_of("async", -1, -1, NULL), seed, b, COUNT);
        assert_memory_equal(a, b, sizeof(a));
        race(policy_of("ssp", -1, 0, NULL), seed, a, COUNT);
        race(policy_of("bsp", -1, -1, NULL), seed + 50, b, COUNT);
        assert_memory_equal(a, b, sizeof(a));
        /* No update is stale under bsp, so scaling by staleness changes nothing. */
        race(policy_of("bsp", -1, -1, "inverse"), seed, b, COUNT);
        assert_memory_equal(a, b, sizeof(a));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_delayed_quadratic),
        cmocka_unit_test(test_round_robin),
        cmocka_unit_test(test_softsync_staleness),
        cmocka_unit_test(test_clocks),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
