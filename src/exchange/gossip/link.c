/* Implements links to neighbours: congestion window, cumulative acknowledgements, retransmission,
 * and sums of updates that wait for a slow neighbour. */
#include "exchange/gossip/link.h"

#include "compress/compress.h"
#include "actor/rpc.h"
#include "gossip.pb-c.h"

/* MOST_RESENT: updates retransmitted at a time, the oldest ones. MOST_IN_FLIGHT: bound on the
 * window. MOST_WAITING: waiting updates before further ones are summed. HELD_TIMEOUTS: see
 * is_in_transit. */
enum { MOST_RESENT = 16, HELD_TIMEOUTS = 128, MOST_IN_FLIGHT = 256, MOST_WAITING = 64 };

void weft_link_free(weft_link *link)
{
    for (size_t i = 0; i < link->count; i++) weft_buffer_unref(&link->queue[i].payload);
    free(link->queue);
    link->queue = NULL;
    link->count = link->capacity = link->in_flight = 0;
    link->in_flight_bytes = link->waiting_bytes = 0;
}

void weft_link_open(weft_link *link, int64_t epoch)
{
    weft_link_free(link);
    link->acked = 0;
    link->send_epoch = epoch;
    link->open = true;
}

static weft_status send(weft_actor *from, const weft_link *link, size_t i)
{
    weft_gossip_update *update = &link->queue[i];
    Weft__Update m = WEFT__UPDATE__INIT;
    m.link_sequence = link->acked + 1 + (int64_t)i;
    m.origin = update->origin;
    m.sequence = update->sequence;
    m.first = update->first < update->sequence ? update->first : 0;
    m.halt = update->halt;
    m.epoch = link->send_epoch;
    m.sent = update->sent = weft_actor_now(from);
    return weft_rpc_send(from, link->to, WEFT_RPC_UPDATE, &m, update->payload);
}

static size_t bytes_of(const weft_gossip_update *update)
{
    return update->payload ? update->payload->bytes : 0;
}

/* Whether the window has room for the next waiting update. If a connection were given more than it
 * carries, it would queue the excess, and all later messages to the neighbour, acknowledgements
 * too, would wait behind that. */
static bool may_send(const weft_link *link)
{
    if (link->in_flight == link->count) return false;
    size_t bytes = link->in_flight_bytes + bytes_of(&link->queue[link->in_flight]);
    return link->in_flight == 0 ||
           (link->in_flight < WEFT_MIN(link->window, (size_t)MOST_IN_FLIGHT) &&
            bytes <= link->byte_limit);
}

static weft_status send_more(weft_actor *from, weft_link *link)
{
    for (; may_send(link); link->in_flight++) {
        size_t bytes = bytes_of(&link->queue[link->in_flight]);
        link->in_flight_bytes += bytes;
        link->waiting_bytes -= bytes;
        WEFT_TRY(send(from, link, link->in_flight));
    }
    return WEFT_OK;
}

static void release_inner(void *inner, void *data)
{
    weft_buffer *payload = inner;
    (void)data;
    weft_buffer_unref(&payload);
}

weft_buffer *weft_link_unwrap(weft_buffer *payload)
{
    return payload->release == release_inner ? payload->of : payload;
}

/* Makes a wrapper of the queue's own around the inner buffer. If the queue referenced another
 * link's wrapper, that link would take its own update to be in transit. */
static weft_status wrap(weft_buffer *payload, weft_buffer **out)
{
    weft_buffer *inner = weft_link_unwrap(payload);
    WEFT_TRY(
        weft_buffer_wrap(inner->data, inner->bytes, release_inner, weft_buffer_ref(inner), out));
    (*out)->fixed = inner->fixed;
    return WEFT_OK;
}

/* --- sums --- */

/* Finds the waiting update to which a new update is added if too many wait: the last one of the
 * same origin, which precedes the new one as queues keep the order of an origin. NULL: the new
 * update is queued by itself. */
static weft_gossip_update *find_merge_target(const weft_link *link,
                                             const weft_gossip_update *update)
{
    bool full =
        link->count - link->in_flight >= MOST_WAITING || link->waiting_bytes >= link->byte_limit;
    for (size_t i = link->count; full && update->payload && i-- > link->in_flight;) {
        weft_gossip_update *last = &link->queue[i];
        if (last->origin != update->origin) continue;
        return last->payload && last->sequence + 1 == update->first ? last : NULL;
    }
    return NULL;
}

static weft_status add(const weft_link *link, const weft_buffer *payload, void *sum)
{
    weft_encoded m;
    WEFT_TRY(weft_encoded_open(payload->data, payload->bytes, link->codec, link->dtype,
                               link->elements, &m));
    weft_encoded_add(&m, link->elements, 1, sum);
    return WEFT_OK;
}

/* Replaces the payload of a waiting update by a dense sum that begins with it. The queue alone
 * holds the sum, so later updates are added in place. */
