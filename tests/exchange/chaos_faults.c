/* Random faults of a simulated run: learners, servers and the coordinator die, sleep or are cut
 * off. */
#include "chaos.h"

weft_actor *learner_at(const chaos *c, int i)
{
    return weft_sim_actor(c->fate.sim, (weft_actor_id)(FIRST_LEARNER + i));
}

/* Whether the run survives the loss of any one server: each range is in sync, and its primary and
 * its replica are both there. */
static bool is_safe(const chaos *c)
{
    const weft_actor *a = weft_sim_actor(c->fate.sim, WEFT_COORDINATOR);
    const weft_view *v = a ? weft_coordinator_view(a) : NULL;
    if (!v || !v->running || v->over) return false;
    for (int k = 0; k < v->range_count; k++)
        if (!v->ranges[k].in_sync || !weft_sim_actor(c->fate.sim, v->ranges[k].primary) ||
            !weft_sim_actor(c->fate.sim, v->ranges[k].replica))
            return false;
    return true;
}

static void hit_learner(chaos *c, double at)
{
    weft_actor_id id = pick_alive(&c->fate, FIRST_LEARNER, c->learner_lives);
    if (!id) return;
    bool sleeps = pick(&c->fate, 3) == 0;
    double until = at + weft_random_between(&c->fate.random, 0.5, 2.5 * LIMIT);
    c->fate.quiet = WEFT_MAX(c->fate.quiet, until + 3 * LIMIT);
    c->lives[id - FIRST_LEARNER].excused = true;
    stop_actor(&c->fate, id, sleeps, at, until);
    int alive = 0;
    for (int i = 0; i < c->learner_lives; i++)
        alive += learner_at(c, i) && (weft_actor_id)(FIRST_LEARNER + i) != id;
    if (!sleeps && (alive == 0 || pick(&c->fate, 2))) must(add_learner(c, until));
}

static void hit_server(chaos *c, double at)
{
    weft_actor_id id = pick_alive(&c->fate, FIRST_SERVER, c->server_lives);
    bool safe = is_safe(c) && at > c->calm;
    if (!id || (c->replicas && !safe) || (!c->replicas && pick(&c->fate, 4))) return;
    bool sleeps = c->replicas && pick(&c->fate, 3) == 0;
    double until = at + weft_random_between(&c->fate.random, 0.5, 2.5 * LIMIT);
    c->fate.quiet = WEFT_MAX(c->fate.quiet, until + 3 * LIMIT);
    c->server_excused[id - FIRST_SERVER] = true;
    c->lost = !c->replicas;
    /* Until then this server is removed from the view or awake; only one is hit at a time. */
    c->calm = until + 2 * LIMIT;
    stop_actor(&c->fate, id, sleeps, at, until);
    if (c->lost || c->server_lives == SERVER_LIVES || pick(&c->fate, 3) == 0) return;
    must(weft_sim_add(c->fate.sim, (weft_actor_id)(FIRST_SERVER + c->server_lives++), until));
}

static void hit_coordinator(chaos *c, double at)
{
    double until = at + weft_random_between(&c->fate.random, 0.5, 3 * LIMIT);
    if (!coordinator_of(&c->fate)) return;
    bool sleeps = pick(&c->fate, 3) == 0;
    c->fate.quiet = WEFT_MAX(c->fate.quiet, until + 3 * LIMIT);
    stop_actor(&c->fate, WEFT_COORDINATOR, sleeps, at, until);
    /* The members may lack the last view of a coordinator that dies while it has no network. */
    c->stale = c->stale || (!sleeps && at < c->isolated);
    if (!sleeps) must(weft_sim_restart(c->fate.sim, WEFT_COORDINATOR, until));
}

/* Cuts the coordinator off from everybody, mostly for longer than the failure timeout, but not so
 * long that members who wait give up (300 heartbeats). That excuses no one: it takes nobody for
 * lost, and all go on. */
static void isolate_coordinator(chaos *c, double at)
{
    static const double lengths[] = {0.7, 1.5, 4, 9, 18};
    double most = lengths[pick(&c->fate, 5)] * LIMIT;
    double until = at + weft_random_between(&c->fate.random, most / 2, most);
    if (!coordinator_of(&c->fate)) return;
    c->fate.quiet = WEFT_MAX(c->fate.quiet, until + 3 * LIMIT);
    c->isolated = WEFT_MAX(c->isolated, until);
    tell(&c->fate, "%8.2f the coordinator has no network until %g\n", at, until);
    isolate(&c->fate, FIRST_LEARNER, LIVES, at, until);
    isolate(&c->fate, FIRST_SERVER, SERVER_LIVES, at, until);
}

/* Cuts the link between two actors. A learner that is cut off from the coordinator for longer than
 * the failure timeout is removed from the view, so a cut excuses the learner. */
static void cut_line(chaos *c, double at)
{
    weft_actor_id a = pick_alive(&c->fate, FIRST_LEARNER, c->learner_lives);
    weft_actor_id b =
        pick(&c->fate, 2) ? WEFT_COORDINATOR : pick_alive(&c->fate, FIRST_SERVER, c->server_lives);
    double until = at + weft_random_between(&c->fate.random, 0.5, 2 * LIMIT);
    /* A server has no excuse, so its cut is shorter than the failure timeout. */
    if (pick(&c->fate, 3) == 0) {
        a = pick_alive(&c->fate, FIRST_SERVER, c->server_lives);
        until = WEFT_MIN(until, at + LIMIT / 3);
    } else if (a) {
        c->lives[a - FIRST_LEARNER].excused = true;
    }
    if (!a || a == b) return;
    tell(&c->fate, "%8.2f no line between %u and %u until %g\n", at, a, b, until);
    must(weft_sim_cut(c->fate.sim, a, b, at, until));
}

bool hit(void *user, double at)
{
    chaos *c = user;
    switch (pick(&c->fate, 7)) {
    case 0:
    case 1: hit_learner(c, at); break;
    case 2:
    case 3: hit_server(c, at); break;
    case 4: hit_coordinator(c, at); break;
    case 5: isolate_coordinator(c, at); break;
    default: cut_line(c, at); break;
    }
    return !c->lost;
}
