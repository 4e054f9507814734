/* Internals of the ZeroMQ runtime: its state, and the functions that its files share. */
#ifndef WEFT_ACTOR_NET_INTERNAL_H
#define WEFT_ACTOR_NET_INTERNAL_H

#include <errno.h>
#include <zmq.h>

#include "actor/envelope.h"
#include "actor/net.h"

enum { WEFT_NAME_BYTES = 13, WEFT_ADDRESS_BYTES = 256, WEFT_ADDRESSES_BYTES = 512 };

struct weft_net_context {
    void *zmq;
    uint64_t token;
    weft_socket_folder folder; /* zeros: not needed so far */
    atomic_ullong drawn;       /* numbers drawn until now */
    weft_context *context;     /* to log rejected peers; may be NULL */
    pthread_mutex_t lock;      /* guards the fields below */
    bool armed;                /* there are keys, so tcp is encrypted */
    bool open;                 /* other machines may connect without keys */
    weft_key secret, public_key;
    weft_key *allowed;
    size_t allowed_count, allowed_capacity;
    /* Set by weft_net_context_set_max_message and weft_net_context_set_queue; 0: not set. */
    size_t message_bytes, queue;
    bool guarded; /* the authenticator runs */
    pthread_t guard;
};

/* --- net_address.c: an address, and the public key of its owner behind a '#' --- */

typedef struct weft_net_address {
    char at[WEFT_ADDRESS_BYTES]; /* "": the owner does not listen, and only connects to others */
    bool tcp, distant;           /* distant: on another machine */
    bool keyed;
    weft_key key;
} weft_net_address;
/* Parses an address. ARGUMENT: the text is not an address. */
weft_status weft_net_address_read(const char *text, weft_net_address *out) WEFT_NODISCARD;
/* Writes the TCP address `at` with one of the addresses of its host, by its index modulo their
 * number: those of IPv4 come before those of IPv6. Returns their number; 0: the host is unknown. */
int weft_net_address_resolve(const char *at, unsigned index, char *out, size_t size);
/* Whether the host of a TCP address is an IPv6 address, or a name that has no other one. */
bool weft_net_address_is_six(const char *at);
/* Whether `text` is tcp://HOST:FIRST-LAST, an address to listen at with a range of ports. */
bool weft_net_address_range(const char *text, int *first, int *last);
/* Chooses the address to connect to from a list, separated by spaces: the first that is on this
 * machine or in a network of this machine, else the first of all. An inproc address counts only in
 * its own process, whose net context has id `token`. `at` is "" if there is none. */
weft_status weft_net_address_choose(const char *list, uint64_t token,
                                    weft_net_address *out) WEFT_NODISCARD;

/* Hash of the public key, as text, in a list of addresses, which all have the same; 0: none. */
uint64_t weft_net_address_key(const char *list);

/* Writes the address of a bound socket as other processes need it. keyed: with the public key of
 * the net context. */
void weft_net_address_format(const char *at, const weft_net_context *world, bool keyed, char *out,
                             size_t size);

/* --- net_auth.c: the authenticator --- */

/* Starts the authenticator, before the first peer with a key can connect. */
weft_status weft_net_auth_start(weft_net_context *world) WEFT_NODISCARD;
void weft_net_auth_end(weft_net_context *world); /* after the shutdown of ZeroMQ */

/* --- net_limits.c: rate limits of inbound peers, and the log of rejected ones --- */

/* The record of an actor that has sent messages to the listening socket. */
typedef struct weft_inbound {
    bool taken;
    bool heard; /* a message of it has come, so `route` is known */
    bool bound; /* `key` is that of its address, in a view or the configuration */
    weft_actor_id id;
    uint32_t messages; /* in the second that began at `second` */
    uint64_t route;    /* route of its last message, for replies */
    bool inside;       /* its last message came from this process */
    uint64_t key;      /* hash of its public key; 0: it has none */
    uint64_t address;  /* hash of the address to which it is bound */
    double last_message, second;
} weft_inbound;
typedef struct weft_inbound_table {
    weft_inbound *slots;
    size_t count, capacity; /* a power of two */
} weft_inbound_table;
/* Whether a message is accepted; false: its sender has another key than the id is bound to or, if
 * it is not bound, than before under this id; it sends too many messages; or there are too many
 * senders. user: the sender's key as text, from the authenticator; NULL: it has none, since it is
 * on this machine (inproc or ipc), or since nothing is encrypted. */
bool weft_inbound_admit(weft_inbound_table *callers, weft_actor_id id, uint64_t route,
                        const char *user, double now, bool inside);
/* Binds an id to the key in a list of addresses; the binding outlasts silence. false: the last
 * message of this id came with another key. */
bool weft_inbound_bind(weft_inbound_table *callers, weft_actor_id id, const char *list);
/* Ends a binding: the id of an actor that is gone. */
void weft_inbound_unbind(weft_inbound_table *callers, weft_actor_id id);
/* The route for replies to an actor; false: no message of that actor has come. inside: the actor is
 * in this process. */
