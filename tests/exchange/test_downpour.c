/* Learners that push and pull every so many steps (Downpour, Dean et al. 2012), simulated with the
 * actors of a real run. A single learner is serial SGD, staleness is what a count by hand gives,
 * and no gradient is lost. */
#include <math.h>
#include <stdio.h>

#include "actor/sim.h"
#include "exchange/simulated.h"
#include "hand_learner.h"
#include "one_context.h"

enum { COUNT = 29, MOST = 5, MOST_STALE = 64 };

static const double LR = 0.125;

typedef struct run {
    const char *spec;
    int learners, servers, steps;
    bool exact; /* gradients have few digits and do not depend on the parameters */
    weft_sim_link link;
    uint64_t seed;
    weft_sim_exchange *exchange;
    double parts[MOST];
    double w[MOST][COUNT], g[MOST][COUNT];
    bool alike;                       /* all learners have the same speed */
    double result[COUNT], sum[COUNT]; /* parameters at the end; sum of all gradients */
    double updates, stale[MOST_STALE];
    uint64_t digest;
} run;

static const weft_sim_link GOOD = {.latency = 0.01, .bandwidth = 1e6};
static const weft_sim_link BAD = {.latency = 0.02,
                                  .jitter = 0.3,
                                  .bandwidth = 1e5,
                                  .lost = 0.15,
                                  .twice = 0.15,
                                  .reordered = 0.2};

static double gradient_of(const run *r, int learner, int64_t step, const double *w, int i)
{
    if (r->exact) return (double)((37 * learner + 11 * step + 5 * i) % 64 - 32) / 16;
    return (w[i] - sin(1.0 + learner)) * (1 + 0.1 * i) + 0.01 * cos((double)(step * (i + 1)));
}

static weft_status make(void *user, weft_actor_id id, int life, weft_actor **out)
{
    run *r = user;
    (void)life;
    return r->exchange->ops->make(r->exchange, id, out);
}

static weft_status compute(void *user, weft_actor *actor, int64_t ticket, weft_sim_work *work)
{
    run *r = user;
    int me = (int)(actor->id - r->exchange->first_learner);
    for (int i = 0; i < COUNT; i++) {
        r->g[me][i] = gradient_of(r, me, ticket, r->w[me], i);
        r->sum[i] += r->g[me][i];
    }
    work->seconds = r->alike ? 1 : 1 + 0.1 * me;
    work->parts = r->parts;
    work->part_count = r->servers - 1;
    for (int k = 0; k < work->part_count; k++) r->parts[k] = (double)(k + 1) / r->servers;
    return WEFT_OK;
}

static void take_figures(run *r)
{
    weft_series f;
    for (int i = 0; r->exchange->ops->figure(r->exchange, i, &f); i++) {
        if (strcmp(f.name, "server_updates") == 0) r->updates = f.numbers[0];
        if (strcmp(f.name, "staleness") == 0)
            for (int k = 0; k < f.count && k < MOST_STALE; k++) r->stale[k] = f.numbers[k];
    }
}

