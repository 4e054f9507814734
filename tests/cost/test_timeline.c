/* Compares timelines with closed formulas, and asserts on random ones what holds for all: no rank
 * ends before its work is done, ranks never wait for ever, and no link carries more than it can. */
#include <math.h>

#include "support.h"
#include "base/base.h"
#include "cost/timeline.h"

static weft_timeline *open_line(int ranks, int each, double latency, double bandwidth)
{
    weft_timeline *line;
    weft_wire wires[64];
    int machine[64], machines = (ranks + each - 1) / each;
    for (int r = 0; r < ranks; r++) machine[r] = r / each;
    for (int m = 0; m < machines; m++) wires[m] = (weft_wire){latency, bandwidth};
    assert_ok(weft_timeline_new(ranks, machine, machines, wires, &line));
    return line;
}

static double end_of(const weft_timeline *line, int ranks)
{
    double end = 0;
    for (int r = 0; r < ranks; r++) end = fmax(end, weft_timeline_rank(line, r).end);
    return end;
}

static void assert_near(double is, double should, const char *what)
{
    if (fabs(is - should) > 1e-9 * fabs(should) + 1e-15)
        fail_msg("%s: %.12g, should be %.12g", what, is, should);
}

/* Data parallelism over N machines: a step computes, and then each rank sends 2 (N - 1) / N of its
 * gradients in two stages. */
static void test_data_parallel(void **state)
{
    (void)state;
    const double bytes = 4e6, bandwidth = 125e6, latency = 1e-4, computes = 0.05, work = 1e-3;
    for (int n = 2; n <= 9; n++) {
        weft_timeline *line = open_line(n, 1, latency, bandwidth);
        int members[16], transfer;
        double far = bytes * (n - 1) / n;
        for (int r = 0; r < n; r++) members[r] = r;
        for (int r = 0; r < n; r++) {
            const weft_part_cost cost = {.work = work, .bytes = {far, far}};
            assert_ok(weft_timeline_compute(line, r, computes, true));
            assert_ok(
                weft_timeline_start(line, r, 1, WEFT_MEET_TWICE, members, n, &cost, &transfer));
            assert_ok(weft_timeline_finish(line, r, transfer));
        }
        for (int again = 0; again < 2; again++) {
            assert_ok(weft_timeline_run(line, true, NULL));
            assert_near(end_of(line, n), computes + 2 * (far / bandwidth + latency + work),
                        "a step");
        }
        double sent, busy;
        weft_timeline_link(line, n - 1, &sent, &busy);
        assert_near(sent, 2 * far, "bytes sent");
        /* The slowest rank decides. */
        double factors[16];
        for (int r = 0; r < n; r++) factors[r] = r == 1 ? 3 : 1;
        assert_ok(weft_timeline_run(line, true, factors));
        assert_near(end_of(line, n), 3 * computes + 2 * (far / bandwidth + latency + work),
                    "a step with a slow rank");
        assert_near(weft_timeline_rank(line, 0).waited,
                    2 * computes + 2 * (far / bandwidth + latency), "the waiting of a fast rank");
        weft_timeline_free(&line);
    }
}

/* Transfers that begin before other work are hidden by it. */
static void test_overlap(void **state)
{
    (void)state;
    weft_timeline *line = open_line(2, 1, 0, 1e6);
    const int members[] = {0, 1};
    const weft_part_cost cost = {.work = 0, .bytes = {1e3, 1e3}};
    int transfer;
    for (int r = 0; r < 2; r++) {
        assert_ok(weft_timeline_start(line, r, 1, WEFT_MEET_ONCE, members, 2, &cost, &transfer));
        assert_ok(weft_timeline_compute(line, r, 0.01, true));
        assert_ok(weft_timeline_finish(line, r, transfer));
    }
    assert_ok(weft_timeline_run(line, true, NULL));
    assert_near(end_of(line, 2), 0.01, "a transfer of 1 ms below 10 ms of work");
    weft_timeline_free(&line);
}

