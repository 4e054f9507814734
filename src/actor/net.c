/* Implements the runtime of one actor over ZeroMQ: timers, the poll loop, opening and closing. */
#include <math.h>
#include <unistd.h>

#include "actor/net_internal.h"

/* The time after which a call of weft_net_poll takes no more messages. */
static const double LONGEST_SECONDS = 0.25;

/* --- timers and computations --- */

static double net_now(weft_runtime *host)
{
    (void)host;
    return weft_seconds();
}

static weft_status net_set_timer(weft_actor *actor, int timer, double seconds)
{
    weft_net *net = (weft_net *)actor->host;
    if (timer < 0 || timer >= WEFT_ACTOR_TIMERS)
        return weft_fail(WEFT_ERR_INTERNAL, "there is no timer %d", timer);
    net->timers[timer] = seconds < 0 ? INFINITY : weft_seconds() + seconds;
    return WEFT_OK;
}

static weft_status net_compute(weft_actor *actor, int64_t ticket)
{
    weft_net *net = (weft_net *)actor->host;
    net->wants = true;
    net->ticket = ticket;
    return WEFT_OK;
}

static weft_status run_timers(weft_net *net, bool *some)
{
    for (int i = 0; i < WEFT_ACTOR_TIMERS && !net->actor->done; i++) {
        if (net->timers[i] > weft_seconds()) continue;
        net->timers[i] = INFINITY;
        *some = true;
        WEFT_TRY(net->actor->ops->timer(net->actor, i));
    }
    return WEFT_OK;
}

/* Takes the address of another actor. An invalid address is logged and does not fail this actor,
 * since the other actor has sent it. */
static weft_status net_know(weft_runtime *host, weft_actor_id id, const char *address)
{
    weft_net *net = (weft_net *)host;
    weft_status status = weft_net_add_peer(net, id, address);
    if (status != WEFT_ERR_ARGUMENT) return status;
    char name[48];
    weft_log(net->world->context, WEFT_LOG_WARNING,
             "%s cannot connect to the member with number %u: %s",
             weft_actor_name(net->actor, name), id, weft_last_message());
    return WEFT_OK;
}

static void net_forget(weft_runtime *host, weft_actor_id id)
{
    weft_net_forget_peer((weft_net *)host, id);
}

static bool net_bind(weft_runtime *host, weft_actor_id id, const char *address)
{
    return weft_inbound_bind(&((weft_net *)host)->callers, id, address);
}

static const char *net_address(weft_runtime *host)
{
    const weft_net *net = (const weft_net *)host;
    return net->addresses ? net->addresses : "";
}

static void net_warn(weft_runtime *host, const char *text)
{
    weft_net *net = (weft_net *)host;
    double now = weft_seconds();
    char name[48];
    if (now < net->warned + 1) return;
    net->warned = now;
    weft_log(net->world->context, WEFT_LOG_WARNING, "%s: %s", weft_actor_name(net->actor, name),
             text);
}

static const weft_runtime_ops net_ops = {
    .now = net_now,
    .send = weft_net_send,
    .set_timer = net_set_timer,
    .compute = net_compute,
    .know = net_know,
    .forget = net_forget,
    .bind = net_bind,
    .address = net_address,
    .warn = net_warn,
};

/* --- the poll loop --- */

static void add_poll(weft_net *net, void *socket, int *count)
{
    if (socket) net->polls[(*count)++] = (zmq_pollitem_t){.socket = socket, .events = ZMQ_POLLIN};
}

/* Lists the sockets to wait for: those for messages, and the monitors. */
static weft_status list_polls(weft_net *net, int *count)
{
    *count = 0;
    while (net->poll_capacity < 2 * net->far_count + 2)
        WEFT_TRY(WEFT_GROW(&net->polls, &net->poll_capacity, net->poll_capacity));
    add_poll(net, net->listener, count);
    add_poll(net, net->monitor, count);
    for (size_t i = 0; i < net->far_count; i++) {
        add_poll(net, net->fars[i].socket, count);
        add_poll(net, net->fars[i].monitor, count);
    }
    return WEFT_OK;
}

