/* An actor in a thread of its own: a server, or the coordinator. */
#ifndef WEFT_EXCHANGE_SERVER_HOSTED_H
#define WEFT_EXCHANGE_SERVER_HOSTED_H

#include "exchange/bootstrap.h"

typedef struct weft_hosted weft_hosted;

/* Takes the actor, begins it as number `id` and goes on with it until it is stopped or fails.
 * coordinator: where that one is reached; NULL: this is it. others: whether it is to be reached
 * from other processes, too. */
weft_status weft_hosted_start(weft_net_world *world, weft_actor *actor, weft_actor_id id,
                              const char *coordinator, bool others,
                              weft_hosted **out) WEFT_NODISCARD;
/* Ends its thread; what it has is still there. Its failure is told, if it had one. */
weft_status weft_hosted_end(weft_hosted *hosted);
/* The same, and destroys it. */
weft_status weft_hosted_stop(weft_hosted **hosted);
/* What it has sent and received; after its end. */
weft_net_report weft_hosted_tell(const weft_hosted *hosted);
/* Why it has ended by itself; OK: it has not. */
weft_status weft_hosted_check(const weft_hosted *hosted) WEFT_NODISCARD;

/* The actor; after its end. */
const weft_actor *weft_hosted_actor(const weft_hosted *hosted);
/* Where it is reached, as weft_actor_address says. */
const char *weft_hosted_address(const weft_hosted *hosted);

#endif
