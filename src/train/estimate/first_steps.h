/* Declares the check of a run against its estimate (--estimate): the first steps are compared with
 * the time that weft_estimate_step predicts for the run on the cluster of a file. */
#ifndef WEFT_TRAIN_ESTIMATE_FIRST_STEPS_H
#define WEFT_TRAIN_ESTIMATE_FIRST_STEPS_H

#include "weft/train.h"

typedef struct weft_first_steps weft_first_steps;

/* Estimates a step of the run. options: those of the run, with its number of ranks. ARGUMENT: as
 * weft_estimate_step. */
weft_status weft_first_steps_new(weft_context *context, const weft_train_options *options,
                                 weft_first_steps **out) WEFT_NODISCARD;
/* Warns a run on this machine of times of another processor; whether they are. */
bool weft_warn_elsewhere(weft_context *context, const char *option, const char *cluster);
void weft_first_steps_free(weft_first_steps **first);
/* Counts a step. Once there are enough of them, or at the summary of a shorter run, it logs how the
 * median step compares with the estimate: a warning with the reason, if it lies outside of the
 * estimated interval. */
void weft_first_steps_note(weft_first_steps *first, const weft_event *event);

#endif
