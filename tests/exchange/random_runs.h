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

/* The random source and the result of one run. */
typedef struct fate {
    uint64_t seed;
    weft_random random;
    bool loud;
    char why[300]; /* first violation; empty: none */
    int count;     /* events that the test counts over all runs */
} fate;

/* Prints an event if the run is `loud`. */
void tell(const fate *f, const char *format, ...) WEFT_PRINTF(2, 3);
/* Records a violation; only the first one of a run is kept. */
void wrong(fate *f, const char *format, ...) WEFT_PRINTF(2, 3);
void must(weft_status status);
/* A random number from 0 to n - 1. */
int pick(fate *f, int n);

/* Plays the run of f->seed: records violations in *f, and returns the digest of all events. */
typedef uint64_t (*fate_play)(fate *f);
/* Plays all runs, and every 16th a second time, whose digest must be the same. Prints how many
 * events the runs have counted, which `counted` names, and fails if any run had a violation. */
void play_all(uint64_t usual, fate_play play, const char *counted);

#endif
