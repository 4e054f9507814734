/* Internals of the ZeroMQ runtime. */
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
    atomic_ullong drawn;   /* numbers drawn until now */
    weft_context *context; /* for the log of rejected peers; may be NULL */
    pthread_mutex_t lock;  /* of the fields below */
    bool armed;            /* it has keys, so tcp is encrypted */
    bool open;             /* other machines may connect without keys */
    weft_key secret, public_key;
    weft_key *allowed;
    size_t allowed_count, allowed_capacity;
    size_t message_bytes, queue;
    bool guarded; /* the authenticator runs */
    pthread_t guard;
};

/* --- net_address.c: an address, and the public key of its owner behind a '#' --- */

typedef struct weft_net_address {
    char at[WEFT_ADDRESS_BYTES]; /* "": nowhere; its owner only connects to others */
    bool tcp, distant;           /* distant: beyond this machine */
    bool keyed;
    weft_key key;
} weft_net_address;
/* ARGUMENT: not an address. */
weft_status weft_net_address_read(const char *text, weft_net_address *out) WEFT_NODISCARD;
/* Chooses from several addresses, separated by spaces, the best first, the one to connect to from
 * context `token`: inproc only in its own process, a network of this machine rather than others.
 * `at` is "" if there is none. */
weft_status weft_net_address_choose(const char *list, uint64_t token,
                                    weft_net_address *out) WEFT_NODISCARD;

/* The address of a bound socket, for others. keyed: with the context's public key. */
void weft_net_address_format(const char *at, const weft_net_context *world, bool keyed, char *out,
                             size_t size);

/* --- net_auth.c: the authenticator --- */

/* Starts the authenticator, before the first peer with a key can connect. */
weft_status weft_net_auth_start(weft_net_context *world) WEFT_NODISCARD;
void weft_net_auth_end(weft_net_context *world); /* after the shutdown of ZeroMQ */

/* --- net_limits.c: rate limits of inbound peers, and the log of rejected ones --- */

/* An inbound peer. */
typedef struct weft_inbound {
    bool taken;
    weft_actor_id id;
    uint32_t messages; /* in this second */
    uint64_t route;    /* of its last message, */
    bool inside;       /* whether that came from this process, */
    uint64_t key;      /* and a hash of its key; 0: it has none */
    double last_message, second;
} weft_inbound;
typedef struct weft_inbound_table {
    weft_inbound *slots;
    size_t count, capacity; /* a power of two */
} weft_inbound_table;
/* Whether a message of this peer is accepted. user: the name of its key, from the authenticator;
 * may be NULL. */
bool weft_inbound_admit(weft_inbound_table *callers, weft_actor_id id, uint64_t route,
                        const char *user, double now, bool inside);
/* false: no message of it has come. inside: it is of this process. */
bool weft_inbound_route(const weft_inbound_table *callers, weft_actor_id id, uint64_t *route,
                        bool *inside);

typedef struct weft_reject_log {
    uint64_t refused, damaged; /* logged so far */
    double logged_at;
} weft_reject_log;
/* Logs, at most once a second, the number of rejected connections and messages. */
void weft_net_log_rejected(weft_net *net);

/* --- net_sockets.c --- */

/* The connection to another actor. */
typedef struct weft_connection {
    weft_actor_id id;
    char *address;  /* NULL: only over its own connection to this one */
    void *socket;   /* to it; NULL: none yet */
    void *monitor;  /* events of the socket; NULL: not monitored */
    bool connected; /* the handshake is done */
    bool refused;   /* the handshake was rejected */
    bool inside;    /* the actor is of this process */
    bool keyed;     /* the address has a public key, so messages are encrypted */
    bool answers;   /* the peer has accepted the connection since the last attempt */
    bool begun;     /* an attempt has begun since the peer accepted */
    bool listens;   /* a process listens at the address, and `trouble` is about it */
    double since;   /* time of the last event, or of the opening */
    const char *trouble;
} weft_connection;

struct weft_net {
    weft_runtime host;
    weft_net_context *world;
    weft_actor *actor;
    uint64_t route;  /* part of its routing id, which others cannot guess */
    void *listener;  /* listening socket; NULL: none */
    void *monitor;   /* of the listening socket, if it has tcp */
    char *at;        /* its address, for messages */
    char *addresses; /* all addresses for others, or the key by which they know it */
    weft_inbound_table callers;
    weft_reject_log watch;
    weft_connection *fars;
    size_t far_count, far_capacity;
    zmq_pollitem_t *polls;
    size_t poll_capacity;
    double timers[WEFT_ACTOR_TIMERS]; /* when they run out; INFINITY: never */
    bool wants;
    int64_t ticket;
    weft_net_report report;
};

weft_status weft_fail_zmq(const char *what) WEFT_NODISCARD;
/* The routing id that a socket gives itself, which must not begin with a zero byte. A peer that
 * knew the route of another could take its place. */
void weft_net_name(weft_actor_id id, uint64_t route, char name[WEFT_NAME_BYTES]);
weft_connection *weft_net_connection(const weft_net *net, weft_actor_id id);
weft_status weft_net_connect(weft_net *net, weft_connection *f) WEFT_NODISCARD;
/* Handles events of sockets, and reconnects those that were rejected or stay silent. */
weft_status weft_net_look(weft_net *net) WEFT_NODISCARD;
void weft_net_close_sockets(weft_net *net);

/* --- net_messages.c --- */

weft_status weft_net_send(weft_actor *from, weft_actor_id to,
                          const weft_message *message) WEFT_NODISCARD;
/* Receives the next message of a socket, if there is one. named: its first frame is the routing id
 * of the sender. */
weft_status weft_net_take(weft_net *net, void *socket, bool named, bool *some) WEFT_NODISCARD;

#endif
