/*
 * Runs with parameter servers in the simulator, with random faults: actors die, are suspended or
 * cut off. Every run must end; each acknowledged update must count exactly once, unless the learner
 * that took the slot of a lost one has computed it again in the same version; no learner may be
 * further ahead than the policy allows; and the same seed must give the same run. To check this,
 * each update has a mark of its own in each range, and the servers' update function counts marks.
 * WEFT_CHAOS and WEFT_CHAOS_SEED: see random_runs.h.
 */
#include "chaos.h"
#include "one_context.h"

/* --- actors --- */

/* The update function of the servers. A mark is an element that is 1 in one update and 0 in all
 * others; in the mean of several updates it is a fraction of 1, so every value but 0 counts. */
static weft_status count_marks(void *user, void *parameters, const void *mean, double rate)
{
    (void)rate;
    chaos *c = user;
    int from[LIVES], count = 0;
    for (int i = 0; i < COUNT; i++) {
        if (((const double *)mean)[i] == 0) continue;
        ((double *)parameters)[i]++;
        from[count++] = i / MOST_STEPS;
        for (int k = 0; k < count - 1 && c->policy.count == 0; k++)
            if (c->lives[from[k]].slot == c->lives[from[count - 1]].slot)
                wrong(&c->fate, "a version has updates of learners %d and %d, which had one slot",
                      FIRST_LEARNER + from[k], FIRST_LEARNER + from[count - 1]);
    }
    return WEFT_OK;
}

static weft_status open_range(void *user, int number, weft_served *out)
{
    chaos *c = user;
    (void)number;
    weft_range_options options = {.struct_size = sizeof(options),
                                  .policy = c->policy,
                                  .dtype = WEFT_F64,
                                  .count = COUNT,
                                  .update = count_marks,
                                  .user = c};
    return weft_range_create(&options, &out->range);
}

static weft_member_options member_of(weft_actor_id id, int request)
{
    return (weft_member_options){.struct_size = sizeof(weft_member_options),
                                 .key = id,
                                 .requested_slot = request,
                                 .heartbeat_interval = BEAT};
}

static weft_status make_coordinator(const chaos *c, int again, weft_actor **out)
{
    weft_coordinator_options options = {.struct_size = sizeof(options),
                                        .run = c->fate.seed * 100 + (uint64_t)again,
                                        .expected = {c->learners, c->servers},
                                        .ranges = c->servers,
                                        .replicas = c->replicas,
                                        .limit = LIMIT};
    return weft_coordinator_create(&options, out);
}

static weft_status make_learner(chaos *c, weft_actor_id id, weft_actor **out)
{
    life *l = &c->lives[id - FIRST_LEARNER];
    for (int k = 0; k < c->servers; k++) {
        l->reach[k] = (weft_server_range){.begin = k * COUNT, .count = COUNT};
        WEFT_TRY(weft_codec_open(context, "none", WEFT_F64, COUNT, &l->reach[k].codec));
    }
    weft_ps_client_options options = {.struct_size = sizeof(options),
                                      .member = member_of(id, l->slot_wish),
                                      .dtype = WEFT_F64,
                                      .ranges = l->reach,
                                      .range_count = c->servers,
                                      .steps = c->steps,
                                      .parameters = l->w,
                                      .gradients = l->g,
                                      .first_timeout = 0.5};
    return weft_ps_client_create(&options, out);
}

static weft_status make(void *user, weft_actor_id id, int again, weft_actor **out)
{
    chaos *c = user;
    if (id == WEFT_COORDINATOR) return make_coordinator(c, again, out);
    if (id >= FIRST_LEARNER) return make_learner(c, id, out);
    weft_server_options options = {.struct_size = sizeof(options),
                                   .member = member_of(id, (int)id - FIRST_SERVER),
                                   .first_timeout = 0.5,
                                   .open = open_range,
                                   .user = c};
    return weft_server_create(&options, out);
}

