/* Declares the estimate of a step with what it takes to make it, for tests. */
#ifndef WEFT_TRAIN_ESTIMATE_ESTIMATE_H
#define WEFT_TRAIN_ESTIMATE_ESTIMATE_H

#include "weft/estimate.h"

/* The effort of an estimate. */
typedef struct weft_estimate_effort {
    bool apart; /* set by the caller: every rank has a program and a place of its own */
    int programs, line_ranks;
    size_t kernels; /* made for the programs */
    size_t tasks, lookups;
} weft_estimate_effort;

/* weft_estimate_step without the memory, with its effort. */
weft_status weft_estimate_step_with(weft_context *context, const weft_train_options *options,
                                    const char *cluster, weft_estimate_effort *effort,
                                    weft_step_estimate *out) WEFT_NODISCARD;

#endif
