/* Bootstrap: learners of a job exchange the addresses and keys of their actors. */
#ifndef WEFT_EXCHANGE_BOOTSTRAP_H
#define WEFT_EXCHANGE_BOOTSTRAP_H

#include "actor/net.h"
#include "exchange/exchange.h"

typedef struct weft_bootstrap_addresses {
    uint64_t token;    /* id of the actor's transport context */
    char inside[64];   /* the actor's address within that context */
    char outside[512]; /* its address for other processes; "": none */
} weft_bootstrap_addresses;

/* Where the learners of a job are, and who must therefore reach their actors. */
typedef enum weft_reach {
    WEFT_REACH_PROCESS, /* all are in one process */
    WEFT_REACH_FILES,   /* in several processes of one machine that see each other's sockets */
    WEFT_REACH_MACHINE, /* in several processes of one machine */
    WEFT_REACH_NETWORK  /* on several machines */
} weft_reach;

/* Like weft_net_open. The actor gets an inproc address and, if other processes must reach it, an
 * ipc or TCP address that they do. */
weft_status weft_bootstrap_open(weft_net_context *world, weft_actor *actor, weft_actor_id id,
                                weft_reach reach, weft_net **net,
                                weft_bootstrap_addresses *out) WEFT_NODISCARD;
/* The address at which actors of the transport context `world` reach the actor. */
const char *weft_bootstrap_address(const weft_bootstrap_addresses *addresses,
                                   const weft_net_context *world);

/* Sets the largest size of a message to that which the parameters of this exchange need. */
void weft_learners_expect(const weft_exchange *exchange, weft_net_context *world);
/* Learners check that their parameter layouts are alike and find out where they are. If processes
 * reach each other by TCP, each learner creates a key, and allows the keys of the others, since
 * other users may be on the same machine; these cannot enter the folders of ipc sockets, over which
 * nothing is encrypted. Collective between learners. UNSUPPORTED: a learner cannot encrypt. */
weft_status weft_learners_meet(weft_exchange *exchange, weft_net_context *world,
                               weft_reach *reach) WEFT_NODISCARD;

#endif
