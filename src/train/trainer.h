/* The trainer, for the two files that make and run it. */
#ifndef WEFT_TRAIN_TRAINER_H
#define WEFT_TRAIN_TRAINER_H

#include <signal.h>

#include "train/train.h"

struct weft_trainer {
    weft_context *context;
    weft_train_options options;
    weft_dataset *data;
    weft_bytes model; /* text of a YAML model */
    weft_checkpoint resumed;
    weft_graph *graph;
    weft_model_values values;
    weft_optimizer_values optimizer;
    weft_store *store;
    weft_program *program;
    weft_evaluator *evaluator;
    weft_position position;
    int64_t samples, micro, steps_per_epoch, total_steps, parameters;
    int64_t saved_step, evaluated_step;
    volatile sig_atomic_t stop;

    weft_metrics *metrics;
    weft_event_fn fn;
    void *user;
    double started, last_step, working; /* working: seconds spent in steps */
    double first_step_seconds;
    int64_t first_step; /* of this process */
};

#endif
