/* The final average of elastic peers, in the simulator. All end with the mean of what all have
 * learned, equal to the bit, whatever messages links lose, and also if a peer dies while the others
 * end, or while no coordinator removes it. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "actor/sim.h"
#include "base/tree_sum.h"
#include "exchange/gossip/gossip.h"
#include "peer_fixture.h"

enum { COUNT = 30, MOST = 9, FIRST = 10, STEPS = 12 };
static const double LIMIT = 10, LONG = 5000;

static weft_context *context;

typedef struct run {
    const weft_peer_mode *mode;
    const char *topology_name;
    int peers, more; /* steps that they take beyond STEPS */
    uint64_t seed;
    weft_sim *sim;
    double w[MOST][COUNT], changed[COUNT]; /* changed: sum of the changes of all computations */
    weft_codec *codecs[MOST];
    bool ended[MOST];
    int stuck; /* peers from this one on never end a computation; 0: all end */
} run;

static weft_status make(void *user, weft_actor_id id, int again, weft_actor **out)
{
    run *r = user;
    int i = (int)id - FIRST;
    (void)again;
    if (id == WEFT_COORDINATOR) return coordinator_of_peers(r->seed, r->peers, LIMIT, out);
    WEFT_TRY(weft_codec_open(context, "none", WEFT_F64, COUNT, &r->codecs[i]));
    weft_peer_options options = joining_peer(id, COUNT, r->w[i], r->codecs[i], STEPS + r->more);
    options.mode = r->mode;
    options.topology_name = r->topology_name;
    options.member.requested_slot = i;
    return weft_peer_create(&options, out);
}

static weft_status compute(void *user, weft_actor *actor, int64_t ticket, weft_sim_work *work)
{
    run *r = user;
    int p = (int)actor->id - FIRST;
    weft_random random;
    work->seconds = 10 * LONG;
    if (r->stuck > 0 && p >= r->stuck) return WEFT_OK;
    weft_random_start(&random, r->seed * 1000 + actor->id, (uint64_t)ticket);
    for (int i = 0; i < COUNT; i++) {
        double change = weft_random_between(&random, -1, 1) / 3; /* rounded, and so are sums */
        r->w[p][i] += change;
        r->changed[i] += change;
    }
    work->seconds = weft_random_between(&random, 0.5, 2);
    r->ended[p] = ticket == STEPS + r->more;
    return WEFT_OK;
}

static const weft_actor *peer(const run *r, int p)
{
    return weft_sim_actor(r->sim, (weft_actor_id)(FIRST + p));
}

/* Peer p begins with parameters of p + 1; all take over those of the first peer. */
static void begin_run(run *r, const weft_sim_link *link)
{
    weft_sim_options options = {.struct_size = sizeof(options),
                                .seed = r->seed,
                                .link = *link,
                                .make = make,
                                .compute = compute,
                                .user = r};
    for (int p = 0; p < r->peers; p++)
        for (int i = 0; i < COUNT; i++) r->w[p][i] = p + 1;
    assert_int_equal(weft_sim_create(&options, &r->sim), WEFT_OK);
    assert_int_equal(weft_sim_add(r->sim, WEFT_COORDINATOR, 0), WEFT_OK);
    for (int p = 0; p < r->peers; p++)
        assert_int_equal(weft_sim_add(r->sim, (weft_actor_id)(FIRST + p), 0.01 * p), WEFT_OK);
}

static void go_until(const run *r, double at)
{
    if (weft_sim_run(r->sim, at) != WEFT_OK) fail_msg("%s", weft_last_message());
}

static void finish(run *r)
{
    weft_sim_destroy(&r->sim);
    for (int p = 0; p < r->peers; p++) weft_codec_close(&r->codecs[p]);
}

static const weft_sim_link GOOD = {.latency = 0.02}, BAD = {.latency = 0.02,
                                                            .jitter = 0.3,
                                                            .bandwidth = 2e5,
                                                            .lost = 0.1,
                                                            .twice = 0.15,
                                                            .reordered = 0.2};
static const char *const shapes[] = {"all", "ring", "torus", "random"};

