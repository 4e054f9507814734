#include "membership/client.h"

#include "membership.pb-c.h"
#include "actor/rpc.h"

enum { AGAIN = 0 };

typedef struct guest {
    weft_actor head;
    weft_guest_options options;
    bool seen, welcome, gone; /* what has been answered */
    weft_view view;
    uint64_t run;
    int slot;
    weft_blob *configuration;
} guest;

const weft_view *weft_guest_view(const weft_actor *actor)
{
    return &((const guest *)actor)->view;
}

uint64_t weft_guest_run(const weft_actor *actor)
{
    return ((const guest *)actor)->run;
}

int weft_guest_slot(const weft_actor *actor)
{
    return ((const guest *)actor)->slot;
}

const weft_blob *weft_guest_configuration(const weft_actor *actor)
{
    return ((const guest *)actor)->configuration;
}

static weft_status say(guest *g)
{
    Weft__Ask ask;
    Weft__Leave leave;
    weft__ask__init(&ask);
    weft__leave__init(&leave);
    ask.invited = g->options.invited;
    ask.learner = g->options.learner;
    ask.place = (uint32_t)g->options.place;
    leave.other = g->options.other;
    WEFT_TRY(weft_actor_set_timer(&g->head, AGAIN, g->options.again));
    if (g->options.other != WEFT_NOBODY && !g->gone)
        WEFT_TRY(weft_wire_send(&g->head, WEFT_COORDINATOR, WEFT_WIRE_LEAVE, &leave, NULL));
    return weft_wire_send(&g->head, WEFT_COORDINATOR, WEFT_WIRE_ASK, &ask, NULL);
}

weft_status weft_guest_ask(weft_actor *actor)
{
    guest *g = (guest *)actor;
    g->seen = g->welcome = actor->done = false;
    return say(g);
}

static weft_status take_view(guest *g, const weft_message *message)
{
    weft_view view = {.number = 0};
    weft_status status = weft_view_unpack(message->payload, weft_actor_now(&g->head), &view);
    if (status == WEFT_ERR_FORMAT) return WEFT_OK;
    WEFT_TRY(status);
    weft_view_free(&g->view);
    g->view = view;
    g->seen = true;
    return WEFT_OK;
}

static weft_status take_welcome(guest *g, const weft_message *message)
{
    Weft__Welcome *m = weft_wire_read(message, &weft__welcome__descriptor);
    if (m && message->payload && m->slot <= INT32_MAX) {
        weft_blob_drop(&g->configuration);
        g->configuration = weft_blob_hold(message->payload);
        g->slot = (int)m->slot;
        g->run = m->run;
        g->welcome = true;
    }
    weft_wire_free(m);
    return WEFT_OK;
}

static weft_status take_refused(const weft_message *message)
{
    Weft__Refused *m = weft_wire_read(message, &weft__refused__descriptor);
    weft_status status =
        m ? weft_fail(WEFT_ERR_PEER, "the coordinator refuses: %.300s", m->reason) : WEFT_OK;
    weft_wire_free(m);
    return status;
}

static weft_status guest_message(weft_actor *actor, const weft_message *message)
{
    guest *g = (guest *)actor;
    weft_status status = WEFT_OK;
    if (message->from != WEFT_COORDINATOR) return WEFT_OK;
    if (message->type == WEFT_WIRE_VIEW) status = take_view(g, message);
    if (message->type == WEFT_WIRE_WELCOME) status = take_welcome(g, message);
    if (message->type == WEFT_WIRE_REFUSED) status = take_refused(message);
    if (message->type == WEFT_WIRE_LEFT) g->gone = true;
    actor->done = g->seen && (g->welcome || !g->options.invited) &&
                  (g->gone || g->options.other == WEFT_NOBODY);
    return status;
}

static weft_status guest_timer(weft_actor *actor, int timer)
{
    (void)timer;
    return say((guest *)actor);
}

static weft_status guest_begin(weft_actor *actor)
{
    return say((guest *)actor);
}

static void guest_destroy(weft_actor *actor)
{
    guest *g = (guest *)actor;
    weft_view_free(&g->view);
    weft_blob_drop(&g->configuration);
    free(g);
}

static const weft_actor_ops guest_ops = {
    .name = "guest",
    .begin = guest_begin,
    .message = guest_message,
    .timer = guest_timer,
    .destroy = guest_destroy,
};

weft_status weft_guest_create(const weft_guest_options *options, weft_actor **out)
{
    guest *g;
    WEFT_TRY(WEFT_NEW(&g, 1));
    g->head.ops = &guest_ops;
    g->options = *options;
    *out = &g->head;
    return WEFT_OK;
}
