/* The trainer: a job, with those of its ranks that run in this process. */
#ifndef WEFT_TRAIN_TRAINER_H
#define WEFT_TRAIN_TRAINER_H

#include <pthread.h>
#include <stdatomic.h>

#include "job/job.h"
#include "train/train.h"

/* The state of a run on one rank. */
typedef struct weft_run {
    weft_trainer *job;
    weft_rank rank;
    int64_t saved_step, evaluated_step, first_step;
    bool dismissed;                        /* the learner was evicted from a run that continues */
    double started, last_step, working;    /* working: seconds spent in steps */
    double worked;                         /* samples of these steps, over all learners */
    double recent_samples, recent_seconds; /* exponentially weighted */
    double first_step_seconds;
    double *planned; /* bytes of the program of each rank */
    pthread_t thread;
    weft_status (*task)(struct weft_run *run);
} weft_run;

struct weft_trainer {
    weft_context *context, *own; /* own: with the threads of this run */
    weft_train_options options;
    weft_settings settings; /* the options as text */
    weft_dataset *data;
    weft_bytes model; /* text of a YAML model, allocated */
    weft_checkpoint resumed;
    weft_comm *worlds[WEFT_MAX_RANKS];
    weft_run_spec run_spec;
    weft_run *runs; /* the ranks of this process */
    int local;
    int size, mesh, learners; /* ranks of the job; ranks of a learner; size / mesh */
    int64_t samples, micro, total_steps, parameters; /* micro: samples of a micro-batch */
    atomic_int stop; /* lock-free: set by a signal handler, read by the ranks' threads */

    weft_metrics *metrics;
    weft_event_fn fn;
    void *user;

    int folder_lock; /* see weft_folder_lock; -1 if this process does not write checkpoints */

    weft_learner_link link; /* to an elastic run, */
    bool linked;            /* if this is a learner of one */
    bool rejoins;           /* it was a member before, and appends to its outputs */
    weft_removal removal;
    char *link_texts[3]; /* texts of the link: coordinator, model, data */
    weft_position begun; /* start position of the elastic run */
    int64_t run_steps;   /* steps of the elastic run; 0: unknown */

    weft_core_sets *cores;        /* of the ranks on this machine; NULL: not bound */
    weft_supervisor_channel line; /* to the supervisor */

    pthread_mutex_t lock; /* guards `error` */
    weft_error error;     /* the most informative error of a rank */
};

/* ARGUMENT: there are more servers than parameters. The ranks must have been built. */
weft_status weft_trainer_check_servers(const weft_trainer *t) WEFT_NODISCARD;

/* Runs task on all ranks of this process concurrently; returns the first error. */
weft_status weft_trainer_everywhere(weft_trainer *t,
                                    weft_status (*task)(weft_run *run)) WEFT_NODISCARD;

/* A learner of an elastic run: slot `slot` of `learners`. model: text of the model if its file is
 * not on this machine (NULL: it is, or the model is built in). coordinator NULL: only inspects the
 * run. */
typedef struct weft_joining {
    const char *coordinator;
    int slot, learners;
    const char *model;
    weft_position begun; /* start position of the run */
    int64_t steps;       /* steps of the run; 0: unknown */
    bool job;            /* see weft_learner_link */
    bool again;          /* it was removed from the run, and joins again */
} weft_joining;
weft_status weft_trainer_create_joining(weft_context *context, const weft_train_options *options,
                                        const weft_joining *joining,
                                        weft_trainer **out) WEFT_NODISCARD;

/* Creates a trainer for the ranks of the options; none is opened or built. */
weft_status weft_trainer_prepare(weft_context *context, const weft_train_options *options,
                                 weft_trainer **out) WEFT_NODISCARD;
/* validate.c: checks the number of ranks, before they are opened; then checks the other options,
 * and determines the ranks of a learner: the product of the mesh, or all. weft_train_learners sets
 * *mesh to the ranks of one learner and *learners to their number. ARGUMENT: options exclude each
 * other, or one needs a missing one, or the ranks are no multiple of *mesh. */
weft_status weft_train_check_ranks(const weft_train_options *o) WEFT_NODISCARD;
weft_status weft_train_learners(const weft_train_options *o, int64_t ranks, int64_t *mesh,
                                int *learners) WEFT_NODISCARD;
weft_status weft_trainer_count_learners(weft_trainer *t) WEFT_NODISCARD;
/* resume.c: opens the checkpoint to resume from, if there is one. A new run never writes into the
 * folder of an old one. ARGUMENT: the options do not fit the checkpoint. */
weft_status weft_trainer_find_resumed(weft_trainer *t) WEFT_NODISCARD;
/* Logs that --resume finds no checkpoint in the folder. */
void weft_log_new_run(const weft_context *context, const char *folder);
/* Reads the text of a YAML model, which is kept, so that checkpoints do not depend on the file.
 * ARGUMENT: the checkpoint has another model; the message names the first difference. */
weft_status weft_trainer_read_model(weft_trainer *t) WEFT_NODISCARD;
/* Opens the outputs, none of which is created or truncated before the run begins. Called once, by
 * rank 0, before step `step` + 1. */
weft_status weft_trainer_open_outputs(weft_trainer *t, int64_t step) WEFT_NODISCARD;
/* batch.c: determines micro-batches, slots and samples of a micro-batch from the number of samples.
 * ARGUMENT: the batch cannot be split like this, or not over the ranks. */
weft_status weft_trainer_share_out(weft_trainer *t) WEFT_NODISCARD;
/* run_spec.c: writes the specification of the ranks, after data and model have been opened.
 * ARGUMENT: options of the optimiser exclude each other. */
weft_status weft_trainer_write_run_spec(weft_trainer *t) WEFT_NODISCARD;
/* The optimiser of the options, for a run of so many steps. */
weft_status weft_optimizer_chosen(const weft_context *context, const weft_update_choice *options,
                                  int64_t total_steps, weft_optimizer_options *out) WEFT_NODISCARD;

#endif
