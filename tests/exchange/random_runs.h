/* Simulated runs with random faults, each drawn from a seed, and the first violation of each run.
 * WEFT_CHAOS=N: play N runs. WEFT_CHAOS_SEED=S: play only that of seed S, and print its events. */
#ifndef WEFT_TESTS_RANDOM_RUNS_H
#define WEFT_TESTS_RANDOM_RUNS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>

#include "actor/sim.h"
#include "membership/view.h"

/* The random source and the result of one run. */
typedef struct fate {
    uint64_t seed;
    weft_random random;
    bool loud;
    char why[300]; /* first violation; empty: none */
    int count;     /* events that the test counts over all runs */
    weft_sim *sim;
    double quiet; /* virtual second by which all actors know that the last fault is over */
} fate;

/* Prints an event if the run is `loud`. */
void tell(const fate *f, const char *format, ...) WEFT_PRINTF(2, 3);
/* Records a violation; only the first one of a run is kept. */
void wrong(fate *f, const char *format, ...) WEFT_PRINTF(2, 3);
void must(weft_status status);
/* A random number from 0 to n - 1. */
int pick(fate *f, int n);

/* --- faults --- */

/* Draws a link; in three runs of four it has the faults of which these are the most. */
weft_sim_link draw_link(fate *f, weft_sim_link most);
/* Draws an actor that is alive and has not finished, among the ids first to first + count - 1; 0:
 * there is none. */
weft_actor_id pick_alive(fate *f, int first, int count);
/* Suspends an actor from second `at` to second `until`, or kills it, and tells so. */
void stop_actor(fate *f, weft_actor_id id, bool sleeps, double at, double until);
/* The coordinator; NULL: it has died, or its run is over. */
const weft_actor *coordinator_of(const fate *f);
/* Cuts the coordinator off from the ids first to first + count - 1. */
void isolate(const fate *f, int first, int count, double at, double until);

/* Creates f->sim with these options and the seed of the run, and adds the coordinator. */
void begin_sim(fate *f, weft_sim_options options);

/* The actions of a run with random faults; `user` is that of the simulation. */
typedef struct fault_plan {
    int most;                 /* faults of a run */
    double gap, end;          /* seconds between two faults at most; by then it has ended */
    void (*look)(void *user); /* checks invariants, every quarter of a second */
    bool (*hit)(void *user, double at); /* begins a fault; false: it is the last one */
    bool (*has_ended)(const void *user);
} fault_plan;
/* Plays f->sim, whose actors have been added, to its end. */
void play_faults(fate *f, const fault_plan *plan, void *user);

/* --- runs --- */

/* Plays the run of f->seed: records violations in *f, and returns the digest of all events. */
typedef uint64_t (*fate_play)(fate *f);
/* Plays all runs, and every 16th a second time, whose digest must be the same. Prints how many
 * events the runs have counted, which `counted` names, and fails if any run had a violation. */
void play_all(uint64_t usual, fate_play play, const char *counted);

#endif
