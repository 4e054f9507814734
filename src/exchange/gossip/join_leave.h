/* Connects a learner of a real run with its peer: creates the peer, joins the other peers, waits
 * for them, and leaves. */
#ifndef WEFT_EXCHANGE_GOSSIP_JOIN_LEAVE_H
#define WEFT_EXCHANGE_GOSSIP_JOIN_LEAVE_H

#include "exchange/elastic.h"
#include "exchange/gossip/gossip.h"
#include "exchange/codec_checkpoint.h"
#include "exchange/bootstrap.h"
#include "exchange/process.h"

/* Seed of the topology: the same for all peers. */
enum { WEFT_GOSSIP_SEED = 1 };

typedef struct gossip {
    weft_exchange head;
    char *topology_name, *codec_name;
    const weft_peer_mode *mode;
    weft_topology topology;
    weft_codec *codec;
    weft_codec_checkpoint *codec_state; /* codec state for checkpoints */
    weft_shared_params *shared;
    bool is_leader;
    weft_net_context *net_context;
    weft_net *net;
    weft_dtype dtype;
    int64_t count, step;
    bool stepped;     /* this process has taken a step */
    bool ended;       /* the end of the peer was broadcast, */
    bool halts;       /* with the request that all peers end */
    bool holds_slot;  /* this is slot 0 of a job, see weft_peer_release_hold */
    void *parameters; /* [count]: all parameters, in the order of the store */
    double figures[3];
} gossip;

/* Creates the peer and opens its socket. _connect: learners of one job exchange their addresses.
 * _join: an elastic learner gets addresses from the coordinator. */
weft_status weft_gossip_connect(gossip *x) WEFT_NODISCARD;
weft_status weft_gossip_join(gossip *x) WEFT_NODISCARD;
/* Handles messages until `condition` holds. Fails if no message arrives for the timeout, if the job
 * has failed, or if an elastic learner is to stop. */
weft_status weft_gossip_wait(gossip *x, bool (*condition)(const weft_actor *actor)) WEFT_NODISCARD;
/* Answers other peers until all learners of the job have all updates. */
weft_status weft_gossip_leave_together(gossip *x) WEFT_NODISCARD;

#endif
