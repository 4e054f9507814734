/*
 * The host that speaks to others: one actor, in the thread that calls, over ZeroMQ. Between threads
 * of a process (inproc://), processes of a machine (ipc://) and machines (tcp://).
 *
 * Nothing happens by itself: weft_net_pump takes in what has come and calls the actor. A letter
 * that finds the queue to its receiver full is dropped, as one that is lost on the way; protocols
 * send again what is not acknowledged. A letter that is not as it must be is dropped, too, and
 * counted.
 */
#ifndef WEFT_ACTOR_NET_H
#define WEFT_ACTOR_NET_H

#include "actor/actor.h"

/* What the hosts of one process share. */
typedef struct weft_net_world weft_net_world;
weft_status weft_net_world_create(weft_net_world **out) WEFT_NODISCARD;
/* After all of its hosts. */
void weft_net_world_destroy(weft_net_world **world);
/* The one of a context, which is made when it is first asked for and goes with it. */
weft_status weft_net_world_of(weft_context *context, weft_net_world **out) WEFT_NODISCARD;
/* A number that no other one has: those for whom it is the same reach each other by inproc. */
uint64_t weft_net_world_token(const weft_net_world *world);

typedef struct weft_net weft_net;

/* Takes the actor, which it destroys with itself, as number `id`. address: where others reach it;
 * NULL: only those whom it has written to do. IO: the address cannot be had. */
weft_status weft_net_open(weft_net_world *world, weft_actor *actor, weft_actor_id id,
                          const char *address, weft_net **out) WEFT_NODISCARD;
/* Another address where it is reached. bound[size]: the address itself, where a part of it ("*")
 * was left to the system. */
weft_status weft_net_bind(weft_net *net, const char *address, char *bound,
                          size_t size) WEFT_NODISCARD;
/* Waits up to a second for what has been sent to leave. */
void weft_net_close(weft_net **net);
/* Where actor `id` is reached; it need not be there yet. Of several addresses, as
 * weft_actor_address gives them, the first is taken that can be reached from here; where none can,
 * nothing changes. */
weft_status weft_net_know(weft_net *net, weft_actor_id id, const char *list) WEFT_NODISCARD;

/* Tells the actor to begin. */
weft_status weft_net_begin(weft_net *net) WEFT_NODISCARD;
/* Gives the actor all letters that are there and timers that have run out; if there are none, waits
 * up to so many seconds for the first. */
weft_status weft_net_pump(weft_net *net, double seconds) WEFT_NODISCARD;

/* The computation that the actor has asked for and nobody has begun: its ticket, once. */
bool weft_net_wants(weft_net *net, int64_t *ticket);
/* As the moments of a computation come. */
weft_status weft_net_part(weft_net *net, int64_t ticket, int part) WEFT_NODISCARD;
weft_status weft_net_computed(weft_net *net, int64_t ticket) WEFT_NODISCARD;

weft_actor *weft_net_actor(const weft_net *net);
typedef struct weft_net_report {
    uint64_t sent, received, dropped, damaged; /* letters: not sent for want of room; not read */
    uint64_t bytes_sent, bytes_received;       /* with envelopes */
} weft_net_report;
weft_net_report weft_net_tell(const weft_net *net);

#endif
