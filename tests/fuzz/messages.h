/* Actors of every kind, and a host that holds back what they send. */
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

/* A message that was sent and not given to anybody yet. */
typedef struct held {
    weft_actor_id from, to;
    uint32_t type;
    size_t head_bytes;
    uint8_t head[1024];
    weft_buffer *payload;
} held;

typedef struct cluster {
    weft_runtime host;
    int kind;              /* of policies */
    bool elastic;          /* all are peers that come and go by the coordinator */
    weft_gossip_mode mode; /* theirs */
    double now;
    weft_actor *actors[ACTORS]; /* NULL: it has ended */
    bool computes[ACTORS];
    int64_t tickets[ACTORS];
    float parameters[ACTORS][COUNT], gradients[COUNT];
    weft_codec *codecs[ACTORS][RANGES];
    weft_topology topologies[2]; /* of each mode */
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

/* All begin; bits of `kind`: which policies, and whether all are peers that come by the
 * coordinator, and of which mode. */
void cluster_begin(cluster *c, int kind);
void cluster_end(cluster *c);
/* Message i is not held back any more. */
void cluster_forget(cluster *c, int i);

#endif
