/* Reliable broadcast over spanning trees (Plumtree's eager push): each update of a peer reaches
 * every other peer and is applied once, in the order of its origin. */
#include "exchange/gossip/peer_internal.h"

/* Bound on the bytes of a link in flight, and waiting: more than a step takes with any codec. */
static const size_t LEAST_ROOM = (size_t)1 << 20, ROOM_COPIES = 8;

/* A direction starts anew only with a SyncRequest; updates that were in flight are sent again from
 * the log. */
static void take_over(weft_link *edge, weft_link *old, double now)
{
    bool told = old->open && old->count == 0;
    *edge = (weft_link){.to = old->to,
                        .round = old->round,
                        .window = old->window,
                        .trip = old->trip,
                        .room = edge->room,
                        .dtype = edge->dtype,
                        .numbers = edge->numbers,
                        .since = told        ? now
                                 : old->open ? old->queue[0].began
                                             : old->since};
    weft_link_free(old);
}

static size_t room_of(const weft_peer *p)
{
    return p->options.backlog ? p->options.backlog : WEFT_MAX(LEAST_ROOM, ROOM_COPIES * p->bytes);
}

weft_status weft_broadcast_arrange(weft_peer *p)
{
    weft_broadcast *u = &p->rumours;
    weft_link *old = u->edges;
    double now = p->member ? weft_actor_now(&p->head) : 0;
    int old_count = old ? p->neighbour_count : 0;
    p->neighbours = NULL;
    p->neighbour_count = 0;
    if (p->peers > 1) {
        p->neighbours = p->topology->list + p->topology->first[p->me];
        p->neighbour_count = p->topology->first[p->me + 1] - p->topology->first[p->me];
    }
    u->edges = NULL;
    weft_status status = WEFT_NEW(&u->edges, p->neighbour_count + 1);
    for (int i = 0; i < p->neighbour_count && status == WEFT_OK; i++) {
        weft_link *edge = &u->edges[i];
        *edge = (weft_link){.to = p->ids[p->neighbours[i]],
                            .room = room_of(p),
                            .dtype = p->options.dtype,
                            .numbers = p->options.count,
                            .open = !p->member,
                            .since = now};
        for (int k = 0; k < old_count; k++)
            if (old[k].to == edge->to) take_over(edge, &old[k], now);
    }
    for (int k = 0; k < old_count; k++) weft_link_free(&old[k]);
    free(old);
    if (status != WEFT_OK) p->neighbour_count = 0;
    return status;
}

void weft_broadcast_close(weft_peer *p)
{
    weft_broadcast *u = &p->rumours;
    for (int i = 0; u->edges && i < p->neighbour_count; i++) weft_link_free(&u->edges[i]);
    free(u->edges);
    free(u->origins);
    weft_update_log_free(u);
}

/* Forwards to the neighbours whose parent in the origin's tree is this peer. An origin outside the
 * view has no tree: its updates go to all neighbours except the sender. */
static weft_status pass_on(weft_peer *p, const weft_gossip_update *rumour, weft_actor_id sender)
{
    weft_broadcast *u = &p->rumours;
    bool told = false;
    int origin = weft_peer_index(p, rumour->origin);
    WEFT_TRY(weft_update_log_append(p, rumour));
    for (int i = 0; i < p->neighbour_count; i++) {
        const weft_link *edge = &u->edges[i];
        bool from_here =
            origin >= 0
                ? p->topology->from[(size_t)origin * (size_t)p->peers + (size_t)p->neighbours[i]] ==
                      p->me
                : edge->to != sender;
        if (!from_here || !edge->open) continue;
        WEFT_TRY(weft_link_send(&p->head, &u->edges[i], rumour));
        told = true;
    }
    return told ? weft_peer_arm_timer(p) : WEFT_OK;
}

weft_status weft_broadcast_send(weft_peer *p, weft_buffer *payload, bool halt)
{
    weft_broadcast *u = &p->rumours;
    weft_origin *own;
    weft_actor_id me = p->member ? p->head.id : p->ids[p->me];
    weft_gossip_update rumour = {
        .origin = me, .first = u->sequence + 1, .payload = payload, .halt = halt};
    rumour.sequence = rumour.first;
    WEFT_TRY(weft_origin_of(u, me, &own));
    if (!own) return weft_fail(WEFT_ERR_UNSUPPORTED, "too many peers have been in this run");
    own->come = ++u->sequence;
    own->ended = !payload;
    return pass_on(p, &rumour, me);
}

