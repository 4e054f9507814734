/* The peer of a real learner: how it is made, finds the others, and is waited for. */
#ifndef WEFT_EXCHANGE_GOSSIP_LEARNER_H
#define WEFT_EXCHANGE_GOSSIP_LEARNER_H

#include "exchange/shared_params.h"
#include "exchange/gossip/gossip.h"
#include "exchange/codec_checkpoint.h"
#include "exchange/bootstrap.h"
#include "exchange/process.h"

/* The seed of what peers draw: all of them have the same edges. */
enum { WEFT_GOSSIP_SEED = 1 };

typedef struct gossip {
    weft_exchange head;
    char *topology, *codec_name;
    weft_gossip_mode mode;
    weft_topology edges;
    weft_codec *codec;
    weft_codec_checkpoint *kept; /* what it keeps, in checkpoints */
    weft_shared_params *copies;
    bool leads;
    weft_net_context *world;
    weft_net *net;
    weft_dtype dtype;
    int64_t count, turn;
    bool last;        /* the run's last step is over */
    bool stepped;     /* this process has taken one */
    bool stays;       /* others may still need it, see weft_peer_release_hold */
    void *parameters; /* [count]: as they lie */
    double figures[3];
} gossip;

/* Makes the peer, which learners of one job tell each other of; others hear of it by the
 * coordinator. */
weft_status weft_gossip_meet(gossip *x) WEFT_NODISCARD;
weft_status weft_gossip_join(gossip *x) WEFT_NODISCARD;
/* Somebody else may have come while this one made itself ready. */
weft_status weft_gossip_check_slot(const gossip *x) WEFT_NODISCARD;
/* Until the peer may compute, or has all there is. */
weft_status weft_gossip_wait(gossip *x, bool (*ready)(const weft_actor *actor)) WEFT_NODISCARD;
/* While others still need answers this one goes on giving them. */
weft_status weft_gossip_leave_together(gossip *x) WEFT_NODISCARD;
/* The coordinator hears of it, if there is one, and who still needs answers gets them; nobody waits
 * for long. */
weft_status weft_gossip_goodbye(const gossip *x) WEFT_NODISCARD;

#endif
