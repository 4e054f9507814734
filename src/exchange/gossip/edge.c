#include "exchange/gossip/edge.h"

#include "exchange/wire.h"
#include "gossip.pb-c.h"

/* So many are on their way again at a time; those after them would come too early. */
enum { REPEATED = 16, MOST_PATIENCE = 32 };

void weft_edge_free(weft_edge *edge)
{
    for (size_t i = 0; i < edge->count; i++) weft_blob_drop(&edge->queue[i].payload);
    free(edge->queue);
}

static weft_status send(weft_actor *from, const weft_edge *edge, size_t i)
{
    weft_rumour *rumour = &edge->queue[i];
    Weft__Rumour m = WEFT__RUMOUR__INIT;
    m.edge_sequence = edge->heard + 1 + (int64_t)i;
    m.origin = rumour->origin;
    m.sequence = rumour->sequence;
    m.halt = rumour->halt;
    rumour->sent = weft_actor_now(from);
    return weft_wire_send(from, edge->to, WEFT_WIRE_RUMOUR, &m, rumour->payload);
}

weft_status weft_edge_tell(weft_actor *from, weft_edge *edge, const weft_rumour *rumour)
{
    WEFT_TRY(WEFT_GROW(&edge->queue, &edge->capacity, edge->count));
    edge->queue[edge->count] = *rumour;
    edge->queue[edge->count].began = weft_actor_now(from);
    weft_blob_hold(rumour->payload);
    return send(from, edge, edge->count++);
}

weft_status weft_edge_repeat(weft_actor *from, weft_edge *edge, double patience)
{
    double now = weft_actor_now(from);
    edge->patience = WEFT_MIN(WEFT_MAX(edge->patience, patience), MOST_PATIENCE * patience);
    if (edge->count == 0 || now - edge->queue[0].sent < edge->patience) return WEFT_OK;
    for (size_t i = 0; i < edge->count && i < REPEATED; i++)
        if (now - edge->queue[i].sent >= edge->patience) WEFT_TRY(send(from, edge, i));
    edge->patience *= 2;
    return WEFT_OK;
}

static void forget_heard(weft_edge *edge, int64_t heard, double now)
{
    if (heard <= edge->heard || edge->count == 0) return;
    int64_t gone = WEFT_MIN(heard - edge->heard, (int64_t)edge->count);
    edge->patience = 2 * (now - edge->queue[gone - 1].began);
    for (int64_t i = 0; i < gone; i++) weft_blob_drop(&edge->queue[i].payload);
    edge->count -= (size_t)gone;
    memmove(edge->queue, edge->queue + gone, edge->count * sizeof(weft_rumour));
    edge->heard += gone;
}

static weft_status take_rumour(weft_actor *me, weft_edge *edge, const Weft__Rumour *m,
                               const weft_letter *letter, weft_rumour *rumour)
{
    Weft__Heard heard = WEFT__HEARD__INIT;
    if (m->edge_sequence == edge->come + 1) {
        edge->come++;
        *rumour = (weft_rumour){.origin = m->origin,
                                .sequence = m->sequence,
                                .payload = letter->payload,
                                .halt = m->halt};
    }
    heard.edge_sequence = edge->come;
    return weft_wire_send(me, edge->to, WEFT_WIRE_HEARD, &heard, NULL);
}

weft_status weft_edge_letter(weft_actor *me, weft_edge *edge, const weft_letter *letter,
                             weft_rumour *rumour)
{
    weft_status status = WEFT_OK;
    void *m = NULL;
    *rumour = (weft_rumour){.origin = UINT32_MAX};
    if (letter->type == WEFT_WIRE_RUMOUR && (m = weft_wire_read(letter, &weft__rumour__descriptor)))
        status = take_rumour(me, edge, m, letter, rumour);
    else if (letter->type == WEFT_WIRE_HEARD &&
             (m = weft_wire_read(letter, &weft__heard__descriptor)))
        forget_heard(edge, ((const Weft__Heard *)m)->edge_sequence, weft_actor_now(me));
    weft_wire_free(m);
    return status;
}
