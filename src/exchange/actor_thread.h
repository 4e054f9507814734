/* An actor in a thread of its own: a server, or the coordinator. */
#ifndef WEFT_EXCHANGE_ACTOR_THREAD_H
#define WEFT_EXCHANGE_ACTOR_THREAD_H

#include "exchange/bootstrap.h"

typedef struct weft_actor_thread weft_actor_thread;

/* Takes the actor, begins it as number `id` and goes on with it until it is stopped or fails.
 * coordinator: where that one is reached; NULL: this is it. others: whether it is to be reached
 * from other processes, too. */
weft_status weft_actor_thread_start(weft_net_context *world, weft_actor *actor, weft_actor_id id,
                                    const char *coordinator, bool others,
                                    weft_actor_thread **out) WEFT_NODISCARD;
/* Ends its thread; what it has is still there. Its failure is told, if it had one. */
weft_status weft_actor_thread_end(weft_actor_thread *hosted);
/* The same, and destroys it. */
weft_status weft_actor_thread_stop(weft_actor_thread **hosted);
/* The messages that the actor has sent and received; call it after the end of the thread. */
weft_net_report weft_actor_thread_stats(const weft_actor_thread *hosted);
/* Why it has ended by itself; OK: it has not. */
weft_status weft_actor_thread_check(const weft_actor_thread *hosted) WEFT_NODISCARD;

/* The actor; after its end. */
const weft_actor *weft_actor_thread_actor(const weft_actor_thread *hosted);
/* Where it is reached, as weft_actor_address says. */
const char *weft_actor_thread_address(const weft_actor_thread *hosted);

#endif
