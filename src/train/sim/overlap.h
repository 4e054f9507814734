/* Declares when within a step of a simulated learner parts of the parameters are needed, and their
 * gradients are ready. */
#ifndef WEFT_TRAIN_SIM_OVERLAP_H
#define WEFT_TRAIN_SIM_OVERLAP_H

#include "exchange/simulated.h"

/* The step of a learner. */
typedef struct weft_overlapped {
    const weft_program *program; /* of a rank of the learner */
    int64_t microbatches;
    double pass, flops; /* operations of a micro-batch, and of a step */
    double scale;       /* elements of the program's parameters for one of the exchange's */
} weft_overlapped;
void weft_overlapped_init(const weft_program *program, int64_t microbatches, weft_overlapped *out);
/* *needs, *makes: [*parts] the fractions of a step before which a part of the exchanged parameters
 * is needed, and after which the gradients of that part are ready, which the caller frees; *parts
 * 0: the parameters are exchanged as a whole. */
weft_status weft_overlap_find(const weft_overlapped *step, const weft_sim_exchange *x,
                              double **needs, double **makes, int *parts) WEFT_NODISCARD;

#endif
