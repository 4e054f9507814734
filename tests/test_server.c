/* Learners and servers in the simulator: what comes out has the bits of the simpler way to train,
 * whatever links do, and nobody waits for whom the policy does not make him wait. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "actor/sim.h"
#include "base/tree.h"
#include "exchange/server/server.h"

enum {
    COUNT = 23,
    MOST_LEARNERS = 30,
    SYNCHRONOUS = 8,
    MOST_SERVERS = 5,
    FIRST_SERVER = 1,
    FIRST_LEARNER = 100
};

static weft_context *context;

/* A small run: gradients are those of quadratics whose middles differ, and change with the step. */
typedef struct run {
    weft_policy policy;
    int learners, servers, steps;
    const char *codec;
    bool replicas;
    weft_sim_link link;
    double seconds[MOST_LEARNERS]; /* of a step */
    double uneven;                 /* and up to this share of them more or less */
    double needs[MOST_SERVERS];    /* shares of a step before which it reads the ranges */
    bool early;                    /* a step begins before they are there */
    weft_random random;
    uint64_t seed;
    /* what is there while it goes on */
    weft_sim *sim;
    double w[MOST_LEARNERS][COUNT], g[MOST_LEARNERS][COUNT];
    weft_server_range reach[MOST_LEARNERS][MOST_SERVERS];
    double parts[MOST_SERVERS];
    int64_t clock[MOST_LEARNERS];
    int64_t spread; /* most between the first and the last, with the steps that go on */
    double until[MOST_LEARNERS]; /* when each one ended */
} run;

static const double LR = 0.125;

static void gradient(int learner, int64_t step, const double *w, double *g)
{
    for (int i = 0; i < COUNT; i++)
        g[i] = (w[i] - sin(1.0 + learner)) * (1 + 0.1 * i) + 0.01 * cos((double)(step * (i + 1)));
}

static weft_status descend(void *user, void *parameters, const void *mean)
{
    int64_t count = *(const int64_t *)user;
    double *w = parameters;
    const double *g = mean;
    for (int64_t i = 0; i < count; i++) w[i] -= LR * g[i];
    return WEFT_OK;
}

static int64_t begin_of(const run *r, int server)
{
    return weft_part_start(COUNT, server, r->servers);
}

static int64_t counts[MOST_SERVERS]; /* of the ranges, for `descend` */

static weft_status open_range(void *user, int number, weft_served *out)
{
    const run *r = user;
    counts[number] = begin_of(r, number + 1) - begin_of(r, number);
    weft_range_options options = {.struct_size = sizeof(options),
                                  .policy = r->policy,
                                  .dtype = WEFT_F64,
                                  .count = counts[number],
                                  .update = descend,
                                  .user = &counts[number]};
    return weft_range_create(&options, &out->range);
}

static weft_member_options member_of(uint64_t key, int wish)
{
    return (weft_member_options){
        .struct_size = sizeof(weft_member_options), .key = key, .wish = wish, .beat = 1};
}

static weft_status make_coordinator(const run *r, weft_actor **out)
{
    weft_coordinator_options options = {.struct_size = sizeof(options),
                                        .run = r->seed,
                                        .expected = {r->learners, r->servers, 0},
                                        .ranges = r->servers,
                                        .replicas = r->replicas,
                                        .limit = 20};
    return weft_coordinator_create(&options, out);
}

static weft_status make_server(run *r, int k, weft_actor **out)
{
    weft_server_options options = {.struct_size = sizeof(options),
                                   .member = member_of((uint64_t)k, k),
                                   .patience = 0.5,
                                   .open = open_range,
                                   .user = r};
    return weft_server_create(&options, out);
}

static weft_status make_learner(run *r, int i, weft_actor **out)
{
    for (int k = 0; k < r->servers; k++) {
        weft_server_range *range = &r->reach[i][k];
        *range = (weft_server_range){.begin = begin_of(r, k),
                                     .count = begin_of(r, k + 1) - begin_of(r, k)};
        WEFT_TRY(weft_codec_open(context, r->codec, WEFT_F64, range->count, &range->codec));
    }
    weft_server_learner_options options = {.struct_size = sizeof(options),
                                           .member = member_of((uint64_t)(1000 + i), i),
                                           .dtype = WEFT_F64,
                                           .ranges = r->reach[i],
                                           .range_count = r->servers,
                                           .steps = r->steps,
                                           .parameters = r->w[i],
                                           .gradients = r->g[i],
                                           .patience = 0.5};
    return weft_server_learner_create(&options, out);
}

static weft_status make(void *user, weft_actor_id id, int life, weft_actor **out)
{
    (void)life;
    return id == WEFT_COORDINATOR ? make_coordinator(user, out)
           : id < FIRST_LEARNER   ? make_server(user, (int)id - FIRST_SERVER, out)
                                  : make_learner(user, (int)id - FIRST_LEARNER, out);
}

