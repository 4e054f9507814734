/* Tests parameter servers and their clients in the simulator: bsp gives the bits of synchronous
 * training on links that lose messages, policies keep their bounds, and pulls overlap with the
 * forward pass. */
#include <math.h>

#include "ps_fixture.h"

/* A large share of a server is cut into several ranges, the same number on every server. */
static void test_pieces(void **state)
{
    (void)state;
    const int64_t piece = WEFT_RANGE_BYTES / 8;
    assert_int_equal(weft_server_ranges(1, WEFT_F64, 1), 1);
    assert_int_equal(weft_server_ranges(1000, WEFT_F64, 3), 3);
    assert_int_equal(weft_server_ranges(2 * piece - 1, WEFT_F64, 1), 1);
    assert_int_equal(weft_server_ranges(2 * piece, WEFT_F64, 1), 2);
    assert_int_equal(weft_server_ranges(2 * piece, WEFT_F64, 2), 2);
    assert_int_equal(weft_server_ranges(16 * piece, WEFT_F32, 2), 8);
    assert_int_equal(weft_server_ranges(INT64_MAX / 8, WEFT_F64, 7) % 7, 0);
    assert_true(weft_server_ranges(INT64_MAX / 8, WEFT_F64, 7) <= WEFT_MOST_RANGES);
}

static void test_bsp_is_synchronous(void **state)
{
    (void)state;
    for (int learners = 1; learners <= SYNCHRONOUS; learners++)
        for (int servers = 1; servers <= MOST_SERVERS; servers++)
            for (int how = 0; how < 4; how++) {
                uint64_t seed = (uint64_t)(100 * learners + 10 * servers + how);
                run r = draw("bsp", -1, -1, learners, servers, seed);
                double w[COUNT];
                if (how & 1) r.link = BAD;
                r.early = how & 2;
                synchronous(&r, w);
                simulate(&r);
                for (int i = 0; i < learners; i++) assert_memory_equal(r.w[i], w, sizeof(w));
                assert_true(r.spread <= 1);
                finish(&r);
            }
}

/* A single learner's updates are never stale, so every policy gives the bits of serial training. */
static void test_one_learner_is_serial(void **state)
{
    (void)state;
    static const char *const names[] = {"bsp", "async", "softsync", "ssp"};
    for (size_t p = 0; p < WEFT_COUNT(names); p++)
        for (int bad = 0; bad < 2; bad++) {
            run r = draw(names[p], p == 2 ? 5 : -1, p == 3 ? 2 : -1, 1, 3, 7 + p);
            double w[COUNT];
            if (bad) r.link = BAD;
            synchronous(&r, w);
            simulate(&r);
            assert_memory_equal(r.w[0], w, sizeof(w));
            finish(&r);
        }
}

static void test_bounds(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++)
        for (int bound = 0; bound < 4; bound++) {
            run r = draw("ssp", -1, bound, 5, 2, seed);
            r.early = seed % 4 < 2;
            r.seconds[2] *= 10;
            if (seed % 2) r.link = BAD;
            simulate(&r);
            assert_true(r.spread <= bound + 1);
            if (bound) assert_true(r.spread == bound + 1); /* the bound is reached */
            finish(&r);
        }
}

/* Seconds that one step of a single learner takes. */
static double step_of(weft_sim_link link, bool early, const double needs[2])
{
    double until[2];
    for (int longer = 0; longer < 2; longer++) {
        run r = draw("async", -1, -1, 1, 2, 3);
        r.steps = longer ? 60 : 20;
        r.seconds[0] = 1;
        r.link = link;
        r.early = early;
        r.needs[0] = needs[0];
        r.needs[1] = needs[1];
        simulate(&r);
        until[longer] = r.until[0];
        finish(&r);
    }
    return (until[1] - until[0]) / 40;
}

/* With pull overlap, a step begins as soon as the last one has ended, and waits for a range, which
 * arrives a round trip later, only to read it. Otherwise each step takes a round trip longer. */
