/* The arrival processes of a load test: mean rate and burstiness of each process against theory,
 * and the errors for traces and specifications that are not valid. */
#include <math.h>
#include <zlib.h>

#include "load/load.h"
#include "support.h"

enum { MANY = 400000 };

typedef struct moments {
    double mean, scv; /* squared coefficient of variation of the gaps */
} moments;

static weft_context *context;

static weft_arrivals *open_way(const char *spec, uint64_t seed)
{
    weft_arrivals *arrivals;
    assert_ok(weft_arrivals_open(context, spec, seed, &arrivals));
    return arrivals;
}

static moments measure(const char *spec, double rate, int count)
{
    weft_arrivals *arrivals = open_way(spec, 5);
    double sum = 0, squares = 0;
    for (int i = 0; i < count; i++) {
        double gap = weft_arrivals_next(arrivals, rate);
        assert_true(gap >= 0 && isfinite(gap));
        sum += gap;
        squares += gap * gap;
    }
    weft_arrivals_close(&arrivals);
    assert_null(arrivals);
    double mean = sum / count;
    return (moments){mean, squares / count / (mean * mean) - 1};
}

/* Bursts of n requests are independent of each other: the gap g has E g = 1/r and E g^2 = (1/n) 2
 * (n/r)^2, so its squared coefficient of variation is 2n - 1. */
static void test_moments(void **state)
{
    (void)state;
    static const struct {
        const char *spec;
        double scv;
    } ways[] = {
        {"steady", 0}, {"poisson", 1}, {"bursts:size=1", 1}, {"bursts:size=4", 7}, {"bursts", 19}};
    static const double rates[] = {0.25, 100, 31234.5};
    for (size_t w = 0; w < WEFT_COUNT(ways); w++)
        for (size_t r = 0; r < WEFT_COUNT(rates); r++) {
            moments m = measure(ways[w].spec, rates[r], MANY);
            if (fabs(m.mean * rates[r] - 1) > 0.02)
                fail_msg("%s: mean rate %g in place of %g", ways[w].spec, 1 / m.mean, rates[r]);
            if (fabs(m.scv - ways[w].scv) > 0.06 * (ways[w].scv + 1e-6))
                fail_msg("%s: variation %g in place of %g", ways[w].spec, m.scv, ways[w].scv);
        }
}

/* The gaps of a Poisson process are exponential: the share of gaps above t is exp(-rt), also for
 * long gaps. */
static void test_exponential(void **state)
{
    (void)state;
    weft_arrivals *arrivals = open_way("poisson", 3);
    int above[13] = {0};
    for (int i = 0; i < MANY; i++) {
        double gap = weft_arrivals_next(arrivals, 10) * 10;
        for (int t = 0; t <= 12 && gap > t; t++) above[t]++;
    }
    for (int t = 0; t <= 8; t++) {
        double expected = MANY * exp(-t), spread = 4 * sqrt(expected) + 1;
        if (fabs(above[t] - expected) > spread)
            fail_msg("%d gaps above %d means, in place of %.0f", above[t], t, expected);
    }
    weft_arrivals_close(&arrivals);
}

static void test_bursts_come_at_once(void **state)
{
    (void)state;
    weft_arrivals *arrivals = open_way("bursts:size=3", 1);
    for (int i = 0; i < 300; i++) {
        double gap = weft_arrivals_next(arrivals, 50);
        if (i % 3 == 0)
            assert_true(gap > 0);
        else
            assert_true(gap == 0);
    }
    weft_arrivals_close(&arrivals);
}

static void test_seeds(void **state)
{
    (void)state;
    static const char *const ways[] = {"poisson", "bursts:size=2"};
    for (size_t w = 0; w < WEFT_COUNT(ways); w++) {
        weft_arrivals *a = open_way(ways[w], 8), *b = open_way(ways[w], 8),
                      *other = open_way(ways[w], 9);
        int differ = 0;
        for (int i = 0; i < 1000; i++) {
            double rate = 1 + i % 7, gap = weft_arrivals_next(a, rate);
            assert_true(gap == weft_arrivals_next(b, rate));
            differ += gap != weft_arrivals_next(other, rate);
        }
        assert_true(differ >= 500);
        weft_arrivals_close(&a);
        weft_arrivals_close(&b);
        weft_arrivals_close(&other);
    }
    weft_arrivals *none = NULL;
    weft_arrivals_close(&none);
    weft_arrivals_close(NULL);
}

/* --- traces --- */

static char *folder, path[4096], spec[4200];

static const char *trace(const char *text)
{
    write_file(folder, "times", text, strlen(text), path, sizeof(path));
    (void)snprintf(spec, sizeof(spec), "trace:%s", path);
    return spec;
}