static run numbered(uint64_t k, int peers)
{
    return (run){.mode = k % 2 ? &weft_peer_average : &weft_peer_updates,
                 .topology_name = shapes[k / 2 % WEFT_COUNT(shapes)],
                 .peers = peers,
                 .seed = k + 1};
}

/* Runs until peer 0 has the final average, and gives the mean of the parameters just before that,
 * by the tree sum that learners of one job use. No peer has the average sooner than a message
 * takes, so no parameters had changed since. */
static void look(run *r, double out[COUNT])
{
    double had[MOST][COUNT];
    const void *each[MOST];
    char room[65536];
    for (double t = 0; weft_peer_mean_contributors(peer(r, 0)) == 0; t += GOOD.latency / 4) {
        for (int p = 0; p < r->peers && peer(r, p); p++)
            memcpy(had[p], weft_peer_parameters(peer(r, p)), sizeof(had[p]));
        go_until(r, t);
        assert_true(t < LONG);
    }
    weft_tree tree = {.dtype = WEFT_F64,
                      .ranks = r->peers,
                      .leaves = r->peers,
                      .source = each,
                      .stride = COUNT,
                      .room = room};
    assert_true(weft_tree_room(r->peers, 0) <= sizeof(room));
    for (int p = 0; p < r->peers; p++) each[p] = had[p];
    weft_tree_sum(&tree, 0, COUNT, out);
    for (int i = 0; i < COUNT; i++) out[i] /= r->peers;
}

static void test_the_mean_of_all(void **state)
{
    (void)state;
    for (uint64_t k = 0; k < 2 * WEFT_COUNT(shapes) * (MOST - 1); k++) {
        run r = numbered(k, 2 + (int)(k / 2 / WEFT_COUNT(shapes)));
        double mean[COUNT];
        begin_run(&r, k % 3 ? &BAD : &GOOD);
        go_until(&r, 0.1);
        look(&r, mean);
        go_until(&r, LONG);
        for (int p = 0; p < r.peers; p++) {
            const double *now = weft_peer_parameters(peer(&r, p));
            assert_true(peer(&r, p)->done);
            assert_int_equal(weft_peer_mean_contributors(peer(&r, p)), r.peers);
            assert_memory_equal(now, mean, sizeof(mean));
            for (int i = 0; i < COUNT && r.mode == &weft_peer_updates; i++)
                assert_true(fabs(now[i] - (1 + r.changed[i])) < 1e-12);
        }
        finish(&r);
    }
}

/* A peer that dies during the final average is a part of the mean or not; the others all have the
 * same mean. */
static void test_who_dies_at_the_end(void **state)
{
    (void)state;
    for (uint64_t k = 0; k < 200; k++) {
        run r = numbered(k, 3 + (int)(k % 5));
        int dead = (int)(k % (uint64_t)r.peers), others = dead == 0;
        bool all = false;
        begin_run(&r, &BAD);
        for (double t = 0.1; !all; t += 0.1) {
            go_until(&r, t);
            all = true;
            for (int p = 0; p < r.peers; p++) all = all && r.ended[p];
        }
        double now = weft_sim_stats(r.sim).now + 0.05 * (double)(k % 60);
        assert_int_equal(weft_sim_kill(r.sim, (weft_actor_id)(FIRST + dead), now), WEFT_OK);
        go_until(&r, LONG);
        int of = weft_peer_mean_contributors(peer(&r, others));
        assert_in_range(of, r.peers - 1, r.peers);
        for (int p = 0; p < r.peers; p++) {
            if (p == dead) continue;
            assert_true(peer(&r, p)->done);
            assert_int_equal(weft_peer_mean_contributors(peer(&r, p)), of);
            assert_memory_equal(weft_peer_parameters(peer(&r, p)),
                                weft_peer_parameters(peer(&r, others)), sizeof(r.w[0]));
        }
        finish(&r);
    }
}

/* One peer dies while the coordinator sleeps, and the others go on without it. A second one dies
 * just before the coordinator wakes, which the others have not noticed: the coordinator's next view
 * differs from theirs, and may have the same number. */
