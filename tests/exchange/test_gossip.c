/* Gossip peers of one job in the simulator. In the mode updates all replicas become equal to the
 * bit. In the mode average the sum of all parameters is conserved, and differences shrink at least
 * as fast as theory says. No peer waits for a slow one. */
#include <math.h>

#include "actor/sim.h"
#include "exchange/gossip/gossip.h"
#include "one_context.h"
#include "peer_fixture.h"

enum { COUNT = 40, MOST = 9 };

typedef struct run {
    const weft_peer_mode *mode;
    weft_topology topology;
    const char *codec;
    int peers, steps;
    double seconds[MOST];
    double size; /* largest change of a computation, in multiples of 1/1024; 0: none */
    uint64_t seed;
    weft_sim_link link;
    weft_sim *sim;
    double w[MOST][COUNT];
    weft_codec *codecs[MOST];
    double changed[COUNT]; /* sum of the changes of all computations */
    double until[MOST];
    int computations;
} run;

static weft_status make(void *user, weft_actor_id id, int life, weft_actor **out)
{
    run *r = user;
    (void)life;
    weft_peer_options options = {.struct_size = sizeof(options),
                                 .mode = r->mode,
                                 .me = (int)id,
                                 .topology = &r->topology,
                                 .seed = r->seed,
                                 .dtype = WEFT_F64,
                                 .count = COUNT,
                                 .parameters = r->w[id],
                                 .steps = r->steps,
                                 .min_rto = 0.7};
    if (r->mode == &weft_peer_updates)
        WEFT_TRY(weft_codec_open(context, r->codec, WEFT_F64, COUNT, &r->codecs[id]));
    options.codec = r->codecs[id];
    return weft_peer_create(&options, out);
}

static weft_status compute(void *user, weft_actor *actor, int64_t ticket, weft_sim_work *work)
{
    run *r = user;
    weft_random random;
    weft_random_start(&random, r->seed * 1000 + actor->id, (uint64_t)ticket);
    for (int i = 0; i < COUNT && r->size > 0; i++) {
        double change = rint(weft_random_between(&random, -r->size, r->size)) / 1024;
        r->w[actor->id][i] += change;
        r->changed[i] += change;
    }
    work->seconds = r->seconds[actor->id];
    r->until[actor->id] = weft_actor_now(actor) + work->seconds;
    r->computations++;
    return WEFT_OK;
}

static run draw(const weft_peer_mode *mode, const char *topology, int peers, uint64_t seed)
{
    run r = {.mode = mode, .codec = "none", .peers = peers, .steps = 20, .size = 100, .seed = seed};
    weft_random random;
    weft_random_start(&random, seed, 5);
    assert_int_equal(
        weft_topology_make(topology, peers, mode == &weft_peer_average, seed, &r.topology),
        WEFT_OK);
    for (int i = 0; i < peers; i++) r.seconds[i] = weft_random_between(&random, 0.5, 2);
    r.link = (weft_sim_link){.latency = 0.05};
    return r;
}

static void simulate(run *r)
{
    weft_sim_options options = {.struct_size = sizeof(options),
                                .seed = r->seed,
                                .link = r->link,
                                .make = make,
                                .compute = compute,
                                .user = r};
    assert_int_equal(weft_sim_create(&options, &r->sim), WEFT_OK);
    for (int i = 0; i < r->peers; i++)
        assert_int_equal(weft_sim_add(r->sim, (weft_actor_id)i, 0), WEFT_OK);
    if (weft_sim_run(r->sim, INFINITY) != WEFT_OK) fail_msg("%s", weft_last_message());
    for (int i = 0; i < r->peers; i++) {
        const weft_actor *a = weft_sim_actor(r->sim, (weft_actor_id)i);
        assert_int_equal(weft_peer_clock(a), r->steps);
        assert_true(weft_peer_finished(a));
    }
}

static const double *now_of(const run *r, int peer)
{
    return weft_peer_parameters(weft_sim_actor(r->sim, (weft_actor_id)peer));
}

static void finish(run *r)
{
    weft_sim_destroy(&r->sim);
    weft_topology_free(&r->topology);
    for (int i = 0; i < r->peers; i++) weft_codec_close(&r->codecs[i]);
}

static const weft_sim_link BAD = {.latency = 0.02,
                                  .jitter = 0.3,
                                  .bandwidth = 2e5,
                                  .lost = 0.15,
                                  .twice = 0.15,
                                  .reordered = 0.2};
static const char *const topologies[] = {"all", "ring", "torus", "random"};

/* --- mode updates --- */

