/* Describes a random run of elastic gossip peers in the simulator (test_gossip_chaos.c), and
 * declares its checks. */
#ifndef WEFT_TESTS_GOSSIP_CHAOS_H
#define WEFT_TESTS_GOSSIP_CHAOS_H

#include "exchange/gossip/gossip.h"
#include "random_runs.h"

enum {
    LIVES = 32,
    MOST_PEERS = 6,
    MOST_STEPS = 40,
    COUNT = LIVES * MOST_STEPS,
    FIRST = 10,
    FAULTS = 9
};
static const double LIMIT = 10, END = 6000;

typedef struct life {
    double w[COUNT];
    weft_codec *codec;
    double seconds, begins, gone; /* of a step; when it begins; when it ended, 0: not yet */
    int made;                     /* number of its updates */
    bool excused, quits;
    bool near[LIVES]; /* peers in its view, before it ended */
    int64_t found;    /* the least clock of the peers that were there when it began */
    uint64_t run;     /* id of the run of those peers */
} life;

typedef struct chaos {
    fate fate;
    const weft_peer_mode *mode;
    const char *topology_name;
    int peers, steps, lives;
    size_t backlog; /* limit of a link, in bytes; 0: the default */
    bool orphaned;  /* the coordinator is gone for good */
    weft_sim_link link;
    life *life;
    weft_sim_report report;
} chaos;

/* The actor of peer i; NULL: it has not begun, or has died. */
weft_actor *peer_at(const chaos *c, int i);
/* Checks the updates that each peer has, and notes the peers in its view and when it ends. */
void look(void *user);
/* Whether the run had begun before this peer, and no peer that it knows of and that no fault has
 * hit has the state of the run. */
bool state_is_lost(const chaos *c, weft_actor_id id);
/* Whether each peer has ended, or waits for a coordinator or a run that there is not. */
bool has_ended(const void *user);
/* Checks the end of the run: it does not hang, and peers that end together have the same updates
 * and the same mean. */
void judge(chaos *c);

#endif
