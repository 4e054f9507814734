/* An actor in a thread of its own, in the process of a learner: a server, or the coordinator. */
#ifndef WEFT_EXCHANGE_ACTOR_THREAD_H
#define WEFT_EXCHANGE_ACTOR_THREAD_H

#include "exchange/bootstrap.h"

typedef struct weft_actor_thread weft_actor_thread;

/* Takes the actor, and runs it as actor `id` until it is stopped or fails. coordinator: its
 * address; NULL: the actor is the coordinator. others: it gets an address for other processes,
 * too. */
weft_status weft_actor_thread_start(weft_net_context *world, weft_actor *actor, weft_actor_id id,
                                    const char *coordinator, bool others,
                                    weft_actor_thread **out) WEFT_NODISCARD;
/* Ends the thread; the actor remains. Returns its failure, if it had one. */
weft_status weft_actor_thread_end(weft_actor_thread *hosted);
/* Ends the thread and destroys the actor. */
weft_status weft_actor_thread_stop(weft_actor_thread **hosted);
/* The messages that the actor has sent and received; after the end of the thread. */
weft_net_report weft_actor_thread_stats(const weft_actor_thread *hosted);
/* The failure that ended the thread; OK: none. */
weft_status weft_actor_thread_check(const weft_actor_thread *hosted) WEFT_NODISCARD;

/* The actor; after the end of the thread. */
const weft_actor *weft_actor_thread_actor(const weft_actor_thread *hosted);
/* Its address, as weft_actor_address gives it. */
const char *weft_actor_thread_address(const weft_actor_thread *hosted);

#endif