/* At the end all peers have the sum of all changes, less the residuals of the senders. */
static void test_updates_are_alike(void **state)
{
    (void)state;
    static const char *const codecs[] = {"none", "threshold:tau=0.03125", "bitmap:tau=0.0625",
                                         "topk:ratio=0.1", "bf16"};
    for (size_t t = 0; t < WEFT_COUNT(topologies); t++)
        for (int peers = 2; peers <= MOST; peers++) {
            uint64_t seed = 10 * t + (uint64_t)peers;
            run r = draw(&weft_peer_updates, topologies[t], peers, seed);
            r.codec = codecs[seed % WEFT_COUNT(codecs)];
            if (peers % 2) r.link = BAD;
            simulate(&r);
            for (int i = 0; i < COUNT; i++) {
                double kept = 0;
                for (int k = 0; k < peers; k++) {
                    assert_true(now_of(&r, k)[i] == now_of(&r, 0)[i]);
                    if (r.codecs[k]->residual) kept += ((double *)r.codecs[k]->residual)[i];
                }
                assert_true(now_of(&r, 0)[i] + kept == r.changed[i]);
            }
            assert_int_equal(weft_sim_stats(r.sim).waiting, 0);
            finish(&r);
        }
}

/* While the link of two peers is cut, both take all steps; later both have all changes. */
static void test_updates_over_a_cut(void **state)
{
    (void)state;
    run r = draw(&weft_peer_updates, "ring", 2, 3);
    r.steps = 600;
    weft_sim_options options = {.struct_size = sizeof(options),
                                .seed = 1,
                                .link = r.link,
                                .make = make,
                                .compute = compute,
                                .user = &r};
    assert_int_equal(weft_sim_create(&options, &r.sim), WEFT_OK);
    for (int i = 0; i < 2; i++) assert_int_equal(weft_sim_add(r.sim, (weft_actor_id)i, 0), WEFT_OK);
    assert_int_equal(weft_sim_cut(r.sim, 0, 1, 50, 2000), WEFT_OK);
    assert_int_equal(weft_sim_run(r.sim, 1999), WEFT_OK);
    for (int i = 0; i < 2; i++) {
        int64_t clock = weft_peer_clock(weft_sim_actor(r.sim, (weft_actor_id)i));
        assert_int_equal(clock, r.steps);
    }
    assert_int_equal(weft_sim_run(r.sim, INFINITY), WEFT_OK);
    for (int i = 0; i < COUNT; i++) {
        assert_true(now_of(&r, 0)[i] == r.changed[i]);
        assert_true(now_of(&r, 1)[i] == r.changed[i]);
    }
    finish(&r);
}

/* --- mode average --- */

static double sum_of(const run *r, int i)
{
    double sum = 0;
    for (int k = 0; k < r->peers; k++) sum += now_of(r, k)[i];
    return sum;
}

static void test_average_conserves(void **state)
{
    (void)state;
    for (size_t t = 0; t < WEFT_COUNT(topologies); t++)
        for (int peers = 2; peers <= MOST; peers++) {
            run r = draw(&weft_peer_average, topologies[t], peers, 10 * t + (uint64_t)peers);
            if (peers % 2) r.link = BAD;
            simulate(&r);
            for (int i = 0; i < COUNT; i++) assert_true(fabs(sum_of(&r, i) - r.changed[i]) < 1e-12);
            finish(&r);
        }
}

static double spread(const run *r)
{
    double all = 0;
    for (int i = 0; i < COUNT; i++) {
        double mean = sum_of(r, i) / r->peers;
        for (int k = 0; k < r->peers; k++) all += pow(now_of(r, k)[i] - mean, 2);
    }
    return all;
}

/* The factor by which one average of two neighbours reduces the variance in the mean: the second
 * largest eigenvalue of E[W'W], by power iteration. Each active peer in turn averages with a random
 * neighbour, which multiplies the parameters by W. */
static double contraction(const weft_topology *t)
{
    double x[MOST], y[MOST], rate = 0;
    int n = t->peers, askers = 0;
    for (int i = 0; i < n; i++) askers += t->active[i];
    for (int i = 0; i < n; i++) x[i] = sin(1.0 + i);
    for (int round = 0; round < 3000; round++) {
        double mean = 0, size = 0;
        for (int i = 0; i < n; i++) mean += x[i] / n;
        for (int i = 0; i < n; i++) size += pow(x[i] - mean, 2);
        for (int i = 0; i < n; i++) y[i] = x[i] = (x[i] - mean) / sqrt(size);
        /* W is a projection, so W'W = W: E[W] = I - (1/askers) sum over edges (e_i - e_j)(e_i -
         * e_j)'/2d */
        for (int a = 0; a < n; a++)
            for (int e = t->first[a]; t->active[a] && e < t->first[a + 1]; e++) {
                int b = t->list[e], degree = t->first[a + 1] - t->first[a];
                double half = (x[a] - x[b]) / 2 / degree / askers;
                y[a] -= half;
                y[b] += half;
            }
        rate = 0;
        for (int i = 0; i < n; i++) rate += x[i] * y[i];
        memcpy(x, y, sizeof(x));
    }
    return rate;
}

