/* Learners that push and pull every so many steps (Dean et al. 2012): what gathers until it is
 * pushed, and what they do with their own parameters until they are pulled. */
#ifndef WEFT_EXCHANGE_PS_CLIENT_LOCAL_STEPS_H
#define WEFT_EXCHANGE_PS_CLIENT_LOCAL_STEPS_H

#include "exchange/exchange.h"

/* Gradients of a range, added up in the order of the steps. Begins all zero. */
typedef struct weft_grad_accumulator {
    void *sum;       /* [count], once something was added */
    int64_t steps;   /* of which it is the sum */
    int64_t version; /* that the first of them was computed on */
    double weight;   /* of the samples of all */
} weft_grad_accumulator;
weft_status weft_grad_accumulator_add(weft_grad_accumulator *accrual, weft_dtype dtype,
                                      int64_t count, const void *gradient, int64_t version,
                                      double weight) WEFT_NODISCARD;
void weft_grad_accumulator_free(weft_grad_accumulator *accrual);

/* Plain descent on a learner's own parameters, at the run's rate of the step. */
typedef struct weft_local_sgd weft_local_sgd;
weft_status weft_local_sgd_open(weft_context *context, const weft_store *like,
                                const weft_optimizer_options *options, weft_dtype dtype,
                                int64_t count, weft_local_sgd **out) WEFT_NODISCARD;
void weft_local_sgd_close(weft_local_sgd **descent);
/* Both are [count]; step: of the run, from 1. */
weft_status weft_local_sgd_step(weft_local_sgd *descent, int64_t step, void *parameters,
                                const void *gradient) WEFT_NODISCARD;

#endif
