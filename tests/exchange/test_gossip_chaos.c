/*
 * Simulates elastic gossip peers that join, leave, die, sleep and are cut off at random, with a
 * coordinator that may die for good. Whatever happens, each run ends, and a replica has each update
 * once or not at all. Peers that end together have the same updates, also those of dead peers, and
 * the same mean, to the bit (gossip_chaos_checks.c).
 *
 * Every update has a mark of its own, which is added to one number of the parameters. WEFT_CHAOS
 * and WEFT_CHAOS_SEED: see random_runs.h.
 */
#include "gossip_chaos.h"
#include "one_context.h"
#include "peer_fixture.h"

/* --- actors --- */

static weft_status make(void *user, weft_actor_id id, int again, weft_actor **out)
{
    chaos *c = user;
    if (id == WEFT_COORDINATOR)
        return coordinator_of_peers(c->fate.seed * 100 + (uint64_t)again, c->peers, LIMIT, out);
    life *l = &c->life[id - FIRST];
    WEFT_TRY(weft_codec_open(context, "none", WEFT_F64, COUNT, &l->codec));
    weft_peer_options options = joining_peer(id, COUNT, l->w, l->codec, c->steps);
    options.mode = c->mode;
    options.topology_name = c->topology_name;
    options.backlog = c->backlog;
    return weft_peer_create(&options, out);
}

static weft_status compute(void *user, weft_actor *actor, int64_t ticket, weft_sim_work *work)
{
    chaos *c = user;
    int i = (int)actor->id - FIRST;
    life *l = &c->life[i];
    (void)ticket;
    if (l->made >= MOST_STEPS)
        return weft_fail(WEFT_ERR_INTERNAL, "peer %d makes too many steps", i);
    l->w[i * MOST_STEPS + l->made++] += 1;
    work->seconds = l->seconds * weft_random_between(&c->fate.random, 0.8, 1.2);
    return WEFT_OK;
}

/* Gives the least clock of the peers that are alive, and the id of their run; 0: none is. */
static int64_t least_clock(const chaos *c, uint64_t *run)
{
    int64_t least = INT64_MAX;
    for (int i = 0; i < c->lives; i++) {
        const weft_actor *a = peer_at(c, i);
        if (!a || a->done || c->life[i].gone > 0) continue;
        least = WEFT_MIN(least, weft_peer_clock(a));
        *run = weft_member_view(weft_peer_member(a))->run;
    }
    return least == INT64_MAX ? 0 : least;
}

static weft_status add_peer(chaos *c, double at)
{
    if (c->lives == LIVES) return WEFT_OK;
    life *l = &c->life[c->lives];
    l->seconds = weft_random_between(&c->fate.random, 0.5, 2);
    if (pick(&c->fate, 8) == 0) l->seconds *= 5;
    l->begins = at;
    l->found = least_clock(c, &l->run);
    tell(&c->fate, "%8.2f peer %d begins\n", at, c->lives);
    return weft_sim_add(c->fate.sim, (weft_actor_id)(FIRST + c->lives++), at);
}

static weft_status failed(void *user, weft_actor_id id, weft_status status)
{
    chaos *c = user;
    const char *why = weft_last_message();
    const weft_actor *coordinator = weft_sim_actor(c->fate.sim, WEFT_COORDINATOR);
    bool late = strstr(why, "this run is over") ||
                (strstr(why, "no message from the coordinator or another member") &&
                 (!coordinator || coordinator->done));
    (void)status;
    /* A restarted coordinator takes the first peers that it hears of for a run of its own, and
     * rejects others. */
    late = late || strstr(why, "it is not a member of this coordinator's run");
    late = late || (strstr(why, "learner is left that has the state of the run") &&
                    id != WEFT_COORDINATOR && state_is_lost(c, id));
    tell(&c->fate, "         peer %d: %s\n", (int)id - FIRST, why);
    if (id == WEFT_COORDINATOR || (!c->life[id - FIRST].excused && !late))
        wrong(&c->fate, "%s", why);
    return late ? WEFT_OK : add_peer(c, weft_sim_stats(c->fate.sim).now + 1);
}

/* --- faults --- */

/* Draws a peer that is alive and has not ended; negative: there is none. */
static int pick_peer(chaos *c)
{
    return (int)pick_alive(&c->fate, FIRST, c->lives) - FIRST;
}

static void hit_peer(chaos *c, double at)
{
    int i = pick_peer(c);
    double until = at + weft_random_between(&c->fate.random, 0.5, 2.5 * LIMIT);
    bool sleeps = pick(&c->fate, 4) == 0;
    if (i < 0) return;
    c->fate.quiet = WEFT_MAX(c->fate.quiet, until + 6 * LIMIT);
    c->life[i].excused = true;
    stop_actor(&c->fate, (weft_actor_id)(FIRST + i), sleeps, at, until);
    if (!sleeps && pick(&c->fate, 2)) must(add_peer(c, until));
}

