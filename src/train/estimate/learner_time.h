/* The time of the steps of a simulation. */
#ifndef WEFT_TRAIN_ESTIMATE_LEARNER_TIME_H
#define WEFT_TRAIN_ESTIMATE_LEARNER_TIME_H

#include "train/estimate/placed_learners.h"
#include "train/estimate/site.h"
#include "train/trainer.h"
#include "weft/estimate.h"

/* Places the learners of a run, each with the time of its step on its machine, without its
 * exchange, and without what makes a step longer at random. The site stays the caller's; the caller
 * closes *out, also after a failure. ARGUMENT: as weft_estimate_step. INTERRUPTED: `stop`, which
 * may be NULL, was set. INTERNAL: the run has another number of learners. */
weft_status weft_estimate_placed(weft_context *context, const weft_train_options *options,
                                 const weft_site *site, const weft_stop *stop, int learners,
                                 weft_placed_learners *out) WEFT_NODISCARD;

/* As weft_estimate_step_until, for the mean step of the whole run, at whose end learners that
 * average meet in any case. */
weft_status weft_estimate_run(weft_context *context, const weft_train_options *options,
                              const char *cluster, const weft_stop *stop,
                              weft_step_estimate *out) WEFT_NODISCARD;

#endif
