/* Monitors watch the sockets of a runtime: they tell whether a connection is open and why it
 * failed, and a connection that ZeroMQ has given up is reopened. */
#include <inttypes.h>
#include <stdio.h>

#include "actor/net_internal.h"

/* A connection is reopened REFUSED_SECONDS after it was rejected, or SILENT_SECONDS after the last
 * event. */
static const double REFUSED_SECONDS = 1, SILENT_SECONDS = 5;

/* Least time between two attempts at different addresses of one name. */
static const double NEXT_SECONDS = 0.2;

enum {
    /* Failures that the other side has caused; a handshake may also be broken off, by a member that
     * this process, while it was stopped, has not answered. */
    REJECTED = ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH,
    FAILED = ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL | REJECTED,
    TRIES = ZMQ_EVENT_CONNECTED | ZMQ_EVENT_CONNECT_DELAYED | ZMQ_EVENT_CONNECT_RETRIED |
            ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_HANDSHAKE_SUCCEEDED
};

static weft_status open_monitor(const weft_net *net, void *socket, int events, void **out)
{
    char at[64];
    int none = 0;
    /* A new socket may have the memory address of a closed one, under which a monitor is still
     * known. */
    (void)snprintf(at, sizeof(at), "inproc://monitor-%016" PRIx64, weft_draw());
    if (zmq_socket_monitor(socket, at, events) != 0)
        return weft_fail_zmq("a socket cannot be watched");
    *out = zmq_socket(net->world->zmq, ZMQ_PAIR);
    if (*out && zmq_setsockopt(*out, ZMQ_LINGER, &none, sizeof(none)) == 0 &&
        zmq_connect(*out, at) == 0)
        return WEFT_OK;
    return weft_fail_zmq("a socket cannot be watched");
}

weft_status weft_net_watch_connection(const weft_net *net, weft_connection *f)
{
    return open_monitor(net, f->socket, TRIES | FAILED, &f->monitor);
}

weft_status weft_net_watch_listener(weft_net *net)
{
    return open_monitor(net, net->listener, REJECTED, &net->monitor);
}

void weft_net_close_watched(void **socket, void **monitor)
{
    if (*monitor) {
        (void)zmq_socket_monitor(*socket, NULL, 0);
        zmq_close(*monitor);
    }
    if (*socket) zmq_close(*socket);
    *socket = *monitor = NULL;
}

/* Takes the next event of a monitor; false: none. The number of the event is in the first two bytes
 * of its first frame; the second frame is the address. */
static bool next_event(void *monitor, int *event)
{
    zmq_msg_t frame;
    uint16_t number = 0;
    zmq_msg_init(&frame);
    bool came = zmq_msg_recv(&frame, monitor, ZMQ_DONTWAIT) >= 0;
    if (came && zmq_msg_size(&frame) >= sizeof(number))
        memcpy(&number, zmq_msg_data(&frame), sizeof(number));
    if (came) (void)zmq_msg_recv(&frame, monitor, 0);
    zmq_msg_close(&frame);
    *event = number;
    return came;
}

static const char *words_of(int failed, bool keyed)
{
    if (failed == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH)
        return "it does not admit the key of this process";
    return keyed ? "its public key is not the one after '#' in the address, or it is not a Weft "
                   "process"
                 : "it accepts only connections with keys (give --key FILE, and the address with "
                   "#KEY as the coordinator printed it), or it is not a Weft process";
}

/* The error if a connection is accepted but no handshake follows: a Weft process that listens sends
 * its handshake at once, unless it is stopped. */
static const char MUTE[] = "it sends no Weft handshake: it is stopped, or not a Weft process";

/* The error if ZeroMQ could not begin a connection attempt. */
static const char NO_WAY[] = "its host name is unknown, or there is no route to it; give a name "
                             "that this machine can resolve, or an IP address";

static void set_trouble(weft_connection *f, bool listens, const char *trouble)
{
    f->listens = listens;
    f->trouble = trouble;
}

/* Handles the monitor's events of a connection. An attempt ends with ZeroMQ's next retry; a peer
 * did answer the attempt if it accepted the connection, even if it closed it then. */
static void look_at(weft_connection *f, double now)
{
    int event;
    while (next_event(f->monitor, &event)) {
        /* ZeroMQ reports a handshake that has timed out like one that the peer has rejected. */
        bool timed_out = (now - f->since) * 1e3 > 0.9 * WEFT_HANDSHAKE_MS;
        f->connected = event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED;
        f->since = now;
        if (event == ZMQ_EVENT_CONNECTED) f->answers = true;
        if (event == ZMQ_EVENT_CONNECTED && !f->listens) set_trouble(f, true, MUTE);
        if (event == ZMQ_EVENT_CONNECT_DELAYED) f->begun = true;
        if (event & FAILED) {
            f->refused = true;
            set_trouble(f, true, timed_out ? MUTE : words_of(event, f->keyed));
        }
        if (f->connected) set_trouble(f, true, NULL);
        if (event != ZMQ_EVENT_CONNECT_RETRIED) continue;
        f->failed = true;
        if (!f->answers) set_trouble(f, false, f->begun ? "no process answers" : NO_WAY);
        f->answers = f->begun = false;
    }
}

weft_status weft_net_look(weft_net *net)
{
    double now = weft_seconds();
    int event;
    for (size_t i = 0; i < net->far_count; i++) {
        weft_connection *f = &net->fars[i];
        if (!f->monitor) continue;
        look_at(f, now);
        bool next = f->failed && f->choices > 1 && now - f->opened_at > NEXT_SECONDS;
        double limit = f->refused ? REFUSED_SECONDS : SILENT_SECONDS;
        if (f->connected || (!next && now - f->since < limit)) continue;
        /* ZeroMQ has given up this connection, or the host has another address, so it is opened
         * anew; its queued messages are lost. */
        weft_net_close_watched(&f->socket, &f->monitor);
        WEFT_TRY(weft_net_connect(net, f));
    }
    while (net->monitor && next_event(net->monitor, &event))
        if (event & REJECTED) net->report.refused++;
    weft_net_log_rejected(net);
    return WEFT_OK;
}

const char *weft_net_connect_error(const weft_net *net, weft_actor_id id, bool *listens)
{
    const weft_connection *f = weft_net_connection(net, id);
    *listens = f && f->listens;
    return f ? f->trouble : NULL;
}

const char *weft_net_never_connects(const weft_net *net, weft_actor_id id)
{
    const weft_connection *f = weft_net_connection(net, id);
    return f && f->address ? weft_net_ipc_trouble(f->address) : NULL;
}
