/* Estimates that batching makes from measurements, against the same values computed from a sorted
 * list: the value of a goal, the latency histogram, and the trimmed mean of batch times. */
#include <math.h>

#include "serve/batch/adaptive_internal.h"
#include "one_context.h"
#include "support.h"

enum { MOST = 300 };

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double mean_of(const double *x, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++) sum += x[i] / n;
    return sum;
}

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-9 * fabs(b);
}

/* Draws latencies, of which a tenth may be much longer than the others, and some are equal. */
static void draw(weft_random *r, double *latency, int n)
{
    for (int i = 0; i < n; i++) {
        latency[i] = 1e-3 * (1 + weft_random_u32(r) % 50);
        if (weft_random_u32(r) % 10 == 0) latency[i] *= 100 * weft_random_unit(r);
    }
}

/* --- goals --- */

static const struct {
    const char *name;
    double quantile; /* below 0: the mean */
} goals[] = {{"mean", -1}, {"p50", 0.5}, {"p95", 0.95}, {"p99", 0.99}};

static double truth(int goal, const double *sorted, int n)
{
    double q = goals[goal].quantile;
    return q < 0 ? mean_of(sorted, n) : sorted[(int)(q * (n - 1))];
}

/* The value of a goal for 1 to 300 latencies in any order. A bound on p99 that holds does not
 * change the value. A bound that is exceeded makes the value larger than any value within the
 * bound, and weft_goal_seconds then gives p99. */
static void test_goals(void **state)
{
    (void)state;
    double latency[MOST], sorted[MOST];
    weft_random r;
    weft_random_start(&r, 11, 0);
    for (int n = 1; n <= MOST; n++)
        for (int g = 0; g < (int)WEFT_COUNT(goals); g++) {
            weft_goal goal;
            draw(&r, sorted, n);
            memcpy(latency, sorted, sizeof(latency));
            qsort(sorted, (size_t)n, sizeof(*sorted), by_size);
            double expected = truth(g, sorted, n), p99 = sorted[(int)(0.99 * (n - 1))];
            assert_ok(weft_goal_parse(goals[g].name, 0, &goal));
            assert_true(near(weft_goal_of(&goal, latency, n), expected));
            assert_ok(weft_goal_parse(goals[g].name, p99, &goal));
            assert_true(near(weft_goal_of(&goal, latency, n), expected));
            assert_true(near(weft_goal_seconds(&goal, expected), expected));
            assert_ok(weft_goal_parse(goals[g].name, p99 * 0.999, &goal));
            double broken = weft_goal_of(&goal, latency, n);
            assert_true(broken > 100 * sorted[n - 1]);
            assert_true(near(weft_goal_seconds(&goal, broken), p99));
        }
}

static void test_unknown_goal(void **state)
{
    (void)state;
    weft_goal goal;
    assert_refused(weft_goal_parse("p90", 0, &goal), WEFT_ERR_ARGUMENT,
                   "must be one of mean,p50,p95,p99");
}

/* --- the latency histogram --- */

/* The histogram gives a quantile up to a cell, a fourth of an octave, and the exact mean. */
static void test_measured(void **state)
{
    (void)state;
    const double CELL = 1.1893;
    double latency[MOST];
    weft_latency_window m;
    weft_random r;
    weft_random_start(&r, 12, 0);
    for (int n = 1; n <= MOST; n++) {
        draw(&r, latency, n);
        weft_latency_window_clear(&m);
        for (int i = 0; i < n; i++) weft_latency_window_add(&m, latency[i]);
        qsort(latency, (size_t)n, sizeof(*latency), by_size);
        for (int g = 0; g < (int)WEFT_COUNT(goals); g++) {
            weft_goal goal;
            assert_ok(weft_goal_parse(goals[g].name, 0, &goal));
            double value = weft_goal_measured(&goal, &m), q = goals[g].quantile;
            if (q < 0) {
                assert_true(near(value, mean_of(latency, n)));
                continue;
            }
            /* The latency that a share q of all latencies does not exceed. */
            double exact = latency[(int)WEFT_MAX(ceil(q * n), 1) - 1];
            if (value < exact / CELL || value > exact * CELL)
                fail_msg("%s of %d: %g, not %g", goals[g].name, n, value, exact);
            assert_ok(weft_goal_parse(goals[g].name, latency[n - 1] * CELL, &goal));
            assert_true(weft_goal_measured(&goal, &m) == value);
            assert_ok(weft_goal_parse(goals[g].name, latency[0] / 2, &goal));
            assert_true(weft_goal_measured(&goal, &m) > latency[n - 1] * 1000);
        }
    }
    weft_latency_window_clear(&m);
    weft_goal goal;
    assert_ok(weft_goal_parse("mean", 0, &goal));
    assert_true(weft_goal_measured(&goal, &m) == 0);
}

/* Each latency is counted in one cell, whose bounds contain it. */
static void test_cells(void **state)
{
    (void)state;
    for (double seconds = 1e-7; seconds < 1e9; seconds *= 1.07) {
        int64_t cells[WEFT_LATENCY_CELLS] = {0};
        assert_true(weft_latency_quantile(cells, 0.5) == 0);
        weft_latency_count(cells, seconds);
        int64_t all = 0;
        for (int i = 0; i < WEFT_LATENCY_CELLS; i++) all += cells[i];
        assert_int_equal(all, 1);
        if (cells[WEFT_LATENCY_CELLS - 1]) break; /* the last cell has all longer latencies */
        double low = weft_latency_quantile(cells, 1e-12), high = weft_latency_quantile(cells, 1);
        assert_true(low <= seconds * (1 + 1e-9) && high >= seconds * (1 - 1e-9));
        assert_true(seconds <= 1e-6 || near(high / low, exp2(0.25)));
        assert_true(near(weft_latency_quantile(cells, 0.5), (low + high) / 2));
    }
}

/* --- the times of batches --- */

/* The time of a batch size is the mean of the middle three fifths of its last 31 batches. Each of
 * the first 31 batches changes the estimate; afterwards every fourth batch updates it for the last
 * four. */
static void test_middle(void **state)
{
    (void)state;
    enum { KEPT = 31 };
    double took[MOST], sorted[KEPT];
    weft_curve c;
    weft_random r;
    weft_random_start(&r, 13, 0);
    assert_ok(weft_curve_make(NULL, NULL, 0, NULL, 1, &c));
    draw(&r, took, MOST);
    for (int n = 1; n <= MOST; n++) {
        weft_curve_learn(&c, 1, 1, 1, took[n - 1]);
        if (n > KEPT && n % 4) continue;
        int kept = WEFT_MIN(n, KEPT), apart = kept / 5;
        memcpy(sorted, &took[n - kept], (size_t)kept * sizeof(*sorted));
        qsort(sorted, (size_t)kept, sizeof(*sorted), by_size);
        double middle = mean_of(&sorted[apart], kept - 2 * apart);
        if (!near(weft_curve_time(&c, 1), middle))
            fail_msg("after %d batches: %g s, not %g", n, weft_curve_time(&c, 1), middle);
    }
    weft_curve_free(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_goals),    cmocka_unit_test(test_unknown_goal),
        cmocka_unit_test(test_measured), cmocka_unit_test(test_cells),
        cmocka_unit_test(test_middle),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
