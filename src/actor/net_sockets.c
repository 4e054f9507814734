/* The sockets of a runtime: one (ROUTER) listens and replies to inbound peers, and one (DEALER)
 * connects to each actor with a known address. */
#include <limits.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "actor/net_internal.h"

enum {
    QUEUE = 1000, /* most messages that are queued for one receiver, by default */
    FEWEST = 16,  /* least such number, if messages are large */
    LINGER_MS = 1000,
    /* A connection is closed if the other machine's TCP does not answer: SILENCE_MS after data that
     * it has not acknowledged; without data after IDLE_SECONDS and PROBES probes, one each
     * IDLE_SECONDS. */
    SILENCE_MS = 15000,
    IDLE_SECONDS = 5,
    PROBES = 2,
    CONNECT_MS = 3000,
    LONGEST_RETRY_MS = 2000
};
/* Bound on the bytes queued for one receiver. */
static const size_t QUEUE_BYTES = (size_t)1 << 30;

weft_status weft_fail_zmq(const char *what)
{
    return weft_fail(WEFT_ERR_IO, "%s: %s", what, zmq_strerror(zmq_errno()));
}

void weft_net_name(weft_actor_id id, uint64_t route, char name[WEFT_NAME_BYTES])
{
    name[0] = 'W';
    memcpy(name + 1, &id, sizeof(id));
    memcpy(name + 1 + sizeof(id), &route, sizeof(route));
}

static bool set(void *socket, int option, int value)
{
    return zmq_setsockopt(socket, option, &value, sizeof(value)) == 0;
}

/* Sets the options of a socket for later binds and connects. */
static bool set_limits(const weft_net *net, void *socket)
{
    size_t largest = weft_net_context_max_message(net->world);
    size_t room = WEFT_MAX(WEFT_MIN(QUEUE_BYTES / largest, (size_t)QUEUE), (size_t)FEWEST);
    room = WEFT_MAX(room, WEFT_MIN(weft_net_context_queue(net->world), (size_t)INT_MAX));
    int64_t most = (int64_t)largest;
    /* TCP finds broken connections. ZeroMQ's own pings (ZMQ_HEARTBEAT_IVL) do so, too, but libzmq
     * 4.3 aborts the process if it reads a ping, or its timer fires, after the connection has
     * failed, as when a process continues that was suspended. */
    return set(socket, ZMQ_LINGER, LINGER_MS) && set(socket, ZMQ_SNDHWM, (int)room) &&
           set(socket, ZMQ_RCVHWM, (int)room) && set(socket, ZMQ_TCP_MAXRT, SILENCE_MS) &&
           set(socket, ZMQ_TCP_KEEPALIVE, 1) && set(socket, ZMQ_TCP_KEEPALIVE_IDLE, IDLE_SECONDS) &&
           set(socket, ZMQ_TCP_KEEPALIVE_INTVL, IDLE_SECONDS) &&
           set(socket, ZMQ_TCP_KEEPALIVE_CNT, PROBES) &&
           set(socket, ZMQ_HANDSHAKE_IVL, WEFT_HANDSHAKE_MS) &&
           set(socket, ZMQ_CONNECT_TIMEOUT, CONNECT_MS) &&
           set(socket, ZMQ_RECONNECT_IVL_MAX, LONGEST_RETRY_MS) &&
           zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &most, sizeof(most)) == 0;
}

/* Reports that a socket cannot be opened. Each socket takes a file descriptor, and the limit on
 * files is mostly below ZeroMQ's limit on sockets. */
static weft_status fail_open(const weft_net *net)
{
    struct rlimit files;
    if (zmq_errno() != EMFILE || getrlimit(RLIMIT_NOFILE, &files) != 0)
        return weft_fail_zmq("a socket cannot be opened");
    int most = zmq_ctx_get(net->world->zmq, ZMQ_MAX_SOCKETS);
    if (files.rlim_cur > (rlim_t)most)
        return weft_fail(WEFT_ERR_IO,
                         "this process has reached its limit of %d ZeroMQ sockets or %llu open "
                         "files; use fewer servers or learners",
                         most, (unsigned long long)files.rlim_cur);
    return weft_fail(WEFT_ERR_IO,
                     "this process has reached its limit of %llu open files; use fewer servers or "
                     "learners, or raise it with ulimit -n",
                     (unsigned long long)files.rlim_cur);
}