static weft_status begin_sum(weft_link *link, weft_gossip_update *first)
{
    weft_buffer *buffer, *sum;
    WEFT_TRY(weft_buffer_new(weft_encoded_bound(link->dtype, link->elements), &buffer));
    weft_status status = add(link, first->payload,
                             weft_encoded_begin_sum(link->dtype, link->elements, buffer->data));
    if (status == WEFT_OK) status = wrap(buffer, &sum);
    weft_buffer_unref(&buffer);
    WEFT_TRY(status);
    sum->fixed = WEFT_MESSAGE_HEADER;
    link->waiting_bytes += sum->bytes - first->payload->bytes;
    weft_buffer_unref(&first->payload);
    first->payload = sum;
    first->sum = true;
    return WEFT_OK;
}

static weft_status merge(weft_actor *from, weft_link *link, weft_gossip_update *target,
                         const weft_gossip_update *update)
{
    if (!target->sum) WEFT_TRY(begin_sum(link, target));
    weft_actor_work(from, WEFT_WORK_DECODE, link->codec->name,
                    2 * (double)link->elements * (double)weft_dtype_size(link->dtype));
    WEFT_TRY(add(link, update->payload, (char *)target->payload->data + WEFT_MESSAGE_HEADER));
    target->sequence = update->sequence;
    return WEFT_OK;
}

weft_status weft_link_send(weft_actor *from, weft_link *link, const weft_gossip_update *update)
{
    weft_gossip_update mine = *update, *target = find_merge_target(link, update);
    if (target) return merge(from, link, target, update);
    mine.sum = false;
    WEFT_TRY(WEFT_GROW(&link->queue, &link->capacity, link->count));
    if (update->payload) WEFT_TRY(wrap(update->payload, &mine.payload));
    if (mine.arrived <= 0) mine.arrived = weft_actor_now(from);
    link->queue[link->count++] = mine;
    link->waiting_bytes += bytes_of(&mine);
    return send_more(from, link);
}

/* Whether the runtime still holds the message of an update, so that a retransmission would be
 * useless. After HELD_TIMEOUTS times min_rto the message no longer counts as in transit. */
static bool is_in_transit(const weft_gossip_update *update, double now, double min_rto)
{
    return weft_buffer_is_shared(update->payload) && now - update->sent < HELD_TIMEOUTS * min_rto;
}

weft_status weft_link_resend(weft_actor *from, weft_link *link, double min_rto)
{
    double now = weft_actor_now(from);
    if (link->in_flight == 0) return WEFT_OK;
    if (is_in_transit(&link->queue[0], now, min_rto)) link->last_progress = now;
    double timeout = weft_rto_timeout(&link->rto, min_rto);
    if (now - WEFT_MAX(link->last_progress, link->queue[0].sent) < timeout) return WEFT_OK;
    for (size_t i = 0; i < link->in_flight && i < MOST_RESENT; i++) {
        if (is_in_transit(&link->queue[i], now, min_rto)) break;
        if (now - link->queue[i].sent >= timeout) WEFT_TRY(send(from, link, i));
    }
    link->window = link->window / 2;
    weft_rto_backoff(&link->rto);
    return WEFT_OK;
}

weft_status weft_link_take_ack(weft_actor *me, weft_link *link, const void *content)
{
    const Weft__UpdateAck *m = content;
    double now = weft_actor_now(me);
    if (m->epoch != link->send_epoch || m->link_sequence <= link->acked || link->in_flight == 0)
        return WEFT_OK;
    size_t newly_acked = (size_t)WEFT_MIN(m->link_sequence - link->acked, (int64_t)link->in_flight);
    weft_rto_sample(&link->rto, now - m->sent);
    if (link->in_flight >= link->window) link->window += newly_acked;
    for (size_t i = 0; i < newly_acked; i++) {
        link->in_flight_bytes -= bytes_of(&link->queue[i]);
        weft_buffer_unref(&link->queue[i].payload);
    }
    link->count -= newly_acked;
    link->in_flight -= newly_acked;
    memmove(link->queue, link->queue + newly_acked, link->count * sizeof(weft_gossip_update));
    link->acked += (int64_t)newly_acked;
    link->last_progress = now;
    return send_more(me, link);
}

weft_status weft_link_take_update(weft_actor *me, weft_link *link, const void *content,
                                  weft_buffer *payload, weft_gossip_update *update)
{
    const Weft__Update *m = content;
    Weft__UpdateAck ack = WEFT__UPDATE_ACK__INIT;
    *update = (weft_gossip_update){.sequence = 0};
    /* Sent before this peer's SyncRequest arrived. */
    if (m->epoch != link->receive_epoch) return WEFT_OK;
    if (m->link_sequence == link->received + 1) {
        link->received++;
        *update = (weft_gossip_update){.origin = m->origin,
                                       .first = m->first ? m->first : m->sequence,
                                       .sequence = m->sequence,
                                       .payload = payload,
                                       .halt = m->halt};
    }
    ack.link_sequence = link->received;
    ack.sent = m->sent;
    ack.epoch = link->receive_epoch;
    return weft_rpc_send(me, link->to, WEFT_RPC_UPDATE_ACK, &ack, NULL);
}