static void test_who_dies_while_the_coordinator_sleeps(void **state)
{
    (void)state;
    for (uint64_t k = 0; k < 160; k++) {
        run r = numbered(k, 4 + (int)(k % 5));
        double wakes = 4 * LIMIT * (double)(k + 1) / 160;
        begin_run(&r, k % 3 ? &GOOD : &BAD);
        go_until(&r, 3);
        assert_int_equal(weft_sim_pause(r.sim, WEFT_COORDINATOR, 3, wakes + 3), WEFT_OK);
        assert_int_equal(weft_sim_kill(r.sim, FIRST, 4), WEFT_OK);
        assert_int_equal(weft_sim_kill(r.sim, FIRST + 1, wakes + 2.5), WEFT_OK);
        go_until(&r, LONG);
        for (int p = 2; p < r.peers; p++) {
            assert_true(peer(&r, p)->done);
            assert_memory_equal(weft_peer_parameters(peer(&r, p)),
                                weft_peer_parameters(peer(&r, 2)), sizeof(r.w[0]));
        }
        finish(&r);
    }
}

/* A peer joins while the link from the coordinator to another peer is cut, and the coordinator dies
 * before the link is back. The other peer does not know of the joiner, and each might believe that
 * the other one has gone on without it. */
static void test_who_comes_unheard(void **state)
{
    (void)state;
    for (uint64_t k = 0; k < 96; k++) {
        run r = numbered(k, 1 + (int)(k % 3));
        r.more = 30;
        weft_actor_id comes = (weft_actor_id)(FIRST + r.peers);
        begin_run(&r, k % 5 ? &GOOD : &BAD);
        go_until(&r, 3);
        assert_int_equal(weft_sim_cut(r.sim, WEFT_COORDINATOR, FIRST, 3, LONG), WEFT_OK);
        assert_int_equal(weft_sim_add(r.sim, comes, 4), WEFT_OK);
        assert_int_equal(weft_sim_kill(r.sim, WEFT_COORDINATOR, 6 + (double)(k % 7)), WEFT_OK);
        go_until(&r, LONG);
        for (int p = 0; p <= r.peers; p++) {
            assert_true(peer(&r, p)->done);
            assert_memory_equal(weft_peer_parameters(peer(&r, p)),
                                weft_peer_parameters(peer(&r, 0)), sizeof(r.w[0]));
        }
        r.peers++;
        finish(&r);
    }
}

/* Two peers average, the connection between them breaks at any moment of that, and the view is
 * another one when it is back, since a third peer, which has averaged with nobody, was killed:
 * whichever message had arrived and whichever request is repeated, every update counts once in the
 * final average. */
static void test_who_asks_again(void **state)
{
    (void)state;
    enum { CUTS = 150 };
    for (uint64_t k = 0; k < CUTS; k++) {
        run r = {.mode = &weft_peer_average,
                 .topology_name = "all",
                 .peers = 3,
                 .seed = k + 1,
                 .stuck = 2};
        begin_run(&r, &GOOD);
        go_until(&r, 0.1);
        double breaks = 0.5 + 1.5 * (double)k / CUTS;
        assert_int_equal(weft_sim_cut(r.sim, FIRST, FIRST + 1, breaks, 4 * LIMIT), WEFT_OK);
        assert_int_equal(weft_sim_kill(r.sim, FIRST + 2, 3), WEFT_OK);
        go_until(&r, LONG);
        for (int p = 0; p < 2; p++) {
            const double *now = weft_peer_parameters(peer(&r, p));
            assert_true(peer(&r, p)->done);
            assert_int_equal(weft_peer_mean_contributors(peer(&r, p)), 2);
            for (int i = 0; i < COUNT; i++)
                if (fabs(now[i] - (1 + r.changed[i] / 2)) > 1e-12)
                    fail_msg("cut at %g s: peer %d has %.17g, not %.17g", breaks, p, now[i],
                             1 + r.changed[i] / 2);
        }
        finish(&r);
    }
}

static int begin(void **state)
{
    (void)state;
    return weft_context_create(&context) != WEFT_OK;
}

static int end(void **state)
{
    (void)state;
    weft_context_destroy(&context);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_mean_of_all), cmocka_unit_test(test_who_dies_at_the_end),
        cmocka_unit_test(test_who_dies_while_the_coordinator_sleeps),
        cmocka_unit_test(test_who_comes_unheard), cmocka_unit_test(test_who_asks_again)};
    return cmocka_run_group_tests_name("ends of peers", tests, begin, end);
}