static void add_pass(weft_timeline *line, int stage, int stages, int micro, double seconds,
                     bool back)
{
    const weft_part_cost none = {.work = 0};
    int from = back ? stage + 1 : stage - 1, to = back ? stage - 1 : stage + 1, transfer;
    uint64_t key = weft_mix(weft_mix((uint64_t)back, (uint64_t)micro), 5);
    if (from >= 0 && from < stages) {
        const int members[] = {from, stage};
        assert_ok(weft_timeline_start(line, stage, weft_mix(key, (uint64_t)from), WEFT_MEET_PASS,
                                      members, 2, &none, &transfer));
        assert_ok(weft_timeline_finish(line, stage, transfer));
    }
    assert_ok(weft_timeline_compute(line, stage, seconds, true));
    if (to < 0 || to >= stages) return;
    const int members[] = {stage, to};
    assert_ok(weft_timeline_start(line, stage, weft_mix(key, (uint64_t)stage), WEFT_MEET_PASS,
                                  members, 2, &none, &transfer));
}

/* GPipe with equal stages: (M + S - 1) passes forward, and as many backward. */
static void test_pipeline(void **state)
{
    (void)state;
    for (int stages = 2; stages <= 5; stages++)
        for (int micro = 1; micro <= 7; micro += 2) {
            weft_timeline *line = open_line(stages, stages, 0, 0);
            for (int s = 0; s < stages; s++) {
                for (int m = 0; m < micro; m++) add_pass(line, s, stages, m, 1, false);
                for (int m = 0; m < micro; m++) add_pass(line, s, stages, m, 2, true);
            }
            assert_ok(weft_timeline_run(line, true, NULL));
            assert_near(end_of(line, stages), 3.0 * (micro + stages - 1), "a pipeline");
            weft_timeline_free(&line);
        }
}

/* Ranks of one machine share its link. */
static void test_shared_link(void **state)
{
    (void)state;
    weft_timeline *line = open_line(4, 2, 0, 1e6);
    const weft_part_cost out = {.bytes = {1e3, 0}}, in = {.bytes = {0, 1e3}};
    for (int r = 0; r < 2; r++) {
        const int members[] = {r, r + 2};
        int transfer;
        assert_ok(
            weft_timeline_start(line, r, (uint64_t)r, WEFT_MEET_PASS, members, 2, &out, &transfer));
        assert_ok(weft_timeline_finish(line, r, transfer));
        assert_ok(weft_timeline_start(line, r + 2, (uint64_t)r, WEFT_MEET_PASS, members, 2, &in,
                                      &transfer));
        assert_ok(weft_timeline_finish(line, r + 2, transfer));
    }
    assert_ok(weft_timeline_run(line, true, NULL));
    assert_near(end_of(line, 4), 2e-3, "two messages over one link");
    weft_timeline_free(&line);
}

/* A mark divides the tasks that all runs have from those of some. */
static void test_mark(void **state)
{
    (void)state;
    weft_timeline *line = open_line(1, 1, 0, 0);
    assert_ok(weft_timeline_compute(line, 0, 1, false));
    weft_timeline_mark(line, 0);
    assert_ok(weft_timeline_compute(line, 0, 2, false));
    assert_ok(weft_timeline_run(line, false, NULL));
    assert_near(end_of(line, 1), 1, "without what is behind the mark");
    assert_ok(weft_timeline_run(line, true, NULL));
    assert_near(end_of(line, 1), 3, "with it");
    weft_timeline_free(&line);
}

static void test_deadlock(void **state)
{
    (void)state;
    weft_timeline *line = open_line(2, 1, 0, 0);
    const int members[] = {0, 1};
    const weft_part_cost none = {.work = 0};
    int transfer;
    assert_ok(weft_timeline_start(line, 0, 1, WEFT_MEET_ONCE, members, 2, &none, &transfer));
    assert_ok(weft_timeline_finish(line, 0, transfer));
    assert_refused(weft_timeline_run(line, true, NULL), WEFT_ERR_INTERNAL, "waits for ever");
    assert_refused(
        weft_timeline_start(line, 1, 2, WEFT_MEET_ONCE, (const int[]){0, 2}, 2, &none, &transfer),
        WEFT_ERR_INTERNAL, "of other ranks");
    weft_timeline_free(&line);
}

/* --- random timelines --- */

static double unit(weft_random *random)
{
    return weft_random_unit(random);
}