static void play(run *r)
{
    parameter_store own;
    weft_optimizer_options o;
    weft_sim *sim;
    void *w[MOST], *g[MOST];
    weft_optimizer_options_init(&o);
    o.name = "sgd";
    o.lr = LR;
    assert_int_equal(parameter_store_open(context, WEFT_F64, COUNT, &own), WEFT_OK);
    for (int k = 0; k < MOST; k++) {
        w[k] = r->w[k];
        g[k] = r->g[k];
    }
    weft_sim_exchange_options scene = {.struct_size = sizeof(scene),
                                       .context = context,
                                       .store = own.store,
                                       .optimizer = &o,
                                       .learners = r->learners,
                                       .servers = r->servers,
                                       .steps = r->steps,
                                       .dtype = WEFT_F64,
                                       .count = COUNT,
                                       .parameters = w,
                                       .gradients = g};
    weft_sim_options options = {.struct_size = sizeof(options),
                                .seed = r->seed,
                                .link = r->link,
                                .make = make,
                                .compute = compute,
                                .user = r};
    if (weft_sim_exchange_open(r->spec, &scene, &r->exchange) != WEFT_OK)
        fail_msg("%s", weft_last_message());
    assert_int_equal(weft_sim_create(&options, &sim), WEFT_OK);
    for (int id = 0; id < r->exchange->actors; id++)
        assert_int_equal(weft_sim_add(sim, (weft_actor_id)id, 0), WEFT_OK);
    if (weft_sim_run(sim, INFINITY) != WEFT_OK) fail_msg("%s", weft_last_message());
    for (int i = 0; i < r->learners; i++)
        assert_true(weft_sim_actor(sim, r->exchange->first_learner + (weft_actor_id)i)->done);
    assert_int_equal(r->exchange->ops->result(r->exchange, true, r->result), WEFT_OK);
    take_figures(r);
    r->digest = weft_sim_stats(sim).digest;
    weft_sim_destroy(&sim);
    weft_sim_exchange_close(&r->exchange);
    parameter_store_close(&own);
}

static run played(const char *spec, int learners, int servers, bool exact, weft_sim_link link,
                  uint64_t seed)
{
    run r = {.spec = spec,
             .learners = learners,
             .servers = servers,
             .steps = 31,
             .exact = exact,
             .link = link,
             .seed = seed};
    play(&r);
    return r;
}

static void test_every_step_is_asynchronous(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        run a = played("server:policy=async", 4, 3, false, BAD, seed);
        run b = played("server:policy=async,push=1,fetch=1", 4, 3, false, BAD, seed);
        assert_memory_equal(a.result, b.result, sizeof(a.result));
        assert_true(a.digest == b.digest);
    }
}

/* Counts the staleness and the number of updates of a single learner by hand. */
static void count_staleness(int push, int fetch, int steps, double *stale, double *updates)
{
    int version = 0, pulled = 0, began = 0, gathered = 0;
    memset(stale, 0, MOST_STALE * sizeof(double));
    *updates = 0;
    for (int t = 1; t <= steps; t++) {
        if (gathered++ == 0) began = pulled;
        if (t % push == 0 || t == steps) {
            stale[version++ - began]++;
            gathered = 0;
            ++*updates;
        }
        if (t % fetch == 0) pulled = version;
    }
}

/* A single learner takes the same steps as its servers, so the run is serial SGD: to the bit where
 * a push has one gradient. */
static void test_one_learner_is_serial(void **state)
{
    (void)state;
    char spec[80];
    for (int push = 1; push <= 5; push++)
        for (int fetch = 1; fetch <= 5; fetch++) {
            /* If a learner pulls more often than it pushes, a pull undoes steps that it has not
             * pushed yet, so the parameters are compared only where each pull follows a push. */
            double w[COUNT] = {0}, stale[MOST_STALE], updates;
            (void)snprintf(spec, sizeof(spec), "server:policy=async,push=%d,fetch=%d", push, fetch);
            run r = played(spec, 1, 2, false, push % 2 ? GOOD : BAD, 7);
            count_staleness(push, fetch, r.steps, stale, &updates);
            for (int k = 0; k < MOST_STALE; k++)
                if (r.stale[k] != r.servers * stale[k])
                    fail_msg("%s: %g of staleness %d, should be %g", spec, r.stale[k], k,
                             r.servers * stale[k]);
            assert_true(r.updates == r.servers * updates);
            if (fetch % push) continue;
            for (int t = 1; t <= r.steps; t++)
                for (int i = 0; i < COUNT; i++) w[i] -= LR * gradient_of(&r, 0, t, w, i);
            for (int i = 0; i < COUNT; i++)
                if (fabs(w[i] - r.result[i]) > (push > 1 ? 1e-13 : 0))
                    fail_msg("%s: number %d is %.17g, should be %.17g", spec, i, r.result[i], w[i]);
        }
}

