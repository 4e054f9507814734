/* A run of learners, servers and a coordinator that chance makes: who is there, and what hits them.
 */
#ifndef WEFT_TESTS_CHAOS_H
#define WEFT_TESTS_CHAOS_H

#include "exchange/ps/ps.h"
#include "random_runs.h"

enum {
    MOST_SERVERS = 4,
    MOST_LEARNERS = 5,
    LIVES = 24, /* learners that there may be in a run, one after the other */
    MOST_STEPS = 24,
    COUNT = LIVES * MOST_STEPS, /* numbers of a range */
    FIRST_SERVER = 10,
    SERVER_LIVES = 24,
    FIRST_LEARNER = 50,
    FAULTS = 8
};
/* Of so many beats one gets through, also where every fifth is lost. */
static const double BEAT = 1, LIMIT = 15, END = 4000;

typedef struct life {
    double w[MOST_SERVERS * COUNT], g[MOST_SERVERS * COUNT];
    weft_server_range reach[MOST_SERVERS];
    int64_t sequence[MOST_SERVERS]; /* of its updates */
    int64_t acknowledged[MOST_SERVERS];
    double seconds; /* of a step */
    int slot_wish;
    bool excused; /* something has happened to it that may end it */
} life;

typedef struct chaos {
    fate fate;
    weft_policy policy;
    const char *policy_name;
    int learners, servers, steps;
    bool replicas, lost; /* lost: a server was, with ranges that nobody else has */
    double quiet;        /* when the last fault is over, and known to all */
    bool stale;          /* somebody who had slept brought the coordinator an old view */
    weft_sim_link link;
    double needs[MOST_SERVERS], parts[MOST_SERVERS]; /* shares of a step */
    weft_sim *sim;
    life *lives;
    int learner_lives, server_lives;
    bool server_excused[SERVER_LIVES];
    weft_sim_report report;
} chaos;

weft_actor *learner_at(const chaos *c, int i);
/* Another one begins at that time, if there may be more. */
weft_status add_learner(chaos *c, double at);
/* Something happens to somebody; after `calm` a server may be next. */
void hit(chaos *c, double at, double *calm);

#endif
