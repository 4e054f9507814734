/* The membership client: sends Query and Leave to the coordinator until they are answered. */
#include "membership/client.h"

#include "membership.pb-c.h"
#include "actor/rpc.h"

enum { RESEND_TIMER = 0 };

typedef struct client {
    weft_actor head;
    weft_membership_client_options options;
    bool seen, welcome, gone; /* a View, JoinAck or LeaveAck has arrived */
    weft_view view;
    uint64_t run;
    int slot;
    weft_buffer *configuration;
} client;

const weft_view *weft_membership_client_view(const weft_actor *actor)
{
    return &((const client *)actor)->view;
}

uint64_t weft_membership_client_run(const weft_actor *actor)
{
    return ((const client *)actor)->run;
}

int weft_membership_client_slot(const weft_actor *actor)
{
    return ((const client *)actor)->slot;
}

const weft_buffer *weft_membership_client_run_config(const weft_actor *actor)
{
    return ((const client *)actor)->configuration;
}

static weft_status send_request(client *g)
{
    Weft__Query ask;
    Weft__Leave leave;
    weft__query__init(&ask);
    weft__leave__init(&leave);
    ask.invited = g->options.invited;
    ask.learner = g->options.learner;
    ask.place = (uint32_t)g->options.wished_slot;
    ask.run = g->options.run;
    leave.other = g->options.other;
    WEFT_TRY(weft_actor_set_timer(&g->head, RESEND_TIMER, g->options.resend_timeout));
    if (g->options.other != WEFT_NOBODY && !g->gone)
        WEFT_TRY(weft_rpc_send(&g->head, WEFT_COORDINATOR, WEFT_RPC_LEAVE, &leave, NULL));
    return weft_rpc_send(&g->head, WEFT_COORDINATOR, WEFT_RPC_QUERY, &ask, NULL);
}

static weft_status take_view(void *self, const weft_message *message, const void *content)
{
    client *g = self;
    (void)content;
    weft_view view = {.number = 0};
    weft_status status = weft_view_unpack(message->payload, weft_actor_now(&g->head), &view);
    if (status == WEFT_ERR_FORMAT) return WEFT_OK;
    WEFT_TRY(status);
    if (view.base != 0) {
        weft_view_free(&view);
        return WEFT_OK;
    }
    weft_view_free(&g->view);
    g->view = view;
    g->seen = true;
    return WEFT_OK;
}

static weft_status take_welcome(void *self, const weft_message *message, const void *content)
{
    client *g = self;
    const Weft__JoinAck *m = content;
    if (!message->payload || m->slot > INT32_MAX) return WEFT_OK;
    weft_buffer_unref(&g->configuration);
    g->configuration = weft_buffer_ref(message->payload);
    g->slot = (int)m->slot;
    g->run = m->run;
    g->welcome = true;
    return WEFT_OK;
}

static weft_status take_refused(void *self, const weft_message *message, const void *content)
{
    const Weft__Reject *m = content;
    (void)self;
    (void)message;
    return weft_fail(WEFT_ERR_PEER, "the coordinator refuses: %.300s", m->reason);
}

static weft_status client_message(weft_actor *actor, const weft_message *message)
{
    static const weft_rpc_handler handlers[] = {
        {WEFT_RPC_VIEW, NULL, take_view},
        {WEFT_RPC_JOIN_ACK, &weft__join_ack__descriptor, take_welcome},
        {WEFT_RPC_REJECT, &weft__reject__descriptor, take_refused},
        {0},
    };
    client *g = (client *)actor;
    if (message->from != WEFT_COORDINATOR ||
        !weft_rpc_may_send(message->type, WEFT_RPC_COORDINATOR, WEFT_RPC_OTHER))
        return WEFT_OK;
    weft_status status = weft_rpc_dispatch(handlers, g, message);
    g->gone = g->gone || message->type == WEFT_RPC_LEAVE_ACK;
    actor->done = g->seen && (g->welcome || !g->options.invited) &&
                  (g->gone || g->options.other == WEFT_NOBODY);
    return status;
}

static weft_status client_timer(weft_actor *actor, int timer)
{
    (void)timer;
    return send_request((client *)actor);
}

static weft_status client_begin(weft_actor *actor)
{
    return send_request((client *)actor);
}

static void client_destroy(weft_actor *actor)
{
    client *g = (client *)actor;
    weft_view_free(&g->view);
    weft_buffer_unref(&g->configuration);
    free(g);
}

static const weft_actor_ops client_ops = {
    .name = "client",
    .begin = client_begin,
    .message = client_message,
    .timer = client_timer,
    .destroy = client_destroy,
};

weft_status weft_membership_client_create(const weft_membership_client_options *options,
                                          weft_actor **out)
{
    client *g;
    WEFT_TRY(WEFT_NEW(&g, 1));
    g->head.ops = &client_ops;
    g->options = *options;
    *out = &g->head;
    return WEFT_OK;
}