/* Takes messages from all sockets in turn (round robin) until there are none, or for
 * LONGEST_SECONDS: if messages come faster than the actor handles them, no socket starves another
 * one or the timers, of which one sends heartbeats. A message may open or close sockets. */
static weft_status take_messages(weft_net *net, bool *some)
{
    double until = weft_seconds() + LONGEST_SECONDS;
    bool more;
    do {
        more = false;
        if (net->listener) WEFT_TRY(weft_net_take(net, NULL, &more));
        for (size_t i = 0; i < net->far_count; i++)
            if (net->fars[i].socket) WEFT_TRY(weft_net_take(net, &net->fars[i], &more));
        *some = *some || more;
    } while (more && weft_seconds() < until);
    return WEFT_OK;
}

static weft_status take_all(weft_net *net, bool *some)
{
    WEFT_TRY(weft_net_look(net));
    WEFT_TRY(take_messages(net, some));
    return run_timers(net, some);
}

weft_status weft_net_poll(weft_net *net, double seconds)
{
    bool some = false;
    int count;
    double until = weft_seconds() + seconds;
    WEFT_TRY(take_all(net, &some));
    if (some || seconds <= 0) return WEFT_OK;
    for (int i = 0; i < WEFT_ACTOR_TIMERS; i++) until = WEFT_MIN(until, net->timers[i]);
    WEFT_TRY(list_polls(net, &count));
    double left = WEFT_MAX(until - weft_seconds(), 0);
    if (zmq_poll(net->polls, count, (long)ceil(left * 1e3)) < 0 && zmq_errno() != EINTR)
        return weft_fail_zmq("waiting for messages");
    return take_all(net, &some);
}

/* --- the actor --- */

/* Begins the list of addresses with "#KEY", by which other actors allow the key of an actor that
 * has no address. */
static weft_status name_key(weft_net *net)
{
    weft_key key;
    char text[WEFT_KEY_TEXT];
    if (!weft_net_context_has_keys(net->world, &key)) return WEFT_OK;
    weft_key_text(&key, text);
    return weft_format(&net->addresses, "#%s", text);
}

weft_status weft_net_open(weft_net_context *world, weft_actor *actor, weft_actor_id id,
                          const char *address, weft_net **out)
{
    weft_net *net;
    weft_status status = WEFT_NEW(&net, 1);
    if (status != WEFT_OK) {
        actor->ops->destroy(actor);
        return status;
    }
    net->host.ops = &net_ops;
    net->world = world;
    net->actor = actor;
    actor->host = &net->host;
    actor->id = id;
    for (int i = 0; i < WEFT_ACTOR_TIMERS; i++) net->timers[i] = INFINITY;
    status = name_key(net);
    if (address && status == WEFT_OK) status = weft_net_bind(net, address, NULL, 0);
    if (status == WEFT_OK)
        *out = net;
    else
        weft_net_close(&net);
    return status;
}

void weft_net_close(weft_net **net)
{
    if (!net || !*net) return;
    weft_net *n = *net;
    n->actor->ops->destroy(n->actor);
    weft_net_close_sockets(n);
    free(n->polls);
    free(n);
    *net = NULL;
}

weft_status weft_net_begin(weft_net *net)
{
    return net->actor->ops->begin(net->actor);
}

bool weft_net_next_task(weft_net *net, int64_t *ticket)
{
    const weft_actor *a = net->actor;
    bool wants = net->wants && !(a->ops->lacks && a->ops->lacks(a, net->ticket, WEFT_ANY_PART));
    net->wants = net->wants && !wants;
    *ticket = net->ticket;
    return wants;
}

weft_status weft_net_computed_part(weft_net *net, int64_t ticket, int part)
{
    return net->actor->ops->part ? net->actor->ops->part(net->actor, ticket, part) : WEFT_OK;
}

weft_status weft_net_computed(weft_net *net, int64_t ticket)
{
    return net->actor->ops->computed(net->actor, ticket);
}

weft_actor *weft_net_actor(const weft_net *net)
{
    return net->actor;
}

weft_net_report weft_net_stats(const weft_net *net)
{
    return net->report;
}
