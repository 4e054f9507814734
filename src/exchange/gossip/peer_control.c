/* The calls by which a learner controls its peer (finish, leave) and reads its state. */
#include "exchange/elastic.h"
#include "exchange/gossip/peer_internal.h"

weft_status weft_peer_finish(weft_actor *actor, bool halt)
{
    weft_peer *p = (weft_peer *)actor;
    p->computing = false;
    p->options.steps = p->clock;
    p->requests_halt = halt;
    return p->member ? weft_peer_advance(p) : weft_peer_broadcast_end(p, halt);
}

weft_status weft_peer_leave_now(weft_actor *actor)
{
    weft_peer *p = (weft_peer *)actor;
    p->computing = false;
    p->leaves_now = true;
    return weft_peer_advance(p);
}

void weft_peer_forget_updates(weft_actor *actor)
{
    weft_broadcast *u = &((weft_peer *)actor)->broadcast;
    weft_update_log_free(u);
    u->log = NULL;
    u->log_first = u->log_capacity = 0;
}

weft_status weft_peer_release_hold(weft_actor *actor)
{
    weft_peer *p = (weft_peer *)actor;
    p->hold_released = true;
    return weft_peer_advance(p);
}

int weft_peer_mean_contributors(const weft_actor *actor)
{
    return ((const weft_peer *)actor)->final_average.contributors;
}

bool weft_peer_is_leaving(const weft_actor *actor)
{
    return ((const weft_peer *)actor)->leaves_now || ((const weft_peer *)actor)->leaving;
}

void weft_peer_set_stats(weft_actor *actor, const weft_step_result *result)
{
    weft_peer *p = (weft_peer *)actor;
    weft_elastic_note_step(&p->stats, result);
    if (p->member) weft_member_set_stats(p->member, &p->stats);
}

const weft_member *weft_peer_member(const weft_actor *actor)
{
    return ((const weft_peer *)actor)->member;
}

weft_status weft_peer_timeout_error(const weft_actor *actor, double seconds)
{
    const weft_peer *p = (const weft_peer *)actor;
    if (p->member && weft_member_view(p->member)->number == 0)
        return weft_member_timeout_error(p->member, seconds);
    if (!p->has_state)
        return weft_fail(
            WEFT_ERR_PEER,
            "none of the %d other peers has sent this peer the state of the run for %g s",
            p->peers - 1, seconds);
    return weft_fail(WEFT_ERR_PEER, "no message from another peer for %g s after step %lld",
                     seconds, (long long)(p->member ? weft_member_step(p->member) : p->clock));
}

bool weft_peer_halted(const weft_actor *actor)
{
    return ((const weft_peer *)actor)->broadcast.halted;
}

bool weft_peer_is_computing(const weft_actor *actor)
{
    return ((const weft_peer *)actor)->computing;
}

int64_t weft_peer_clock(const weft_actor *actor)
{
    return ((const weft_peer *)actor)->clock;
}

bool weft_peer_finished(const weft_actor *actor)
{
    const weft_peer *p = (const weft_peer *)actor;
    bool holds = p->options.job && !p->leaves_now && p->member && weft_member_slot(p->member) == 0;
    if (p->member) return p->leaving || (holds && weft_final_average_all_have(p));
    return p->clock == p->options.steps && weft_peer_has_all_updates(p);
}

const void *weft_peer_parameters(const weft_actor *actor)
{
    return ((const weft_peer *)actor)->current;
}
