/* Learners that push and pull every few steps (Downpour SGD, Dean et al. 2012): gradients are
 * accumulated between two pushes, and local SGD runs between two pulls. */
#ifndef WEFT_EXCHANGE_PS_CLIENT_LOCAL_STEPS_H
#define WEFT_EXCHANGE_PS_CLIENT_LOCAL_STEPS_H

#include "exchange/exchange.h"

/* Sum of a range's gradients, in the order of the steps. Begins all zero. */
typedef struct weft_grad_accumulator {
    void *sum;       /* [count], after the first gradient */
    int64_t steps;   /* number of gradients */
    int64_t version; /* on which the first was computed */
    double weight;   /* sum of the weights of all */
} weft_grad_accumulator;
weft_status weft_grad_accumulator_add(weft_grad_accumulator *accrual, weft_dtype dtype,
                                      int64_t count, const void *gradient, int64_t version,
                                      double weight) WEFT_NODISCARD;
void weft_grad_accumulator_free(weft_grad_accumulator *accrual);

/* Plain SGD on a learner's own parameters, with the run's learning rate of the step. */
typedef struct weft_local_sgd weft_local_sgd;
weft_status weft_local_sgd_open(weft_context *context, const weft_store *like,
                                const weft_optimizer_options *options, weft_dtype dtype,
                                int64_t count, weft_local_sgd **out) WEFT_NODISCARD;
void weft_local_sgd_close(weft_local_sgd **descent);
/* Both are [count]; step: of the run, from 1. */
weft_status weft_local_sgd_step(weft_local_sgd *descent, int64_t step, void *parameters,
                                const void *gradient) WEFT_NODISCARD;

#endif
