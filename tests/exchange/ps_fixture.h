/* A coordinator, servers and learners in the simulator, which train on COUNT parameters. */
#ifndef WEFT_TESTS_PS_FIXTURE_H
#define WEFT_TESTS_PS_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "actor/sim.h"
#include "base/tree_sum.h"
#include "exchange/ps/ps.h"

enum {
    COUNT = 23,
    MOST_LEARNERS = 30,
    SYNCHRONOUS = 8,
    MOST_SERVERS = 5,
    MOST_DEATHS = 2,
    FIRST_SERVER = 1,
    FIRST_LEARNER = 100
};

/* A server of a simulated run, and the state of its ranges' downlinks. */
typedef struct host {
    struct run *run;
    struct iovec states[MOST_SERVERS][1 + WEFT_CODEC_STATES];
} host;

/* A simulated run. The loss of each learner is a quadratic with a minimum of its own; a small term
 * of the gradient changes with the step. */
typedef struct run {
    weft_policy policy;
    int learners, servers, steps;
    const char *codec;
    const char *back; /* downlink codec; NULL: none */
    bool replicas;
    bool goes_on; /* see weft_server_options */
    weft_sim_link link;
    double seconds[MOST_LEARNERS]; /* duration of a step */
    double uneven;                 /* the duration varies at random by up to this share */
    double needs[MOST_SERVERS];    /* the share of a step after which it reads each range */
    bool early;                    /* steps begin before their ranges have arrived */
    /* After its first step, learner 0 has no samples: its gradients and its weight are 0. */
    bool idle;
    weft_random random;
    uint64_t seed;
    struct {
        weft_actor_id who; /* an actor that is killed; 0: none */
        double when;
    } deaths[MOST_DEATHS];
    weft_sim_make_fn make;            /* in place of `make`; may be NULL */
    weft_status (*check)(void *user); /* called with this run before each event; may be NULL */
    /* state of the running simulation */
    weft_sim *sim;
    double w[MOST_LEARNERS][COUNT], g[MOST_LEARNERS][COUNT], weight[MOST_LEARNERS];
    weft_server_range reach[MOST_LEARNERS][MOST_SERVERS];
    host hosts[MOST_SERVERS];
    double parts[MOST_SERVERS];
    int64_t clock[MOST_LEARNERS];
    /* Largest difference between the running step of a learner and the clock of another one. */
    int64_t spread;
    double until[MOST_LEARNERS]; /* when each learner's last step ended */
} run;

static const double LR = 0.125;
static const weft_sim_link BAD = {.latency = 0.02,
                                  .jitter = 0.3,
                                  .bandwidth = 2e4,
                                  .lost = 0.15,
                                  .twice = 0.15,
                                  .reordered = 0.2};

/* Group setup and teardown: create and destroy the context of all tests. */
int runs_setup(void **state);
int runs_teardown(void **state);

void gradient(int learner, int64_t step, const double *w, double *g);
weft_status make(void *user, weft_actor_id id, int life, weft_actor **out);
weft_status compute(void *user, weft_actor *actor, int64_t ticket, weft_sim_work *work);
void simulate(run *r);
void finish(run *r);
/* Synchronous training, for comparison: each step takes the mean of all learners' gradients. */
void synchronous(const run *r, double *w);
run draw(const char *policy, double count, double bound, int learners, int servers, uint64_t seed);

#endif
