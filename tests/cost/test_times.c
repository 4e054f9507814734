/* Tests of measured times: estimates on times that follow a roofline, the text, and damaged texts.
 */
#include <math.h>

#include "support.h"
#include "cost/times.h"

static const double RATE = 5e10, MEMORY = 8e9, START = 5e-7;

static double roofline(double flops, double bytes, int threads)
{
    return START + fmax(flops / RATE, bytes / MEMORY) / threads;
}

/* A table of a machine whose kernels reach the roofline. */
static weft_times *make_table(void)
{
    static const char *const kinds[] = {"dense f32 fast", "adam f32 loop", "conv+bias f32 direct"};
    weft_times *t;
    char group[24];
    assert_ok(weft_times_new(&t));
    for (int threads = 1; threads <= 2; threads++)
        for (int k = 0; k < 3; k++)
            for (int i = 0; i < 5; i++) {
                double bytes = 1e5 * pow(4, i), flops = k == 1 ? bytes : bytes * 100;
                (void)snprintf(group, sizeof(group), "%d.%d", k, i);
                const weft_timed what = {kinds[k], group, threads, 2 / threads, flops, bytes};
                for (int again = 0; again < 3; again++)
                    assert_ok(weft_times_add(t, &what, roofline(flops, bytes, threads)));
            }
    return t;
}

static void assert_estimate(const weft_times *t, weft_timed what, weft_estimate_by by,
                            double should, double within)
{
    weft_estimate e = weft_times_estimate(t, &what);
    if (e.by != by || fabs(e.seconds / should - 1) > within)
        fail_msg("%s %s: %g s by %d, should be %g s by %d", what.kind, what.group, e.seconds, e.by,
                 should, by);
}

static void check_estimates(const weft_times *t)
{
    for (int threads = 1; threads <= 2; threads++) {
        int ranks = 2 / threads;
        double half = roofline(3e7, 3e5, threads);
        assert_estimate(t, (weft_timed){"dense f32 fast", "0.1", threads, ranks, 4e7, 4e5},
                        WEFT_BY_SIZE, roofline(4e7, 4e5, threads), 1e-3);
        assert_estimate(t, (weft_timed){"dense f32 fast", "new", threads, ranks, 3e7, 3e5},
                        WEFT_BY_KIND, half, 0.02);
        assert_estimate(t, (weft_timed){"dense+relu f32 other", "0.1", threads, ranks, 3e7, 3e5},
                        WEFT_BY_OPERATOR, half, 0.02);
        assert_estimate(t, (weft_timed){"softmax f32 loop", "", threads, ranks, 3e5, 3e5},
                        WEFT_BY_RATES, 2 * roofline(0, 3e5, threads), 0.1);
    }
    /* The nearest setting counts for one that was not measured, with its work shared. */
    assert_estimate(t, (weft_timed){"dense f32 fast", "0.4", 4, 1, 2.56e9, 2.56e7}, WEFT_BY_SIZE,
                    roofline(2.56e9, 2.56e7, 4), 0.01);
}

static void test_estimates(void **state)
{
    (void)state;
    weft_times *t = make_table();
    assert_ok(weft_times_index(t));
    assert_int_equal(weft_times_count(t), 30);
    assert_true(weft_times_spread(t) == 0);
    check_estimates(t);
    weft_times_free(&t);
}

/* The lower quartile of several measurements counts, and their spread is told. */
static void test_quartiles(void **state)
{
    (void)state;
    static const double seconds[] = {2e-3, 9e-3, 1e-3};
    weft_times *t;
    assert_ok(weft_times_new(&t));
    const weft_timed what = {"adam f32 loop", "size", 1, 1, 1e6, 1e6};
    for (int i = 0; i < 3; i++) assert_ok(weft_times_add(t, &what, seconds[i]));
    assert_ok(weft_times_index(t));
    assert_estimate(t, what, WEFT_BY_SIZE, 1e-3, 1e-12);
    assert_true(fabs(weft_times_spread(t) - (3.5 + 0.5) / 3) < 1e-12);
    weft_times_free(&t);
}

/* The mean of equal things of one run counts, so that times add up to those of the run. */
static void test_means(void **state)
{
    (void)state;
    static const double seconds[] = {2e-3, 9e-3, 1e-3, 7e-3};
    weft_times *t, *run;
    assert_ok(weft_times_new(&t));
    assert_ok(weft_times_new(&run));
    const weft_timed what = {"adam f32 loop", "size", 1, 1, 1e6, 1e6},
                     other = {"adam f32 loop", "other", 1, 1, 1e6, 1e6};
    for (int i = 0; i < 4; i++) assert_ok(weft_times_add(run, i < 3 ? &what : &other, seconds[i]));
    assert_ok(weft_times_add_means(t, run));
    assert_int_equal(weft_times_count(t), 2);
    assert_ok(weft_times_index(t));
    assert_estimate(t, what, WEFT_BY_SIZE, 4e-3, 1e-12);
    assert_estimate(t, other, WEFT_BY_SIZE, 7e-3, 1e-12);
    assert_true(weft_times_spread(t) == 0);
    weft_times_free(&run);
    weft_times_free(&t);
}

/* Adds two runs of each of `count` kernels, the second of which takes `longer` times as long. */
static void add_pairs(weft_times *t, const char *kind, int count, double seconds, double longer)
{
    char group[24];
    for (int i = 0; i < 2 * count; i++) {
        (void)snprintf(group, sizeof(group), "%d", i / 2);
        const weft_timed what = {kind, group, 1, 1, 1e6, 1e6};
        assert_ok(weft_times_add(t, &what, i % 2 ? longer * seconds : seconds));
    }
}

/* Two runs of an idle machine differ in kernels of microseconds alone, and those of a busy one in
 * kernels that make a step long, so the spread weighs kernels by their time. */
