/* Tests the loss of a server in the simulator: the replica takes its place with the same bits, and
 * without one the run ends with a message. */
#include <math.h>

#include "ps_fixture.h"
#include "fast.h"

/* One server dies in the middle of a bsp run; it was primary of some ranges and replica of others.
 * All learners end with the bits of an undisturbed run. */
static void test_lost_server(void **state)
{
    (void)state;
    for (int servers = 2; servers <= MOST_SERVERS; servers++)
        for (int lost = 0; lost < servers; lost++)
            for (int bad = 0; bad < 2; bad++) {
                run r = draw("bsp", -1, -1, 1 + servers % 4, servers, (uint64_t)(servers + lost));
                double w[COUNT];
                if (bad) r.link = BAD;
                r.replicas = true;
                r.deaths[0].who = (weft_actor_id)(FIRST_SERVER + lost);
                r.deaths[0].when = 15 + 3 * bad;
                synchronous(&r, w);
                simulate(&r);
                assert_null(weft_sim_actor(r.sim, (weft_actor_id)(FIRST_SERVER + lost)));
                for (int i = 0; i < r.learners; i++) assert_memory_equal(r.w[i], w, sizeof(w));
                finish(&r);
            }
}

/* --- a server dies between any two events --- */

/* The moments between two events of a run, after the first death, at which each range has a replica
 * in sync. */
static struct moments {
    double *at, last;
    size_t count, capacity;
    bool safe;
} moments;

static bool survives_a_loss(const run *r)
{
    const weft_actor *a = weft_sim_actor(r->sim, WEFT_COORDINATOR);
    const weft_view *v = a ? weft_coordinator_view(a) : NULL;
    if (!v || !v->running || v->over) return false;
    for (int k = 0; k < v->range_count; k++)
        if (!v->ranges[k].in_sync || !weft_sim_actor(r->sim, v->ranges[k].primary) ||
            !weft_sim_actor(r->sim, v->ranges[k].replica))
            return false;
    return true;
}

static weft_status note_moment(void *user)
{
    struct moments *m = &moments;
    double now = weft_sim_stats(((const run *)user)->sim).now;
    if (m->safe && now > m->last) {
        WEFT_TRY(WEFT_GROW(&m->at, &m->capacity, m->count));
        m->at[m->count++] = (m->last + now) / 2;
    }
    m->safe = survives_a_loss(user) && now > ((const run *)user)->deaths[0].when;
    m->last = now;
    return WEFT_OK;
}

/* Runs r, and then again with the next server killed at each moment of that run (in short, with one
 * of the servers): the learners end with the same bits. Returns the number of moments. */
static size_t lose_at_any_moment(run r, const char *what)
{
    int next = r.deaths[0].who ? 1 : 0;
    run whole = r;
    moments = (struct moments){0};
    whole.check = note_moment;
    simulate(&whole);
    for (size_t i = 0; i < moments.count; i++)
        for (int lost = next; lost < r.servers; lost++) {
            if (!in_full() && (int)(i % (size_t)(r.servers - next)) != lost - next) continue;
            if (paths_alone() && i % 5) continue;
            run now = r;
            now.deaths[next].who = (weft_actor_id)(FIRST_SERVER + lost);
            now.deaths[next].when = moments.at[i];
            simulate(&now);
            for (int k = 0; k < r.learners; k++)
                if (memcmp(now.w[k], whole.w[k], sizeof(now.w[k])) != 0)
                    fail_msg("%s: learner %d ends with other bits if server %d dies at %g s", what,
                             k, lost, moments.at[i]);
            finish(&now);
        }
    finish(&whole);
    free(moments.at);
    return moments.count;
}

/* Downlink codecs, with and without state of their own. */
static const char *const backs[] = {"topk:ratio=0.2", "onebit", "bf16", "dgc:ratio=0.01,warmup=4",
                                    "threshold:tau=0.1,adaptive,warmup=2"};

/* The downlink has the same state on the replica: whenever a server dies, the learners that go on
 * with its replica get the reference parameters that it would have sent. */
static void test_lost_downlink(void **state)
{
    (void)state;
    for (size_t c = 0; c <= WEFT_COUNT(backs); c++) {
        bool bad = c == WEFT_COUNT(backs);
        run r = draw("bsp", -1, -1, 2, 2, c);
        r.replicas = true;
        r.back = backs[c - bad];
        r.steps = 5;
        if (bad) r.link = BAD;
        assert_true(lose_at_any_moment(r, r.back) > 50);
    }
}

