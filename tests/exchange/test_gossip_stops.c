/*
 * One or two gossip peers are paused for any time, in the simulator. The other peers go on at their
 * own pace, the updates that wait for a paused peer stay within the limit of the link, and
 * afterwards every replica has every update once, less the residuals of the codecs.
 *
 * Changes are multiples of a power of two, so sums are the same in any order, to the bit.
 * WEFT_CHAOS and WEFT_CHAOS_SEED: see random_runs.h.
 */
#include <math.h>

#include "exchange/gossip/peer_internal.h"
#include "peer_fixture.h"
#include "random_runs.h"
#include "one_context.h"

enum { COUNT = 40, MOST = 8, LATE = 1, FIRST = 10 };
static const double LIMIT = 30, END = 1e6;

typedef struct stops {
    fate fate;
    const char *topology_name, *codec;
    bool comes_and_goes; /* with a coordinator; another peer joins during a pause */
    int peers, steps;
    size_t backlog;
    weft_topology topology;
    weft_sim *sim;
    double seconds[MOST + LATE], at[2], until[2], begun[MOST + LATE], ended[MOST + LATE];
    int stopped[2], made[MOST + LATE];
    double w[MOST + LATE][COUNT], changed[COUNT];
    weft_codec *codecs[MOST + LATE];
} stops;

static weft_status make(void *user, weft_actor_id id, int life, weft_actor **out)
{
    stops *s = user;
    int i = (int)id - FIRST;
    (void)life;
    if (id == WEFT_COORDINATOR) return coordinator_of_peers(s->fate.seed + 1, s->peers, LIMIT, out);
    WEFT_TRY(weft_codec_open(context, s->codec, WEFT_F64, COUNT, &s->codecs[i]));
    weft_peer_options options = joining_peer(id, COUNT, s->w[i], s->codecs[i], s->steps);
    options.me = i;
    options.first = FIRST;
    options.topology = &s->topology;
    options.topology_name = s->comes_and_goes ? s->topology_name : NULL;
    options.min_rto = 0.7;
    options.backlog = s->backlog;
    return weft_peer_create(&options, out);
}

static weft_status compute(void *user, weft_actor *actor, int64_t ticket, weft_sim_work *work)
{
    stops *s = user;
    int i = (int)actor->id - FIRST;
    weft_random random;
    weft_random_start(&random, s->fate.seed * 1000 + actor->id, (uint64_t)ticket);
    for (int k = 0; k < COUNT; k++) {
        double change = rint(weft_random_between(&random, -100, 100)) / 1024;
        s->w[i][k] += change;
        s->changed[k] += change;
    }
    if (s->made[i]++ == 0) s->begun[i] = weft_actor_now(actor);
    s->ended[i] = weft_actor_now(actor) + s->seconds[i];
    work->seconds = s->seconds[i];
    return WEFT_OK;
}

static void draw(stops *s)
{
    static const char *const topologies[] = {"all", "ring", "torus", "random"};
    static const char *const codecs[] = {"none", "threshold:tau=0.03125", "bitmap:tau=0.0625",
                                         "topk:ratio=0.1", "bf16"};
    weft_random *r = &s->fate.random;
    weft_random_start(r, s->fate.seed, 1);
    s->topology_name = topologies[pick(&s->fate, 4)];
    s->codec = codecs[pick(&s->fate, 5)];
    s->peers = 2 + pick(&s->fate, MOST - 1);
    s->steps = 50 + pick(&s->fate, pick(&s->fate, 2) ? 100 : 1500);
    s->comes_and_goes = pick(&s->fate, 3) == 0;
    s->backlog = (size_t)pick(&s->fate, 3) * COUNT * sizeof(double);
    for (int i = 0; i < MOST + LATE; i++) s->seconds[i] = weft_random_between(r, 0.5, 2);
    for (int k = 0; k < 2; k++) {
        double most = s->comes_and_goes ? 0.7 * LIMIT : 5000; /* longer: it is removed */
        double span = s->comes_and_goes ? 0.2 * s->steps : s->steps;
        s->stopped[k] = k && pick(&s->fate, 2) ? s->stopped[0] : pick(&s->fate, s->peers);
        s->at[k] = weft_random_between(r, 0, span);
        s->until[k] = s->at[k] + exp(weft_random_between(r, log(1e-3), log(most)));
    }
    if (!s->comes_and_goes) return;
    /* The pauses are a failure timeout apart, so that they do not act as one long pause. */
    s->until[1] += s->until[0] + LIMIT - s->at[1];
    s->at[1] = s->until[0] + LIMIT;
}

