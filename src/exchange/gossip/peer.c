/* The peer actor of both gossip modes: it requests computations on a copy of its parameters,
 * dispatches messages to their handlers, retransmits by a timer, and decides when it leaves. */
#include "exchange/gossip/peer_internal.h"
#include "gossip.pb-c.h"

enum { RESEND_TIMER = 0 };

#define MOVE(type)                                                                                 \
    do {                                                                                           \
        type *t = to;                                                                              \
        const type *x = a, *y = b;                                                                 \
        for (int64_t i = 0; i < peer->options.count; i++)                                          \
            t[i] += (type)scale * (y ? x[i] - y[i] : x[i]);                                        \
    } while (0)

void weft_peer_add_scaled(const weft_peer *peer, void *to, double scale, const void *a,
                          const void *b)
{
    if (peer->options.dtype == WEFT_F64)
        MOVE(double);
    else
        MOVE(float);
}

int weft_peer_index(const weft_peer *p, weft_actor_id id)
{
    for (int i = 0; i < p->peers; i++)
        if (p->ids[i] == id) return i;
    return -1;
}

weft_link *weft_peer_link(const weft_peer *p, weft_actor_id id)
{
    for (int i = 0; i < p->neighbour_count; i++)
        if (p->broadcast.links[i].to == id) return &p->broadcast.links[i];
    return NULL;
}

weft_status weft_peer_arm_timer(weft_peer *p)
{
    if (p->timer_armed) return WEFT_OK;
    p->timer_armed = true;
    return weft_actor_set_timer(&p->head, RESEND_TIMER, p->options.min_rto);
}

/* --- from step to step --- */

static void set_clock(weft_peer *p, int64_t clock)
{
    p->clock = p->stats.clock = clock;
    if (p->member) weft_member_set_stats(p->member, &p->stats);
}

weft_status weft_peer_broadcast_end(weft_peer *p, bool halt)
{
    p->ended = true;
    return weft_broadcast_send(p, NULL, halt);
}

bool weft_peer_has_all_updates(const weft_peer *p)
{
    return weft_broadcast_all_ended(p) && !(p->mode->is_waiting && p->mode->is_waiting(p));
}

/* Sets version_hash, which tells other peers that this one has every update; sends heartbeats if it
 * has changed. */
static weft_status update_version_hash(weft_peer *p)
{
    uint64_t hash = p->ended && weft_peer_has_all_updates(p) ? weft_broadcast_version_hash(p) : 0;
    if (hash == p->version_hash) return WEFT_OK;
    p->version_hash = hash;
    return weft_peer_send_heartbeat(p);
}

/* In a job no peer leaves before slot 0, which saves the result: if slot 0 fails before that, its
 * replacement must find peers that have the final average. */
static bool may_leave(const weft_peer *p)
{
    if (!p->options.job || p->leaves_now) return true;
    if (weft_member_slot(p->member) == 0) return p->hold_released;
    return weft_member_view(p->member)->over || weft_member_coordinator_unreachable(p->member);
}

/* Lets an elastic peer leave: a finished peer when all peers have the final average, one that
 * leaves early when its neighbours have acknowledged its updates. The wait ends LONG_ENOUGH failure
 * timeouts after the last progress of this peer or of another one. */
static weft_status check_leave(weft_peer *p)
{
    static const double LONG_ENOUGH = 12;
    double now = weft_actor_now(&p->head),
           failure_timeout = weft_member_view(p->member)->failure_timeout;
    if (p->computing) return WEFT_OK;
    p->leaves_now = p->leaves_now || weft_member_dismissed(p->member);
    if (p->has_state && !p->ended && (p->leaves_now || p->clock >= p->options.steps))
        WEFT_TRY(weft_peer_broadcast_end(p, p->requests_halt));
    WEFT_TRY(update_version_hash(p));
    WEFT_TRY(weft_final_average_advance(p));
    if (!p->leaves_now && !p->version_hash) p->leave_progress = -1;
    if (p->leaving || (!p->leaves_now && !p->version_hash)) return WEFT_OK;
    int64_t acks = weft_broadcast_progress(p) + p->final_average.progress;
    if (p->leave_progress < 0 || acks != p->leave_acks) p->leave_progress = now;
    p->leave_acks = acks;
    bool acked = !p->has_state ||
                 (p->leaves_now ? weft_broadcast_all_acked(p) : weft_final_average_all_have(p));
    if (!acked && now - p->leave_progress <= LONG_ENOUGH * failure_timeout) return WEFT_OK;
    if (!may_leave(p)) return WEFT_OK;
    p->leaving = true;
    return weft_member_leave(p->member, !p->leaves_now);
}

