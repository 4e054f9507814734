/* A coordinator that begins where another one has died: the members know how far the run is. */
#include "exchange/cluster/circle.h"

/* A view of the old coordinator that reached nobody who lives may have had one of these numbers. */
enum { LEAP = 16 };

weft_status weft_circle_recall(circle *c, weft_actor_id who)
{
    Weft__Recall m = WEFT__RECALL__INIT;
    if (!c->recalls) c->recalled_until = weft_actor_now(&c->head) + c->options.limit;
    c->recalls = true;
    return weft_wire_send(&c->head, who, WEFT_WIRE_RECALL, &m, NULL);
}

weft_status weft_circle_remember(circle *c, const weft_letter *letter)
{
    weft_view view = {.number = 0};
    if (!c->recalls) return WEFT_OK;
    weft_status status = weft_view_unpack(letter->payload, &view);
    if (status == WEFT_ERR_FORMAT) return WEFT_OK;
    WEFT_TRY(status);
    if (!view.running || !weft_view_find(&view, letter->from) || view.number <= c->best.number) {
        weft_view_free(&view);
        return WEFT_OK;
    }
    weft_view_free(&c->best);
    c->best = view;
    return WEFT_OK;
}

/* Whoever had come to this one meanwhile joins again. */
weft_status weft_circle_adopt(circle *c)
{
    double now = weft_actor_now(&c->head);
    c->recalls = false;
    if (c->best.number == 0) return WEFT_OK;
    while (c->seat_capacity < c->best.member_count)
        WEFT_TRY(WEFT_GROW(&c->seats, &c->seat_capacity, c->seat_capacity));
    weft_view_free(&c->view);
    c->view = c->best;
    c->best = (weft_view){.number = 0};
    c->view.number += LEAP;
    c->view.silence = c->options.limit;
    for (size_t i = 0; i < c->view.member_count; i++) c->seats[i] = (seat){.heard = now};
    c->ticked = now;
    return weft_circle_changed(c);
}
