/* A link to a neighbour: window, acknowledgements, retransmission, sums of waiting updates. */
#include "exchange/gossip/link.h"

#include "compress/compress.h"
#include "actor/rpc.h"
#include "gossip.pb-c.h"

/* At most REPEATED updates are retransmitted at a time; later ones would arrive out of order. At
 * most UNDER_WAY are in flight, and WAITING wait before updates are summed. */
enum { REPEATED = 16, KEPT = 128, UNDER_WAY = 256, WAITING = 64 };

void weft_link_free(weft_link *edge)
{
    for (size_t i = 0; i < edge->count; i++) weft_buffer_unref(&edge->queue[i].payload);
    free(edge->queue);
    edge->queue = NULL;
    edge->count = edge->capacity = edge->told = 0;
    edge->told_bytes = edge->waiting_bytes = 0;
}

void weft_link_open(weft_link *edge, int64_t round)
{
    weft_link_free(edge);
    edge->heard = 0;
    edge->round = round;
    edge->open = true;
}

static weft_status send(weft_actor *from, const weft_link *edge, size_t i)
{
    weft_gossip_update *rumour = &edge->queue[i];
    Weft__Update m = WEFT__UPDATE__INIT;
    m.edge_sequence = edge->heard + 1 + (int64_t)i;
    m.origin = rumour->origin;
    m.sequence = rumour->sequence;
    m.first = rumour->first < rumour->sequence ? rumour->first : 0;
    m.halt = rumour->halt;
    m.round = edge->round;
    m.sent = rumour->sent = weft_actor_now(from);
    return weft_rpc_send(from, edge->to, WEFT_RPC_UPDATE, &m, rumour->payload);
}

static size_t bytes_of(const weft_gossip_update *rumour)
{
    return rumour->payload ? rumour->payload->bytes : 0;
}

/* Whether the window has room. A connection that is given more than it carries queues the rest, and
 * all later messages, acknowledgements too, wait behind it. */
static bool may_send(const weft_link *edge)
{
    if (edge->told == edge->count) return false;
    size_t bytes = edge->told_bytes + bytes_of(&edge->queue[edge->told]);
    return edge->told == 0 ||
           (edge->told < WEFT_MIN(edge->window, (size_t)UNDER_WAY) && bytes <= edge->room);
}

static weft_status send_more(weft_actor *from, weft_link *edge)
{
    for (; may_send(edge); edge->told++) {
        size_t bytes = bytes_of(&edge->queue[edge->told]);
        edge->told_bytes += bytes;
        edge->waiting_bytes -= bytes;
        WEFT_TRY(send(from, edge, edge->told));
    }
    return WEFT_OK;
}

static void let_go(void *of, void *data)
{
    weft_buffer *payload = of;
    (void)data;
    weft_buffer_unref(&payload);
}

weft_buffer *weft_link_inside(weft_buffer *payload)
{
    return payload->release == let_go ? payload->of : payload;
}

/* A wrapper for the queue, which holds the inner buffer: a reference to the wrapper of another link
 * would look to that link like a message in transit. */
static weft_status wrap(weft_buffer *payload, weft_buffer **out)
{
    weft_buffer *of = weft_link_inside(payload);
    return weft_buffer_wrap(of->data, of->bytes, let_go, weft_buffer_ref(of), out);
}

/* --- sums --- */

/* The waiting update to which this one is added. A queue has the updates of an origin in order, so
 * the last one of the same origin precedes it; NULL: it is queued alone. */
static weft_gossip_update *find_before(const weft_link *edge, const weft_gossip_update *rumour)
{
    bool full = edge->count - edge->told >= WAITING || edge->waiting_bytes >= edge->room;
    for (size_t i = edge->count; full && rumour->payload && i-- > edge->told;) {
        weft_gossip_update *last = &edge->queue[i];
        if (last->origin != rumour->origin) continue;
        return last->payload && last->sequence + 1 == rumour->first ? last : NULL;
    }
    return NULL;
}

static weft_status add(const weft_link *edge, const weft_buffer *payload, void *sum)
{
    weft_encoded m;
    WEFT_TRY(weft_encoded_open(payload->data, payload->bytes, edge->dtype, edge->numbers, &m));
    weft_encoded_add(&m, edge->numbers, 1, sum);
    return WEFT_OK;
}

/* A waiting sum has no other holder, so further updates are added in place. */
static weft_status begin_sum(weft_link *edge, weft_gossip_update *first)
{
    weft_buffer *room, *sum;
    WEFT_TRY(weft_buffer_new(weft_encoded_bound(edge->dtype, edge->numbers), &room));
    weft_status status =
        add(edge, first->payload, weft_encoded_begin_sum(edge->dtype, edge->numbers, room->data));
    if (status == WEFT_OK) status = wrap(room, &sum);
    weft_buffer_unref(&room);
    WEFT_TRY(status);
    edge->waiting_bytes += sum->bytes - first->payload->bytes;
    weft_buffer_unref(&first->payload);
    first->payload = sum;
    first->sum = true;
    return WEFT_OK;
}

