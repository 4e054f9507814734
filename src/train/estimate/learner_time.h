/* The time of the steps of learners that do not wait for each other, for their simulation. */
#ifndef WEFT_TRAIN_ESTIMATE_LEARNER_TIME_H
#define WEFT_TRAIN_ESTIMATE_LEARNER_TIME_H

#include "train/trainer.h"
#include "weft/estimate.h"

/* Sets seconds[learners] to the time of a step of each learner on its machine, without its
 * exchange, and without what makes a step longer at random. ARGUMENT: as weft_estimate_step. */
weft_status weft_estimate_learners(weft_context *context, const weft_train_options *options,
                                   const char *cluster, int learners,
                                   double *seconds) WEFT_NODISCARD;

#endif