static const weft_sim_link GOOD = {.latency = 0.05};
static const weft_sim_link BAD = {
    .latency = 0.02, .jitter = 0.3, .bandwidth = 2e5, .lost = 0.1, .twice = 0.1, .reordered = 0.1};

static weft_actor *peer_at(const stops *s, int i)
{
    return weft_sim_actor(s->sim, (weft_actor_id)(FIRST + i));
}

/* Checks the memory of a peer's links: updates in flight and updates that wait stay within the byte
 * limit and one message more each, plus a sum for each origin. */
static void look_at(stops *s, int i)
{
    const weft_peer *p = (const weft_peer *)peer_at(s, i);
    size_t one = weft_encoded_bound(WEFT_F64, COUNT);
    for (int k = 0; p && k < p->neighbour_count; k++) {
        const weft_link *e = &p->broadcast.links[k];
        size_t most = 2 * (e->byte_limit + one) + (size_t)(s->peers + LATE) * one;
        if (e->in_flight_bytes + e->waiting_bytes > most || e->count > 520 + MOST)
            wrong(&s->fate, "at %g s peer %d keeps %zu updates of %zu bytes for peer %d",
                  weft_sim_stats(s->sim).now, i, e->count, e->in_flight_bytes + e->waiting_bytes,
                  (int)e->to - FIRST);
    }
}

static void judge(stops *s, int i)
{
    const weft_actor *a = peer_at(s, i);
    double takes = s->ended[i] - s->begun[i];
    if (!a || !weft_peer_finished(a)) {
        wrong(&s->fate, "peer %d has not ended at %g s", i, weft_sim_stats(s->sim).now);
        return;
    }
    if (i != s->stopped[0] && i != s->stopped[1] && takes > s->seconds[i] * s->made[i] + 1e-6)
        wrong(&s->fate, "peer %d takes %g s for %d steps of %g s", i, takes, s->made[i],
              s->seconds[i]);
    const double *now = weft_peer_parameters(a);
    for (int k = 0; k < COUNT; k++) {
        double have = now[k];
        for (int j = 0; j < MOST + LATE; j++)
            if (s->codecs[j] && s->codecs[j]->residual)
                have += ((const double *)s->codecs[j]->residual)[k];
        if (have != s->changed[k])
            wrong(&s->fate, "peer %d has %.17g of %d, and all have changed %.17g", i, have, k,
                  s->changed[k]);
    }
}

static bool has_ended(const stops *s, int peers)
{
    for (int i = 0; i < peers; i++)
        if (!peer_at(s, i) || !weft_peer_finished(peer_at(s, i))) return false;
    return true;
}

static uint64_t play(fate *f)
{
    stops *s;
    must(WEFT_NEW(&s, 1));
    s->fate = *f;
    draw(s);
    bool good = pick(&s->fate, 2);
    weft_sim_options options = {.struct_size = sizeof(options),
                                .seed = s->fate.seed,
                                .link = good ? GOOD : BAD,
                                .make = make,
                                .compute = compute,
                                .user = s};
    int all = s->peers + s->comes_and_goes;
    /* The update log keeps updates for twelve failure timeouts; a link that loses more messages
     * would need longer. */
    if (s->comes_and_goes && !good) options.link.lost = 0.01;
    must(weft_topology_make(s->topology_name, s->peers, false, 1, &s->topology));
    must(weft_sim_create(&options, &s->sim));
    tell(&s->fate, "%s, %s, %d peers, %d steps%s, backlog %zu, %s links\n", s->topology_name,
         s->codec, s->peers, s->steps, s->comes_and_goes ? ", with a coordinator" : "", s->backlog,
         good ? "good" : "bad");
    if (s->comes_and_goes) must(weft_sim_add(s->sim, WEFT_COORDINATOR, 0));
    for (int i = 0; i < s->peers; i++)
        must(weft_sim_add(s->sim, (weft_actor_id)(FIRST + i), 0.1 * i));
    if (s->comes_and_goes)
        must(weft_sim_add(s->sim, (weft_actor_id)(FIRST + s->peers), s->at[0] + 0.5));
    for (int k = 0; k < 2; k++) {
        tell(&s->fate, "%8.2f peer %d stands still until %g\n", s->at[k], s->stopped[k],
             s->until[k]);
        must(weft_sim_pause(s->sim, (weft_actor_id)(FIRST + s->stopped[k]), s->at[k], s->until[k]));
    }
    for (double t = 0; t < END && !*s->fate.why && !has_ended(s, all); t += 1 + t / 64) {
        if (weft_sim_run(s->sim, t) != WEFT_OK) wrong(&s->fate, "%s", weft_last_message());
        for (int i = 0; i < all; i++) look_at(s, i);
    }
    for (int i = 0; i < all && !*s->fate.why; i++) judge(s, i);
    s->fate.count += all;
    uint64_t digest = weft_sim_stats(s->sim).digest;
    weft_sim_destroy(&s->sim);
    weft_topology_free(&s->topology);
    for (int i = 0; i < MOST + LATE; i++) weft_codec_close(&s->codecs[i]);
    *f = s->fate;
    free(s);
    return digest;
}

