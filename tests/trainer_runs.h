/* Runs of the trainer for tests: options as words, and a log of what it reported. */
#ifndef WEFT_TESTS_TRAINER_RUNS_H
#define WEFT_TESTS_TRAINER_RUNS_H

#include <pthread.h>

#include "support.h"

/* Of the group of tests: made by setup, given back by teardown. */
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

/* Options as "name=value" words. stop_after: asks for the end after so many steps; 0: never. */
extern double stop_delay; /* seconds between those steps and that, in which the run goes on */
weft_status train(const char *words, const char *folder, int stop_after, log_of_run *l);

#endif
