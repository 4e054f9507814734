/* Anti-entropy after a view change (Demers et al. 1987): the spanning trees have changed, so
 * neighbours in the new view exchange version vectors and send each other the missing updates. A
 * link is open only after that; later updates go over the trees of the view that both sides
 * have. */
#include "exchange/gossip/peer_internal.h"
#include "actor/rpc.h"
#include "gossip.pb-c.h"

static weft_status copy_origins(const weft_peer *p, weft_buffer **out)
{
    const weft_broadcast *u = &p->rumours;
    size_t bytes = u->origin_count * sizeof(*u->origins);
    WEFT_TRY(weft_buffer_new(bytes, out));
    if (bytes) memcpy((*out)->data, u->origins, bytes);
    return WEFT_OK;
}

static weft_status greet(weft_peer *p, const weft_link *edge)
{
    Weft__SyncRequest m = WEFT__SYNC_REQUEST__INIT;
    weft_buffer *origins;
    m.view = weft_member_view(p->member)->number;
    m.members = p->members;
    m.round = edge->asked;
    m.summed = edge->summed;
    WEFT_TRY(copy_origins(p, &origins));
    weft_status status = weft_rpc_send(&p->head, edge->to, WEFT_RPC_SYNC_REQUEST, &m, origins);
    weft_buffer_unref(&origins);
    return status;
}

static weft_status begin(weft_peer *p, weft_link *edge)
{
    edge->asked = ++p->round;
    edge->come = 0;
    edge->answered = edge->skips = false;
    return greet(p, edge);
}

weft_status weft_sync_request_all(weft_peer *p)
{
    for (int i = 0; i < p->neighbour_count; i++) WEFT_TRY(begin(p, &p->rumours.edges[i]));
    return p->neighbour_count ? weft_peer_arm_timer(p) : WEFT_OK;
}

/* After a gap, or when another peer may have supplied what the neighbour could not. */
static bool is_due(const weft_peer *p, const weft_link *edge)
{
    double failure_timeout = weft_member_view(p->member)->failure_timeout;
    return edge->skips ||
           (edge->behind > 0 && weft_actor_now(&p->head) - edge->greeted > failure_timeout / 4);
}

weft_status weft_sync_resend(weft_peer *p, bool *more)
{
    *more = false;
    for (int i = 0; p->in && i < p->neighbour_count; i++) {
        weft_link *edge = &p->rumours.edges[i];
        *more = *more || !edge->answered || edge->behind > 0;
        if (!edge->answered)
            WEFT_TRY(greet(p, edge));
        else if (is_due(p, edge)) {
            WEFT_TRY(begin(p, edge));
            *more = true;
        }
    }
    return WEFT_OK;
}

static weft_status answer(weft_peer *p, const weft_link *edge)
{
    Weft__SyncReply m = WEFT__SYNC_REPLY__INIT;
    m.round = edge->round;
    m.behind = edge->lacks;
    return weft_rpc_send(&p->head, edge->to, WEFT_RPC_SYNC_REPLY, &m, NULL);
}

/* A repeated request is answered again. */
static weft_status take_greet(weft_peer *p, const Weft__SyncRequest *m, const weft_message *message)
{
    const weft_origin *theirs;
    size_t count;
    bool same;
    WEFT_TRY(weft_peer_same_view(p, message->from, m->view, m->members, &same));
    weft_link *edge = weft_peer_link(p, message->from);
    if (!same || !edge || !p->in || m->round < edge->round) return WEFT_OK;
    if (m->round == edge->round) return edge->open ? answer(p, edge) : WEFT_OK;
    if (!weft_origins_read(message->payload, 0, &theirs, &count)) return WEFT_OK;
    weft_link_open(edge, m->round);
    WEFT_TRY(weft_update_log_send(p, edge, theirs, count));
    WEFT_TRY(answer(p, edge));
    if (m->summed) return begin(p, edge);
    return edge->answered ? WEFT_OK : greet(p, edge); /* it may have lacked the view before */
}

/* The donor: the neighbour, or another peer in turn, since this peer cannot install the snapshot of
 * a donor that lacks some of its updates. */
static weft_actor_id choose(weft_peer *p, const weft_link *edge)
{
    int i = p->turn++ % (p->peers + 1) - 1;
    return i < 0 || i == p->me || !p->seats[i].has ? edge->to : p->ids[i];
}

/* The neighbour's log cannot supply what this peer lacks. Another peer has one failure timeout to
 * supply it; then a snapshot is requested. */
static weft_status fall_behind(weft_peer *p, weft_link *edge)
{
    static const double LONG_ENOUGH = 10;
    double now = weft_actor_now(&p->head),
           failure_timeout = weft_member_view(p->member)->failure_timeout;
    if (edge->behind <= 0) edge->behind = now;
    if (now - edge->behind > LONG_ENOUGH * failure_timeout && !p->gone) {
        weft_member_is_lost(p->member);
        return weft_fail(WEFT_ERR_PEER,
                         "this learner was cut off for so long that neither it nor the others can "
                         "tell what the other lacks; join again");
    }
    WEFT_TRY(weft_peer_arm_timer(p));
    if (now - edge->behind < failure_timeout || p->giver != WEFT_NOBODY) return WEFT_OK;
    return weft_state_request_from(p, choose(p, edge));
}

static weft_status take_greeted(weft_peer *p, const Weft__SyncReply *m, weft_actor_id from)
{
    weft_link *edge = weft_peer_link(p, from);
    if (!edge || !p->in || m->round != edge->asked || edge->answered) return WEFT_OK;
    edge->answered = true;
    edge->summed = false;
    edge->greeted = weft_actor_now(&p->head);
    if (!m->behind) edge->behind = 0;
    return m->behind ? fall_behind(p, edge) : WEFT_OK;
}

weft_status weft_sync_message(weft_peer *p, const weft_message *message)
{
    weft_status status = WEFT_OK;
    void *m = NULL;
    if (message->type == WEFT_RPC_SYNC_REQUEST &&
        (m = weft_rpc_parse(message, &weft__sync_request__descriptor)))
        status = take_greet(p, m, message);
    else if (message->type == WEFT_RPC_SYNC_REPLY &&
             (m = weft_rpc_parse(message, &weft__sync_reply__descriptor)))
        status = take_greeted(p, m, message->from);
    weft_rpc_free(m);
    return status;
}
