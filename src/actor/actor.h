/* Actors are state machines that exchange messages and do no input or output of their own.
 *
 * A runtime tells an actor of messages, of timers that have run out and of computations that have
 * ended; the actor may send messages, set timers and request a computation. There are two runtimes:
 * `sim` runs actors in virtual time, where a seed replays a run exactly, and `net` connects
 * processes. The code of an actor is the same in both, so tests in thousands of simulated runs with
 * faults test the code of real runs.
 *
 * All calls to an actor are in one thread at a time. A message may be lost, duplicated or late, and
 * its receiver may have restarted meanwhile; an actor that must not lose a message retransmits it
 * until it is acknowledged. */
#ifndef WEFT_ACTOR_ACTOR_H
#define WEFT_ACTOR_ACTOR_H

#include <stdatomic.h>

#include "base/base.h"

/* --- payloads --- */

/* A buffer holds reference-counted bytes that several messages share without a copy. No one may
 * write them after they are sent. */
typedef struct weft_buffer weft_buffer;
struct weft_buffer {
    atomic_int holders;
    size_t bytes, room; /* room: allocated size; 0: foreign memory */
    size_t fixed; /* of the bytes, those that do not grow with the parameters, such as headers */
    void *data;   /* aligned to 8 bytes at least */
    void (*release)(void *of, void *data); /* frees foreign memory; NULL: own memory */
    void *of;
};
/* Makes a buffer: zeroed, aligned to 64 bytes, with one reference. */
weft_status weft_buffer_new(size_t bytes, weft_buffer **out) WEFT_NODISCARD;
/* Replaces *blob (NULL: none), whose reference is dropped, by a buffer of any content. The old
 * memory is reused if it has no other reference and is large enough. On failure *blob is NULL. */
weft_status weft_buffer_reuse(size_t bytes, weft_buffer **blob) WEFT_NODISCARD;
/* Makes a buffer of foreign memory, which `release(of, data)` frees after the last reference, or at
 * once if this call fails. */
weft_status weft_buffer_wrap(void *data, size_t bytes, void (*release)(void *of, void *data),
                             void *of, weft_buffer **out) WEFT_NODISCARD;
weft_buffer *weft_buffer_ref(weft_buffer *blob);
/* Call this to keep a buffer for long: *out is a reference or, if the buffer's memory may be much
 * larger than its contents, a copy of just their size. */
weft_status weft_buffer_compact(weft_buffer *blob, weft_buffer **out) WEFT_NODISCARD;
/* Drops a reference and nulls it; NULL is allowed. */
void weft_buffer_unref(weft_buffer **blob);
/* Whether there are other references. If the buffer was only sent, its message is still in
 * transit. */
bool weft_buffer_is_shared(const weft_buffer *blob);

/* --- messages --- */

/* The id of an actor in its run. No other actor gets the id when the actor is gone. */
typedef uint32_t weft_actor_id;

typedef struct weft_message {
    weft_actor_id from; /* set by the runtime */
    uint32_t type;      /* weft_rpc_type, of all protocols */
    const void *head;   /* header: the encoded protobuf message, copied by send */
    size_t head_bytes;
    weft_buffer *payload; /* parameters and other large data, not copied; may be NULL */
} weft_message;

/* --- actors --- */

typedef struct weft_actor weft_actor;
typedef struct weft_runtime weft_runtime;

enum { WEFT_ANY_PART = -1 };

/* The handlers of an actor, which its runtime calls. If one fails, the actor ends, and the runtime
 * reports the failure. */
typedef struct weft_actor_ops {
    const char *name;
    weft_status (*begin)(weft_actor *actor);
    /* Handles a message, which is valid during the call; the payload may be referenced for
     * longer. */
    weft_status (*message)(weft_actor *actor, const weft_message *message);
    weft_status (*timer)(weft_actor *actor, int timer);
    /* Whether part `part` of a computation's input (WEFT_ANY_PART: any part) is missing, so that
     * the computation must wait. NULL: all input is there when the actor requests a computation. */
    bool (*lacks)(const weft_actor *actor, int64_t ticket, int part);
    /* Output part `part` of the running computation is ready; may be NULL. */
    weft_status (*part)(weft_actor *actor, int64_t ticket, int part);
    weft_status (*computed)(weft_actor *actor, int64_t ticket);
    void (*destroy)(weft_actor *actor);
} weft_actor_ops;

/* The head of every actor; implementations extend it. The runtime fills it in. */
struct weft_actor {
    const weft_actor_ops *ops;
    weft_runtime *host;
    weft_actor_id id;
    char name[40]; /* for error messages; "": weft_actor_name makes one of kind and id */
    bool done;     /* set by the actor: the runtime is to call it no more */
};

