/* Exchanges of the library, watched: what a run with one of them must keep is looked at in every
 * step. */
#ifndef WEFT_TESTS_CHECKED_EXCHANGES_H
#define WEFT_TESTS_CHECKED_EXCHANGES_H

#include "exchange/exchange.h"

/* For each exchange X without lock step that the context knows, one of the name watched_X: ranks of
 * a learner that hold the same part of the model must have the same numbers in it, bit for bit,
 * before every step and after the last. Else the run fails, and says which. */
weft_status watched_register(weft_context *context);

/* balanced: gossip among learners of one rank in double precision, whose changes are rounded to
 * multiples of 2^-20 so that no sum of them is. What all learners have changed, what they have in
 * the end and what their codecs keep is counted, from run to run until balance_forget. */
weft_status balanced_register(weft_context *context);
enum { BALANCED = 8 };
typedef struct balance {
    int64_t count;
    double *first;              /* what all begin with */
    double *changed;            /* by all steps of all learners */
    double *last[BALANCED];     /* of each learner */
    double *residual[BALANCED]; /* NULL: its codec keeps none */
    int64_t steps[BALANCED];    /* it has made */
} balance;
extern balance balanced;
void balance_forget(void);

#endif