/* So it has on a replica that a third server got in the middle of the run. */
static void test_lost_downlink_again(void **state)
{
    (void)state;
    for (size_t c = 0; c < WEFT_COUNT(backs); c++) {
        run r = draw("bsp", -1, -1, 2, 3, 10 + c);
        r.replicas = true;
        r.back = backs[c];
        r.steps = 6;
        r.deaths[0].who = FIRST_SERVER;
        r.deaths[0].when = 3;
        assert_true(lose_at_any_moment(r, backs[c]) > 50);
    }
}

/* Servers whose messages are measured before they handle them. */
static const weft_actor_ops *measured;
static weft_actor_ops measuring;
static size_t largest; /* bytes of the largest payload */

static weft_status measure(weft_actor *actor, const weft_message *message)
{
    if (message->payload) largest = WEFT_MAX(largest, message->payload->bytes);
    return measured->message(actor, message);
}

static weft_status make_measured(void *user, weft_actor_id id, int life, weft_actor **out)
{
    WEFT_TRY(make(user, id, life, out));
    if (id == WEFT_COORDINATOR || id >= FIRST_LEARNER) return WEFT_OK;
    measured = (*out)->ops;
    measuring = *measured;
    measuring.message = measure;
    (*out)->ops = &measuring;
    return WEFT_OK;
}

/* The snapshot for a new replica is within the bound on messages, which does not depend on how many
 * learners have joined: also if a replica is lost while the updates of many learners wait for the
 * last one. */
static void test_snapshot_size(void **state)
{
    (void)state;
    enum { CARD = 64 }; /* bytes for each learner beside parameters and state, at most */
    static const char *const policies[] = {"bsp", "softsync"};
    size_t most = weft_server_message_bytes(COUNT, WEFT_F64) + (size_t)MOST_LEARNERS * CARD;
    for (int p = 0; p < 2; p++)
        for (int at = 0; at < 10; at++) {
            run r = draw(policies[p], p ? MOST_LEARNERS : -1, -1, MOST_LEARNERS, 3, 7);
            r.replicas = true;
            r.make = make_measured;
            r.deaths[0].who = FIRST_SERVER;
            r.deaths[0].when = 15 + 0.3 * at;
            largest = 0;
            simulate(&r);
            if (largest > most)
                fail_msg("a message has %zu bytes, and may have %zu", largest, most);
            finish(&r);
        }
}

/* If the last copy of a range is lost, the run ends with a message that names server and range. */
static void test_lost_range(void **state)
{
    (void)state;
    static const char *const why[] = {
        "server 1 is lost, and with it range 1 of 2 of the parameters: it has no replica "
        "(--replicas 1 keeps one on another server); begin the run again from a checkpoint "
        "(--checkpoint FOLDER --resume)",
        "server 0 is lost, and with it range 0 of 2 of the parameters: this was the last copy, "
        "since no other server was left to keep one; begin the run again from a checkpoint"};
    for (int replicas = 0; replicas < 2; replicas++) {
        run r = draw("async", -1, -1, 1, 2, 4);
        weft_sim_options options = {.struct_size = sizeof(options),
                                    .link = r.link,
                                    .make = make,
                                    .compute = compute,
                                    .user = &r};
        r.replicas = replicas;
        assert_int_equal(weft_sim_create(&options, &r.sim), WEFT_OK);
        for (weft_actor_id id = 0; id <= 2; id++)
            assert_int_equal(weft_sim_add(r.sim, id, 0), WEFT_OK);
        assert_int_equal(weft_sim_add(r.sim, FIRST_LEARNER, 0), WEFT_OK);
        for (int k = 1 - replicas; k < 2; k++)
            assert_int_equal(weft_sim_kill(r.sim, (weft_actor_id)(FIRST_SERVER + k), 10), WEFT_OK);
        assert_int_equal(weft_sim_run(r.sim, INFINITY), WEFT_ERR_PEER);
        if (!strstr(weft_last_message(), why[replicas])) fail_msg("%s", weft_last_message());
        finish(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lost_server),         cmocka_unit_test(test_lost_downlink),
        cmocka_unit_test(test_lost_downlink_again), cmocka_unit_test(test_snapshot_size),
        cmocka_unit_test(test_lost_range),
    };
    return cmocka_run_group_tests(tests, runs_setup, runs_teardown);
}
