/* Inside of the ZeroMQ host. */
#ifndef WEFT_ACTOR_NET_INTERNAL_H
#define WEFT_ACTOR_NET_INTERNAL_H

#include <errno.h>
#include <zmq.h>

#include "actor/envelope.h"
#include "actor/net.h"

enum { WEFT_NAME_BYTES = 13, WEFT_ADDRESS_BYTES = 256, WEFT_PLACES_BYTES = 512 };

struct weft_net_context {
    void *zmq;
    uint64_t token;
    atomic_ullong drawn;   /* numbers, until now */
    weft_context *context; /* whose log is told of strangers; may be NULL */
    pthread_mutex_t lock;  /* of what follows */
    bool armed;            /* it has keys, so tcp is encrypted */
    bool open;             /* other machines may come without */
    weft_key secret, public_key;
    weft_key *allowed;
    size_t allowed_count, allowed_capacity;
    size_t message_bytes, queue;
    bool guarded; /* somebody looks at keys */
    pthread_t guard;
};

/* --- net_address.c: an address and, behind a '#', the key of who is there --- */

typedef struct weft_net_address {
    char at[WEFT_ADDRESS_BYTES]; /* "": nowhere; it only comes to others */
    bool tcp, distant;           /* distant: not this machine's alone */
    bool keyed;
    weft_key key;
} weft_net_address;
/* ARGUMENT: it is none. */
weft_status weft_net_address_read(const char *text, weft_net_address *out) WEFT_NODISCARD;
/* Of several, with spaces between, the best first, the one to go to from the world `token`: what is
 * inside of a process only in its own, what is in a network of this machine rather than elsewhere.
 * `at` is "" where there is none. */
weft_status weft_net_address_choose(const char *list, uint64_t token,
                                    weft_net_address *out) WEFT_NODISCARD;

/* Where a socket is bound, as others write it. keyed: they need the world's key. */
void weft_net_address_format(const char *at, const weft_net_context *world, bool keyed, char *out,
                             size_t size);

/* --- net_auth.c: who may come in --- */

/* Begins to look at the keys of those that come, before the first of them can. */
weft_status weft_net_auth_start(weft_net_context *world) WEFT_NODISCARD;
void weft_net_auth_end(weft_net_context *world); /* when ZeroMQ is gone */

/* --- net_limits.c: how much anybody may do, and what is said of strangers --- */

/* Who has come through a door. */
typedef struct weft_inbound {
    bool taken;
    weft_actor_id id;
    uint32_t messages; /* in this second */
    uint64_t route;    /* the last one that it came by, */
    bool inside;       /* whether that is of this process, */
    uint64_t key;      /* and a hash of its key; 0: it has none */
    double heard, second;
} weft_inbound;
typedef struct weft_inbound_table {
    weft_inbound *slots;
    size_t count, capacity; /* a power of two */
} weft_inbound_table;
/* Whether a message of this one is taken. user: what the guard has called its key; may be NULL. */
bool weft_inbound_admit(weft_inbound_table *callers, weft_actor_id id, uint64_t route,
                        const char *user, double now, bool inside);
/* false: it has not come yet. inside: it is of this process. */
bool weft_inbound_route(const weft_inbound_table *callers, weft_actor_id id, uint64_t *route,
                        bool *inside);

typedef struct weft_reject_log {
    uint64_t refused, damaged; /* told so far */
    double told;
} weft_reject_log;
/* Says, at most once a second, what has been thrown away since the last time. */
void weft_net_log_rejected(weft_net *net);

/* --- net_sockets.c --- */

/* Another actor. */
typedef struct weft_connection {
    weft_actor_id id;
    char *address; /* NULL: only through what it opened */
    void *socket;  /* to it; NULL: none yet */
    void *monitor; /* what happens to the socket; NULL: nobody asks */
    bool ready;    /* both sides know each other */
    bool refused;  /* the other side does not want to */
    bool inside;   /* it is of this process */
    bool keyed;    /* its address has a public key, so messages are encrypted */
    bool answers;  /* somebody has let it come since it last began to */
    bool begun;    /* a connection to it has begun since then */
    bool listens;  /* the trouble is one of somebody who is there */
    double since;  /* when that changed, or the socket was opened */
    const char *trouble;
} weft_connection;

struct weft_net {
    weft_runtime host;
    weft_net_context *world;
    weft_actor *actor;
    uint64_t route; /* by which it comes to others, which they cannot guess */
    void *door;     /* NULL: nobody else comes in */
    void *monitor;  /* of the door, where it is reached by tcp */
    char *at;       /* where that is, for messages */
    char *places;   /* all places where others reach it, or the key by which they know it */
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
/* What a socket calls itself to the other side: it may not begin with a zero byte. Who knows the
 * route of another one could take its place. */
void weft_net_name(weft_actor_id id, uint64_t route, char name[WEFT_NAME_BYTES]);
weft_connection *weft_net_connection(const weft_net *net, weft_actor_id id);
weft_status weft_net_connect(weft_net *net, weft_connection *f) WEFT_NODISCARD;
/* Looks at what has happened to sockets; those whom the other side does not let in try again. */
weft_status weft_net_look(weft_net *net) WEFT_NODISCARD;
void weft_net_close_sockets(weft_net *net);

/* --- net_letters.c --- */

weft_status weft_net_send(weft_actor *from, weft_actor_id to,
                          const weft_message *message) WEFT_NODISCARD;
/* The next message of a socket, if there is one. named: with who sends it before it. */
weft_status weft_net_take(weft_net *net, void *socket, bool named, bool *some) WEFT_NODISCARD;

#endif