static weft_status open_socket(const weft_net *net, int kind, void **out)
{
    void *socket = zmq_socket(net->world->zmq, kind);
    if (!socket) return fail_open(net);
    /* A connection that is opened anew takes the place of its predecessor. */
    if (set_limits(net, socket) && (kind != ZMQ_ROUTER || set(socket, ZMQ_ROUTER_HANDOVER, 1))) {
        *out = socket;
        return WEFT_OK;
    }
    weft_status status = weft_fail_zmq("a socket cannot be set up");
    zmq_close(socket);
    return status;
}

/* Fails if an address would be used without encryption: addresses of other machines need keys,
 * unless the user has allowed otherwise, and a net context with keys connects to no tcp address
 * without a key. */
static weft_status check_open(const weft_net *net, const weft_net_address *address, bool keyed)
{
    if (address->tcp && !keyed && weft_net_context_has_keys(net->world, NULL))
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "%s has no public key after '#', so messages would not be encrypted, "
                         "although this process has a key; give %s#KEY, as the coordinator prints "
                         "it when it starts, or leave --key out",
                         address->at, address->at);
    if (!address->distant || keyed || net->world->open) return WEFT_OK;
    return weft_fail(
        WEFT_ERR_ARGUMENT,
        "%s is not local to this machine, and without keys messages are neither encrypted nor "
        "authenticated; give keys (weft keygen makes them), or allow this with --open-unencrypted",
        address->at);
}

/* --- connections --- */

weft_connection *weft_net_connection(const weft_net *net, weft_actor_id id)
{
    for (size_t i = 0; i < net->far_count; i++)
        if (net->fars[i].id == id) return &net->fars[i];
    return NULL;
}

/* Makes the record of a connection, with a random route. */
static weft_status add_connection(weft_net *net, weft_actor_id id, weft_connection **out)
{
    weft_connection f = {.id = id};
    if (getentropy(&f.route, sizeof(f.route)) != 0)
        return weft_fail(WEFT_ERR_IO, "the operating system provides no random numbers: %s",
                         strerror(errno));
    WEFT_TRY(WEFT_GROW(&net->fars, &net->far_capacity, net->far_count));
    *out = &net->fars[net->far_count++];
    **out = f;
    return WEFT_OK;
}

weft_status weft_net_add_peer(weft_net *net, weft_actor_id id, const char *list)
{
    weft_net_address address;
    weft_connection *f = weft_net_connection(net, id);
    if (f && f->address && strcmp(f->address, list) == 0) return WEFT_OK; /* each view has it */
    WEFT_TRY(weft_net_address_choose(list, net->world->token, &address));
    WEFT_TRY(check_open(net, &address, address.keyed));
    if (address.keyed) WEFT_TRY(weft_net_context_allow(net->world, &address.key));
    (void)weft_inbound_bind(&net->callers, id, list);
    if (!address.at[0]) return WEFT_OK;
    if (!f) WEFT_TRY(add_connection(net, id, &f));
    weft_net_close_watched(&f->socket, &f->monitor);
    free(f->address);
    f->address = NULL;
    return weft_strdup(list, &f->address);
}

void weft_net_forget_peer(weft_net *net, weft_actor_id id)
{
    weft_connection *f = weft_net_connection(net, id);
    weft_inbound_unbind(&net->callers, id);
    if (!f) return;
    weft_net_close_watched(&f->socket, &f->monitor);
    free(f->address);
    *f = net->fars[--net->far_count];
}

static bool set_name(const weft_net *net, const weft_connection *f)
{
    char name[WEFT_NAME_BYTES];
    weft_net_name(net->actor->id, f->route, name);
    return zmq_setsockopt(f->socket, ZMQ_ROUTING_ID, name, sizeof(name)) == 0;
}

