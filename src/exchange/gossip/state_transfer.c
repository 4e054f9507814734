/* State transfer: the parameters and the version vector of a donor, for a peer that joins, or was
 * cut off for longer than updates are logged. */
#include "exchange/gossip/peer_internal.h"
#include "actor/rpc.h"
#include "gossip.pb-c.h"

/* Requests to one donor, each with twice the timeout of the one before. */
enum { MOST_TRIES = 6 };

/* Offset of the version vector, behind the parameters. */
static size_t offset(const weft_peer *p)
{
    size_t unit = sizeof(int64_t);
    return (p->bytes + unit - 1) / unit * unit;
}

static weft_status send_want(weft_peer *p)
{
    Weft__StateRequest m = WEFT__STATE_REQUEST__INIT;
    m.request = p->request;
    p->asked = weft_actor_now(&p->head);
    p->tries++;
    return weft_rpc_send(&p->head, p->giver, WEFT_RPC_STATE_REQUEST, &m, NULL);
}

weft_status weft_state_request_from(weft_peer *p, weft_actor_id giver)
{
    p->giver = giver;
    p->request++;
    p->tries = 0;
    WEFT_TRY(send_want(p));
    return weft_peer_arm_timer(p);
}

weft_status weft_state_request_resend(weft_peer *p)
{
    double hope = p->options.patience * (1 << p->tries) / 2;
    if (weft_actor_now(&p->head) - p->asked < hope) return WEFT_OK;
    if (p->tries < MOST_TRIES) return send_want(p);
    int giver = weft_peer_index(p, p->giver);
    if (giver >= 0) p->seats[giver].has = false; /* until its next heartbeat */
    p->giver = WEFT_NOBODY;
    return WEFT_OK;
}

static weft_status take_want(weft_peer *p, const Weft__StateRequest *m, weft_actor_id from)
{
    const weft_broadcast *u = &p->rumours;
    size_t bytes = u->origin_count * sizeof(*u->origins);
    Weft__StateReply reply = WEFT__STATE_REPLY__INIT;
    weft_buffer *blob;
    if (!p->in || weft_peer_index(p, from) < 0) return WEFT_OK;
    WEFT_TRY(weft_buffer_new(offset(p) + bytes, &blob));
    memcpy(blob->data, p->now, p->bytes);
    weft_origin *origins = (void *)((char *)blob->data + offset(p));
    if (bytes) memcpy(origins, u->origins, bytes);
    weft_update_log_roll_back(p, blob->data, origins);
    reply.request = m->request;
    reply.clock = p->clock;
    weft_status status = weft_rpc_send(&p->head, from, WEFT_RPC_STATE_REPLY, &reply, blob);
    weft_buffer_unref(&blob);
    return status;
}

static weft_status note(weft_peer *p, const weft_origin *theirs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        weft_origin *o;
        WEFT_TRY(weft_origin_of(&p->rumours, theirs[i].id, &o));
        if (!o || theirs[i].come <= o->come) continue;
        weft_update_log_forget(&p->rumours, o->id);
        o->come = theirs[i].come;
        o->ended = theirs[i].ended;
    }
    return WEFT_OK;
}

/* Installs a snapshot: updates that this peer has and the donor lacks are replayed from the log, or
 * sent again by their origins. If neither can be done, the snapshot is ignored. */
static weft_status catch_up(weft_peer *p, const void *numbers, const weft_origin *theirs,
                            size_t count)
{
    bool reaches;
    WEFT_TRY(weft_update_log_covers(p, theirs, count, &reaches));
    if (!reaches) return WEFT_OK;
    memcpy(p->now, numbers, p->bytes);
    WEFT_TRY(weft_update_log_replay(p, theirs, count));
    WEFT_TRY(note(p, theirs, count));
    for (int i = 0; i < p->neighbour_count; i++) p->rumours.edges[i].summed = true;
    return weft_sync_request_all(p);
}

static weft_status take_snapshot(weft_peer *p, const Weft__StateReply *m,
                                 const weft_message *message)
{
    const weft_origin *theirs;
    size_t count;
    if (p->giver == WEFT_NOBODY || message->from != p->giver || m->request != p->request ||
        m->clock < 0 || !weft_origins_read(message->payload, offset(p), &theirs, &count) ||
        !weft_numbers_finite(p->options.dtype, message->payload->data, p->options.count))
        return WEFT_OK;
    p->giver = WEFT_NOBODY;
    if (p->in) return catch_up(p, message->payload->data, theirs, count);
    memcpy(p->now, message->payload->data, p->bytes);
    WEFT_TRY(note(p, theirs, count));
    return weft_peer_start_at(p, m->clock);
}

weft_status weft_state_message(weft_peer *p, const weft_message *message)
{
    weft_status status = WEFT_OK;
    void *m = NULL;
    if (message->type == WEFT_RPC_STATE_REQUEST &&
        (m = weft_rpc_parse(message, &weft__state_request__descriptor)))
        status = take_want(p, m, message->from);
    else if (message->type == WEFT_RPC_STATE_REPLY &&
             (m = weft_rpc_parse(message, &weft__state_reply__descriptor)))
        status = take_snapshot(p, m, message);
    weft_rpc_free(m);
    return status;
}
