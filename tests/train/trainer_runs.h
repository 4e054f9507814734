/* Runs the trainer with options given as text, and records its events. */
#ifndef WEFT_TESTS_TRAINER_RUNS_H
#define WEFT_TESTS_TRAINER_RUNS_H

#include <pthread.h>

#include "support.h"

/* The context of all tests: created by setup, destroyed by teardown. */
extern weft_context *context;
int setup(void **state);
int teardown(void **state);

typedef struct log {
    double loss[512], rate[512];
    int steps, stop_after, evaluations;
    double test_loss, test_accuracy, test_f1;
    weft_fit fit;
    weft_trainer *trainer;
    pthread_t stopper;
    bool stops;
} log_of_run;

/* Trains with options as words "name=value". stop_after: requests a stop after this step; 0:
 * none. */
extern double stop_delay; /* seconds from that step to the request; the run goes on meanwhile */
weft_status train(const char *words, const char *folder, int stop_after, log_of_run *l);

#endif