static void test_pulls_are_hidden(void **state)
{
    (void)state;
    static const double needs[][2] = {{0, 0}, {0.25, 0.5}, {0.5, 0.25}, {0.75, 1}, {0, 1}};
    static const double latencies[] = {0.01, 0.1, 0.2, 0.4, 1.5};
    for (size_t n = 0; n < WEFT_COUNT(needs); n++)
        for (size_t l = 0; l < WEFT_COUNT(latencies); l++) {
            double trip = 2 * latencies[l], first = fmin(needs[n][0], needs[n][1]);
            double hidden = fmax(1, trip + 1 - first);
            weft_sim_link link = {.latency = latencies[l]};
            assert_true(fabs(step_of(link, true, needs[n]) - hidden) < 1e-9);
            assert_true(fabs(step_of(link, false, needs[n]) - (1 + trip)) < 1e-9);
        }
}

/* If the link carries one range after the other, the range that a forward pass reads first arrives
 * first, so that the pass need not wait for the other one. */
static void test_what_is_read_first_comes_first(void **state)
{
    (void)state;
    static const double last_first[] = {0.5, 0}, first_first[] = {0, 0.5}, both[] = {0, 0};
    weft_sim_link narrow = {.bandwidth = 1e3};
    double good = step_of(narrow, true, last_first), bad = step_of(narrow, true, first_first);
    double all = step_of(narrow, true, both);
    assert_true(good < bad - 0.1 && good < all - 0.1);
}

/* One learner is ten times slower: under bsp it slows down all learners, under async and softsync
 * only itself. */
static void test_straggler(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        double count, low, high; /* bounds on the time per step of the other learners */
    } all[] = {{"bsp", -1, 9.6, 10.2}, {"async", -1, 1, 1.15}, {"softsync", 3, 1, 1.15}};
    for (size_t p = 0; p < WEFT_COUNT(all); p++) {
        run r = draw(all[p].name, all[p].count, -1, 4, 2, 3);
        for (int i = 0; i < 4; i++) r.seconds[i] = i == 1 ? 10 : 1;
        simulate(&r);
        double steps = r.until[0] / r.steps;
        print_message("%s: %.2f times as long as alone\n", all[p].name, steps);
        assert_true(steps >= all[p].low && steps <= all[p].high);
        finish(&r);
    }
}

/* Although messages are lost and duplicated, the servers count each update exactly once. */
static void test_once(void **state)
{
    (void)state;
    static const char *const codecs[] = {"none", "threshold:tau=0.015625", "topk:ratio=0.2"};
    for (uint64_t seed = 1; seed <= 30; seed++) {
        run r = draw("async", -1, -1, 6, 3, seed);
        r.codec = codecs[seed % 3];
        r.link = BAD;
        simulate(&r);
        weft_sim_report report = weft_sim_stats(r.sim);
        assert_true(report.lost > 0 && report.waiting == 0);
        /* The learner that ends last has pulled after all updates had arrived, so counts are
         * complete. */
        for (int k = 0; k < 3; k++) {
            size_t size;
            int64_t updates = 0;
            const weft_range *range = weft_server_range_of(
                weft_sim_actor(r.sim, (weft_actor_id)(FIRST_SERVER + k)), k, true);
            const int64_t *histogram = weft_range_staleness(range, &size);
            for (size_t s = 0; s < size; s++) updates += histogram[s];
            assert_int_equal(updates, 6 * r.steps);
            assert_int_equal(weft_range_version(range), 6 * r.steps);
        }
        finish(&r);
    }
}

/* --- staleness --- */

static double mean_staleness(const run *r, double *beyond, int64_t limit)
{
    double sum = 0, all = 0, late = 0;
    for (int k = 0; k < r->servers; k++) {
        size_t size;
        const weft_range *range = weft_server_range_of(
            weft_sim_actor(r->sim, (weft_actor_id)(FIRST_SERVER + k)), k, true);
        const int64_t *histogram = weft_range_staleness(range, &size);
        for (size_t t = 0; t < size; t++) {
            sum += (double)histogram[t] * (double)t;
            all += (double)histogram[t];
            if ((int64_t)t > limit) late += (double)histogram[t];
        }
    }
    *beyond = late / all;
    return sum / all;
}