/* Computes a step: sets the next mark of the learner in the gradient of each range. */
static weft_status compute(void *user, weft_actor *actor, int64_t ticket, weft_sim_work *work)
{
    chaos *c = user;
    int i = (int)actor->id - FIRST_LEARNER;
    life *l = &c->lives[i];
    (void)ticket;
    l->slot = weft_member_slot(weft_ps_client_member(actor));
    memset(l->g, 0, sizeof(l->g));
    for (int k = 0; k < c->servers; k++) l->g[k * COUNT + i * MOST_STEPS + l->sequence[k]++] = 1;
    work->seconds = l->seconds * weft_random_between(&c->fate.random, 0.8, 1.2);
    work->parts = c->parts;
    work->part_count = c->servers - 1;
    for (int k = 0; k < work->part_count; k++) c->parts[k] = (double)(k + 1) / c->servers;
    return WEFT_OK;
}

static bool may_end(chaos *c, weft_actor_id id)
{
    bool excused = id >= FIRST_LEARNER ? c->lives[id - FIRST_LEARNER].excused
                                       : c->server_excused[id - FIRST_SERVER];
    if (strstr(weft_last_message(), "this run is over")) return true;   /* joined too late */
    if (strstr(weft_last_message(), "there is a learner")) return true; /* weft join would retry */
    const weft_actor *coordinator = weft_sim_actor(c->fate.sim, WEFT_COORDINATOR);
    bool alone = strstr(weft_last_message(), "no message from the coordinator or another member");
    if (alone && coordinator && coordinator->done) return true; /* also too late */
    if (!strstr(weft_last_message(), "is lost, and with it range")) return excused;
    c->stale = c->stale || excused;
    return c->lost || c->stale;
}

weft_status add_learner(chaos *c, double at)
{
    if (c->learner_lives == LIVES) return WEFT_OK;
    life *l = &c->lives[c->learner_lives];
    l->seconds = weft_random_between(&c->fate.random, 0.5, 2);
    if (weft_random_u32(&c->fate.random) % 8 == 0) l->seconds *= 5;
    l->slot_wish = c->learner_lives < c->learners ? c->learner_lives : -1;
    tell(&c->fate, "%8.2f learner %d begins\n", at, FIRST_LEARNER + c->learner_lives);
    return weft_sim_add(c->fate.sim, (weft_actor_id)(FIRST_LEARNER + c->learner_lives++), at);
}

static weft_status failed(void *user, weft_actor_id id, weft_status status)
{
    chaos *c = user;
    (void)status;
    tell(&c->fate, "         %s\n", weft_last_message());
    if (id == WEFT_COORDINATOR || !may_end(c, id)) wrong(&c->fate, "%s", weft_last_message());
    /* A new learner replaces the one that failed, as a supervisor would start it. */
    bool over = strstr(weft_last_message(), "this run is over") ||
                strstr(weft_last_message(), "no message from the coordinator or another member");
    return id >= FIRST_LEARNER && !c->lost && !c->stale && !over
               ? add_learner(c, weft_sim_stats(c->fate.sim).now + 1)
               : WEFT_OK;
}

/* --- invariants, checked every quarter of a second --- */

static void look_at_learners(chaos *c)
{
    for (int i = 0; i < c->learner_lives; i++) {
        const weft_actor *a = learner_at(c, i);
        for (int k = 0; a && k < c->servers; k++)
            c->lives[i].acknowledged[k] = weft_ps_client_acknowledged(a, k);
    }
}

static void look_at_range(chaos *c, weft_range *r, int server)
{
    const double *marks = weft_range_parameters(r);
    int64_t most = 0, slowest = weft_range_slowest(r);
    weft_actor_id id;
    for (int i = 0; i < COUNT; i++)
        if (marks[i] > 1)
            wrong(&c->fate, "server %d has applied update %d of learner %d %g times", server,
                  i % MOST_STEPS + 1, FIRST_LEARNER + i / MOST_STEPS, marks[i]);
    for (int i = 0; weft_range_learner_at(r, i, &id); i++)
        most = WEFT_MAX(most, weft_range_clock(r, id));
    if (c->policy.bound != WEFT_NO_BOUND && most > slowest + c->policy.bound + 1)
        wrong(&c->fate, "clocks of server %d are %lld and %lld", server, (long long)slowest,
              (long long)most);
}