static void check_gaps(const char *of, double rate, const double *expected, int count)
{
    weft_arrivals *arrivals = open_way(of, 1);
    for (int turn = 0; turn < 3; turn++)
        for (int i = 0; i < count; i++) {
            double gap = weft_arrivals_next(arrivals, rate);
            if (fabs(gap - expected[i]) > 1e-9)
                fail_msg("gap %d of turn %d is %g in place of %g", i, turn, gap, expected[i]);
        }
    weft_arrivals_close(&arrivals);
}

/* Traces with the gaps 1, 0, 3, 2. Their mean, 1.5, is also the gap before a trace begins again. */
static const char *const texts[] = {
    "10\n11\n11\n14\n16\n",
    "  10\r\n11 \r\n\r\n# a comment\r\n11\r\n14\r\n16",
    "due,latency\n10,1\n11,5\n11,\n14,x\n16,2\n",
};
static const double as_is[] = {1.5, 1, 0, 3, 2};

static void test_trace(void **state)
{
    (void)state;
    for (size_t i = 0; i < WEFT_COUNT(texts); i++) {
        double faster[5];
        for (int k = 0; k < 5; k++) faster[k] = as_is[k] / 1.5 / 40;
        check_gaps(trace(texts[i]), 0, as_is, 5);
        check_gaps(spec, 40, faster, 5);
        moments m = measure(spec, 40, 5000);
        assert_true(fabs(m.mean * 40 - 1) < 1e-9);
    }
}

static void test_trace_of_gzip(void **state)
{
    (void)state;
    (void)snprintf(path, sizeof(path), "%s/times.gz", folder);
    (void)snprintf(spec, sizeof(spec), "trace:%s", path);
    gzFile f = gzopen(path, "wb");
    assert_non_null(f);
    assert_true(gzputs(f, texts[0]) > 0);
    assert_int_equal(gzclose(f), Z_OK);
    check_gaps(spec, 0, as_is, 5);
}

static void test_bad_traces(void **state)
{
    (void)state;
    static const struct {
        const char *text, *words;
    } bad[] = {
        {"1\n2\nthree\n", ":3: 'three' is no time"},
        {"1\n\n# x\n3\n2\n", ":5: the time 2 is earlier than 3"},
        {"1\nnan\n", ":2: 'nan' is no time"},
        {"1\n1e999\n", ":2: '1e999' is no time"},
        {"seconds\n1\n2\n", ":1: 'seconds' is no time"},
        {"1\na,b\n", ":2: 'a' is no time"},
        {",\n,\n", ":2: '' is no time"},
        {"1 2\n3\n", ":1: '1 2' is no time"},
        {"", "has 0 times"},
        {"7\n", "has 1 time; a trace must have two"},
        {"7\n7\n7\n", "has 3 times, all of them the same"},
    };
    weft_arrivals *arrivals;
    for (size_t i = 0; i < WEFT_COUNT(bad); i++) {
        assert_refused(weft_arrivals_open(context, trace(bad[i].text), 1, &arrivals),
                       WEFT_ERR_FORMAT, bad[i].words);
        assert_non_null(strstr(weft_last_message(), path));
        assert_null(arrivals);
    }
    assert_refused(weft_arrivals_open(context, "trace:/nowhere/at/all", 1, &arrivals), WEFT_ERR_IO,
                   "/nowhere/at/all");
}

static void test_bad_ways(void **state)
{
    (void)state;
    static const struct {
        const char *spec, *words;
    } bad[] = {
        {"poison", "did you mean 'poisson'"},
        {"", "arrival process"},
        {"steady:1", "take no arguments"},
        {"poisson:rate=3", "take no arguments"},
        {"bursts:size=0", "from 1 to 1000000"},
        {"bursts:size=2.5", "whole number"},
        {"bursts:length=3", "no key is named 'length'"},
        {"trace:", "give trace:FILE"},
        {"trace", "give trace:FILE"},
    };
    weft_arrivals *arrivals;
    for (size_t i = 0; i < WEFT_COUNT(bad); i++)
        assert_refused(weft_arrivals_open(context, bad[i].spec, 1, &arrivals), WEFT_ERR_ARGUMENT,
                       bad[i].words);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_moments),
        cmocka_unit_test(test_exponential),
        cmocka_unit_test(test_bursts_come_at_once),
        cmocka_unit_test(test_seeds),
        cmocka_unit_test(test_trace),
        cmocka_unit_test(test_trace_of_gzip),
        cmocka_unit_test(test_bad_traces),
        cmocka_unit_test(test_bad_ways),
    };
    assert_ok(weft_context_create(&context));
    folder = temporary_folder();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    remove_folder(folder);
    weft_context_destroy(&context);
    return failed;
}
