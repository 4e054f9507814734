/* Bootstrap: learners of a job exchange the addresses and keys of their actors. */
#ifndef WEFT_EXCHANGE_BOOTSTRAP_H
#define WEFT_EXCHANGE_BOOTSTRAP_H

#include "actor/net.h"
#include "exchange/exchange.h"

typedef struct weft_bootstrap_addresses {
    uint64_t token;    /* of its transport context, */
    char inside[64];   /* the address within that, */
    char outside[512]; /* and for other processes; "": none */
} weft_bootstrap_addresses;

/* As weft_net_open, with an inproc address and, with `others`, one for other processes: of this
 * machine, or, with keys, of all machines. */
weft_status weft_bootstrap_open(weft_net_context *world, weft_actor *actor, weft_actor_id id,
                                bool others, weft_net **net,
                                weft_bootstrap_addresses *out) WEFT_NODISCARD;
/* The address for actors of this transport context. */
const char *weft_bootstrap_address(const weft_bootstrap_addresses *addresses,
                                   const weft_net_context *world);

/* Sets the bound on messages that the parameters of this exchange need. */
void weft_learners_expect(const weft_exchange *exchange, weft_net_context *world);
/* *others: a learner is in another process. If one is on another machine, all create keys, and
 * allow each other's. Collective between learners. UNSUPPORTED: their parameter layouts differ, so
 * that parameters cannot be sent as they are; or one of them cannot encrypt. */
weft_status weft_learners_meet(const weft_exchange *exchange, weft_net_context *world,
                               bool *others) WEFT_NODISCARD;

#endif