static bool set_keys(const weft_net *net, const weft_net_address *to, void *socket)
{
    const weft_net_context *w = net->world;
    return zmq_setsockopt(socket, ZMQ_CURVE_SERVERKEY, &to->key, sizeof(to->key)) == 0 &&
           zmq_setsockopt(socket, ZMQ_CURVE_PUBLICKEY, &w->public_key, sizeof(weft_key)) == 0 &&
           zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, &w->secret, sizeof(weft_key)) == 0;
}

weft_status weft_net_connect(weft_net *net, weft_connection *f)
{
    weft_net_address to;
    char one[WEFT_ADDRESS_BYTES];
    WEFT_TRY(weft_net_address_choose(f->address, net->world->token, &to));
    f->choices = to.tcp ? weft_net_address_resolve(to.at, f->opened++, one, sizeof(one)) : 1;
    if (f->choices > 1) memcpy(to.at, one, sizeof(to.at));
    if (to.keyed && !weft_net_context_has_keys(net->world, NULL))
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "%s: the process at this address has a key, so this process needs one too "
                         "(weft keygen)",
                         to.at);
    WEFT_TRY(open_socket(net, ZMQ_DEALER, &f->socket));
    weft_status status = WEFT_OK;
    if (!set_name(net, f) || (to.keyed && !set_keys(net, &to, f->socket)) ||
        !set(f->socket, ZMQ_IPV6, to.tcp && weft_net_address_is_six(to.at)))
        status = weft_fail_zmq("a socket cannot be set up");
    if (status == WEFT_OK && to.tcp) status = weft_net_watch_connection(net, f);
    if (status == WEFT_OK && zmq_connect(f->socket, to.at) != 0)
        status =
            weft_fail(WEFT_ERR_IO, "cannot connect to %s: %s", to.at, zmq_strerror(zmq_errno()));
    if (status != WEFT_OK) weft_net_close_watched(&f->socket, &f->monitor);
    f->since = f->opened_at = weft_seconds();
    f->connected = f->refused = f->answers = f->begun = f->failed = false;
    f->keyed = to.keyed;
    f->inside = strncmp(to.at, "inproc:", strlen("inproc:")) == 0;
    return status;
}

/* --- the listening socket --- */

/* Sets whether the listening socket accepts only peers with keys. Addresses within a process or a
 * machine need none. */
static weft_status set_lock(const weft_net *net, bool locked)
{
    const weft_net_context *w = net->world;
    if (!set(net->listener, ZMQ_CURVE_SERVER, locked))
        return weft_fail_zmq("a socket cannot be set up");
    if (!locked ||
        (zmq_setsockopt(net->listener, ZMQ_ZAP_DOMAIN, "weft", 4) == 0 &&
         zmq_setsockopt(net->listener, ZMQ_CURVE_SECRETKEY, &w->secret, sizeof(weft_key)) == 0))
        return WEFT_OK;
    return weft_fail_zmq("a socket cannot be set up");
}

static weft_status fail_bind(const char *at, int error)
{
    if (error == ENODEV || error == EADDRNOTAVAIL)
        return weft_fail(WEFT_ERR_IO,
                         "cannot listen at %s: this machine has no such name or address; give one "
                         "that it has, or tcp://*:PORT for all",
                         at);
    return weft_fail(WEFT_ERR_IO, "cannot listen at %s: %s%s", at, zmq_strerror(error),
                     error == EADDRINUSE ? "; another process listens there already" : "");
}

/* ZeroMQ listens at addresses and interfaces; the name of a host is resolved here. All interfaces
 * are those of both families, unless the system has no IPv6. Returns an error number; 0: it
 * listens. */
static int bind_listener(const weft_net *net, const weft_net_address *to)
{
    char at[WEFT_ADDRESS_BYTES];
    bool all = strncmp(to->at, "tcp://*:", strlen("tcp://*:")) == 0;
    bool six = to->tcp && (all || weft_net_address_is_six(to->at));
    if (!set(net->listener, ZMQ_IPV6, six)) return zmq_errno();
    if (zmq_bind(net->listener, to->at) == 0) return 0;
    int error = zmq_errno();
    if (all && error != EADDRINUSE && set(net->listener, ZMQ_IPV6, false))
        return zmq_bind(net->listener, to->at) == 0 ? 0 : error;
    if (error != ENODEV || !to->tcp || weft_net_address_resolve(to->at, 0, at, sizeof(at)) == 0)
        return error;
    return zmq_bind(net->listener, at) == 0 ? 0 : zmq_errno();
}