static void test_average_contracts(void **state)
{
    (void)state;
    for (size_t t = 0; t < WEFT_COUNT(topologies); t++) {
        double log_ratio = 0, bound = 0;
        enum { RUNS = 20 };
        for (uint64_t seed = 1; seed <= RUNS; seed++) {
            run r = draw(&weft_peer_average, topologies[t], 8, 3);
            double before = 0;
            r.seed = seed;
            r.size = 0;
            r.link = (weft_sim_link){.latency = 0};
            for (int k = 0; k < 8; k++)
                for (int i = 0; i < COUNT; i++) r.w[k][i] = sin((double)(k * COUNT + i) * 1.7);
            for (int i = 0; i < COUNT; i++) {
                double mean = 0;
                for (int k = 0; k < 8; k++) mean += r.w[k][i] / 8;
                for (int k = 0; k < 8; k++) before += pow(r.w[k][i] - mean, 2);
            }
            simulate(&r);
            int meetings = 0;
            for (int k = 0; k < 8; k++) meetings += r.topology.active[k] ? r.steps : 0;
            log_ratio += log(spread(&r) / before) / RUNS;
            bound = meetings * log(contraction(&r.topology));
            finish(&r);
        }
        print_message("%s: differences shrink by %.4g a run, at least by %.4g expected\n",
                      topologies[t], exp(log_ratio), exp(bound));
        assert_true(log_ratio <= bound * 0.98);
    }
}

static void test_no_deadlock(void **state)
{
    (void)state;
    run r = draw(&weft_peer_average, "ring", 8, 4);
    r.steps = 25000;
    r.link.jitter = 1;
    simulate(&r);
    assert_true(weft_sim_stats(r.sim).messages > 2 * 50000);
    finish(&r);
}

/* A peer that is ten times as slow as the others delays none of them. */
static void test_slow_peer(void **state)
{
    (void)state;
    for (int mode = 0; mode < 2; mode++) {
        run r = draw(mode ? &weft_peer_average : &weft_peer_updates, "ring", 6, 5);
        for (int i = 0; i < 6; i++) r.seconds[i] = i == 2 ? 10 : 1;
        simulate(&r);
        for (int i = 0; i < 6; i++) assert_true(r.until[i] == r.seconds[i] * r.steps);
        finish(&r);
    }
}

/* A peer that leaves before its last step may halt all peers. The halt reaches every peer over any
 * links, and without it no peer reports a halt. */
static void test_all_are_told(void **state)
{
    (void)state;
    for (int halt = 0; halt < 2; halt++)
        for (size_t t = 0; t < 2 * WEFT_COUNT(topologies); t++) {
            run r = draw(t % 2 ? &weft_peer_average : &weft_peer_updates, topologies[t / 2], 5, t);
            r.link = BAD;
            weft_sim_options options = {.struct_size = sizeof(options),
                                        .seed = t,
                                        .link = r.link,
                                        .make = make,
                                        .compute = compute,
                                        .user = &r};
            assert_int_equal(weft_sim_create(&options, &r.sim), WEFT_OK);
            for (int i = 0; i < 5; i++)
                assert_int_equal(weft_sim_add(r.sim, (weft_actor_id)i, 0), WEFT_OK);
            assert_int_equal(weft_sim_run(r.sim, 4), WEFT_OK);
            assert_int_equal(weft_peer_finish(weft_sim_actor(r.sim, 3), halt), WEFT_OK);
            assert_int_equal(weft_sim_run(r.sim, INFINITY), WEFT_OK);
            for (int i = 0; i < 5; i++) {
                const weft_actor *a = weft_sim_actor(r.sim, (weft_actor_id)i);
                assert_true(weft_peer_finished(a));
                if (i != 3) assert_int_equal(weft_peer_halted(a), halt);
            }
            finish(&r);
        }
}

/* Peers with a coordinator, in a job or not, of which one ends and asks all others to end. */
typedef struct small_run {
    bool job;
    double w[3][COUNT];
    weft_codec *codecs[3];
} small_run;

