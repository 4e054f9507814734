/* The time of the steps of a simulation. */
#ifndef WEFT_TRAIN_ESTIMATE_LEARNER_TIME_H
#define WEFT_TRAIN_ESTIMATE_LEARNER_TIME_H

#include "train/trainer.h"
#include "weft/estimate.h"

/* Sets seconds[learners] to the time of a step of each learner on its machine, without its
 * exchange, and without what makes a step longer at random. ARGUMENT: as weft_estimate_step.
 * INTERRUPTED: `stop`, which may be NULL, was set. */
weft_status weft_estimate_learners(weft_context *context, const weft_train_options *options,
                                   const char *cluster, const weft_stop *stop, int learners,
                                   double *seconds) WEFT_NODISCARD;

/* As weft_estimate_step_until, for the mean step of the whole run, at whose end learners that
 * average meet in any case. */
weft_status weft_estimate_run(weft_context *context, const weft_train_options *options,
                              const char *cluster, const weft_stop *stop,
                              weft_step_estimate *out) WEFT_NODISCARD;

#endif