/* Each gradient counts once in the result, whatever messages links lose or repeat. */
static void test_nothing_is_lost(void **state)
{
    (void)state;
    static const char *const specs[] = {
        "server:policy=async,push=4", "server:policy=async,push=3,fetch=5",
        "server:policy=async,fetch=7", "server:policy=softsync,c=1,push=2,fetch=3"};
    for (size_t s = 0; s < WEFT_COUNT(specs); s++)
        for (uint64_t seed = 1; seed <= 5; seed++) {
            run r = played(specs[s], 2 + (int)seed % 4, 3, true, seed % 2 ? BAD : GOOD, seed);
            for (int i = 0; i < COUNT; i++)
                if (r.result[i] != -LR * r.sum[i])
                    fail_msg("%s: number %d is %g, should be %g", specs[s], i, r.result[i],
                             -LR * r.sum[i]);
        }
}

/* A version of softsync is the mean of its pushes, however many gradients each of them adds up.
 * Three learners of equal speed each push the sum of 5 gradients, and then their last one: one of
 * the three versions is made of a sum and a single gradient. */
static void test_uneven_pushes(void **state)
{
    (void)state;
    run r = {.spec = "server:policy=softsync,c=2,push=5",
             .learners = 3,
             .servers = 2,
             .steps = 6,
             .exact = true,
             .link = GOOD,
             .alike = true};
    play(&r);
    for (int i = 0; i < COUNT; i++)
        if (r.result[i] != -LR * r.sum[i] / 2)
            fail_msg("number %d is %g, should be %g", i, r.result[i], -LR * r.sum[i] / 2);
}

/* Where no update is stale, the scaling of stale updates has no effect. */
static void test_fresh_is_unscaled(void **state)
{
    (void)state;
    static const char *const plain[] = {"server:policy=async", "server:policy=bsp",
                                        "server:policy=softsync,c=1,push=3"};
    static const int learners[] = {1, 4, 1};
    char spec[80];
    for (size_t p = 0; p < WEFT_COUNT(plain); p++)
        for (int way = 0; way < 2; way++) {
            (void)snprintf(spec, sizeof(spec), "%s,scale=%s", plain[p], way ? "exp" : "inverse");
            run a = played(plain[p], learners[p], 2, false, BAD, 5);
            run b = played(spec, learners[p], 2, false, BAD, 5);
            assert_true(b.stale[0] == b.updates && b.updates > 0);
            assert_memory_equal(a.result, b.result, sizeof(a.result));
        }
}

static void test_contradictions(void **state)
{
    (void)state;
    static const char *const wrong[] = {"server:policy=bsp,push=2", "server:push=2",
                                        "server:policy=ssp,bound=2,push=3"};
    for (size_t i = 0; i < WEFT_COUNT(wrong); i++) {
        assert_int_equal(weft_exchange_check(context, wrong[i]), WEFT_ERR_ARGUMENT);
        assert_non_null(
            strstr(weft_last_message(), "push needs a policy in which no learner waits"));
    }
    assert_int_equal(weft_exchange_check(context, "server:policy=bsp,fetch=2"), WEFT_ERR_ARGUMENT);
    assert_non_null(strstr(weft_last_message(), "fetch needs a policy in which no learner waits"));
    assert_int_equal(weft_exchange_check(context, "server:policy=async,fetch=0"),
                     WEFT_ERR_ARGUMENT);
    assert_int_equal(weft_exchange_check(context, "server:policy=ssp,bound=inf,push=3"), WEFT_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_step_is_asynchronous),
        cmocka_unit_test(test_one_learner_is_serial),
        cmocka_unit_test(test_nothing_is_lost),
        cmocka_unit_test(test_uneven_pushes),
        cmocka_unit_test(test_fresh_is_unscaled),
        cmocka_unit_test(test_contradictions),
    };
    return cmocka_run_group_tests_name("downpour", tests, setup, teardown);
}
