/* Learners that push and pull every few steps (Downpour SGD, Dean et al. 2012): gradients are
 * accumulated between two pushes, and local SGD runs between two pulls. */
#ifndef WEFT_EXCHANGE_PS_CLIENT_LOCAL_STEPS_H
#define WEFT_EXCHANGE_PS_CLIENT_LOCAL_STEPS_H

#include "exchange/exchange.h"

/* A gradient accumulator adds up the gradients of a range between two pushes, in the order of the
 * steps. All its fields are zero at first. */
typedef struct weft_grad_accumulator {
    void *sum;       /* [count]; NULL before the first gradient */
    int64_t steps;   /* number of gradients in the sum */
    int64_t version; /* version on which the first of them was computed */
    double weight;   /* sum of their sample weights; of a push, the mean counts */
    bool empty;      /* none of them has samples */
} weft_grad_accumulator;
weft_status weft_grad_accumulator_add(weft_grad_accumulator *accrual, weft_dtype dtype,
                                      int64_t count, const void *gradient, int64_t version,
                                      double weight, bool empty) WEFT_NODISCARD;
void weft_grad_accumulator_free(weft_grad_accumulator *accrual);

/* Local SGD: plain SGD on a learner's parameters between two pulls, with the run's learning rate of
 * the step. segments: as for weft_flat_optimizer_open. */
typedef struct weft_local_sgd weft_local_sgd;
weft_status weft_local_sgd_open(weft_context *context, const weft_store *like,
                                const weft_optimizer_options *options, weft_dtype dtype,
                                int64_t count, weft_segment_list segments,
                                weft_local_sgd **out) WEFT_NODISCARD;
void weft_local_sgd_close(weft_local_sgd **descent);
/* Makes one step of SGD in place: parameters[count], gradient[count]. step: step of the run, from
 * 1. */
weft_status weft_local_sgd_step(weft_local_sgd *descent, int64_t step, void *parameters,
                                const void *gradient) WEFT_NODISCARD;

#endif