bool weft_inbound_route(const weft_inbound_table *callers, weft_actor_id id, uint64_t *route,
                        bool *inside);

typedef struct weft_reject_log {
    uint64_t refused, damaged; /* the numbers that were last logged */
    double logged_at;
} weft_reject_log;
/* Logs the numbers of rejected connections and messages when they have changed, at most once a
 * second. */
void weft_net_log_rejected(weft_net *net);

/* --- net_sockets.c --- */

/* The outgoing connection to another actor. */
typedef struct weft_connection {
    weft_actor_id id;
    uint64_t route; /* random part of the socket's routing id, which others cannot guess. Each
                     * connection has its own: of two sockets with the same routing id, a listener
                     * hears only the later one, and both may reach one listener if an actor
                     * listens at the address of another one that is gone. */
    char *address;  /* NULL: not known; replies go over the actor's own connection */
    void *socket;   /* socket (DEALER) to the actor; NULL: not opened yet */
    void *monitor;  /* events of the socket; NULL: not monitored */
    bool connected; /* the handshake is done */
    bool refused;   /* the handshake was rejected */
    bool inside;    /* the actor is in this process */
    bool keyed;     /* the address has a public key, so messages are encrypted */
    bool answers;   /* the peer has accepted the connection since the last retry */
    bool begun;     /* ZeroMQ has begun an attempt since the last retry */
    bool listens;   /* a process listens at the address, and `trouble` is about it */
    double since;   /* time of the last event of the monitor, or of the opening */
    /* The addresses of a name that has several: their number, how often the connection was opened,
     * which chooses one of them, when it was opened last, and whether an attempt has failed since.
     */
    int choices;
    unsigned opened;
    double opened_at;
    bool failed;
    const char *trouble;
} weft_connection;

struct weft_net {
    weft_runtime host;
    weft_net_context *world;
    weft_actor *actor;
    void *listener;  /* listening socket; NULL: none */
    void *monitor;   /* of the listening socket, if it has tcp */
    char *at;        /* address of the listening socket, for error messages */
    char *addresses; /* all addresses for other processes, or "#KEY" */
    weft_inbound_table callers;
    weft_reject_log watch;
    double warned; /* time of the actor's last warning */
    weft_connection *fars;
    size_t far_count, far_capacity;
    zmq_pollitem_t *polls;
    size_t poll_capacity;
    double timers[WEFT_ACTOR_TIMERS]; /* times when they run out; INFINITY: not set */
    /* `wants`: the actor has requested computation `ticket`, which the host has not taken yet. */
    bool wants;
    int64_t ticket;
    weft_net_report report;
};

weft_status weft_fail_zmq(const char *what) WEFT_NODISCARD;
/* Writes the routing id that a socket gives itself, which must not begin with a zero byte. `route`
 * is secret: a peer that knew the route of another peer could receive its messages. */
void weft_net_name(weft_actor_id id, uint64_t route, char name[WEFT_NAME_BYTES]);
weft_connection *weft_net_connection(const weft_net *net, weft_actor_id id);
weft_status weft_net_connect(weft_net *net, weft_connection *f) WEFT_NODISCARD;
void weft_net_close_sockets(weft_net *net);

/* --- net_monitor.c --- */

/* Time that the other side of a new connection has for its handshake. */
enum { WEFT_HANDSHAKE_MS = 5000 };
weft_status weft_net_watch_connection(const weft_net *net, weft_connection *f) WEFT_NODISCARD;
weft_status weft_net_watch_listener(weft_net *net) WEFT_NODISCARD;
/* Closes a socket and its monitor, either of which may be NULL, and sets both to NULL. */
void weft_net_close_watched(void **socket, void **monitor);
/* Handles the events of socket monitors, and reopens connections that were rejected or are
 * silent. */
weft_status weft_net_look(weft_net *net) WEFT_NODISCARD;

/* --- net_ipc.c --- */

/* The path of an ipc address; NULL: the address has no file. */
const char *weft_net_ipc_file(const char *at);
/* IO: a process listens at this ipc address, or there is a file other than a socket, both of which
 * ZeroMQ would remove. */
weft_status weft_net_ipc_check(const char *at) WEFT_NODISCARD;
/* Lets only the user of this process connect to an ipc address that it listens at. */
weft_status weft_net_ipc_protect(const char *at) WEFT_NODISCARD;
/* The reason why no attempt to connect to an ipc address can succeed; NULL: one may. */
const char *weft_net_ipc_trouble(const char *at);

/* --- net_messages.c --- */

weft_status weft_net_send(weft_actor *from, weft_actor_id to,
                          const weft_message *message) WEFT_NODISCARD;
/* Receives the next message of a connection (NULL: of the listening socket), if there is one, and
 * passes it to the actor. */
weft_status weft_net_take(weft_net *net, const weft_connection *connection,
                          bool *some) WEFT_NODISCARD;

#endif
