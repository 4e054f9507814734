/* Anti-entropy after a view change (Demers et al. 1987): the spanning trees have changed, so
 * neighbours in the new view exchange version vectors and send each other the missing updates. A
 * link is open only after that; later updates go over the trees of the view that both sides
 * have. */
#include "exchange/gossip/peer_internal.h"
#include "gossip.pb-c.h"

static weft_status copy_origins(const weft_peer *p, weft_buffer **out)
{
    const weft_broadcast *u = &p->broadcast;
    size_t bytes = u->origin_count * sizeof(*u->origins);
    WEFT_TRY(weft_buffer_new(bytes, out));
    if (bytes) memcpy((*out)->data, u->origins, bytes);
    return WEFT_OK;
}

static weft_status send_request(weft_peer *p, const weft_link *link)
{
    Weft__SyncRequest m = WEFT__SYNC_REQUEST__INIT;
    weft_buffer *origins;
    m.view = weft_member_view(p->member)->number;
    m.members = p->members;
    m.epoch = link->receive_epoch;
    m.needs_resync = link->needs_resync;
    WEFT_TRY(copy_origins(p, &origins));
    weft_status status = weft_rpc_send(&p->head, link->to, WEFT_RPC_SYNC_REQUEST, &m, origins);
    weft_buffer_unref(&origins);
    return status;
}

static weft_status start_sync(weft_peer *p, weft_link *link)
{
    link->receive_epoch = ++p->sync_epoch;
    link->received = 0;
    link->sync_replied = link->gap_seen = false;
    return send_request(p, link);
}

weft_status weft_sync_request_all(weft_peer *p)
{
    for (int i = 0; i < p->neighbour_count; i++) WEFT_TRY(start_sync(p, &p->broadcast.links[i]));
    return p->neighbour_count ? weft_peer_arm_timer(p) : WEFT_OK;
}

/* Whether another SyncRequest to the neighbour is due: after a gap, or some time after the
 * neighbour could not supply everything, since this peer may have received those updates from
 * another peer. */
static bool is_due(const weft_peer *p, const weft_link *link)
{
    double failure_timeout = weft_member_view(p->member)->failure_timeout;
    return link->gap_seen ||
           (link->behind_since > 0 &&
            weft_actor_now(&p->head) - link->sync_replied_at > failure_timeout / 4);
}

weft_status weft_sync_resend(weft_peer *p, bool *more)
{
    *more = false;
    for (int i = 0; p->has_state && i < p->neighbour_count; i++) {
        weft_link *link = &p->broadcast.links[i];
        *more = *more || !link->sync_replied || link->behind_since > 0;
        if (!link->sync_replied)
            WEFT_TRY(send_request(p, link));
        else if (is_due(p, link)) {
            WEFT_TRY(start_sync(p, link));
            *more = true;
        }
    }
    return WEFT_OK;
}

static weft_status send_reply(weft_peer *p, const weft_link *link)
{
    Weft__SyncReply m = WEFT__SYNC_REPLY__INIT;
    m.epoch = link->send_epoch;
    m.needs_snapshot = link->needs_snapshot;
    return weft_rpc_send(&p->head, link->to, WEFT_RPC_SYNC_REPLY, &m, NULL);
}

/* Handles the SyncRequest of a neighbour: opens the link, sends the missing updates from the log,
 * and replies. A repeated request is only answered again. */
weft_status weft_sync_take_request(void *self, const weft_message *message, const void *content)
{
    weft_peer *p = self;
    const Weft__SyncRequest *m = content;
    const weft_origin *theirs;
    size_t count;
    bool same;
    WEFT_TRY(weft_peer_same_view(p, message->from, m->view, m->members, &same));
    weft_link *link = weft_peer_link(p, message->from);
    if (!same || !link || !p->has_state || m->epoch < link->send_epoch) return WEFT_OK;
    if (m->epoch == link->send_epoch) return link->open ? send_reply(p, link) : WEFT_OK;
    if (!weft_origins_read(message->payload, 0, &theirs, &count)) return WEFT_OK;
    weft_link_open(link, m->epoch);
    WEFT_TRY(weft_update_log_send(p, link, theirs, count));
    WEFT_TRY(send_reply(p, link));
    if (m->needs_resync) return start_sync(p, link);
    /* The neighbour may have lacked the view before. */
    return link->sync_replied ? WEFT_OK : send_request(p, link);
}

/* Chooses the donor of a snapshot: the neighbour first, then other peers in turn, since this peer
 * cannot install a snapshot that lacks some of its own updates. */
static weft_actor_id choose_donor(weft_peer *p, const weft_link *link)
{
    int i = p->next_donor++ % (p->peers + 1) - 1;
    return i < 0 || i == p->me || !p->records[i].has_state ? link->to : p->ids[i];
}

/* Called when the neighbour's log cannot supply what this peer lacks. Another peer has one failure
 * timeout to supply it; then this peer requests a snapshot, and after LONG_ENOUGH failure timeouts
 * it fails. */
static weft_status fall_behind(weft_peer *p, weft_link *link)
{
    static const double LONG_ENOUGH = 10;
    double now = weft_actor_now(&p->head),
           failure_timeout = weft_member_view(p->member)->failure_timeout;
    if (link->behind_since <= 0) link->behind_since = now;
    if (now - link->behind_since > LONG_ENOUGH * failure_timeout && !p->leaving) {
        weft_member_note_removed(p->member);
        return weft_fail(WEFT_ERR_PEER, "this learner was cut off for so long that no other peer "
                                        "can supply the updates that it lacks; join again");
    }
    WEFT_TRY(weft_peer_arm_timer(p));
    if (now - link->behind_since < failure_timeout || p->donor != WEFT_NOBODY) return WEFT_OK;
    return weft_state_request_from(p, choose_donor(p, link));
}

weft_status weft_sync_take_reply(void *self, const weft_message *message, const void *content)
{
    weft_peer *p = self;
    const Weft__SyncReply *m = content;
    weft_link *link = weft_peer_link(p, message->from);
    if (!link || !p->has_state || m->epoch != link->receive_epoch || link->sync_replied)
        return WEFT_OK;
    link->sync_replied = true;
    link->needs_resync = false;
    link->sync_replied_at = weft_actor_now(&p->head);
    if (!m->needs_snapshot) link->behind_since = 0;
    return m->needs_snapshot ? fall_behind(p, link) : WEFT_OK;
}
