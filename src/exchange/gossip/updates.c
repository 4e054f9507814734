/* Every update goes to every peer, once, along the edges. */
#include "exchange/gossip/peer.h"

/* An edge that has so many rumours unheard has no room for those of another step. */
enum { ROOM = 256 };

typedef struct updates {
    weft_edge *edges;
    struct origin {
        int64_t come; /* all up to this one */
        bool ended;
    } * origins;
    int64_t sequence; /* of one's own */
    weft_blob *room;  /* to encode in */
} updates;

static void updates_close(weft_peer *p)
{
    updates *u = p->state;
    for (int i = 0; u->edges && i < p->options.neighbour_count; i++) weft_edge_free(&u->edges[i]);
    free(u->edges);
    free(u->origins);
    free(u);
}

static weft_status updates_open(weft_peer *p)
{
    updates *u;
    WEFT_TRY(WEFT_NEW(&u, 1));
    p->state = u;
    WEFT_TRY(WEFT_NEW(&u->edges, p->options.neighbour_count));
    WEFT_TRY(WEFT_NEW(&u->origins, p->options.peers));
    for (int i = 0; i < p->options.neighbour_count; i++)
        u->edges[i].to = p->options.first + (weft_actor_id)p->neighbours[i];
    return WEFT_OK;
}

/* To all neighbours but the one it comes from. */
static weft_status pass_on(weft_peer *p, const weft_rumour *rumour, const weft_edge *from)
{
    updates *u = p->state;
    for (int i = 0; i < p->options.neighbour_count; i++)
        if (&u->edges[i] != from) WEFT_TRY(weft_edge_tell(&p->head, &u->edges[i], rumour));
    return weft_peer_listen(p);
}

static weft_status apply(weft_peer *p, const weft_blob *payload)
{
    const weft_peer_options *o = &p->options;
    weft_message message;
    WEFT_TRY(weft_message_open(payload->data, payload->bytes, o->dtype, o->count, &message));
    weft_message_add(&message, o->count, 1, p->now);
    return WEFT_OK;
}

static weft_status say(weft_peer *p, weft_blob *payload)
{
    updates *u = p->state;
    weft_rumour rumour = {(uint32_t)p->options.me, ++u->sequence, payload};
    u->origins[p->options.me].come = u->sequence;
    u->origins[p->options.me].ended = !payload;
    return pass_on(p, &rumour, NULL);
}

static weft_status updates_computed(weft_peer *p, void *change)
{
    const weft_peer_options *o = &p->options;
    weft_blob *blob;
    WEFT_TRY(weft_blob_new(weft_message_bound(o->dtype, o->count), &blob));
    weft_status status = weft_codec_encode(o->codec, change, blob->data, &blob->bytes);
    if (status == WEFT_OK) status = apply(p, blob);
    if (status == WEFT_OK) status = say(p, blob);
    weft_blob_drop(&blob);
    return status;
}

static weft_status updates_letter(weft_peer *p, const weft_letter *letter)
{
    updates *u = p->state;
    weft_edge *edge = NULL;
    weft_rumour rumour;
    for (int i = 0; i < p->options.neighbour_count; i++)
        if (u->edges[i].to == letter->from) edge = &u->edges[i];
    if (!edge) return WEFT_OK; /* nobody we know */
    WEFT_TRY(weft_edge_letter(&p->head, edge, letter, &rumour));
    if (rumour.origin >= (uint32_t)p->options.peers) return WEFT_OK;
    struct origin *origin = &u->origins[rumour.origin];
    /* Edges keep the order, so of what an origin says nothing is skipped, whichever way it comes.
     */
    if (rumour.sequence <= origin->come) return WEFT_OK;
    origin->come = rumour.sequence;
    if (rumour.payload)
        WEFT_TRY(apply(p, rumour.payload));
    else
        origin->ended = true;
    return pass_on(p, &rumour, edge);
}

static weft_status updates_repeat(weft_peer *p, bool *more)
{
    updates *u = p->state;
    for (int i = 0; i < p->options.neighbour_count; i++) {
        WEFT_TRY(weft_edge_repeat(&p->head, &u->edges[i]));
        *more = *more || u->edges[i].count > 0;
    }
    return WEFT_OK;
}

static weft_status updates_ended(weft_peer *p)
{
    return say(p, NULL);
}

static bool updates_has_room(const weft_peer *p)
{
    const updates *u = p->state;
    for (int i = 0; i < p->options.neighbour_count; i++)
        if (u->edges[i].count >= ROOM) return false;
    return true;
}

static bool updates_finished(const weft_peer *p)
{
    const updates *u = p->state;
    for (int i = 0; i < p->options.peers; i++)
        if (!u->origins[i].ended) return false;
    return true;
}

const weft_peer_mode weft_peer_updates = {
    .open = updates_open,
    .close = updates_close,
    .computed = updates_computed,
    .letter = updates_letter,
    .repeat = updates_repeat,
    .ended = updates_ended,
    .has_room = updates_has_room,
    .finished = updates_finished,
};
