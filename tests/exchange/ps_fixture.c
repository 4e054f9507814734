/* Creates the actors of ps_fixture.h, computes the learners' gradients, and runs the simulation. */
#include "ps_fixture.h"

#include <math.h>

#include "range_update.h"
#include "one_context.h"

void gradient(int learner, int64_t step, const double *w, double *g)
{
    for (int i = 0; i < COUNT; i++)
        g[i] = (w[i] - sin(1.0 + learner)) * (1 + 0.1 * i) + 0.01 * cos((double)(step * (i + 1)));
}

void synchronous(const run *r, double *w)
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

static int64_t begin_of(const run *r, int server)
{
    return weft_part_start(COUNT, server, r->servers);
}

static descent ranges[MOST_SERVERS];

static weft_status open_downlink(host *h, int number, int64_t count, weft_served *out)
{
    weft_codec *codec;
    if (!h->run->back) return WEFT_OK;
    WEFT_TRY(weft_codec_open_back(context, h->run->back, WEFT_F64, count, &codec));
    WEFT_TRY(weft_downlink_open(codec, &out->published));
    out->states = h->states[number];
    out->state_count = weft_downlink_parts(out->published, h->states[number]);
    return WEFT_OK;
}

static weft_status open_range(void *user, int number, weft_served *out)
{
    host *h = user;
    const run *r = h->run;
    ranges[number] = (descent){LR, begin_of(r, number + 1) - begin_of(r, number)};
    const weft_codec_ops *codec;
    WEFT_TRY(weft_codec_find(context, r->codec, &codec));
    weft_range_options options = {.struct_size = sizeof(options),
                                  .codec = codec,
                                  .policy = r->policy,
                                  .dtype = WEFT_F64,
                                  .count = ranges[number].count,
                                  .update = descend,
                                  .user = &ranges[number]};
    WEFT_TRY(open_downlink(h, number, options.count, out));
    return weft_range_create(&options, &out->range);
}

static weft_member_options member_of(uint64_t key, int request)
{
    return (weft_member_options){.struct_size = sizeof(weft_member_options),
                                 .key = key,
                                 .requested_slot = request,
                                 .heartbeat_interval = 1};
}

static weft_status make_coordinator(const run *r, weft_actor **out)
{
    weft_coordinator_options options = {.struct_size = sizeof(options),
                                        .run = r->seed,
                                        .expected = {r->learners, r->servers},
                                        .ranges = r->servers,
                                        .replicas = r->replicas,
                                        .limit = 20};
    return weft_coordinator_create(&options, out);
}

static weft_status make_server(run *r, int k, weft_actor **out)
{
    weft_server_options options = {.struct_size = sizeof(options),
                                   .member = member_of((uint64_t)k, k),
                                   .first_timeout = 0.5,
                                   .goes_on = r->goes_on,
                                   .open = open_range,
                                   .user = &r->hosts[k]};
    r->hosts[k].run = r;
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
    const weft_codec_ops *back = NULL;
    if (r->back) WEFT_TRY(weft_codec_find(context, r->back, &back));
    weft_ps_client_options options = {.struct_size = sizeof(options),
                                      .back = back,
                                      .member = member_of((uint64_t)(1000 + i), i),
                                      .dtype = WEFT_F64,
                                      .ranges = r->reach[i],
                                      .range_count = r->servers,
                                      .steps = r->steps,
                                      .parameters = r->w[i],
                                      .gradients = r->g[i],
                                      .first_timeout = 0.5,
                                      .weight = &r->weight[i]};
    return weft_ps_client_create(&options, out);
}

weft_status make(void *user, weft_actor_id id, int life, weft_actor **out)
{
    (void)life;
    return id == WEFT_COORDINATOR ? make_coordinator(user, out)
           : id < FIRST_LEARNER   ? make_server(user, (int)id - FIRST_SERVER, out)
                                  : make_learner(user, (int)id - FIRST_LEARNER, out);
}

/* Computes the gradients of a step, when all parameters that the step reads have arrived; records
 * the largest lead of a learner over the slowest one. */
static weft_status calculate(void *user, weft_actor *actor, int64_t ticket)
{
    run *r = user;
    int me = (int)actor->id - FIRST_LEARNER;
    int64_t low = INT64_MAX, high = 0;
    bool idle = r->idle && me == 0 && ticket > 1;
    gradient(me, ticket, r->w[me], r->g[me]);
    if (idle) memset(r->g[me], 0, sizeof(r->g[me]));
    r->weight[me] = idle ? 0 : 1;
    r->clock[me] = ticket;
    for (int i = 0; i < r->learners; i++) {
        const weft_actor *other = weft_sim_actor(r->sim, (weft_actor_id)(FIRST_LEARNER + i));
        low = WEFT_MIN(low, other ? weft_ps_client_clock(other) : 0);
        high = WEFT_MAX(high, r->clock[i]);
    }
    r->spread = WEFT_MAX(r->spread, high - low);
    return WEFT_OK;
}

weft_status compute(void *user, weft_actor *actor, int64_t ticket, weft_sim_work *work)
{
    run *r = user;
    int me = (int)actor->id - FIRST_LEARNER;
    work->seconds = r->seconds[me];
    if (r->uneven > 0)
        work->seconds *= weft_random_between(&r->random, 1 - r->uneven, 1 + r->uneven);
    /* The last range's gradients are ready when the step ends, so it has no entry. */
    work->parts = r->parts;
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

void simulate(run *r)
{
    weft_sim_options options = {.struct_size = sizeof(options),
                                .seed = r->seed,
                                .link = r->link,
                                .make = r->make ? r->make : make,
                                .compute = compute,
                                .ended = ended,
                                .check = r->check,
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
    for (int i = 0; i < MOST_DEATHS && r->deaths[i].who; i++)
        assert_int_equal(weft_sim_kill(r->sim, r->deaths[i].who, r->deaths[i].when), WEFT_OK);
    if (weft_sim_run(r->sim, INFINITY) != WEFT_OK) fail_msg("%s", weft_last_message());
    for (int i = 0; i < r->learners; i++) {
        const weft_actor *a = weft_sim_actor(r->sim, (weft_actor_id)(FIRST_LEARNER + i));
        assert_true(a->done);
        assert_int_equal(weft_ps_client_clock(a), r->steps);
    }
}

void finish(run *r)
{
    weft_sim_destroy(&r->sim);
    for (int i = 0; i < r->learners; i++)
        for (int k = 0; k < r->servers; k++) weft_codec_close(&r->reach[i][k].codec);
}

run draw(const char *policy, double count, double bound, int learners, int servers, uint64_t seed)
{
    run r = {.learners = learners, .servers = servers, .steps = 30, .codec = "none", .seed = seed};
    weft_random random;
    assert_int_equal(weft_policy_make(context, policy, count, bound, NULL, -1, &r.policy), WEFT_OK);
    weft_random_start(&random, seed, 9);
    for (int i = 0; i < learners; i++) r.seconds[i] = weft_random_between(&random, 0.5, 2);
    for (int k = 0; k < servers; k++) r.needs[k] = weft_random_unit(&random) / 2;
    r.link = (weft_sim_link){.latency = 0.01, .bandwidth = 1e5};
    return r;
}

int runs_setup(void **state)
{
    return setup(state);
}

int runs_teardown(void **state)
{
    return teardown(state);
}
