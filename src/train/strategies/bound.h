/* Declares lower bounds of the estimates of candidates, which need no program of a candidate. */
#ifndef WEFT_TRAIN_STRATEGIES_BOUND_H
#define WEFT_TRAIN_STRATEGIES_BOUND_H

#include "train/estimate/site.h"
#include "train/strategies/space.h"

/* The work of every strategy: what it has to compute and to send, from the program of one rank. */
typedef struct strategy_work {
    /* Forward and backward of a batch, at least, by one thread: without and with recomputation. */
    double thread_seconds[2];
    double gradient_bytes;  /* that cross between ranks which share a batch; 0: not known */
    double parameter_bytes; /* of the model */
    int64_t *meetings;      /* [exchanges] steps from one to the next; 0 or less: none */
} strategy_work;

/* Makes the program of a single rank. A run that is refused there has no bound: all are 0. */
weft_status strategy_work_find(const weft_site *site, const strategy_space *space,
                               strategy_work *out) WEFT_NODISCARD;
void strategy_work_free(strategy_work *work);

/* Samples a second of a candidate, at most; INFINITY: not known. The bound depends on the head and
 * on recomputation alone. *fits: whether the candidate may fit into the memory of the machines. */
double strategy_bound(const weft_site *site, const strategy_space *space, const strategy_work *work,
                      const strategy_candidate *candidate, bool *fits);

#endif