static weft_status add_to(weft_link *edge, weft_gossip_update *before,
                          const weft_gossip_update *rumour)
{
    if (!before->sum) WEFT_TRY(begin_sum(edge, before));
    WEFT_TRY(add(edge, rumour->payload, (char *)before->payload->data + WEFT_MESSAGE_HEADER));
    before->sequence = rumour->sequence;
    return WEFT_OK;
}

weft_status weft_link_send(weft_actor *from, weft_link *edge, const weft_gossip_update *rumour)
{
    weft_gossip_update mine = *rumour, *before = find_before(edge, rumour);
    if (before) return add_to(edge, before, rumour);
    mine.sum = false;
    WEFT_TRY(WEFT_GROW(&edge->queue, &edge->capacity, edge->count));
    if (rumour->payload) WEFT_TRY(wrap(rumour->payload, &mine.payload));
    if (mine.began <= 0) mine.began = weft_actor_now(from);
    edge->queue[edge->count++] = mine;
    edge->waiting_bytes += bytes_of(&mine);
    return send_more(from, edge);
}

/* A message that the runtime still holds counts as leaving, for at most KEPT times the patience. */
static bool is_leaving(const weft_gossip_update *rumour, double now, double patience)
{
    return weft_buffer_is_shared(rumour->payload) && now - rumour->sent < KEPT * patience;
}

weft_status weft_link_resend(weft_actor *from, weft_link *edge, double patience)
{
    double now = weft_actor_now(from);
    if (edge->told == 0) return WEFT_OK;
    if (is_leaving(&edge->queue[0], now, patience)) edge->moved = now;
    double most = weft_rto_timeout(&edge->trip, patience);
    if (now - WEFT_MAX(edge->moved, edge->queue[0].sent) < most) return WEFT_OK;
    for (size_t i = 0; i < edge->told && i < REPEATED; i++) {
        if (is_leaving(&edge->queue[i], now, patience)) break;
        if (now - edge->queue[i].sent >= most) WEFT_TRY(send(from, edge, i));
    }
    edge->window = edge->window / 2;
    weft_rto_backoff(&edge->trip);
    return WEFT_OK;
}

static weft_status forget_heard(weft_actor *me, weft_link *edge, const Weft__UpdateAck *m)
{
    double now = weft_actor_now(me);
    if (m->round != edge->round || m->edge_sequence <= edge->heard || edge->told == 0)
        return WEFT_OK;
    size_t gone = (size_t)WEFT_MIN(m->edge_sequence - edge->heard, (int64_t)edge->told);
    weft_rto_sample(&edge->trip, now - m->sent);
    if (edge->told >= edge->window) edge->window += gone;
    for (size_t i = 0; i < gone; i++) {
        edge->told_bytes -= bytes_of(&edge->queue[i]);
        weft_buffer_unref(&edge->queue[i].payload);
    }
    edge->count -= gone;
    edge->told -= gone;
    memmove(edge->queue, edge->queue + gone, edge->count * sizeof(weft_gossip_update));
    edge->heard += (int64_t)gone;
    edge->moved = now;
    return send_more(me, edge);
}

static weft_status take_rumour(weft_actor *me, weft_link *edge, const Weft__Update *m,
                               const weft_message *message, weft_gossip_update *rumour)
{
    Weft__UpdateAck heard = WEFT__UPDATE_ACK__INIT;
    if (m->round != edge->asked) return WEFT_OK; /* sent before our SyncRequest arrived */
    if (m->edge_sequence == edge->come + 1) {
        edge->come++;
        *rumour = (weft_gossip_update){.origin = m->origin,
                                       .first = m->first ? m->first : m->sequence,
                                       .sequence = m->sequence,
                                       .payload = message->payload,
                                       .halt = m->halt};
    }
    heard.edge_sequence = edge->come;
    heard.sent = m->sent;
    heard.round = edge->asked;
    return weft_rpc_send(me, edge->to, WEFT_RPC_UPDATE_ACK, &heard, NULL);
}

weft_status weft_link_message(weft_actor *me, weft_link *edge, const weft_message *message,
                              weft_gossip_update *rumour)
{
    weft_status status = WEFT_OK;
    void *m = NULL;
    *rumour = (weft_gossip_update){.sequence = 0};
    if (message->type == WEFT_RPC_UPDATE &&
        (m = weft_rpc_parse(message, &weft__update__descriptor)))
        status = take_rumour(me, edge, m, message, rumour);
    else if (message->type == WEFT_RPC_UPDATE_ACK &&
             (m = weft_rpc_parse(message, &weft__update_ack__descriptor)))
        status = forget_heard(me, edge, m);
    weft_rpc_free(m);
    return status;
}