/* Learners of equal speed take turns: between the pull and the push of one learner the L - 1 others
 * have pushed, so the staleness is L - 1, except in the first round. (There is one range; of
 * several, the first would be pushed before the others are pulled, and be less stale.) */
static void test_round_robin(void **state)
{
    (void)state;
    for (int learners = 1; learners <= 9; learners += 2) {
        run r = draw("async", -1, -1, learners, 1, 1);
        r.link = (weft_sim_link){.latency = 1e-6};
        for (int i = 0; i < learners; i++) r.seconds[i] = 1;
        simulate(&r);
        for (int k = 0; k < r.servers; k++) {
            size_t size;
            const int64_t *histogram = weft_range_staleness(
                weft_server_range_of(weft_sim_actor(r.sim, (weft_actor_id)(FIRST_SERVER + k)), k,
                                     true),
                &size);
            assert_int_equal(size, learners);
            for (int t = 0; t < learners - 1; t++) assert_int_equal(histogram[t], 1);
            assert_int_equal(histogram[learners - 1], learners * (r.steps - 1) + 1);
        }
        finish(&r);
    }
}

/* n-softsync makes each version of c = L/n updates; the mean staleness is then about n. */
static void test_softsync(void **state)
{
    (void)state;
    static const int all[] = {2, 3, 5, 10, 30};
    for (size_t i = 0; i < WEFT_COUNT(all); i++) {
        double beyond;
        int n = all[i];
        run r = draw("softsync", MOST_LEARNERS / n, -1, MOST_LEARNERS, 1, 5);
        r.link = (weft_sim_link){.latency = 1e-4};
        r.steps = 150;
        r.uneven = 0.5;
        weft_random_start(&r.random, 3, (uint64_t)n);
        for (int k = 0; k < MOST_LEARNERS; k++) r.seconds[k] = 1;
        simulate(&r);
        double mean = mean_staleness(&r, &beyond, 2 * n);
        print_message("%d-softsync: mean staleness %.2f, %.4f beyond %d\n", n, mean, beyond, 2 * n);
        assert_true(fabs(mean - n) <= 0.1 * n && beyond < 0.01);
        finish(&r);
    }
}

/* A server multiplies an update by its weight. So a learner without samples in a step (weight 0)
 * keeps the residual of its codec for a step that counts: after five steps of which four have no
 * samples, its codec has the residual that it had after the first one. */
static void test_residual_without_samples(void **state)
{
    (void)state;
    static const char *const codecs[] = {"topk:ratio=0.2", "dgc:ratio=0.2", "onebit", "bf16",
                                         "threshold:tau=0.5"};
    for (size_t c = 0; c < WEFT_COUNT(codecs); c++) {
        run one = draw("bsp", -1, -1, 2, 1, 3), more = draw("bsp", -1, -1, 2, 1, 3);
        weft_codec_state a, b;
        one.codec = more.codec = codecs[c];
        one.idle = more.idle = true;
        one.steps = 1;
        more.steps = 5;
        simulate(&one);
        simulate(&more);
        for (int i = 0; weft_codec_state_of(one.reach[0][0].codec, i, &a); i++) {
            assert_true(weft_codec_state_of(more.reach[0][0].codec, i, &b));
            if (a.extent != WEFT_CODEC_EACH) continue;
            if (memcmp(a.data, b.data, COUNT * sizeof(double)) != 0)
                fail_msg("%s: steps without samples change %s", codecs[c], a.what);
        }
        finish(&one);
        finish(&more);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_bsp_is_synchronous),
        cmocka_unit_test(test_one_learner_is_serial),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_pulls_are_hidden),
        cmocka_unit_test(test_what_is_read_first_comes_first),
        cmocka_unit_test(test_straggler),
        cmocka_unit_test(test_once),
        cmocka_unit_test(test_round_robin),
        cmocka_unit_test(test_softsync),
        cmocka_unit_test(test_residual_without_samples),
    };
    return cmocka_run_group_tests(tests, runs_setup, runs_teardown);
}
