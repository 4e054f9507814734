/* Runs in the simulator that chance makes, each from a seed: what they tell, and what was wrong.
 * WEFT_CHAOS=N: so many runs. WEFT_CHAOS_SEED=S: that one alone, told in words. */
#ifndef WEFT_TESTS_RANDOM_RUNS_H
#define WEFT_TESTS_RANDOM_RUNS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>

#include "actor/sim.h"

typedef struct fate {
    uint64_t seed;
    weft_random random;
    bool loud;
    char why[300]; /* what is wrong; empty: nothing */
    int count;     /* of what the test tells the number of, over all runs */
} fate;

void tell(const fate *f, const char *format, ...) WEFT_PRINTF(2, 3);
/* What is wrong first is kept. */
void wrong(fate *f, const char *format, ...) WEFT_PRINTF(2, 3);
void must(weft_status status);
/* A number from 0 to n - 1. */
int pick(fate *f, int n);

/* A run from its seed: leaves what is wrong, and returns the digest of all that happened. */
typedef uint64_t (*fate_play)(fate *f);
/* All runs; of some whether they are the same again. Says how many `counted` there were. */
void play_all(uint64_t usual, fate_play play, const char *counted);

#endif
