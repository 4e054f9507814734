/* Learners that push and pull every so many steps (Dean et al. 2012): what gathers until it is
 * pushed, and what they do with their own parameters until they are pulled. */
#ifndef WEFT_EXCHANGE_SERVER_DOWNPOUR_H
#define WEFT_EXCHANGE_SERVER_DOWNPOUR_H

#include "exchange/exchange.h"

/* Gradients of a range, added up in the order of the steps. Begins all zero. */
typedef struct weft_accrual {
    void *sum;       /* [count], once something was added */
    int64_t steps;   /* of which it is the sum */
    int64_t version; /* that the first of them was computed on */
    double weight;   /* of the samples of all */
} weft_accrual;
weft_status weft_accrual_add(weft_accrual *accrual, weft_dtype dtype, int64_t count,
                             const void *gradient, int64_t version, double weight) WEFT_NODISCARD;
void weft_accrual_free(weft_accrual *accrual);

/* Plain descent on a learner's own parameters, at the run's rate of the step. */
typedef struct weft_descent weft_descent;
weft_status weft_descent_open(weft_context *context, const weft_store *like,
                              const weft_optimizer_options *options, weft_dtype dtype,
                              int64_t count, weft_descent **out) WEFT_NODISCARD;
void weft_descent_close(weft_descent **descent);
/* Both are [count]; step: of the run, from 1. */
weft_status weft_descent_step(weft_descent *descent, int64_t step, void *parameters,
                              const void *gradient) WEFT_NODISCARD;

#endif
