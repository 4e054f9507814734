/* An actor thread runs a server or the coordinator in a thread of its own, inside the process of a
 * learner. */
#ifndef WEFT_EXCHANGE_ACTOR_THREAD_H
#define WEFT_EXCHANGE_ACTOR_THREAD_H

#include "exchange/bootstrap.h"

typedef struct weft_actor_thread weft_actor_thread;

/* Starts a thread that runs the actor under `id` until it is stopped or fails. Takes the actor,
 * also on failure. coordinator: the coordinator's address; NULL: the actor is the coordinator.
 * reach: who reaches the actor. */
weft_status weft_actor_thread_start(weft_net_context *world, weft_actor *actor, weft_actor_id id,
                                    const char *coordinator, weft_reach reach,
                                    weft_actor_thread **out) WEFT_NODISCARD;
/* Ends the thread, and keeps the actor. Returns the failure that ended the thread before, if
 * any. */
weft_status weft_actor_thread_end(weft_actor_thread *hosted);
/* Ends the thread and destroys the actor. */
weft_status weft_actor_thread_stop(weft_actor_thread **hosted);
/* The messages that the actor has sent and received; call it after the end of the thread. */
weft_net_report weft_actor_thread_stats(const weft_actor_thread *hosted);
/* The failure that ended the thread; OK: none. */
weft_status weft_actor_thread_check(const weft_actor_thread *hosted) WEFT_NODISCARD;

/* The actor; call it after the end of the thread. */
const weft_actor *weft_actor_thread_actor(const weft_actor_thread *hosted);
/* The address of the actor, as weft_actor_address gives it. */
const char *weft_actor_thread_address(const weft_actor_thread *hosted);

#endif
