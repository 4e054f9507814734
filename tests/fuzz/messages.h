/* A cluster for fuzz_messages.c: actors of every kind, and a runtime (host) that queues their
 * messages until the fuzzer's bytes say which one is delivered, changed or lost. */
#ifndef WEFT_TESTS_FUZZ_MESSAGES_H
#define WEFT_TESTS_FUZZ_MESSAGES_H

#include "fuzz.h"

#include "membership/coordinator.h"
#include "exchange/gossip/gossip.h"
#include "exchange/ps/ps.h"
#include "actor/rpc.h"

enum { COUNT = 20, RANGES = 2, HELD = 64, MOST_PAYLOAD = 512 };
enum {
    COORDINATOR,
    SERVER,
    OTHER_SERVER,
    LEARNER,
    OTHER_LEARNER,
    PEER,
    OTHER_PEER,
    NEIGHBOUR,
    OTHER_NEIGHBOUR,
    ACTORS
};

/* A message that an actor has sent and that has not been delivered or dropped yet. */
typedef struct held {
    weft_actor_id from, to;
    uint32_t type;
    size_t head_bytes;
    uint8_t head[1024];
    weft_buffer *payload;
} held;

typedef struct cluster {
    weft_runtime host;
    int kind;                   /* 0 or 1: which policies the servers' ranges have */
    bool elastic;               /* all actors but the coordinator are peers that join through it */
    const weft_peer_mode *mode; /* of elastic peers */
    double now;
    weft_actor *actors[ACTORS]; /* NULL: the actor does not exist or has ended */
    bool computes[ACTORS];
    int64_t tickets[ACTORS];
    float parameters[ACTORS][COUNT], gradients[COUNT];
    weft_codec *codecs[ACTORS][RANGES];
    weft_topology topologies[2]; /* of mode updates, of mode average */
    weft_server_range reach[ACTORS][RANGES];
    held messages[HELD];
    int message_count;
    const uint8_t *data;
    size_t size;
} cluster;

static inline void must(weft_status status)
{
    if (status != WEFT_OK) abort();
}

/* Creates and begins all actors. Bits of `kind`: 1 selects the policies of the ranges; 4 makes a
 * cluster of elastic peers that join through the coordinator, in place of servers, learners and
 * peers with fixed ids; 8 gives these peers mode `average`. */
void cluster_begin(cluster *c, int kind);
void cluster_end(cluster *c);
/* Drops message i from the queue of undelivered messages. */
void cluster_forget(cluster *c, int i);

#endif
