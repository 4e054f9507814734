/* Reliable broadcast over spanning trees (Plumtree's eager push): each update of a peer reaches
 * every other peer and is applied once, in the order of its origin. */
#include "exchange/gossip/peer_internal.h"

/* Default bound on the bytes that a link has in flight, and again on those that wait: LEAST_BYTES,
 * or PARAMETER_COPIES times the parameters if that is more. The update of one step is smaller with
 * any codec. */
static const size_t LEAST_BYTES = (size_t)1 << 20, PARAMETER_COPIES = 8;

/* Keeps epoch, window and RTO of a link to a peer that is a neighbour in the new view, too. The
 * queue is dropped, and the link stays closed until a SyncRequest of the neighbour; its updates are
 * then sent again from the log. */
static void carry_over(weft_link *link, weft_link *old, double now)
{
    bool all_sent = old->open && old->count == 0;
    *link = (weft_link){.to = old->to,
                        .send_epoch = old->send_epoch,
                        .window = old->window,
                        .rto = old->rto,
                        .byte_limit = link->byte_limit,
                        .dtype = link->dtype,
                        .elements = link->elements,
                        .codec = link->codec,
                        .unsent_since = all_sent    ? now
                                        : old->open ? old->queue[0].arrived
                                                    : old->unsent_since};
    weft_link_free(old);
}

static size_t byte_limit(const weft_peer *p)
{
    return p->options.backlog ? p->options.backlog
                              : WEFT_MAX(LEAST_BYTES, PARAMETER_COPIES * p->bytes);
}

weft_status weft_broadcast_arrange(weft_peer *p)
{
    weft_broadcast *u = &p->broadcast;
    weft_link *old = u->links;
    double now = p->member ? weft_actor_now(&p->head) : 0;
    int old_count = old ? p->neighbour_count : 0;
    p->neighbours = NULL;
    p->neighbour_count = 0;
    if (p->peers > 1) {
        p->neighbours = p->topology->list + p->topology->first[p->me];
        p->neighbour_count = p->topology->first[p->me + 1] - p->topology->first[p->me];
    }
    u->links = NULL;
    weft_status status = WEFT_NEW(&u->links, p->neighbour_count + 1);
    for (int i = 0; i < p->neighbour_count && status == WEFT_OK; i++) {
        weft_link *link = &u->links[i];
        *link = (weft_link){.to = p->ids[p->neighbours[i]],
                            .byte_limit = byte_limit(p),
                            .dtype = p->options.dtype,
                            .elements = p->options.count,
                            .codec = p->options.codec ? p->options.codec->ops : NULL,
                            .open = !p->member,
                            .unsent_since = now};
        for (int k = 0; k < old_count; k++)
            if (old[k].to == link->to) carry_over(link, &old[k], now);
    }
    for (int k = 0; k < old_count; k++) weft_link_free(&old[k]);
    free(old);
    if (status != WEFT_OK) p->neighbour_count = 0;
    return status;
}

void weft_broadcast_close(weft_peer *p)
{
    weft_broadcast *u = &p->broadcast;
    for (int i = 0; u->links && i < p->neighbour_count; i++) weft_link_free(&u->links[i]);
    free(u->links);
    free(u->origins);
    weft_update_log_free(u);
}

/* Logs an update and sends it to the neighbours whose parent in the origin's tree is this peer. An
 * origin outside the view has no tree: its updates go to all neighbours except the sender. */
static weft_status forward(weft_peer *p, const weft_gossip_update *update, weft_actor_id sender)
{
    weft_broadcast *u = &p->broadcast;
    bool sent = false;
    int origin = weft_peer_index(p, update->origin);
    WEFT_TRY(weft_update_log_append(p, update));
    for (int i = 0; i < p->neighbour_count; i++) {
        const weft_link *link = &u->links[i];
        bool from_here = origin >= 0 ? p->topology->parent[(size_t)origin * (size_t)p->peers +
                                                           (size_t)p->neighbours[i]] == p->me
                                     : link->to != sender;
        if (!from_here || !link->open) continue;
        WEFT_TRY(weft_link_send(&p->head, &u->links[i], update));
        sent = true;
    }
    return sent ? weft_peer_arm_timer(p) : WEFT_OK;
}

weft_status weft_broadcast_send(weft_peer *p, weft_buffer *payload, bool halt)
{
    weft_broadcast *u = &p->broadcast;
    weft_origin *own;
    weft_actor_id me = p->member ? p->head.id : p->ids[p->me];
    weft_gossip_update update = {
        .origin = me, .first = u->sequence + 1, .payload = payload, .halt = halt};
    update.sequence = update.first;
    WEFT_TRY(weft_origin_of(u, me, &own));
    if (!own) return weft_fail(WEFT_ERR_UNSUPPORTED, "too many peers have been in this run");
    own->applied = ++u->sequence;
    own->ended = !payload;
    return forward(p, &update, me);
}