/* begun: counts the transfers of each rank. */
static weft_meeting add_random_transfer(weft_timeline *line, weft_random *random, int ranks,
                                        uint64_t key, double *bytes, int *begun)
{
    int members[64], transfers[64], count = 0;
    weft_meeting meeting = (weft_meeting)(unit(random) * 3);
    for (int r = 0; r < ranks; r++)
        if (unit(random) < 0.6) members[count++] = r;
    if (count < 2) return meeting;
    if (meeting == WEFT_MEET_PASS) count = 2;
    double each = floor(unit(random) * 1e5);
    for (int i = 0; i < count; i++) {
        weft_part_cost cost = {.work = unit(random) * 1e-4, .bytes = {each, each}};
        if (meeting == WEFT_MEET_PASS) cost.bytes[1 - i] = 0;
        assert_ok(weft_timeline_start(line, members[i], key, meeting, members, count, &cost,
                                      &transfers[i]));
        begun[members[i]]++;
        bytes[members[i]] += cost.bytes[0] * (meeting == WEFT_MEET_TWICE ? 2 : 1);
    }
    for (int i = 0; i < count; i++) {
        assert_ok(weft_timeline_compute(line, members[i], unit(random) * 1e-3, unit(random) < 0.7));
        assert_ok(weft_timeline_finish(line, members[i], transfers[i]));
    }
    return meeting;
}

/* The times of all transfers of a rank are those of the rank. */
static void assert_parts(const weft_timeline *line, int rank, int begun)
{
    double worked = 0, waited = 0;
    for (int i = 0; i < begun; i++) {
        weft_part_times p = weft_timeline_part(line, rank, i);
        assert_true(p.worked >= 0 && p.linked >= 0 && p.waited >= -1e-15);
        worked += p.worked;
        waited += p.linked + p.waited;
    }
    assert_near(worked, weft_timeline_rank(line, rank).transferred, "work on transfers");
    assert_near(waited, weft_timeline_rank(line, rank).waited, "waits for transfers");
}

/* A rank that waits for data that all have sent waits for the link, and before that for the rank.
 */
static void test_waits(void **state)
{
    (void)state;
    weft_timeline *line = open_line(2, 1, 0, 1e6);
    const int members[] = {0, 1};
    const weft_part_cost cost = {.bytes = {1e3, 1e3}};
    int transfer;
    for (int r = 0; r < 2; r++) {
        assert_ok(weft_timeline_compute(line, r, 0.01 * (r + 1), true));
        assert_ok(weft_timeline_start(line, r, 1, WEFT_MEET_ONCE, members, 2, &cost, &transfer));
        assert_ok(weft_timeline_finish(line, r, transfer));
    }
    assert_ok(weft_timeline_run(line, true, NULL));
    for (int r = 0; r < 2; r++) {
        assert_near(weft_timeline_part(line, r, 0).waited, r == 0 ? 0.01 : 0, "for the other rank");
        assert_near(weft_timeline_part(line, r, 0).linked, 1e-3, "for the link");
    }
    weft_timeline_free(&line);
}

/* One rank and one machine stand for several that are equal: a follower has the tasks of another
 * rank at a speed of its own, and a carrier that is listed twice sends twice. */
static void test_equal(void **state)
{
    (void)state;
    weft_timeline *line = open_line(2, 1, 0, 1e6);
    const int members[] = {0, 1}, carriers[] = {0, 1, 1, 1};
    const weft_part_cost cost = {.bytes = {1e3, 1e3}};
    double sent, busy;
    int transfer;
    assert_ok(weft_timeline_compute(line, 0, 0.02, true));
    assert_ok(weft_timeline_start(line, 0, 1, WEFT_MEET_ONCE, members, 2, &cost, &transfer));
    assert_ok(weft_timeline_carriers(line, 0, transfer, carriers, 4));
    assert_ok(weft_timeline_finish(line, 0, transfer));
    weft_timeline_follow(line, 1, 0);
    weft_timeline_speed(line, 1, 0.5);
    assert_ok(weft_timeline_start(line, 1, 1, WEFT_MEET_ONCE, members, 2, &cost, &transfer));
    assert_refused(weft_timeline_compute(line, 1, 1, true), WEFT_ERR_INTERNAL,
                   "the tasks of rank 0");
    assert_ok(weft_timeline_run(line, true, NULL));
    assert_near(end_of(line, 2), 0.04 + 3e-3, "three messages of a slower machine");
    weft_timeline_link(line, 1, &sent, &busy);
    assert_near(sent, 3e3, "bytes of three ranks");
    assert_int_equal(weft_timeline_tasks(line), 3);
    weft_timeline_free(&line);
}