/* Work of a handler that takes time by the bytes of memory that it reads and writes. */
typedef enum weft_work_kind {
    WEFT_WORK_PASS,   /* copies, sums, updates */
    WEFT_WORK_ENCODE, /* by a codec, whose name is given */
    WEFT_WORK_DECODE,
    /* A payload to and from another machine, and another process of the same one; runtimes count
     * these. */
    WEFT_WORK_SEND,
    WEFT_WORK_RECEIVE,
    WEFT_WORK_SEND_BESIDE,
    WEFT_WORK_RECEIVE_BESIDE
} weft_work_kind;

/* Services of a runtime for its actors. */
typedef struct weft_runtime_ops {
    double (*now)(weft_runtime *host);
    weft_status (*send)(weft_actor *from, weft_actor_id to, const weft_message *message);
    weft_status (*set_timer)(weft_actor *actor, int timer, double seconds);
    weft_status (*compute)(weft_actor *actor, int64_t ticket);
    weft_status (*know)(weft_runtime *host, weft_actor_id id, const char *address);
    void (*forget)(weft_runtime *host, weft_actor_id id);
    bool (*bind)(weft_runtime *host, weft_actor_id id, const char *address);
    const char *(*address)(weft_runtime *host);
    void (*warn)(weft_runtime *host, const char *text);
    void (*work)(weft_actor *actor, weft_work_kind kind, const char *codec, double bytes);
} weft_runtime_ops;

/* The head of every runtime; implementations extend it. */
struct weft_runtime {
    const weft_runtime_ops *ops;
};

/* Writes the name of an actor for error messages into `out`, and returns `out`. */
const char *weft_actor_name(const weft_actor *actor, char out[48]);
/* The time of the runtime's clock in seconds; only differences have a meaning. */
static inline double weft_actor_now(const weft_actor *actor)
{
    return actor->host->ops->now(actor->host);
}
/* Sends a message, whose head and payload remain the caller's. Success does not mean delivery: a
 * message to an unknown receiver is lost. */
static inline weft_status weft_actor_send(weft_actor *actor, weft_actor_id to,
                                          const weft_message *message)
{
    return actor->host->ops->send(actor, to, message);
}
/* Sets timer `timer` (0 to WEFT_ACTOR_TIMERS - 1) to run out once, so many seconds from now; its
 * previous setting is dropped. Below 0: it never runs out. */
enum { WEFT_ACTOR_TIMERS = 8 };
static inline weft_status weft_actor_set_timer(weft_actor *actor, int timer, double seconds)
{
    return actor->host->ops->set_timer(actor, timer, seconds);
}
/* Requests computation `ticket`. The host of the runtime performs it, and the handler `computed`
 * reports its end. An actor has one computation at a time. */
static inline weft_status weft_actor_compute(weft_actor *actor, int64_t ticket)
{
    return actor->host->ops->compute(actor, ticket);
}
/* Tells the runtime the address of another actor, as weft_actor_address gave it there, and binds
 * its id to the key in it. The simulator ignores addresses. */
static inline weft_status weft_actor_know(weft_actor *actor, weft_actor_id id, const char *address)
{
    return actor->host->ops->know(actor->host, id, address);
}
/* Binds the id of another actor to the public key in its address: from now on its messages count
 * only if they come with that key, so no other actor can use the id. false: the last of its
 * messages came with another key than the address has. */
static inline bool weft_actor_bind(weft_actor *actor, weft_actor_id id, const char *address)
{
    return actor->host->ops->bind(actor->host, id, address);
}
/* Tells the runtime that another actor is gone, which frees its connection. */
static inline void weft_actor_forget(weft_actor *actor, weft_actor_id id)
{
    actor->host->ops->forget(actor->host, id);
}
/* Writes a warning to the log of the runtime, at most one a second; the simulator has none. */
static inline void weft_actor_warn(weft_actor *actor, const char *text)
{
    if (actor->host->ops->warn) actor->host->ops->warn(actor->host, text);
}
/* Tells the runtime of work of this handler. codec: NULL, or that of WEFT_WORK_ENCODE and _DECODE.
 * In real time the work takes the time that it takes; a simulation may charge for it. */
static inline void weft_actor_work(weft_actor *actor, weft_work_kind kind, const char *codec,
                                   double bytes)
{
    if (actor->host->ops->work) actor->host->ops->work(actor, kind, codec, bytes);
}
/* The address of this actor, for weft_actor_know in other actors; "": there is none, or none is
 * needed. */
static inline const char *weft_actor_address(const weft_actor *actor)
{
    return actor->host->ops->address(actor->host);
}

#endif