/* What a step reads is there. */
static weft_status calculate(void *user, weft_actor *actor, int64_t ticket)
{
    run *r = user;
    int me = (int)actor->id - FIRST_LEARNER;
    int64_t low = INT64_MAX, high = 0;
    gradient(me, ticket, r->w[me], r->g[me]);
    r->clock[me] = ticket;
    for (int i = 0; i < r->learners; i++) {
        const weft_actor *other = weft_sim_actor(r->sim, (weft_actor_id)(FIRST_LEARNER + i));
        low = WEFT_MIN(low, other ? weft_server_learner_clock(other) : 0);
        high = WEFT_MAX(high, r->clock[i]);
    }
    r->spread = WEFT_MAX(r->spread, high - low);
    return WEFT_OK;
}

static weft_status compute(void *user, weft_actor *actor, int64_t ticket, weft_sim_work *work)
{
    run *r = user;
    int me = (int)actor->id - FIRST_LEARNER;
    work->seconds = r->seconds[me];
    if (r->uneven > 0)
        work->seconds *= weft_random_between(&r->random, 1 - r->uneven, 1 + r->uneven);
    work->parts = r->parts; /* the last one is there at the end */
    work->part_count = r->servers - 1;
    for (int k = 0; k < work->part_count; k++) r->parts[k] = (double)(k + 1) / r->servers;
    return r->early ? WEFT_OK : calculate(user, actor, ticket);
}

static weft_status ended(void *user, weft_actor *actor, int64_t ticket)
{
    (void)ticket;
    ((run *)user)->until[actor->id - FIRST_LEARNER] = weft_actor_now(actor);
    return WEFT_OK;
}

/* Whom the faults kill, at that time; 0: nobody. */
static struct {
    weft_actor_id who;
    double when;
} death;

static void simulate(run *r)
{
    weft_sim_options options = {.struct_size = sizeof(options),
                                .seed = r->seed,
                                .link = r->link,
                                .make = make,
                                .compute = compute,
                                .ended = ended,
                                .user = r};
    if (r->early) {
        options.needs = r->needs;
        options.need_count = r->servers;
        options.supplied = calculate;
    }
    assert_int_equal(weft_sim_create(&options, &r->sim), WEFT_OK);
    assert_int_equal(weft_sim_add(r->sim, WEFT_COORDINATOR, 0), WEFT_OK);
    for (int k = 0; k < r->servers; k++)
        assert_int_equal(weft_sim_add(r->sim, (weft_actor_id)(FIRST_SERVER + k), 0), WEFT_OK);
    for (int i = 0; i < r->learners; i++)
        assert_int_equal(weft_sim_add(r->sim, (weft_actor_id)(FIRST_LEARNER + i), 0), WEFT_OK);
    if (death.who) assert_int_equal(weft_sim_kill(r->sim, death.who, death.when), WEFT_OK);
    if (weft_sim_run(r->sim, INFINITY) != WEFT_OK) fail_msg("%s", weft_last_message());
    for (int i = 0; i < r->learners; i++) {
        const weft_actor *a = weft_sim_actor(r->sim, (weft_actor_id)(FIRST_LEARNER + i));
        assert_true(a->done);
        assert_int_equal(weft_server_learner_clock(a), r->steps);
    }
}

static void finish(run *r)
{
    weft_sim_destroy(&r->sim);
    for (int i = 0; i < r->learners; i++)
        for (int k = 0; k < r->servers; k++) weft_codec_close(&r->reach[i][k].codec);
}

static run draw(const char *policy, double count, double bound, int learners, int servers,
                uint64_t seed)
{
    run r = {.learners = learners, .servers = servers, .steps = 30, .codec = "none", .seed = seed};
    weft_random random;
    assert_int_equal(weft_policy_make(policy, count, bound, NULL, -1, &r.policy), WEFT_OK);
    weft_random_start(&random, seed, 9);
    for (int i = 0; i < learners; i++) r.seconds[i] = weft_random_between(&random, 0.5, 2);
    for (int k = 0; k < servers; k++) r.needs[k] = weft_random_unit(&random) / 2;
    r.link = (weft_sim_link){.latency = 0.01, .bandwidth = 1e5};
    return r;
}

static const weft_sim_link BAD = {.latency = 0.02,
                                  .jitter = 0.3,
                                  .bandwidth = 2e4,
                                  .lost = 0.15,
                                  .twice = 0.15,
                                  .reordered = 0.2};

/* All learners take the mean of their gradients, in one place. */
static void synchronous(const run *r, double *w)
{
    double all[MOST_LEARNERS][COUNT], sum[COUNT];
    const void *source[MOST_LEARNERS];
    double *room = malloc(weft_tree_room(r->learners, 1));
    for (int i = 0; i < r->learners; i++) source[i] = all[i];
    memset(w, 0, COUNT * sizeof(double));
    for (int64_t t = 1; t <= r->steps; t++) {
        for (int i = 0; i < r->learners; i++) gradient(i, t, w, all[i]);
        weft_tree tree = {.dtype = WEFT_F64,
                          .ranks = r->learners,
                          .leaves = r->learners,
                          .source = source,
                          .stride = COUNT,
                          .room = room};
        weft_tree_sum(&tree, 0, COUNT, sum);
        for (int i = 0; i < COUNT; i++) w[i] -= LR * (sum[i] / r->learners);
    }
    free(room);
}