weft_status weft_peer_advance(weft_peer *p)
{
    if (p->member) WEFT_TRY(check_leave(p));
    if (!p->has_state || p->computing || p->ended || p->clock >= p->options.steps) return WEFT_OK;
    p->computing = true;
    memcpy(p->step_start, p->current, p->bytes);
    memcpy(p->options.parameters, p->current, p->bytes);
    weft_peer_passes(p, 4);
    return weft_actor_compute(&p->head, p->clock + 1);
}

weft_status weft_peer_start_at(weft_peer *p, int64_t clock)
{
    p->has_state = true;
    set_clock(p, clock);
    WEFT_TRY(weft_peer_send_heartbeat(p));
    WEFT_TRY(weft_sync_request_all(p));
    return weft_peer_advance(p);
}

static weft_status peer_begin(weft_actor *actor)
{
    weft_peer *p = (weft_peer *)actor;
    memcpy(p->current, p->options.parameters, p->bytes);
    p->has_state = !p->member;
    p->last_tick = weft_actor_now(actor);
    p->leave_progress = -1;
    return p->member ? weft_member_begin(p->member, actor) : weft_peer_advance(p);
}

static weft_status peer_computed(weft_actor *actor, int64_t ticket)
{
    weft_peer *p = (weft_peer *)actor;
    if (!p->computing) return WEFT_OK; /* the peer has ended meanwhile */
    p->computing = false;
    set_clock(p, ticket);
    /* The learner does not use its parameters until the next computation, so the change is computed
     * there: parameters - step_start. */
    weft_peer_add_scaled(p, p->options.parameters, -1, p->step_start, NULL);
    weft_peer_passes(p, 3);
    WEFT_TRY(p->mode->computed(p, p->options.parameters));
    if (p->clock >= p->options.steps) WEFT_TRY(weft_peer_broadcast_end(p, false));
    return weft_peer_advance(p);
}

/* --- messages --- */

static const weft_rpc_handler link_handlers[] = {
    {WEFT_RPC_UPDATE, &weft__update__descriptor, weft_broadcast_take_update},
    {WEFT_RPC_UPDATE_ACK, &weft__update_ack__descriptor, weft_broadcast_take_ack},
    {0},
};
static const weft_rpc_handler elastic_handlers[] = {
    {WEFT_RPC_VIEW, NULL, weft_peer_take_view},
    {WEFT_RPC_VIEW_REQUEST, NULL, weft_peer_take_view_request},
    {WEFT_RPC_PEER_HEARTBEAT, &weft__peer_heartbeat__descriptor, weft_peer_take_heartbeat},
    {WEFT_RPC_SYNC_REQUEST, &weft__sync_request__descriptor, weft_sync_take_request},
    {WEFT_RPC_SYNC_REPLY, &weft__sync_reply__descriptor, weft_sync_take_reply},
    {WEFT_RPC_STATE_REQUEST, &weft__state_request__descriptor, weft_state_take_request},
    {WEFT_RPC_STATE_REPLY, &weft__state_reply__descriptor, weft_state_take_reply},
    {WEFT_RPC_PARTIAL_SUM, &weft__partial_sum__descriptor, weft_final_average_take_sum},
    {WEFT_RPC_PARTIAL_SUM_ACK, &weft__partial_sum_ack__descriptor, weft_final_average_take_ack},
    {WEFT_RPC_FINAL_MEAN, &weft__final_mean__descriptor, weft_final_average_take_mean},
    {0},
};

/* Handles messages of membership. *mine: the message needs no further handler, which includes all
 * messages of training while the peer lacks the state of the run. */
static weft_status take_membership_message(weft_peer *p, const weft_message *message, bool *mine)
{
    weft_member_news news;
    int from = weft_peer_index(p, message->from);
    if (from >= 0) {
        p->records[from].last_message = weft_actor_now(&p->head);
        p->paused = false;
    }
    WEFT_TRY(weft_member_message(p->member, message, &news));
    if (news == WEFT_NEWS_VIEW) WEFT_TRY(weft_peer_membership_view(p));
    p->head.done = weft_member_has_left(p->member);
    *mine = news != WEFT_NEWS_NONE || weft_member_view(p->member)->number == 0;
    if (*mine) return WEFT_OK;
    WEFT_TRY(weft_rpc_dispatch(elastic_handlers, p, message));
    *mine = !p->has_state;
    return WEFT_OK;
}