static void look(void *user)
{
    chaos *c = user;
    look_at_learners(c);
    for (int s = 0; s < c->server_lives; s++) {
        const weft_actor *a = weft_sim_actor(c->fate.sim, (weft_actor_id)(FIRST_SERVER + s));
        for (int k = 0; a && k < c->servers; k++) {
            weft_range *r = weft_server_range_of(a, k, false);
            if (r) look_at_range(c, r, FIRST_SERVER + s);
        }
    }
}

/* --- a run --- */

static void draw(chaos *c)
{
    static const char *const names[] = {"bsp", "async", "softsync", "ssp"};
    weft_random_start(&c->fate.random, c->fate.seed, 1);
    int policy = pick(&c->fate, 4);
    c->policy_name = names[policy];
    c->learners = 1 + pick(&c->fate, MOST_LEARNERS);
    c->servers = 1 + pick(&c->fate, MOST_SERVERS);
    c->steps = 5 + pick(&c->fate, MOST_STEPS - 8);
    c->replicas = c->servers > 1 && pick(&c->fate, 4) != 0;
    must(weft_policy_make(context, names[policy],
                          policy == 2 ? 1 + pick(&c->fate, c->learners) : -1,
                          policy == 3 ? pick(&c->fate, 4) : -1, NULL, -1, &c->policy));
    c->link = draw_link(
        &c->fate, (weft_sim_link){.jitter = 0.3, .lost = 0.2, .twice = 0.2, .reordered = 0.3});
}

/* Whether the actor has no view: it wants to join, but no run exists. A real process would give up
 * after a timeout. */
static bool waits_outside(const weft_actor *a, weft_actor_id id)
{
    const weft_member *m = id >= FIRST_LEARNER ? weft_ps_client_member(a) : weft_server_member(a);
    return weft_member_view(m)->number == 0;
}

static bool has_ended(const void *user)
{
    const chaos *c = user;
    const weft_actor *coordinator = coordinator_of(&c->fate);
    if (coordinator && weft_coordinator_view(coordinator)->running) return false;
    for (int i = 0; i < c->learner_lives + c->server_lives; i++) {
        int id = i < c->learner_lives ? FIRST_LEARNER + i : FIRST_SERVER + i - c->learner_lives;
        const weft_actor *a = weft_sim_actor(c->fate.sim, (weft_actor_id)id);
        if (a && !a->done && !waits_outside(a, (weft_actor_id)id)) return false;
    }
    return true;
}

/* The newest copy of range k that a server has at the end, be it a replica whose primary is lost.
 * All learners have ended, but a lost server may not have told the range so. They leave the range
 * here, so that the updates that waited for them count. */
static weft_range *last_of(const chaos *c, int k)
{
    weft_range *best = NULL;
    weft_actor_id learner;
    for (int s = 0; s < c->server_lives; s++) {
        const weft_actor *a = weft_sim_actor(c->fate.sim, (weft_actor_id)(FIRST_SERVER + s));
        weft_range *r = a ? weft_server_range_of(a, k, false) : NULL;
        if (r && (!best || weft_range_version(r) > weft_range_version(best))) best = r;
    }
    while (best && weft_range_learner_at(best, 0, &learner)) must(weft_range_leave(best, learner));
    return best;
}

static void tell_all(const chaos *c)
{
    const weft_actor *coordinator = weft_sim_actor(c->fate.sim, WEFT_COORDINATOR);
    const weft_view *v = coordinator ? weft_coordinator_view(coordinator) : NULL;
    if (v)
        tell(&c->fate, "coordinator: view %lld of %zu%s%s%s\n", (long long)v->number,
             v->member_count, v->running ? ", running" : "", v->over ? ", over" : "",
             v->fault ? v->fault : "");
    for (int i = 0; i < c->learner_lives; i++) {
        const weft_actor *a = learner_at(c, i);
        if (a && !a->done)
            tell(&c->fate, "learner %u: view %lld, clock %lld%s: %s\n", a->id,
                 (long long)weft_member_view(weft_ps_client_member(a))->number,
                 (long long)weft_ps_client_clock(a), weft_ps_client_is_waiting(a) ? ", waits" : "",
                 weft_ps_client_timeout_error(a, END) == WEFT_OK ? "" : weft_last_message());
    }
    for (int s = 0; s < c->server_lives; s++) {
        const weft_actor *a = weft_sim_actor(c->fate.sim, (weft_actor_id)(FIRST_SERVER + s));
        if (a && !a->done)
            tell(&c->fate, "server %u: view %lld\n", a->id,
                 (long long)weft_member_view(weft_server_member(a))->number);
    }
}