/* Applies a payload. true: it cannot be decoded, so the caller drops the update and does not
 * forward it. */
static bool is_damaged(weft_peer *p, const weft_buffer *payload)
{
    return payload && (!p->mode->apply || p->mode->apply(p, payload) != WEFT_OK);
}

/* Finds the entry of an update's origin: one of the fixed peers, or any peer of an elastic run,
 * present or past. *out is NULL if there is none, or if the numbers of the update are invalid. */
static weft_status find_origin(weft_peer *p, const weft_gossip_update *update, weft_origin **out)
{
    *out = NULL;
    if (update->sequence <= 0 || update->first <= 0 || update->first > update->sequence)
        return WEFT_OK;
    if (!p->member) {
        *out = weft_origin_find(&p->broadcast, update->origin);
        return WEFT_OK;
    }
    return weft_origin_of(&p->broadcast, update->origin, out);
}

/* Called when updates of an origin are missing before the one that a neighbour sent, since its log
 * lacks them. The timer then sends the neighbour another SyncRequest, as another peer may have
 * supplied the missing updates by then. */
static weft_status note_gap(weft_peer *p, weft_link *link)
{
    link->gap_seen = true;
    return weft_peer_arm_timer(p);
}

weft_status weft_broadcast_take_ack(void *self, const weft_message *message, const void *content)
{
    weft_peer *p = self;
    weft_link *link = weft_peer_link(p, message->from);
    return link ? weft_link_take_ack(&p->head, link, content) : WEFT_OK;
}

weft_status weft_broadcast_take_update(void *self, const weft_message *message, const void *content)
{
    weft_peer *p = self;
    weft_broadcast *u = &p->broadcast;
    weft_link *link = weft_peer_link(p, message->from);
    weft_origin *origin;
    weft_gossip_update update;
    if (!link) return WEFT_OK; /* the sender is no neighbour */
    WEFT_TRY(weft_link_take_update(&p->head, link, content, message->payload, &update));
    WEFT_TRY(find_origin(p, &update, &origin));
    /* Links keep the order, so an update of an origin is the next one, or a sum that begins with
     * the next one. If a later or overlapping one arrives, updates are missing: it is dropped, and
     * requested again. */
    bool fits = origin && update.first == origin->applied + 1;
    bool known = origin && update.sequence <= origin->applied;
    if (origin && !fits && !known && p->member) return note_gap(p, link);
    /* After its end an origin can only end again, to ask all others to end. */
    bool over = origin && origin->ended && update.payload;
    if (!fits || over || is_damaged(p, update.payload)) return WEFT_OK;
    origin->applied = update.sequence;
    origin->ended = !update.payload;
    /* Peers that come and go end alone. */
    update.halt = update.halt && (!p->member || p->options.job);
    u->halted = u->halted || update.halt;
    return forward(p, &update, message->from);
}

weft_status weft_broadcast_resend(weft_peer *p, bool *more)
{
    weft_broadcast *u = &p->broadcast;
    *more = false;
    for (int i = 0; i < p->neighbour_count; i++) {
        WEFT_TRY(weft_link_resend(&p->head, &u->links[i], p->options.min_rto));
        *more = *more || u->links[i].count > 0;
    }
    return WEFT_OK;
}

bool weft_broadcast_all_ended(const weft_peer *p)
{
    for (int i = 0; i < p->peers; i++) {
        const weft_origin *origin = weft_origin_find(&p->broadcast, p->ids[i]);
        if (!origin || !origin->ended) return false;
    }
    return true;
}

uint64_t weft_broadcast_version_hash(const weft_peer *p)
{
    const weft_broadcast *u = &p->broadcast;
    uint64_t hash = 0;
    for (size_t i = 0; i < u->origin_count; i++)
        if (u->origins[i].applied > 0)
            hash += weft_mix(u->origins[i].id, (uint64_t)u->origins[i].applied);
    return hash | 1;
}

static bool is_behind(const weft_link *link)
{
    return !link->open || link->count > 0 || link->needs_snapshot || link->behind_since > 0;
}

bool weft_broadcast_all_acked(const weft_peer *p)
{
    for (int i = 0; i < p->neighbour_count; i++)
        if (is_behind(&p->broadcast.links[i])) return false;
    return true;
}

int64_t weft_broadcast_progress(const weft_peer *p)
{
    int64_t acked = 0;
    for (int i = 0; i < p->neighbour_count; i++)
        acked += p->broadcast.links[i].acked + p->broadcast.links[i].open;
    return acked;
}
