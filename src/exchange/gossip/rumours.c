/* What each peer says goes to every other, once, along the edges. */
#include "exchange/gossip/peer.h"

/* An edge that has so many rumours unheard has no room for those of another step. */
enum { ROOM = 256 };

weft_status weft_rumours_open(weft_peer *p)
{
    weft_rumours *u = &p->rumours;
    WEFT_TRY(WEFT_NEW(&u->edges, p->neighbour_count));
    WEFT_TRY(WEFT_NEW(&u->origins, p->peers));
    for (int i = 0; i < p->neighbour_count; i++)
        u->edges[i].to = p->options.first + (weft_actor_id)p->neighbours[i];
    return WEFT_OK;
}

void weft_rumours_close(weft_peer *p)
{
    weft_rumours *u = &p->rumours;
    for (int i = 0; u->edges && i < p->neighbour_count; i++) weft_edge_free(&u->edges[i]);
    free(u->edges);
    free(u->origins);
}

/* To those neighbours who have it from here. */
static weft_status pass_on(weft_peer *p, const weft_rumour *rumour)
{
    weft_rumours *u = &p->rumours;
    bool told = false;
    const int *from = p->options.topology->from + (size_t)rumour->origin * (size_t)p->peers;
    for (int i = 0; i < p->neighbour_count; i++) {
        if (from[p->neighbours[i]] != p->options.me) continue;
        WEFT_TRY(weft_edge_tell(&p->head, &u->edges[i], rumour));
        told = true;
    }
    return told ? weft_peer_listen(p) : WEFT_OK;
}

weft_status weft_rumours_say(weft_peer *p, weft_blob *payload, bool halt)
{
    weft_rumours *u = &p->rumours;
    weft_rumour rumour = {.origin = (uint32_t)p->options.me,
                          .sequence = ++u->sequence,
                          .payload = payload,
                          .halt = halt};
    u->origins[p->options.me].come = u->sequence;
    u->origins[p->options.me].ended = !payload;
    return pass_on(p, &rumour);
}

/* What is no update of ours is none of anybody's. */
static bool is_damaged(weft_peer *p, const weft_blob *payload)
{
    return payload && (!p->mode->heard || p->mode->heard(p, payload) != WEFT_OK);
}

weft_status weft_rumours_letter(weft_peer *p, const weft_letter *letter)
{
    weft_rumours *u = &p->rumours;
    weft_edge *edge = NULL;
    weft_rumour rumour;
    for (int i = 0; i < p->neighbour_count; i++)
        if (u->edges[i].to == letter->from) edge = &u->edges[i];
    if (!edge) return WEFT_OK; /* nobody we know */
    WEFT_TRY(weft_edge_letter(&p->head, edge, letter, &rumour));
    if (rumour.origin >= (uint32_t)p->peers) return WEFT_OK;
    struct weft_origin *origin = &u->origins[rumour.origin];
    /* Edges keep the order, so of what an origin says nothing is skipped, whichever way it comes.
     */
    if (rumour.sequence <= origin->come || is_damaged(p, rumour.payload)) return WEFT_OK;
    origin->come = rumour.sequence;
    origin->ended = origin->ended || !rumour.payload;
    u->halted = u->halted || rumour.halt;
    return pass_on(p, &rumour);
}

weft_status weft_rumours_repeat(weft_peer *p, bool *more)
{
    weft_rumours *u = &p->rumours;
    *more = false;
    for (int i = 0; i < p->neighbour_count; i++) {
        WEFT_TRY(weft_edge_repeat(&p->head, &u->edges[i], p->options.patience));
        *more = *more || u->edges[i].count > 0;
    }
    return WEFT_OK;
}

bool weft_rumours_have_room(const weft_peer *p)
{
    for (int i = 0; i < p->neighbour_count; i++)
        if (p->rumours.edges[i].count >= ROOM) return false;
    return true;
}

bool weft_rumours_all_ended(const weft_peer *p)
{
    for (int i = 0; i < p->peers; i++)
        if (!p->rumours.origins[i].ended) return false;
    return true;
}