static void test_stops(void **state)
{
    (void)state;
    play_all(getenv("WEFT_FAST") ? 60 : 300, play, "peers");
}

/* A peer that joins requests the state of the run from a donor; without an answer it asks the same
 * one again, each time after twice as long. */
static void test_asks_ever_more_rarely(void **state)
{
    (void)state;
    enum { ASKS = 5 };
    stops *s;
    assert_int_equal(WEFT_NEW(&s, 1), WEFT_OK);
    s->topology_name = "all";
    s->codec = "none";
    s->comes_and_goes = true;
    s->peers = 2;
    s->steps = 5000;
    for (int i = 0; i < 3; i++) s->seconds[i] = 1;
    weft_sim_options options = {.struct_size = sizeof(options),
                                .seed = 1,
                                .link = GOOD,
                                .make = make,
                                .compute = compute,
                                .user = s};
    assert_int_equal(weft_topology_make("all", 2, false, 1, &s->topology), WEFT_OK);
    assert_int_equal(weft_sim_create(&options, &s->sim), WEFT_OK);
    assert_int_equal(weft_sim_add(s->sim, WEFT_COORDINATOR, 0), WEFT_OK);
    for (int i = 0; i < 3; i++)
        assert_int_equal(weft_sim_add(s->sim, (weft_actor_id)(FIRST + i), i < 2 ? 0 : 5), WEFT_OK);
    const double STEP = 0.01, PATIENCE = 0.7;
    double t = 5 + STEP, asked[ASKS];
    int asks = 0;
    assert_int_equal(weft_sim_run(s->sim, t), WEFT_OK);
    const weft_peer *late = (const weft_peer *)peer_at(s, 2);
    for (; late->donor == WEFT_NOBODY; t += STEP)
        assert_int_equal(weft_sim_run(s->sim, t), WEFT_OK);
    weft_actor_id donor = late->donor;
    int64_t request = late->state_request;
    assert_int_equal(weft_sim_cut(s->sim, FIRST + 2, donor, weft_sim_stats(s->sim).now, END),
                     WEFT_OK);
    for (; asks < ASKS && t < 100; t += STEP) {
        assert_int_equal(weft_sim_run(s->sim, t), WEFT_OK);
        if (late->state_tries > asks) asked[asks++] = t;
        assert_true(late->donor == donor && late->state_request == request);
    }
    assert_int_equal(asks, ASKS);
    for (int i = 1; i < ASKS; i++) {
        double gap = asked[i] - asked[i - 1], least = PATIENCE * (1 << (i - 1));
        if (gap < least - 2 * STEP || gap > least + PATIENCE + 2 * STEP)
            fail_msg("it asks for the %d. time after %g s, not %g", i + 1, gap, least);
    }
    weft_sim_destroy(&s->sim);
    weft_topology_free(&s->topology);
    for (int i = 0; i < MOST + LATE; i++) weft_codec_close(&s->codecs[i]);
    free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_stops),
                                       cmocka_unit_test(test_asks_ever_more_rarely)};
    return cmocka_run_group_tests_name("peers that stand still", tests, setup, teardown);
}
