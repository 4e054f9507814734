/* A coordinator that begins where another one has died: the members know how far the run is. And
 * one that comes back to members who have gone on without it. */
#include <inttypes.h>

#include "membership/coordinator_internal.h"

/* A view of the old coordinator that reached nobody who lives may have had one of these numbers. */
enum { LEAP = 16 };

static early *early_of(const circle *c, weft_actor_id who)
{
    for (size_t i = 0; i < c->early_count; i++)
        if (c->early[i].id == who) return &c->early[i];
    return NULL;
}

static weft_status early_for(circle *c, weft_actor_id who, early **out)
{
    *out = early_of(c, who);
    if (*out || c->early_count >= (size_t)c->options.most) return WEFT_OK;
    WEFT_TRY(WEFT_GROW(&c->early, &c->early_capacity, c->early_count));
    *out = &c->early[c->early_count++];
    **out = (early){.id = who};
    return WEFT_OK;
}

/* Views have the figures of the time when they were made, which may be long ago. */
static weft_status note_figures(circle *c, weft_actor_id who, const Weft__Beat *m)
{
    early *e;
    if (!m->figures) return WEFT_OK;
    WEFT_TRY(early_for(c, who, &e));
    if (e) e->figures = weft_circle_figures(m);
    return WEFT_OK;
}

weft_status weft_circle_note_left(circle *c, weft_actor_id who, bool done)
{
    early *e;
    WEFT_TRY(early_for(c, who, &e));
    if (!e) return WEFT_OK;
    e->left = true;
    e->done = e->done || done;
    return WEFT_OK;
}

/* What joiners would be given goes with it: the run that is here has to be the same. */
weft_status weft_circle_recall(circle *c, weft_actor_id who, const Weft__Beat *m)
{
    Weft__Recall recall = WEFT__RECALL__INIT;
    if (!c->called) c->recalled_until = weft_actor_now(&c->head) + c->options.limit;
    c->recalls = c->called = true;
    WEFT_TRY(note_figures(c, who, m));
    return weft_wire_send(&c->head, who, WEFT_WIRE_RECALL, &recall, c->configuration);
}

weft_status weft_circle_refused(const circle *c, const Weft__Refused *m)
{
    if (!c->recalls) return WEFT_OK;
    return weft_fail(WEFT_ERR_PEER,
                     "a run is under way here whose options are others: %.250s; take the same "
                     "options, or another address",
                     m->reason);
}

weft_status weft_circle_remember(circle *c, const weft_message *message)
{
    weft_view view = {.number = 0};
    if (!c->recalls) return WEFT_OK;
    weft_status status = weft_view_unpack(message->payload, weft_actor_now(&c->head), &view);
    if (status == WEFT_ERR_FORMAT) return WEFT_OK;
    WEFT_TRY(status);
    if (!view.running || !weft_view_find(&view, message->from) || view.number <= c->best.number) {
        weft_view_free(&view);
        return WEFT_OK;
    }
    weft_view_free(&c->best);
    c->best = view;
    return WEFT_OK;
}

/* Joiners are given what the members of the run have begun with: where the run began is not among
 * this coordinator's own options. */
weft_status weft_circle_remember_options(circle *c, const weft_message *message)
{
    if (!c->recalls || !message->payload) return WEFT_OK;
    weft_blob_drop(&c->members_configuration);
    return weft_blob_keep(message->payload, &c->members_configuration);
}

/* Those that have left since are told of in the order in which they left. */
static weft_status remove_left(circle *c)
{
    for (size_t i = 0; i < c->early_count; i++) {
        const early *e = &c->early[i];
        if (e->left && weft_view_find(&c->view, e->id))
            WEFT_TRY(weft_circle_has_left(c, e->id, e->done));
    }
    return WEFT_OK;
}

/* Who has gone through all of the silence that a member may keep is no member any more. */
static weft_status lose_run(circle *c)
{
    WEFT_TRY(weft_format(&c->view.fault,
                         "all processes that had the parameters of step %" PRId64 " are lost; %s",
                         c->options.done, c->advice));
    return weft_circle_changed(c);
}

/* Whoever had come to this one meanwhile joins again. */
weft_status weft_circle_adopt(circle *c)
{
    double now = weft_actor_now(&c->head);
    c->recalls = c->called = false;
    if (c->best.number == 0) return c->options.done > 0 ? lose_run(c) : WEFT_OK;
    while (c->seat_capacity < c->best.member_count)
        WEFT_TRY(WEFT_GROW(&c->seats, &c->seat_capacity, c->seat_capacity));
    weft_view_free(&c->view);
    c->view = c->best;
    c->best = (weft_view){.number = 0};
    c->view.number += LEAP;
    c->view.silence = c->options.limit;
    for (size_t i = 0; i < c->view.member_count; i++) {
        const early *e = early_of(c, c->view.members[i].id);
        c->seats[i] = (seat){.heard = now};
        if (e) c->view.members[i].figures = e->figures;
    }
    c->ticked = now;
    c->stepped = true;
    if (c->members_configuration) {
        weft_blob_drop(&c->configuration);
        c->configuration = c->members_configuration;
        c->members_configuration = NULL;
    }
    WEFT_TRY(remove_left(c));
    return weft_circle_changed(c);
}

/* Members whom this one had left alone have counted on by themselves, while it slept or no line led
 * here, so that views of the same number may be of different members. What it says now counts, with
 * a number that nobody has had; who was taken out there and lives still is back, and who has died
 * is silent here, too. */
weft_status weft_circle_overrule(circle *c, int64_t number)
{
    if (number > INT64_MAX / 2) return WEFT_OK; /* nobody has counted that far */
    c->view.number = number;
    return weft_circle_changed(c);
}