/* Sums of the told spans: by rank and kind, and by machine and direction; where each was last. */
typedef struct told {
    double sum[64][3], link[64][2], rank_end[64], link_end[64][2];
} told;

static void on_line(void *user, weft_line_act act, int where, int label, double start, double end)
{
    told *t = user;
    (void)label;
    if (act == WEFT_LINE_SENDS || act == WEFT_LINE_RECEIVES) {
        int way = act == WEFT_LINE_RECEIVES;
        assert_true(start >= t->link_end[where][way]);
        t->link_end[where][way] = end;
        t->link[where][way] += end - start;
        return;
    }
    assert_true(start == t->rank_end[where]); /* without a gap */
    t->rank_end[where] = end;
    t->sum[where][act] += end - start;
}

/* The spans of a rank are its times, and it waits for the last one; links are busy for their bytes.
 */
static void check_told(weft_timeline *line, int ranks, int machines, double bandwidth, double end)
{
    told t;
    memset(&t, 0, sizeof(t));
    double sent, busy;
    weft_timeline_watch(line, on_line, &t);
    assert_ok(weft_timeline_run(line, true, NULL));
    weft_timeline_watch(line, NULL, NULL);
    for (int r = 0; r < ranks; r++) {
        weft_rank_times times = weft_timeline_rank(line, r);
        assert_true(t.rank_end[r] == end);
        assert_near(t.sum[r][WEFT_LINE_COMPUTES], times.computed, "told kernels");
        assert_near(t.sum[r][WEFT_LINE_TRANSFERS], times.transferred, "told transfers");
        assert_near(t.sum[r][WEFT_LINE_WAITS], times.waited + end - times.end, "told waits");
    }
    for (int m = 0; m < machines; m++) {
        weft_timeline_link(line, m, &sent, &busy);
        assert_near(t.link[m][0], busy, "told link");
        assert_near(t.link[m][0] * bandwidth, sent, "told bytes");
    }
}

static void test_random(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        weft_random random;
        weft_random_start(&random, seed, 1);
        int ranks = 2 + (int)(unit(&random) * 11), each = 1 + (int)(unit(&random) * 3);
        double bandwidth = 1e6 + unit(&random) * 1e8, bytes[64] = {0}, sums[64] = {0};
        int begun[64] = {0};
        weft_timeline *line = open_line(ranks, each, unit(&random) * 1e-3, bandwidth);
        for (uint64_t k = 0; k < 40; k++)
            (void)add_random_transfer(line, &random, ranks, k + 1, bytes, begun);
        assert_ok(weft_timeline_run(line, true, NULL));
        double end = end_of(line, ranks);
        for (int r = 0; r < ranks; r++) {
            weft_rank_times t = weft_timeline_rank(line, r);
            assert_near(t.end, t.computed + t.transferred + t.waited, "the time of a rank");
            assert_parts(line, r, begun[r]);
            sums[r / each] += bytes[r];
        }
        for (int m = 0; m * each < ranks; m++) {
            double sent, busy;
            weft_timeline_link(line, m, &sent, &busy);
            assert_near(sent, sums[m], "the bytes of a machine");
            assert_true(sent <= bandwidth * end * (1 + 1e-9));
        }
        assert_ok(weft_timeline_run(line, true, NULL));
        assert_true(end_of(line, ranks) == end);
        check_told(line, ranks, (ranks + each - 1) / each, bandwidth, end);
        weft_timeline_free(&line);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_data_parallel), cmocka_unit_test(test_overlap),
        cmocka_unit_test(test_pipeline),      cmocka_unit_test(test_shared_link),
        cmocka_unit_test(test_mark),          cmocka_unit_test(test_deadlock),
        cmocka_unit_test(test_waits),         cmocka_unit_test(test_equal),
        cmocka_unit_test(test_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