static void test_spread(void **state)
{
    static const struct {
        double long_ones, short_ones, spread;
    } all[] = {{1, 1, 0},
               {1, 1.8, 100 * 0.4 / (10 * 1e4 + 100 * 1.4)},
               {1.1, 1.1, 0.05 / 1.05},
               {1.4, 1, 10 * 0.2e4 / (10 * 1.2e4 + 100)}};
    (void)state;
    for (size_t i = 0; i < WEFT_COUNT(all); i++) {
        weft_times *t;
        assert_ok(weft_times_new(&t));
        add_pairs(t, "conv f32 direct", 10, 1e-2, all[i].long_ones);
        add_pairs(t, "add f32 loop", 100, 1e-6, all[i].short_ones);
        assert_ok(weft_times_index(t));
        assert_true(fabs(weft_times_spread(t) - all[i].spread) < 1e-9);
        weft_times_free(&t);
    }
}

/* A kernel whose samples have another shape is no measure of one that was measured with another
 * number of samples, with other operators beside it or not. */
static void test_families(void **state)
{
    (void)state;
    static const struct {
        const char *kind, *group;
        double size, seconds;
    } all[] = {{"conv+bias f32 loop", "a-100", 1e9, 1e-2},
               {"conv+bias f32 loop", "a-10", 1e8, 1e-3},
               {"conv+bias f32 loop", "b-50", 5e8, 2e-2},
               {"conv f32 loop", "b-50", 5e8, 3e-2},
               {"pool f32 loop", "a-50", 5e8, 1e-4}};
    weft_times *t;
    assert_ok(weft_times_new(&t));
    for (size_t i = 0; i < WEFT_COUNT(all); i++) {
        const weft_timed what = {all[i].kind, all[i].group, 1, 1, all[i].size, all[i].size / 1e3};
        assert_ok(weft_times_add(t, &what, all[i].seconds));
    }
    assert_ok(weft_times_index(t));
    assert_estimate(t, (weft_timed){"conv+bias f32 loop", "a-50", 1, 1, 5e8, 5e5}, WEFT_BY_KIND,
                    5e-3, 0.01);
    assert_estimate(t, (weft_timed){"conv f32 loop", "a-50", 1, 1, 5e8, 5e5}, WEFT_BY_KIND, 5e-3,
                    0.01);
    assert_estimate(t, (weft_timed){"conv f32 loop", "c-50", 1, 1, 5e8, 5e5}, WEFT_BY_KIND, 3e-2,
                    0.01);
    weft_times_free(&t);
}

static void test_text(void **state)
{
    (void)state;
    weft_times *t = make_table(), *read;
    char *text, *again;
    assert_ok(weft_times_text(t, &text));
    assert_ok(weft_times_read(text, strlen(text), "a.times", &read));
    check_estimates(read);
    assert_string_equal(weft_times_processor(read), weft_times_processor(t));
    weft_times_free(&read);
    for (size_t cut = 0; cut < strlen(text); cut += 1 + cut / 50)
        assert_refused(weft_times_read(text, cut, "a.times", &read), WEFT_ERR_FORMAT, "a.times:");
    assert_ok(weft_times_text(t, &again));
    assert_string_equal(text, again);
    free(text);
    free(again);
    weft_times_free(&t);
}

static void test_damage(void **state)
{
    (void)state;
    static const struct {
        const char *line, *says;
    } all[] = {
        {"time\t1\t1\t1e-3\t1\t1\tkind", "a.times:4: the line is damaged"},
        {"time\t0\t1\t1e-3\t1\t1\tkind\tgroup", "threads and ranks must be from 1"},
        {"time\t1\t1\t-1\t1\t1\tkind\tgroup", "the seconds are no number above 0"},
        {"time\t1\t1\tnan\t1\t1\tkind\tgroup", "the seconds are no number above 0"},
        {"time\t1\t1\t1e-3\tinf\t1\tkind\tgroup", "operations and bytes must be numbers"},
        {"time\t1\t1\t1e-3\t1\t1\t\tgroup", "the kind is empty"},
        {"processor\tanother", "a.times:4: the line is damaged"},
        {"unknown", "a.times:4: the line is damaged"},
        {"end\t3", "a.times:4: the file has another number of times"},
        {"time\t1\t1\t1e-3\t1\t1\tkind\tgroup", "a.times:4: the file is cut off"},
        {"end\t0\nend\t0", "a.times:5: there is a line behind the end"},
        {"end\t0", "the file has no times"},
        {"time\t1\t1\t1e300\t1\t1\tkind\tgroup", "no number above 0, up to 1e6"},
    };
    char text[400];
    weft_times *t;
    for (size_t i = 0; i < WEFT_COUNT(all); i++) {
        (void)snprintf(text, sizeof(text), "weft-times\t1\nversion\t%s\nprocessor\tx\n%s\n",
                       weft_version(), all[i].line);
        assert_refused(weft_times_read(text, strlen(text), "a.times", &t), WEFT_ERR_FORMAT,
                       all[i].says);
    }
    static const char old[] = "weft-times\t1\nversion\t0.0.1\nprocessor\tx\n";
    assert_refused(weft_times_read(old, strlen(old), "a.times", &t), WEFT_ERR_ARGUMENT,
                   "these times are of weft 0.0.1");
    static const char other[] = "weft-tuning\t1\n";
    assert_refused(weft_times_read(other, strlen(other), "a.times", &t), WEFT_ERR_FORMAT,
                   "this is no table of times");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_estimates), cmocka_unit_test(test_quartiles),
        cmocka_unit_test(test_means),     cmocka_unit_test(test_spread),
        cmocka_unit_test(test_families),  cmocka_unit_test(test_text),
        cmocka_unit_test(test_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
