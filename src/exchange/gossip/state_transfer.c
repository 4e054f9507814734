/* State transfer: a donor sends its parameters and version vector to a peer that joins, or was cut
 * off for longer than updates are logged. */
#include "exchange/gossip/peer_internal.h"
#include "gossip.pb-c.h"

/* Requests to one donor before another donor is asked; the timeout doubles with each request. */
enum { MOST_TRIES = 6 };

/* Offset in bytes of the version vector in a StateReply, behind the parameters. */
static size_t offset(const weft_peer *p)
{
    size_t unit = sizeof(int64_t);
    return (p->bytes + unit - 1) / unit * unit;
}

static weft_status send_request(weft_peer *p)
{
    Weft__StateRequest m = WEFT__STATE_REQUEST__INIT;
    m.request = p->state_request;
    p->state_requested_at = weft_actor_now(&p->head);
    p->state_tries++;
    return weft_rpc_send(&p->head, p->donor, WEFT_RPC_STATE_REQUEST, &m, NULL);
}

weft_status weft_state_request_from(weft_peer *p, weft_actor_id donor)
{
    p->donor = donor;
    p->state_request++;
    p->state_tries = 0;
    WEFT_TRY(send_request(p));
    return weft_peer_arm_timer(p);
}

weft_status weft_state_request_resend(weft_peer *p)
{
    double timeout = p->options.min_rto * (1 << p->state_tries) / 2;
    if (weft_actor_now(&p->head) - p->state_requested_at < timeout) return WEFT_OK;
    if (p->state_tries < MOST_TRIES) return send_request(p);
    int donor = weft_peer_index(p, p->donor);
    if (donor >= 0) p->records[donor].has_state = false; /* no donor until its next heartbeat */
    p->donor = WEFT_NOBODY;
    return WEFT_OK;
}

weft_status weft_state_take_request(void *self, const weft_message *message, const void *content)
{
    weft_peer *p = self;
    const Weft__StateRequest *m = content;
    const weft_broadcast *u = &p->broadcast;
    size_t bytes = u->origin_count * sizeof(*u->origins);
    Weft__StateReply reply = WEFT__STATE_REPLY__INIT;
    weft_buffer *buffer;
    if (!p->has_state || weft_peer_index(p, message->from) < 0) return WEFT_OK;
    WEFT_TRY(weft_buffer_new(offset(p) + bytes, &buffer));
    memcpy(buffer->data, p->current, p->bytes);
    weft_origin *origins = (void *)((char *)buffer->data + offset(p));
    if (bytes) memcpy(origins, u->origins, bytes);
    weft_update_log_roll_back(p, buffer->data, origins);
    reply.request = m->request;
    reply.clock = p->clock;
    weft_status status =
        weft_rpc_send(&p->head, message->from, WEFT_RPC_STATE_REPLY, &reply, buffer);
    weft_buffer_unref(&buffer);
    return status;
}

static weft_status merge_vector(weft_peer *p, const weft_origin *theirs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        weft_origin *o;
        WEFT_TRY(weft_origin_of(&p->broadcast, theirs[i].id, &o));
        if (!o || theirs[i].applied <= o->applied) continue;
        weft_update_log_forget(&p->broadcast, o->id);
        o->applied = theirs[i].applied;
        o->ended = theirs[i].ended;
    }
    return WEFT_OK;
}

/* Installs the snapshot of a donor. Updates that this peer has and the donor lacks are replayed
 * from the log, or other peers send them again. If neither is possible for some, the snapshot is
 * ignored. */
static weft_status install(weft_peer *p, const void *numbers, const weft_origin *theirs,
                           size_t count)
{
    bool covered;
    WEFT_TRY(weft_update_log_covers(p, theirs, count, &covered));
    if (!covered) return WEFT_OK;
    memcpy(p->current, numbers, p->bytes);
    WEFT_TRY(weft_update_log_replay(p, theirs, count));
    WEFT_TRY(merge_vector(p, theirs, count));
    for (int i = 0; i < p->neighbour_count; i++) p->broadcast.links[i].needs_resync = true;
    return weft_sync_request_all(p);
}

weft_status weft_state_take_reply(void *self, const weft_message *message, const void *content)
{
    weft_peer *p = self;
    const Weft__StateReply *m = content;
    const weft_origin *theirs;
    size_t count;
    if (p->donor == WEFT_NOBODY || message->from != p->donor || m->request != p->state_request ||
        m->clock < 0 || !weft_origins_read(message->payload, offset(p), &theirs, &count) ||
        !weft_numbers_finite(p->options.dtype, message->payload->data, p->options.count))
        return WEFT_OK;
    p->donor = WEFT_NOBODY;
    if (p->has_state) return install(p, message->payload->data, theirs, count);
    memcpy(p->current, message->payload->data, p->bytes);
    WEFT_TRY(merge_vector(p, theirs, count));
    return weft_peer_start_at(p, m->clock);
}
