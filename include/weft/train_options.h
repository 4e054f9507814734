/*
 * What a run is, by concern: each group is what some part of the library needs, and there is one
 * table of all of them for the command line, run files and checkpoints (weft/options.h). What an
 * option means stands in its help.
 *
 * Strings are owned by the struct. Filled with the defaults by weft_train_options_init, which also
 * sets the sizes, and set by name with weft_options_set(weft_train_table(context), ...).
 */
#ifndef WEFT_TRAIN_OPTIONS_H
#define WEFT_TRAIN_OPTIONS_H

#include "weft/options.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What is learned, from which data; the same for training and for what is done with a checkpoint.
 */
typedef struct weft_task_choice {
    size_t struct_size; /* sizeof(weft_task_choice); so in all groups */
    char *model, *data, *normalize, *dtype;
    int64_t seed;
} weft_task_choice;

/* How long, and what a step is. */
typedef struct weft_length_choice {
    size_t struct_size;
    int64_t epochs, steps, batch, microbatches, virtual_workers;
} weft_length_choice;

/* What is done with the gradients. */
typedef struct weft_update_choice {
    size_t struct_size;
    char *optimizer, *lr_schedule;
    double lr, momentum, weight_decay, beta1, beta2, epsilon, clip_norm, gamma, lr_floor;
    int64_t warmup, decay_every;
    bool nesterov;
} weft_update_choice;

/* What computes. */
typedef struct weft_where_choice {
    size_t struct_size;
    char *device;
    int64_t threads;
    bool no_bind;
} weft_where_choice;

/* How a step is spread over ranks, and what learners do between steps. */
typedef struct weft_parallel_choice {
    size_t struct_size;
    char *mesh, *schedule, *shard, *place, *exchange, *compress, *compress_downlink;
    int64_t zero, servers, replicas;
    bool recompute, profile;
} weft_parallel_choice;

/* Ranks, and what becomes of them. */
typedef struct weft_job_choice {
    size_t struct_size;
    int64_t ranks, max_restarts;
    char *engine, *hosts;
    double timeout;
    bool check_collectives;
} weft_job_choice;

/* What is kept of a run, in which files. */
typedef struct weft_output_choice {
    size_t struct_size;
    char *checkpoint, *metrics, *trace;
    int64_t checkpoint_every, keep;
    bool resume;
    bool drop_state; /* what of the checkpoint does not fit is left out, and not refused */
} weft_output_choice;

/* What is shown of it. */
typedef struct weft_show_choice {
    size_t struct_size;
    char *progress;
    bool quiet;
} weft_show_choice;

typedef struct weft_train_options {
    size_t struct_size;
    weft_task_choice task;
    weft_length_choice length;
    weft_update_choice update;
    weft_where_choice where;
    weft_parallel_choice parallel;
    weft_job_choice job;
    weft_output_choice output;
    weft_show_choice show;
} weft_train_options;

/* The names that its options take are those that the context knows; the table is the context's. */
WEFT_API const weft_option *weft_train_table(const weft_context *context);

/* Sizes and defaults, into options that are zeroed or have been freed before. They are freed with
 * weft_options_free(weft_train_table(context), options). */
WEFT_API WEFT_NODISCARD weft_status weft_train_options_init(const weft_context *context,
                                                            weft_train_options *options);

#ifdef __cplusplus
}
#endif
#endif