static void let_go(chaos *c, double at)
{
    int i = pick_peer(c);
    if (i < 0) return;
    tell(&c->fate, "%8.2f peer %d is to leave\n", at, i);
    c->life[i].quits = true;
    must(weft_peer_leave_now(peer_at(c, i)));
}

static void hit_coordinator(chaos *c, double at)
{
    double until = at + weft_random_between(&c->fate.random, 0.5, 3 * LIMIT);
    int how = pick(&c->fate, 3); /* 2: it dies for good */
    if (!coordinator_of(&c->fate)) return;
    c->fate.quiet = WEFT_MAX(c->fate.quiet, until + 6 * LIMIT);
    stop_actor(&c->fate, WEFT_COORDINATOR, how == 0, at, until);
    if (how == 1) must(weft_sim_restart(c->fate.sim, WEFT_COORDINATOR, until));
    c->orphaned = c->orphaned || how == 2;
}

/* Cuts the coordinator off from everybody, mostly for longer than the failure timeout, but not so
 * long that members who wait give up (300 heartbeats). That excuses no one: it takes nobody for
 * lost, and all go on. */
static void isolate_coordinator(chaos *c, double at)
{
    static const double lengths[] = {0.7, 1.5, 4, 12, 27};
    double most = lengths[pick(&c->fate, 5)] * LIMIT;
    double until = at + weft_random_between(&c->fate.random, most / 2, most);
    if (!coordinator_of(&c->fate)) return;
    c->fate.quiet = WEFT_MAX(c->fate.quiet, until + 6 * LIMIT);
    tell(&c->fate, "%8.2f the coordinator has no network until %g\n", at, until);
    isolate(&c->fate, FIRST, LIVES, at, until);
}

static void cut_line(chaos *c, double at)
{
    int a = pick_peer(c), b = pick(&c->fate, 2) ? -1 : pick_peer(c);
    double until = at + weft_random_between(&c->fate.random, 0.5, 2 * LIMIT);
    if (a < 0 || a == b) return;
    if (b >= 0 && pick(&c->fate, 2)) until += 8 * LIMIT; /* longer than updates are logged */
    c->life[a].excused = true;
    if (b >= 0) c->life[b].excused = true;
    c->fate.quiet = WEFT_MAX(c->fate.quiet, until + 6 * LIMIT);
    tell(&c->fate, "%8.2f no line between %d and %d until %g\n", at, a, b, until);
    must(weft_sim_cut(c->fate.sim, (weft_actor_id)(FIRST + a),
                      b < 0 ? WEFT_COORDINATOR : (weft_actor_id)(FIRST + b), at, until));
}

static bool hit(void *user, double at)
{
    chaos *c = user;
    switch (pick(&c->fate, 9)) {
    case 0:
    case 1:
    case 2: hit_peer(c, at); break;
    case 3: let_go(c, at); break;
    case 4: hit_coordinator(c, at); break;
    case 7: isolate_coordinator(c, at); break;
    case 5:
    case 6: must(add_peer(c, at)); break;
    default: cut_line(c, at); break;
    }
    return true;
}

/* --- a run --- */

static void draw(chaos *c)
{
    static const char *const shapes[] = {"all", "ring", "torus", "random"};
    weft_random_start(&c->fate.random, c->fate.seed, 1);
    c->mode = pick(&c->fate, 4) ? &weft_peer_updates : &weft_peer_average;
    c->topology_name = shapes[pick(&c->fate, 4)];
    c->peers = 1 + pick(&c->fate, MOST_PEERS);
    c->steps = 5 + pick(&c->fate, MOST_STEPS - 5);
    c->backlog = pick(&c->fate, 3) * COUNT * sizeof(double);
    c->link = draw_link(
        &c->fate, (weft_sim_link){.jitter = 0.2, .lost = 0.1, .twice = 0.2, .reordered = 0.1});
}

static uint64_t play(fate *f)
{
    chaos now = {.fate = *f}, *c = &now;
    static const fault_plan plan = {
        .most = FAULTS, .gap = 10, .end = END, .look = look, .hit = hit, .has_ended = has_ended};
    must(WEFT_NEW(&c->life, LIVES));
    draw(c);
    begin_sim(&c->fate,
              (weft_sim_options){
                  .link = c->link, .make = make, .compute = compute, .failed = failed, .user = c});
    tell(&c->fate, "seed %llu: %s, %s, %d peers, %d steps, lost %.2f\n",
         (unsigned long long)c->fate.seed, c->mode == &weft_peer_updates ? "updates" : "average",
         c->topology_name, c->peers, c->steps, c->link.lost);
    for (int i = 0; i < c->peers; i++) must(add_peer(c, 0.1 * i));
    play_faults(&c->fate, &plan, c);
    judge(c);
    weft_sim_destroy(&c->fate.sim);
    for (int i = 0; i < LIVES; i++) weft_codec_close(&c->life[i].codec);
    free(c->life);
    *f = c->fate;
    return c->report.digest;
}

static void test_chaos(void **state)
{
    (void)state;
    play_all(400, play, "means alike");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_chaos)};
    return cmocka_run_group_tests_name("chaos of peers", tests, setup, teardown);
}
