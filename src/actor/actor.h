/* Actors: state machines that exchange messages and do no input or output of their own.
 *
 * An actor is told of messages, of timers that have run out and of computations that have ended; it
 * may send messages, set timers and request a computation. A runtime runs it: `sim` in virtual
 * time, where a seed replays a run exactly, or `net`, which connects processes. The code of an
 * actor is the same in both, so what holds in ten thousand simulated runs with faults is not about
 * a model of the program.
 *
 * All calls to an actor are in one thread at a time. A message may be lost, duplicated or late, and
 * its receiver may have restarted meanwhile; a message that must not be lost is retransmitted until
 * it is acknowledged. */
#ifndef WEFT_ACTOR_ACTOR_H
#define WEFT_ACTOR_ACTOR_H

#include <stdatomic.h>

#include "base/base.h"

/* --- payloads --- */

/* Reference-counted bytes that several messages share without a copy. They are not written once
 * they are sent. */
typedef struct weft_buffer weft_buffer;
struct weft_buffer {
    atomic_int holders;
    size_t bytes, room;                    /* room: allocated size; 0: foreign memory */
    void *data;                            /* aligned to 8 bytes at least */
    void (*release)(void *of, void *data); /* of foreign memory; else NULL */
    void *of;
};
/* Zeroed, aligned to 64 bytes, with one reference. */
weft_status weft_buffer_new(size_t bytes, weft_buffer **out) WEFT_NODISCARD;
/* A buffer of any content in place of one that is given up (NULL: none), whose memory is reused if
 * it has no other reference and is large enough. On failure *blob is NULL. */
weft_status weft_buffer_reuse(size_t bytes, weft_buffer **blob) WEFT_NODISCARD;
/* A buffer of memory that `release(of, data)` frees after the last reference; also if this
 * fails. */
weft_status weft_buffer_wrap(void *data, size_t bytes, void (*release)(void *of, void *data),
                             void *of, weft_buffer **out) WEFT_NODISCARD;
weft_buffer *weft_buffer_ref(weft_buffer *blob);
/* For a buffer that is kept for long: a reference, or, if its memory may be much larger than its
 * contents, a copy of just their size. */
weft_status weft_buffer_compact(weft_buffer *blob, weft_buffer **out) WEFT_NODISCARD;
/* Drops a reference and nulls it; NULL is allowed. */
void weft_buffer_unref(weft_buffer **blob);
/* Whether there are other references: a buffer that was only sent is still in transit. */
bool weft_buffer_is_shared(const weft_buffer *blob);

/* --- messages --- */

/* The id of an actor in its run; never used again when the actor is gone. */
typedef uint32_t weft_actor_id;

typedef struct weft_message {
    weft_actor_id from; /* set by the runtime */
    uint32_t type;      /* of the protocol */
    const void *head;   /* encoded contents, copied by send */
    size_t head_bytes;
    weft_buffer *payload; /* numbers that go along; may be NULL */
} weft_message;

/* --- actors --- */

typedef struct weft_actor weft_actor;
typedef struct weft_runtime weft_runtime;

enum { WEFT_ANY_PART = -1 };

/* The actor's handlers. A failure ends the actor, and its runtime reports it. */
typedef struct weft_actor_ops {
    const char *name;
    weft_status (*begin)(weft_actor *actor);
    /* The message is the actor's during the call; a payload can be referenced for longer. */
    weft_status (*message)(weft_actor *actor, const weft_message *message);
    weft_status (*timer)(weft_actor *actor, int timer);
    /* Whether part `part` of a computation's input, or WEFT_ANY_PART, is missing: the computation
     * must wait for it. NULL: all input is there when a computation is requested. */
    bool (*lacks)(const weft_actor *actor, int64_t ticket, int part);
    /* Part `part` of the running computation is ready; may be NULL. */
    weft_status (*part)(weft_actor *actor, int64_t ticket, int part);
    weft_status (*computed)(weft_actor *actor, int64_t ticket);
    void (*destroy)(weft_actor *actor);
} weft_actor_ops;

/* The head of every actor; implementations extend it. The runtime fills it in. */
struct weft_actor {
    const weft_actor_ops *ops;
    weft_runtime *host;
    weft_actor_id id;
    char name[40]; /* for people; "": kind and id (weft_actor_name) */
    bool done;     /* no further calls, please */
};

/* Services of a runtime for its actors. */
typedef struct weft_runtime_ops {
    double (*now)(weft_runtime *host);
    weft_status (*send)(weft_actor *from, weft_actor_id to, const weft_message *message);
    weft_status (*set_timer)(weft_actor *actor, int timer, double seconds);
    weft_status (*compute)(weft_actor *actor, int64_t ticket);
    weft_status (*know)(weft_runtime *host, weft_actor_id id, const char *address);
    const char *(*address)(weft_runtime *host);
} weft_runtime_ops;

/* The head of every runtime; implementations extend it. */
struct weft_runtime {
    const weft_runtime_ops *ops;
};

/* The name of an actor for people; writes and returns `out`. */
const char *weft_actor_name(const weft_actor *actor, char out[48]);
/* Seconds, of which only differences have a meaning. */
static inline double weft_actor_now(const weft_actor *actor)
{
    return actor->host->ops->now(actor->host);
}
/* Head and payload of the message remain the caller's. There is no receipt: an unknown receiver is
 * like one that does not answer. */
static inline weft_status weft_actor_send(weft_actor *actor, weft_actor_id to,
                                          const weft_message *message)
{
    return actor->host->ops->send(actor, to, message);
}
/* Timer `timer` (0 to WEFT_ACTOR_TIMERS - 1) runs out once, so many seconds from now, in place of
 * its previous setting. Below 0: never. */
enum { WEFT_ACTOR_TIMERS = 8 };
static inline weft_status weft_actor_set_timer(weft_actor *actor, int timer, double seconds)
{
    return actor->host->ops->set_timer(actor, timer, seconds);
}
/* One computation at a time; the runtime's caller knows what it computes. */
static inline weft_status weft_actor_compute(weft_actor *actor, int64_t ticket)
{
    return actor->host->ops->compute(actor, ticket);
}
/* The address of another actor, as that actor gives it; a runtime that needs none ignores it. */
static inline weft_status weft_actor_know(weft_actor *actor, weft_actor_id id, const char *address)
{
    return actor->host->ops->know(actor->host, id, address);
}
/* The address of this actor, for weft_actor_know elsewhere; "": none, or none is needed. */
static inline const char *weft_actor_address(const weft_actor *actor)
{
    return actor->host->ops->address(actor->host);
}

#endif
