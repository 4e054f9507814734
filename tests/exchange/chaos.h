/* A random run of learners, servers and a coordinator in the simulator (test_ps_chaos.c), and the
 * random faults that hit its actors. */
#ifndef WEFT_TESTS_CHAOS_H
#define WEFT_TESTS_CHAOS_H

#include "exchange/ps/ps.h"
#include "random_runs.h"

enum {
    MOST_SERVERS = 4,
    MOST_LEARNERS = 5,
    LIVES = 24, /* learners that one run may have, one after the other */
    MOST_STEPS = 24,
    COUNT = LIVES * MOST_STEPS, /* elements of a range: one mark for each step of each learner */
    FIRST_SERVER = 10,
    SERVER_LIVES = 24,
    FIRST_LEARNER = 50,
    FAULTS = 8
};
/* Heartbeat interval, failure timeout and time limit of a run, in virtual seconds. The failure
 * timeout is 15 heartbeats long: at least one arrives, even on a link that loses every fifth
 * message. */
static const double BEAT = 1, LIMIT = 15, END = 4000;

typedef struct life {
    double w[MOST_SERVERS * COUNT], g[MOST_SERVERS * COUNT];
    weft_server_range reach[MOST_SERVERS];
    int64_t sequence[MOST_SERVERS]; /* number of its last update, by range */
    int64_t acknowledged[MOST_SERVERS];
    double seconds;      /* mean duration of a step */
    int slot_wish, slot; /* slot: that of its last step */
    bool excused;        /* a fault has hit this learner, so it may end with an error */
} life;

typedef struct chaos {
    fate fate;
    weft_policy policy;
    const char *policy_name;
    int learners, servers, steps;
    bool replicas, lost; /* lost: a server without replicas died, and its ranges with it */
    double calm;
    double isolated; /* virtual second until which the coordinator has no network */
    bool stale;      /* a restarted coordinator took an old view from an actor that had slept */
    weft_sim_link link;
    /* needs: the share of a step after which it reads range k; parts: the share after which the
     * gradient of range k is ready. */
    double needs[MOST_SERVERS], parts[MOST_SERVERS];
    life *lives;
    int learner_lives, server_lives;
    bool server_excused[SERVER_LIVES];
    weft_sim_report report;
} chaos;

weft_actor *learner_at(const chaos *c, int i);
/* Adds a learner that begins at second `at`, unless the run has had LIVES learners already. */
weft_status add_learner(chaos *c, double at);
/* Draws one fault that begins at second `at`. With replicas, a server is hit only after second
 * c->calm, which each hit on a server moves on. */
bool hit(void *user, double at);

#endif
