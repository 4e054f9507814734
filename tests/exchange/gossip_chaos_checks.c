/* Checks a random run of gossip peers: a replica has each update once or not at all, and peers that
 * end together have the same updates and the same mean, to the bit. */
#include "gossip_chaos.h"

weft_actor *peer_at(const chaos *c, int i)
{
    return weft_sim_actor(c->fate.sim, (weft_actor_id)(FIRST + i));
}

bool state_is_lost(const chaos *c, weft_actor_id id)
{
    for (int i = 0; i < c->lives; i++) {
        const weft_actor *a = peer_at(c, i);
        if (a && !a->done && weft_peer_clock(a) > 0 && c->life[id - FIRST].near[i] &&
            !c->life[i].excused)
            return false;
    }
    return c->life[id - FIRST].begins > 1;
}

/* --- checks during a run --- */

static bool has(const chaos *c, int peer, int of, int update)
{
    const double *now = weft_peer_parameters(peer_at(c, peer));
    return now[of * MOST_STEPS + update] == 1;
}

static void look_at(chaos *c, int i)
{
    life *l = &c->life[i];
    const weft_actor *a = peer_at(c, i);
    const double *now = weft_peer_parameters(a);
    for (int k = 0; k < COUNT && c->mode == &weft_peer_updates; k++)
        if (now[k] != 0 && now[k] != 1)
            wrong(&c->fate, "peer %d has update %d of peer %d %g times", i, k % MOST_STEPS,
                  k / MOST_STEPS, now[k]);
    if (l->gone > 0) return;
    if (weft_peer_finished(a)) {
        l->gone = weft_sim_stats(c->fate.sim).now;
        tell(&c->fate, "%8.2f peer %d goes after %d updates, clock %lld\n", l->gone, i, l->made,
             (long long)weft_peer_clock(a));
        return;
    }
    int64_t reached = weft_peer_clock(a);
    /* The coordinator learns of steps by heartbeats, so the first steps of a run may be lost. */
    if (l->begins > 1 && l->found > 6 && reached > 0 && reached <= l->made &&
        weft_member_view(weft_peer_member(a))->run == l->run)
        wrong(&c->fate, "peer %d begins at step 0 of a run that had come to step %lld", i,
              (long long)l->found);
    const weft_view *v = weft_member_view(weft_peer_member(a));
    for (int k = 0; k < c->lives; k++) l->near[k] = weft_view_find(v, (weft_actor_id)(FIRST + k));
}

void look(void *user)
{
    chaos *c = user;
    for (int i = 0; i < c->lives; i++)
        if (peer_at(c, i)) look_at(c, i);
}

/* --- checks at the end of a run --- */

/* A peer that begins when there is no coordinator, or no run, waits, until its host gives up. */
static bool waits_outside(const chaos *c, int i)
{
    const weft_actor *coordinator = coordinator_of(&c->fate);
    bool none = !coordinator || !weft_coordinator_view(coordinator)->running;
    return none && weft_member_view(weft_peer_member(peer_at(c, i)))->number == 0;
}

bool has_ended(const void *user)
{
    const chaos *c = user;
    for (int i = 0; i < c->lives; i++) {
        if (!peer_at(c, i) && weft_sim_stats(c->fate.sim).now <= c->life[i].begins) return false;
        if (peer_at(c, i) && !peer_at(c, i)->done && !waits_outside(c, i)) return false;
    }
    return true;
}

/* Whether the peer has ended with the run, and no fault may have separated it from the others. */
static bool counts(const chaos *c, int i)
{
    return peer_at(c, i) && c->life[i].gone > 0 && !c->life[i].quits && !c->life[i].excused;
}

static void compare(chaos *c, int a, int b)
{
    double both = WEFT_MIN(c->life[a].gone, c->life[b].gone);
    if (!c->life[a].near[b] || !c->life[b].near[a]) return;
    for (int i = 0; i < c->lives; i++) {
        if (c->life[i].begins > both - 3 * LIMIT) continue;
        for (int k = 0; k < c->life[i].made; k++)
            if (has(c, a, i, k) != has(c, b, i, k))
                tell(&c->fate, "  update %d of %d: %d has %d, %d has %d; begun %g\n", k, i, a,
                     has(c, a, i, k), b, has(c, b, i, k), c->life[i].begins);
        for (int k = 0; k < c->life[i].made; k++)
            if (has(c, a, i, k) != has(c, b, i, k))
                wrong(&c->fate, "of peers %d and %d only one has update %d of peer %d", a, b, k, i);
    }
}

/* Two peers that had each other in their views must end with the same mean. */
static void compare_ends(chaos *c, int a, int b)
{
    const weft_actor *x = peer_at(c, a), *y = peer_at(c, b);
    if (!c->life[a].near[b] || !c->life[b].near[a]) return;
    if (weft_peer_mean_contributors(x) == 0 || weft_peer_mean_contributors(y) == 0)
        wrong(&c->fate, "peers %d and %d end without a mean", a, b);
    else if (memcmp(weft_peer_parameters(x), weft_peer_parameters(y), COUNT * sizeof(double)) != 0)
        wrong(&c->fate, "peers %d and %d end with different means, of %d and of %d", a, b,
              weft_peer_mean_contributors(x), weft_peer_mean_contributors(y));
    c->fate.count++;
}

void judge(chaos *c)
{
    for (int i = 0; i < c->lives; i++) {
        const weft_actor *a = peer_at(c, i);
        if (!a || a->done) continue;
        const weft_view *v = weft_member_view(weft_peer_member(a));
        tell(&c->fate, "peer %d: view %lld of %zu, clock %lld%s: %s\n", i, (long long)v->number,
             v->member_count, (long long)weft_peer_clock(a),
             weft_peer_is_computing(a) ? ", computes" : "",
             weft_peer_timeout_error(a, END) == WEFT_OK ? "" : weft_last_message());
    }
    if (!has_ended(c)) wrong(&c->fate, "it hangs: at %g s somebody still waits", END);
    c->report = weft_sim_stats(c->fate.sim);
    if (c->report.most_bytes > 2000 * COUNT * sizeof(double))
        wrong(&c->fate, "messages of %zu bytes were under way at once", c->report.most_bytes);
    for (int i = 0; i < c->lives; i++)
        for (int j = 0; j < i && counts(c, i); j++)
            if (counts(c, j)) compare_ends(c, i, j);
    for (int i = 0; i < c->lives && c->mode == &weft_peer_updates; i++) {
        if (!counts(c, i)) continue;
        for (int k = 0; k < c->life[i].made; k++)
            if (!has(c, i, i, k)) wrong(&c->fate, "peer %d lacks its own update %d", i, k);
        for (int j = 0; j < i; j++)
            if (counts(c, j)) compare(c, i, j);
    }
}