/* Whether another learner has replaced the last update of learner i: with one update of each slot
 * in a version, a learner that takes the slot computes its first step again. */
static bool was_replaced(const chaos *c, const double *marks, int i)
{
    for (int k = i + 1; k < c->learner_lives && c->policy.count == 0; k++)
        if (c->lives[k].slot == c->lives[i].slot && marks[k * MOST_STEPS] == 1) return true;
    return false;
}

static void judge(chaos *c)
{
    size_t room = (size_t)(c->learners + c->servers) * COUNT * sizeof(double);
    if (!has_ended(c)) tell_all(c);
    if (!has_ended(c)) wrong(&c->fate, "it hangs: at %g s somebody still waits", END);
    c->report = weft_sim_stats(c->fate.sim);
    if (c->report.most_bytes > 200 * room)
        wrong(&c->fate, "messages of %zu bytes were under way at once", c->report.most_bytes);
    for (int k = 0; k < c->servers && !c->lost && !*c->fate.why; k++) {
        weft_range *r = last_of(c, k);
        for (int i = 0; !r && i < c->learner_lives; i++)
            if (c->lives[i].acknowledged[k] > 0) wrong(&c->fate, "nobody has range %d", k);
        if (!r) continue; /* too few members joined, and the run never began */
        const double *marks = weft_range_parameters(r);
        for (int i = 0; i < c->learner_lives; i++)
            for (int64_t s = 0; s < c->lives[i].acknowledged[k]; s++)
                if (marks[i * MOST_STEPS + s] != 1 &&
                    !(s + 1 == c->lives[i].acknowledged[k] && was_replaced(c, marks, i)))
                    wrong(&c->fate,
                          "update %lld of learner %d in range %d was acknowledged and is lost",
                          (long long)s + 1, FIRST_LEARNER + i, k);
    }
}

static uint64_t play(fate *f)
{
    chaos now = {.fate = *f}, *c = &now;
    static const fault_plan plan = {
        .most = FAULTS, .gap = 15, .end = END, .look = look, .hit = hit, .has_ended = has_ended};
    must(WEFT_NEW(&c->lives, LIVES));
    draw(c);
    for (int k = 0; k < c->servers; k++) c->needs[k] = weft_random_unit(&c->fate.random) / 2;
    bool early = pick(&c->fate, 2);
    begin_sim(&c->fate, (weft_sim_options){.link = c->link,
                                           .make = make,
                                           .compute = compute,
                                           .failed = failed,
                                           .user = c,
                                           .needs = early ? c->needs : NULL,
                                           .need_count = early ? c->servers : 0});
    tell(&c->fate, "seed %llu: %s, %d learners, %d servers, %d steps%s, lost %.2f\n",
         (unsigned long long)c->fate.seed, c->policy_name, c->learners, c->servers, c->steps,
         c->replicas ? ", replicas" : "", c->link.lost);
    for (int k = 0; k < c->servers; k++)
        must(weft_sim_add(c->fate.sim, (weft_actor_id)(FIRST_SERVER + c->server_lives++), 0.1 * k));
    for (int i = 0; i < c->learners; i++) must(add_learner(c, 0));
    play_faults(&c->fate, &plan, c);
    judge(c);
    for (int i = 0; i < LIVES; i++)
        for (int k = 0; k < MOST_SERVERS; k++) weft_codec_close(&c->lives[i].reach[k].codec);
    weft_sim_destroy(&c->fate.sim);
    free(c->lives);
    c->fate.count = c->lost;
    *f = c->fate;
    return c->report.digest;
}

static void test_chaos(void **state)
{
    (void)state;
    play_all(300, play, "that lost a range without a replica");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_chaos)};
    return cmocka_run_group_tests_name("chaos", tests, setup, teardown);
}
