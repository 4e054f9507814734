/* Exchanges for tests, each of which checks when a hook is called or what a checkpoint keeps. */
#ifndef WEFT_TESTS_FAKE_EXCHANGES_H
#define WEFT_TESTS_FAKE_EXCHANGES_H

#include <stdatomic.h>

#include "exchange/exchange.h"

/* sum: owns the update. Each gradient is added up over the learners as soon as it is ready, and the
 * run's optimizer takes a step along the mean gradient: synchronous data parallelism.
 *
 * apart: each learner trains alone, and not in lock step.
 *
 * leave: as apart, and learner 1 leaves after its third step.
 *
 * pull: not in lock step. After each step learner 0 begins to broadcast its parameters, and before
 * the next step every other learner replaces its own parameters by them.
 *
 * keep: has exchange state of every kind, which `after` sets so that `begin` can check it in a
 * resumed run.
 *
 * fail:at=STEP,moment=NAME: learner 1 fails in the hook NAME of step STEP. */
weft_status exchanges_register(weft_context *context);
/* odd:what=PROBLEM: has states that weft_exchange_open must refuse. With PROBLEM one, half or wide
 * the states are valid but differ: half has a second state, and the state of wide has more
 * elements, so the checkpoint of one does not fit another. */
weft_status exchanges_register_odd(weft_context *context);

extern const weft_exchange_ops exchange_keep, exchange_fail;
/* For exchanges without options: take_nothing fails with ARGUMENT if there are arguments, and
 * count_parameters gives the type and bytes of all parameters. */
weft_status exchange_register(weft_context *context, const weft_exchange_ops *ops);
weft_status take_nothing(const char *name, const char *arguments);
weft_status count_parameters(weft_store *store, weft_dtype *dtype, size_t *bytes);

/* Counts and parameters that the exchanges have recorded since the last call of
 * exchanges_forget. */
typedef struct exchanges_seen {
    _Atomic int restored; /* times that keep's `begin` found the state of the checkpoint */
    _Atomic int wrong;    /* times that it found another state */
    _Atomic int fresh;    /* times that the checkpoint did not know the learner */
    _Atomic int early;    /* polls of sum at which some gradients were ready and others were not */
    _Atomic int ready;    /* calls of sum's hook `ready` */
    _Atomic int polls;    /* calls of sum's hook `poll` */
    void *last[4];        /* of pull, apart and leave: parameters of each learner at the end */
    size_t bytes;
} exchanges_seen;
extern exchanges_seen seen;
void exchanges_forget(void);

#endif
