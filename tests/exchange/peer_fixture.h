/* The actors of elastic gossip peers in the simulator. */
#ifndef WEFT_TESTS_PEER_FIXTURE_H
#define WEFT_TESTS_PEER_FIXTURE_H

#include "exchange/gossip/gossip.h"

/* A coordinator that expects so many peers. */
weft_status coordinator_of_peers(uint64_t run, int peers, double limit, weft_actor **out);
/* Options of a peer that joins with heartbeats of one second and exchanges `count` numbers. */
weft_peer_options joining_peer(weft_actor_id id, int64_t count, double *parameters,
                               weft_codec *codec, int64_t steps);

#endif