static weft_status make_member(void *user, weft_actor_id id, int life, weft_actor **out)
{
    small_run *c = user;
    (void)life;
    if (id == WEFT_COORDINATOR) return coordinator_of_peers(7, 3, 10, out);
    WEFT_TRY(weft_codec_open(context, "none", WEFT_F64, COUNT, &c->codecs[id - 1]));
    weft_peer_options options = joining_peer(id, COUNT, c->w[id - 1], c->codecs[id - 1], 40);
    options.topology_name = "all";
    options.job = c->job;
    options.member.requested_slot = (int)id - 1;
    return weft_peer_create(&options, out);
}

static weft_status take_second(void *user, weft_actor *actor, int64_t ticket, weft_sim_work *work)
{
    (void)user;
    (void)actor;
    (void)ticket;
    work->seconds = 1;
    return WEFT_OK;
}

/* Only in a job a peer makes the others end: outside one it ends alone, whatever it says. */
static void test_peers_end_alone(void **state)
{
    (void)state;
    for (int job = 0; job < 2; job++) {
        small_run c = {.job = job};
        weft_sim *sim;
        weft_sim_options options = {.struct_size = sizeof(options),
                                    .seed = 3,
                                    .link = {.latency = 0.01},
                                    .make = make_member,
                                    .compute = take_second,
                                    .user = &c};
        assert_int_equal(weft_sim_create(&options, &sim), WEFT_OK);
        for (weft_actor_id id = 0; id < 4; id++)
            assert_int_equal(weft_sim_add(sim, id, 0), WEFT_OK);
        assert_int_equal(weft_sim_run(sim, 15), WEFT_OK);
        assert_int_equal(weft_peer_finish(weft_sim_actor(sim, 2), true), WEFT_OK);
        assert_int_equal(weft_sim_run(sim, 30), WEFT_OK);
        assert_int_equal(weft_peer_halted(weft_sim_actor(sim, 1)), job);
        assert_int_equal(weft_peer_halted(weft_sim_actor(sim, 3)), job);
        assert_in_range(weft_peer_clock(weft_sim_actor(sim, 3)), 20, 40);
        weft_sim_destroy(&sim);
        for (int i = 0; i < 3; i++) weft_codec_close(&c.codecs[i]);
    }
}

static weft_sim_report tell_of(run r, double bandwidth)
{
    r.link = (weft_sim_link){.latency = 0.02, .bandwidth = bandwidth};
    simulate(&r);
    weft_sim_report report = weft_sim_stats(r.sim);
    finish(&r);
    return report;
}

/* Over links on which a message takes longer than the first RTO, few messages are resent. At most a
 * tenth more bytes are sent than over links without delay, and at most a fifth more at 20 bytes a
 * second. */
static void test_slow_links(void **state)
{
    (void)state;
    run quick = draw(&weft_peer_updates, "all", 4, 6);
    quick.steps = 100;
    weft_sim_report needed = tell_of(quick, 0);
    assert_int_equal(needed.messages, 2 * 4 * 3 * (100 + 1));
    for (double bandwidth = 2000; bandwidth >= 20; bandwidth /= 10) {
        run slow = draw(&weft_peer_updates, "all", 4, 6);
        slow.steps = 100;
        weft_sim_report report = tell_of(slow, bandwidth);
        print_message("%g bytes/s: %.3f times the bytes\n", bandwidth,
                      (double)report.bytes / (double)needed.bytes);
        assert_true((double)report.bytes <= (bandwidth > 100 ? 1.1 : 1.2) * (double)needed.bytes);
    }
}

/* An average takes 40 seconds over such a link, so five averages have ended or begun when the last
 * step ends. At most twice their bytes are sent. */
static void test_slow_meetings(void **state)
{
    (void)state;
    run r = draw(&weft_peer_average, "all", 2, 6);
    r.steps = 100;
    weft_sim_report report = tell_of(r, 20);
    const double needed = 5 * 2 * (double)sizeof(r.w[0]);
    print_message("%.0f bytes in %.0f s, of which numbers %.0f\n", (double)report.bytes, report.now,
                  needed);
    assert_true((double)report.bytes < 2 * needed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_updates_are_alike), cmocka_unit_test(test_updates_over_a_cut),
        cmocka_unit_test(test_average_conserves), cmocka_unit_test(test_average_contracts),
        cmocka_unit_test(test_no_deadlock),       cmocka_unit_test(test_slow_links),
        cmocka_unit_test(test_slow_meetings),     cmocka_unit_test(test_slow_peer),
        cmocka_unit_test(test_all_are_told),      cmocka_unit_test(test_peers_end_alone),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