static weft_status peer_message(weft_actor *actor, const weft_message *message)
{
    weft_peer *p = (weft_peer *)actor;
    bool mine = false;
    if (p->member) WEFT_TRY(take_membership_message(p, message, &mine));
    if (!mine) WEFT_TRY(weft_rpc_dispatch(link_handlers, p, message));
    if (!mine) WEFT_TRY(weft_rpc_dispatch(p->mode->handlers, p, message));
    return weft_peer_advance(p);
}

static weft_status take_member_timer(weft_peer *p)
{
    WEFT_TRY(weft_member_timer(p->member));
    p->head.done = weft_member_has_left(p->member);
    WEFT_TRY(weft_peer_membership_tick(p));
    return weft_peer_advance(p);
}

static weft_status peer_timer(weft_actor *actor, int timer)
{
    weft_peer *p = (weft_peer *)actor;
    bool resending, syncing = false, averaging = false,
                    waiting = p->mode->is_waiting && p->mode->is_waiting(p);
    if (timer == WEFT_MEMBER_TIMER) return p->member ? take_member_timer(p) : WEFT_OK;
    p->timer_armed = false;
    WEFT_TRY(weft_broadcast_resend(p, &resending));
    if (waiting) WEFT_TRY(p->mode->resend(p));
    if (p->member) WEFT_TRY(weft_sync_resend(p, &syncing));
    if (p->member) WEFT_TRY(weft_final_average_resend(p, &averaging));
    if (p->donor != WEFT_NOBODY) WEFT_TRY(weft_state_request_resend(p));
    bool busy = resending || waiting || syncing || averaging || p->donor != WEFT_NOBODY;
    return busy ? weft_peer_arm_timer(p) : WEFT_OK;
}

/* --- creation --- */

static void peer_destroy(weft_actor *actor)
{
    weft_peer *p = (weft_peer *)actor;
    if (p->state) p->mode->close(p);
    weft_broadcast_close(p);
    weft_final_average_close(p);
    weft_member_destroy(&p->member);
    weft_topology_free(&p->own_topology);
    free(p->records);
    free(p->ids);
    free(p->current);
    free(p->step_start);
    free(p);
}

static const weft_actor_ops peer_ops = {
    .name = "peer",
    .begin = peer_begin,
    .message = peer_message,
    .timer = peer_timer,
    .computed = peer_computed,
    .destroy = peer_destroy,
};

/* Sets up the ids, origins and links of fixed peers. */
static weft_status add_fixed_peers(weft_peer *p)
{
    const weft_peer_options *o = &p->options;
    p->topology = o->topology;
    p->peers = o->topology->peers;
    p->me = o->me;
    WEFT_TRY(WEFT_NEW(&p->ids, p->peers));
    for (int i = 0; i < p->peers; i++) {
        weft_origin *origin;
        p->ids[i] = o->first + (weft_actor_id)i;
        WEFT_TRY(weft_origin_of(&p->broadcast, p->ids[i], &origin));
    }
    return weft_broadcast_arrange(p);
}

static weft_status make(weft_peer *p)
{
    weft_peer_options *o = &p->options;
    p->bytes = (size_t)o->count * weft_dtype_size(o->dtype);
    WEFT_TRY(weft_new_aligned(p->bytes, &p->current));
    WEFT_TRY(weft_new_aligned(p->bytes, &p->step_start));
    p->topology = &p->own_topology;
    o->member.role = WEFT_MEMBER_LEARNER;
    WEFT_TRY(o->topology_name ? weft_member_create(&o->member, &p->member) : add_fixed_peers(p));
    return p->mode->open ? p->mode->open(p) : WEFT_OK;
}

weft_status weft_peer_create(const weft_peer_options *options, weft_actor **out)
{
    weft_peer *p;
    WEFT_TRY(WEFT_NEW(&p, 1));
    p->head.ops = &peer_ops;
    p->options = *options;
    p->mode = options->mode ? options->mode : &weft_peer_updates;
    weft_status status = make(p);
    if (status == WEFT_OK)
        *out = &p->head;
    else
        peer_destroy(&p->head);
    return status;
}
