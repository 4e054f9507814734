/* Where actors of an exchange are reached, by those of the same process and by others. */
#ifndef WEFT_EXCHANGE_BOOTSTRAP_H
#define WEFT_EXCHANGE_BOOTSTRAP_H

#include "actor/net.h"
#include "exchange/exchange.h"

typedef struct weft_place {
    uint64_t token;    /* of its world, */
    char inside[64];   /* in which it is here, */
    char outside[512]; /* and for others; "": it is not */
} weft_place;

/* As weft_net_open, where it is reached inside of its world and, with `others`, from other
 * processes: of this machine, or, if the world has keys, of all. */
weft_status weft_place_open(weft_net_context *world, weft_actor *actor, weft_actor_id id,
                            bool others, weft_net **net, weft_place *out) WEFT_NODISCARD;
/* The address for those of this world. */
const char *weft_place_address(const weft_place *place, const weft_net_context *world);

/* Messages are as large as the parameters of this exchange need them. */
void weft_learners_expect(const weft_exchange *exchange, weft_net_context *world);
/* Whether some learner is in another world; if one is on another machine, all have keys then, and
 * allow each other's. Collective between learners. UNSUPPORTED: their parameters do not lie alike,
 * so that they cannot be sent as they lie; or one of them cannot encrypt. */
weft_status weft_learners_meet(const weft_exchange *exchange, weft_net_context *world,
                               bool *others) WEFT_NODISCARD;

#endif