/* A payload that cannot be decoded is dropped and not forwarded. */
static bool is_damaged(weft_peer *p, const weft_buffer *payload)
{
    return payload && (!p->mode->heard || p->mode->heard(p, payload) != WEFT_OK);
}

/* The record of an update's origin: one of the fixed peers, or any peer of an elastic run, present
 * or past. *out is NULL: none, or the numbers are invalid. */
static weft_status find_origin(weft_peer *p, const weft_gossip_update *rumour, weft_origin **out)
{
    *out = NULL;
    if (rumour->sequence <= 0 || rumour->first <= 0 || rumour->first > rumour->sequence)
        return WEFT_OK;
    if (!p->member) {
        *out = weft_origin_find(&p->rumours, rumour->origin);
        return WEFT_OK;
    }
    return weft_origin_of(&p->rumours, rumour->origin, out);
}

/* The sender's log could not supply everything. Another SyncRequest follows, as another peer may
 * have supplied the rest. */
static weft_status skip(weft_peer *p, weft_link *edge)
{
    edge->skips = true;
    return weft_peer_arm_timer(p);
}

weft_status weft_broadcast_message(weft_peer *p, const weft_message *message)
{
    weft_broadcast *u = &p->rumours;
    weft_link *edge = weft_peer_link(p, message->from);
    weft_origin *origin;
    weft_gossip_update rumour;
    if (!edge) return WEFT_OK; /* not a neighbour */
    WEFT_TRY(weft_link_message(&p->head, edge, message, &rumour));
    WEFT_TRY(find_origin(p, &rumour, &origin));
    /* Links keep the order, so an update of an origin is the next one, or a sum that begins with
     * the next one. A later or overlapping one shows a gap, and is requested again. */
    bool fits = origin && rumour.first == origin->come + 1;
    bool known = origin && rumour.sequence <= origin->come;
    if (origin && !fits && !known && p->member) return skip(p, edge);
    if (!fits || origin->ended || is_damaged(p, rumour.payload)) return WEFT_OK;
    origin->come = rumour.sequence;
    origin->ended = !rumour.payload;
    u->halted = u->halted || rumour.halt;
    return pass_on(p, &rumour, message->from);
}

weft_status weft_broadcast_resend(weft_peer *p, bool *more)
{
    weft_broadcast *u = &p->rumours;
    *more = false;
    for (int i = 0; i < p->neighbour_count; i++) {
        WEFT_TRY(weft_link_resend(&p->head, &u->edges[i], p->options.patience));
        *more = *more || u->edges[i].count > 0;
    }
    return WEFT_OK;
}

bool weft_broadcast_all_ended(const weft_peer *p)
{
    for (int i = 0; i < p->peers; i++) {
        const weft_origin *origin = weft_origin_find(&p->rumours, p->ids[i]);
        if (!origin || !origin->ended) return false;
    }
    return true;
}

uint64_t weft_broadcast_sum(const weft_peer *p)
{
    const weft_broadcast *u = &p->rumours;
    uint64_t sum = 0;
    for (size_t i = 0; i < u->origin_count; i++)
        if (u->origins[i].come > 0) sum += weft_mix(u->origins[i].id, (uint64_t)u->origins[i].come);
    return sum | 1;
}

static bool is_behind(const weft_link *edge)
{
    return !edge->open || edge->count > 0 || edge->lacks || edge->behind > 0;
}

bool weft_broadcast_all_heard(const weft_peer *p)
{
    for (int i = 0; i < p->neighbour_count; i++)
        if (is_behind(&p->rumours.edges[i])) return false;
    return true;
}

int64_t weft_broadcast_progress(const weft_peer *p)
{
    int64_t heard = 0;
    for (int i = 0; i < p->neighbour_count; i++)
        heard += p->rumours.edges[i].heard + p->rumours.edges[i].open;
    return heard;
}
