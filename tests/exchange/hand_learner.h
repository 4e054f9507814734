/* Learners whose steps a test makes by hand, on a store with one parameter. */
#ifndef WEFT_TESTS_HAND_LEARNER_H
#define WEFT_TESTS_HAND_LEARNER_H

#include "exchange/exchange.h"
#include "exchange/learner_group.h"

/* A store with one parameter, and a program that does not change it. */
typedef struct parameter_store {
    weft_graph *graph;
    weft_store *store;
    weft_instance *instance;
} parameter_store;
weft_status parameter_store_open(weft_context *context, weft_dtype dtype, int64_t count,
                                 parameter_store *out);
void parameter_store_close(parameter_store *p);

typedef struct hand_learner {
    parameter_store own;
    weft_learner_group *group;
    weft_comm *alone[1];
    weft_exchange *exchange;
} hand_learner;
/* Opens the learner of a rank: its parameter begins as `values`, and its exchange, which has so
 * many servers, has begun. */
weft_status hand_learner_open(weft_context *context, weft_comm *comm, weft_dtype dtype,
                              int64_t count, const void *values, const char *exchange, int servers,
                              hand_learner *out);
void hand_learner_close(hand_learner *l);

#endif
