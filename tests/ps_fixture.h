/* Learners, servers and a coordinator in the simulator, of a small problem. */
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
    FIRST_SERVER = 1,
    FIRST_LEARNER = 100
};

/* A small run: gradients are those of quadratics whose middles differ, and change with the step. */
typedef struct run {
    weft_policy policy;
    int learners, servers, steps;
    const char *codec;
    bool replicas;
    weft_sim_link link;
    double seconds[MOST_LEARNERS]; /* of a step */
    double uneven;                 /* and up to this share of them more or less */
    double needs[MOST_SERVERS];    /* shares of a step before which it reads the ranges */
    bool early;                    /* a step begins before they are there */
    weft_random random;
    uint64_t seed;
    struct {
        weft_actor_id who; /* whom the faults kill; 0: nobody */
        double when;
    } death;
    /* what is there while it goes on */
    weft_sim *sim;
    double w[MOST_LEARNERS][COUNT], g[MOST_LEARNERS][COUNT];
    weft_server_range reach[MOST_LEARNERS][MOST_SERVERS];
    double parts[MOST_SERVERS];
    int64_t clock[MOST_LEARNERS];
    int64_t spread; /* most between the first and the last, with the steps that go on */
    double until[MOST_LEARNERS]; /* when each one ended */
} run;

static const double LR = 0.125;
static const weft_sim_link BAD = {.latency = 0.02,
                                  .jitter = 0.3,
                                  .bandwidth = 2e4,
                                  .lost = 0.15,
                                  .twice = 0.15,
                                  .reordered = 0.2};

/* One context for all, before the first and after the last. */
int runs_setup(void **state);
int runs_teardown(void **state);

void gradient(int learner, int64_t step, const double *w, double *g);
weft_status make(void *user, weft_actor_id id, int life, weft_actor **out);
weft_status compute(void *user, weft_actor *actor, int64_t ticket, weft_sim_work *work);
void simulate(run *r);
void finish(run *r);
run draw(const char *policy, double count, double bound, int learners, int servers, uint64_t seed);

#endif