/* Listens at the address or, if it has a range of ports, at the first one that is free. */
static weft_status bind_some(const weft_net *net, const char *address, weft_net_address *to)
{
    int first, last, error = EADDRINUSE;
    if (!weft_net_address_range(address, &first, &last)) {
        error = bind_listener(net, to);
        return error ? fail_bind(to->at, error) : WEFT_OK;
    }
    int host = (int)(strrchr(to->at, ':') + 1 - to->at);
    for (int port = first; port <= last && error == EADDRINUSE; port++) {
        (void)snprintf(to->at + host, sizeof(to->at) - (size_t)host, "%d", port);
        error = bind_listener(net, to);
    }
    if (error == EADDRINUSE)
        return weft_fail(WEFT_ERR_IO,
                         "cannot listen at %s: all of these ports are in use; give a larger range",
                         address);
    return error ? fail_bind(address, error) : WEFT_OK;
}

/* Parses an address to listen at, of a range of ports the first one. */
static weft_status read_listen(const char *address, weft_net_address *to)
{
    int first, last;
    if (!weft_net_address_range(address, &first, &last)) return weft_net_address_read(address, to);
    char *one;
    WEFT_TRY(
        weft_format(&one, "%.*s%d", (int)(strrchr(address, ':') + 1 - address), address, first));
    weft_status status = weft_net_address_read(one, to);
    free(one);
    return status;
}

weft_status weft_net_bind(weft_net *net, const char *address, char *bound, size_t size)
{
    weft_net_address to;
    char at[WEFT_ADDRESS_BYTES], text[WEFT_ADDRESSES_BYTES];
    size_t bytes = sizeof(at);
    WEFT_TRY(read_listen(address, &to));
    bool locked = weft_net_context_has_keys(net->world, NULL) && to.tcp;
    WEFT_TRY(check_open(net, &to, locked));
    WEFT_TRY(weft_net_ipc_check(to.at));
    if (!net->listener) WEFT_TRY(open_socket(net, ZMQ_ROUTER, &net->listener));
    WEFT_TRY(set_lock(net, locked));
    if (to.tcp && !net->monitor) WEFT_TRY(weft_net_watch_listener(net));
    if (!set_limits(net, net->listener)) return weft_fail_zmq("a socket cannot be set up");
    WEFT_TRY(bind_some(net, address, &to));
    WEFT_TRY(weft_net_ipc_protect(to.at));
    if (zmq_getsockopt(net->listener, ZMQ_LAST_ENDPOINT, at, &bytes) != 0)
        return weft_fail_zmq("the address of a socket");
    free(net->at);
    net->at = NULL;
    WEFT_TRY(weft_strdup(at, &net->at));
    weft_net_address_format(at, net->world, locked, text, sizeof(text));
    if (size > 0) (void)snprintf(bound, size, "%s", text);
    char *addresses;
    bool more = net->addresses && net->addresses[0] != '#';
    WEFT_TRY(weft_format(&addresses, "%s%s%s", more ? net->addresses : "", more ? " " : "", text));
    free(net->addresses);
    net->addresses = addresses;
    return WEFT_OK;
}

void weft_net_discard_pending(weft_net *net)
{
    for (size_t i = 0; i < net->far_count; i++)
        if (net->fars[i].socket) (void)set(net->fars[i].socket, ZMQ_LINGER, 0);
}

void weft_net_close_sockets(weft_net *net)
{
    const char *file = net->listener ? weft_net_ipc_file(net->at) : NULL;
    weft_net_close_watched(&net->listener, &net->monitor);
    if (file) (void)unlink(file); /* ZeroMQ would remove it later, in its own thread */
    for (size_t i = 0; i < net->far_count; i++) {
        weft_net_close_watched(&net->fars[i].socket, &net->fars[i].monitor);
        free(net->fars[i].address);
    }
    free(net->fars);
    free(net->callers.slots);
    free(net->at);
    free(net->addresses);
}
