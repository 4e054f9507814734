/* Wrappers of the library's exchanges that check or record in every step what must be preserved. */
#ifndef WEFT_TESTS_CHECKED_EXCHANGES_H
#define WEFT_TESTS_CHECKED_EXCHANGES_H

#include "exchange/exchange.h"

/* Registers an exchange watched_X for each exchange X without lock step that the context has.
 * Before every step and after the last one, watched_X compares the ranks of a learner that hold the
 * same part of the model: their parameters must be equal bit for bit. Otherwise the run fails and
 * names the ranks. */
weft_status watched_register(weft_context *context);

/* Registers the exchange balanced: gossip between learners of one rank in double precision. The
 * exchange rounds each change of a parameter to a multiple of 2^-20, so that sums of changes are
 * exact. The sum of the changes of all learners, their last parameters and their codecs' residuals
 * are recorded in `balanced`, over several runs until balance_forget. */
weft_status balanced_register(weft_context *context);
enum { BALANCED = 8 };
typedef struct balance {
    int64_t count;
    double *first;              /* parameters with which all learners begin */
    double *changed;            /* sum of the changes by all steps of all learners */
    double *last[BALANCED];     /* by learner: parameters after the last step */
    double *residual[BALANCED]; /* by learner; NULL: its codec keeps no residual */
    int64_t steps[BALANCED];    /* by learner: number of steps */
} balance;
extern balance balanced;
void balance_forget(void);

#endif
