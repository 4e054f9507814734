/* Runs the graph of an operator case on a device, with any of the candidates that the device has
 * for its groups. */
#ifndef WEFT_TESTS_OP_WAYS_H
#define WEFT_TESTS_OP_WAYS_H

#include "op_cases.h"
#include "program/program.h"

/* A case that is ready to run, as often as wanted. `way`: wherever a group has several candidates,
 * candidate `way` (modulo their number) is chosen; -1: the cheapest one. */
typedef struct op_run {
    fixture f;
    weft_store *store;
    weft_instance *instance;
    weft_value fetch[MOST_INPUTS + MOST_OUTPUTS];
    int64_t sizes[MOST_INPUTS + MOST_OUTPUTS]; /* elements of each result */
    int count;                                 /* results: outputs, then gradients */
    int64_t total;                             /* elements of all results */
    int ways;                                  /* the most candidates of a group */
    const char *device;
    int way;
} op_run;

/* real: as of fixture_start. forward: without gradients, as in an evaluation. */
void op_run_open(op_run *run, const op_case *c, weft_dtype real, const char *device, int way,
                 bool forward);
void op_run_close(op_run *run);
/* Feeds the fixture's numbers, runs the graph, and writes all results one after the other. */
void op_run_go(op_run *run, double *results);

#endif
