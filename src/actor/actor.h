/*
 * Actors: state machines that talk to each other and do no input or output of their own.
 *
 * An actor is told of messages, of timers that have run out and of computations that have ended; it
 * may send messages, set timers and ask for a computation. Who runs it is a host: `sim` in virtual
 * time, where a seed replays a run exactly, or one that speaks to other processes. The code of an
 * actor is the same in all of them, so what holds in ten thousand simulated runs with faults is not
 * about a model of the program.
 *
 * All calls to an actor are in one thread at a time. A message may be lost, come twice or late, and
 * its receiver may have died and begun anew meanwhile; what must not be lost is sent again until it
 * is acknowledged.
 */
#ifndef WEFT_ACTOR_ACTOR_H
#define WEFT_ACTOR_ACTOR_H

#include <stdatomic.h>

#include "base/base.h"

/* --- payloads --- */

/* Bytes that several messages share without a copy. Nobody writes to them once they are sent. */
typedef struct weft_buffer weft_buffer;
struct weft_buffer {
    atomic_int holders;
    size_t bytes, room;                    /* room: that it was made with; 0: memory of others */
    void *data;                            /* aligned to 8 bytes at least */
    void (*release)(void *of, void *data); /* of memory that belongs to others; else NULL */
    void *of;
};
/* Zeroed, aligned to 64 bytes, with one holder. */
weft_status weft_buffer_new(size_t bytes, weft_buffer **out) WEFT_NODISCARD;
/* The same, of any content, in place of one that is given up (NULL: of none), whose memory is used
 * again if nobody else holds it and it is large enough. On failure *blob is NULL. */
weft_status weft_buffer_reuse(size_t bytes, weft_buffer **blob) WEFT_NODISCARD;
/* Of memory that `release(of, data)` gives back when nobody holds it any more; also if this fails.
 */
weft_status weft_buffer_wrap(void *data, size_t bytes, void (*release)(void *of, void *data),
                             void *of, weft_buffer **out) WEFT_NODISCARD;
weft_buffer *weft_buffer_ref(weft_buffer *blob);
/* For one that is kept for long: a hold, or, where its memory may be much larger than it is, a copy
 * that has just its size. */
weft_status weft_buffer_compact(weft_buffer *blob, weft_buffer **out) WEFT_NODISCARD;
/* Gives up a hold and nulls it; NULL is allowed. */
void weft_buffer_unref(weft_buffer **blob);
/* Whether somebody else holds it, too: of what nobody else was given but a host to send, whether
 * that still has a copy of it on its way. */
bool weft_buffer_is_shared(const weft_buffer *blob);

/* --- messages --- */

/* Who it is in its cluster; never used again when it is gone. */
typedef uint32_t weft_actor_id;

typedef struct weft_message {
    weft_actor_id from; /* put in by the host */
    uint32_t type;      /* of the protocol */
    const void *head;   /* what it says, copied when it is sent */
    size_t head_bytes;
    weft_buffer *payload; /* numbers that go with it; may be NULL */
} weft_message;

/* --- actors --- */

typedef struct weft_actor weft_actor;
typedef struct weft_runtime weft_runtime;

enum { WEFT_ANY_PART = -1 };

/* What an actor does when it is told something. Failing ends it, and its host says why. */
typedef struct weft_actor_ops {
    const char *name;
    weft_status (*begin)(weft_actor *actor);
    /* The message is the actor's during the call; a payload can be held for longer. */
    weft_status (*message)(weft_actor *actor, const weft_message *message);
    weft_status (*timer)(weft_actor *actor, int timer);
    /* Whether part number `part` of what a computation reads, or WEFT_ANY_PART, is still to come:
     * it must wait until that is there. NULL: all is there when it is asked for. */
    bool (*lacks)(const weft_actor *actor, int64_t ticket, int part);
    /* Part number `part` of a computation is there, while it goes on; may be NULL. */
    weft_status (*part)(weft_actor *actor, int64_t ticket, int part);
    weft_status (*computed)(weft_actor *actor, int64_t ticket);
    void (*destroy)(weft_actor *actor);
} weft_actor_ops;

/* The head of every actor; implementations extend it. The host fills it in. */
struct weft_actor {
    const weft_actor_ops *ops;
    weft_runtime *host;
    weft_actor_id id;
    char name[40]; /* by which people know it; "": its kind and number (weft_actor_name) */
    bool done;     /* it wants to be told nothing more */
};

/* What a host does for its actors. */
typedef struct weft_runtime_ops {
    double (*now)(weft_runtime *host);
    weft_status (*send)(weft_actor *from, weft_actor_id to, const weft_message *message);
    weft_status (*set_timer)(weft_actor *actor, int timer, double seconds);
    weft_status (*compute)(weft_actor *actor, int64_t ticket);
    weft_status (*know)(weft_runtime *host, weft_actor_id id, const char *address);
    const char *(*address)(weft_runtime *host);
} weft_runtime_ops;

/* The head of every host; implementations extend it. */
struct weft_runtime {
    const weft_runtime_ops *ops;
};

/* Seconds, of which only differences mean something. */
/* By which people know an actor, into `out`, which it returns. */
const char *weft_actor_name(const weft_actor *actor, char out[48]);
static inline double weft_actor_now(const weft_actor *actor)
{
    return actor->host->ops->now(actor->host);
}
/* Head and payload of the message are the caller's again. There is no receipt: an unknown receiver
 * is like one that does not answer. */
static inline weft_status weft_actor_send(weft_actor *actor, weft_actor_id to,
                                          const weft_message *message)
{
    return actor->host->ops->send(actor, to, message);
}
/* Timer number `timer` (0 to WEFT_ACTOR_TIMERS - 1) runs out once, so many seconds from now;
 * whatever it was set to before is forgotten. Below 0: not at all. */
enum { WEFT_ACTOR_TIMERS = 8 };
static inline weft_status weft_actor_set_timer(weft_actor *actor, int timer, double seconds)
{
    return actor->host->ops->set_timer(actor, timer, seconds);
}
/* One computation at a time; what it is, its host knows. */
static inline weft_status weft_actor_compute(weft_actor *actor, int64_t ticket)
{
    return actor->host->ops->compute(actor, ticket);
}
/* Where an actor is reached, as it says itself; a host to whom all are known does nothing. */
static inline weft_status weft_actor_know(weft_actor *actor, weft_actor_id id, const char *address)
{
    return actor->host->ops->know(actor->host, id, address);
}
/* Where this one is reached, for weft_actor_know elsewhere; "": nowhere, or it need not be said. */
static inline const char *weft_actor_address(const weft_actor *actor)
{
    return actor->host->ops->address(actor->host);
}

#endif
