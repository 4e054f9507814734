/* Exchanges for tests, each of which proves a moment or a promise. */
#ifndef WEFT_TESTS_FAKE_EXCHANGES_H
#define WEFT_TESTS_FAKE_EXCHANGES_H

#include <stdatomic.h>

#include "exchange/exchange.h"

/* sum: owns the update. Each range of gradients is added up over the learners as soon as it is
 * ready, and the run's optimiser takes a step along their mean: synchronous data parallelism.
 *
 * apart: learners train alone, and not in lock step.
 *
 * leave: the same, and learner 1 leaves after its third step.
 *
 * pull: not in lock step. After each step learner 0's parameters set out to the others, and before
 * the next one they take the place of theirs.
 *
 * keep: has state of every sort, which `after` changes in a way that `begin` can check.
 *
 * fail:at=STEP,moment=NAME: learner 1 fails there. */
weft_status exchanges_register(weft_context *context);
/* odd:what=PROBLEM: has states that no checkpoint could hold; with one, half or wide some that it
 * could, but one lacks or widens what another has. */
weft_status exchanges_register_odd(weft_context *context);

extern const weft_exchange_ops exchange_keep, exchange_fail;
/* What many need: arguments are refused; type and bytes of all parameters. */
weft_status take_nothing(const char *name, const char *arguments);
weft_status count_parameters(weft_store *store, weft_dtype *dtype, size_t *bytes);

/* What they have seen since the last call of exchanges_forget. */
typedef struct exchanges_seen {
    _Atomic int restored; /* times keep's state was found as it must be */
    _Atomic int wrong;    /* or was not */
    _Atomic int fresh;    /* or, of a learner that the checkpoint did not know, as at first */
    _Atomic int early;    /* gradients of sum that were ready before backward had ended */
    _Atomic int ready;    /* all of them */
    void *last[4];        /* of pull and apart: the parameters of each learner at the end */
    size_t bytes;
} exchanges_seen;
extern exchanges_seen seen;
void exchanges_forget(void);

#endif