/* A share is cut again where it is large, all shares into as many. */
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

/* Alone, nobody is stale, whatever the policy. */
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
            if (bound) assert_true(r.spread == bound + 1); /* and they do use it */
            finish(&r);
        }
}

/* Seconds of a step, of a learner that is alone. */
static double step_of(double latency, bool early, const double needs[2])
{
    double until[2];
    for (int longer = 0; longer < 2; longer++) {
        run r = draw("async", -1, -1, 1, 2, 3);
        r.steps = longer ? 60 : 20;
        r.seconds[0] = 1;
        r.link = (weft_sim_link){.latency = latency};
        r.early = early;
        r.needs[0] = needs[0];
        r.needs[1] = needs[1];
        simulate(&r);
        until[longer] = r.until[0];
        finish(&r);
    }
    return (until[1] - until[0]) / 40;
}

/* A step begins when the one before has ended. A range comes a round trip after that: whoever does
 * not need it before has not waited at all, and else for the rest of it only. */
static void test_pulls_are_hidden(void **state)
{
    (void)state;
    static const double needs[][2] = {{0, 0}, {0.25, 0.5}, {0.5, 0.25}, {0.75, 1}, {0, 1}};
    static const double latencies[] = {0.01, 0.1, 0.2, 0.4, 1.5};
    for (size_t n = 0; n < WEFT_COUNT(needs); n++)
        for (size_t l = 0; l < WEFT_COUNT(latencies); l++) {
            double trip = 2 * latencies[l], first = fmin(needs[n][0], needs[n][1]);
            double hidden = fmax(1, trip + 1 - first);
            assert_true(fabs(step_of(latencies[l], true, needs[n]) - hidden) < 1e-9);
            assert_true(fabs(step_of(latencies[l], false, needs[n]) - (1 + trip)) < 1e-9);
        }
}

/* With one that is ten times as slow: under bsp all are, under async only that one. */
static void test_straggler(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        double count, low, high; /* how long the others take, in steps of their own */
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

/* However often letters are lost or come twice, each update counts once. */
static void test_once(void **state)
{
    (void)state;
    static const char *const codecs[] = {"none", "threshold:tau=0.015625", "topk:ratio=0.2"};
    for (uint64_t seed = 1; seed <= 30; seed++) {
        run r = draw("async", -1, -1, 6, 3, seed);
        r.codec = codecs[seed % 3];
        r.link = BAD;
        simulate(&r);
        weft_sim_report report = weft_sim_tell(r.sim);
        assert_true(report.lost > 0 && report.waiting == 0);
        /* The last to end has pulled after all were in. */
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

/* One server of several is lost in the middle, of whichever ranges it has replicas: in bsp all come
 * to the same bits as if nothing had happened. */
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
                death.who = (weft_actor_id)(FIRST_SERVER + lost);
                death.when = 15 + 3 * bad;
                synchronous(&r, w);
                simulate(&r);
                death.who = 0;
                assert_null(weft_sim_actor(r.sim, (weft_actor_id)(FIRST_SERVER + lost)));
                for (int i = 0; i < r.learners; i++) assert_memory_equal(r.w[i], w, sizeof(w));
                finish(&r);
            }
}

/* Without replicas the run ends, and says what is lost. */
static void test_lost_range(void **state)
{
    (void)state;
    run r = draw("async", -1, -1, 1, 2, 4);
    weft_sim_options options = {.struct_size = sizeof(options),
                                .link = r.link,
                                .make = make,
                                .compute = compute,
                                .user = &r};
    assert_int_equal(weft_sim_create(&options, &r.sim), WEFT_OK);
    for (weft_actor_id id = 0; id <= 2; id++) assert_int_equal(weft_sim_add(r.sim, id, 0), WEFT_OK);
    assert_int_equal(weft_sim_add(r.sim, FIRST_LEARNER, 0), WEFT_OK);
    assert_int_equal(weft_sim_kill(r.sim, FIRST_SERVER + 1, 10), WEFT_OK);
    assert_int_equal(weft_sim_run(r.sim, INFINITY), WEFT_ERR_PEER);
    assert_non_null(
        strstr(weft_last_message(),
               "server 2 is lost, and with it range 1 of 2 of the parameters, of which "
               "nobody has a replica (--replicas 1 keeps one); go on from a checkpoint"));
    finish(&r);
}

/* --- how stale updates are --- */

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

/* Learners of equal speed in turn: L - 1 others have pushed since one has pulled, but in the first
 * round. (Of several ranges the first is pushed long before all are pulled, and is fresher.) */
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

/* Of n-softsync, whose versions are made of c = L/n updates, the mean staleness is about n. */
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
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_bsp_is_synchronous),
        cmocka_unit_test(test_one_learner_is_serial),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_pulls_are_hidden),
        cmocka_unit_test(test_straggler),
        cmocka_unit_test(test_once),
        cmocka_unit_test(test_lost_server),
        cmocka_unit_test(test_lost_range),
        cmocka_unit_test(test_round_robin),
        cmocka_unit_test(test_softsync),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
