/* The trainer: one job, with the ranks of it that live in this process. */
#ifndef WEFT_TRAIN_TRAINER_H
#define WEFT_TRAIN_TRAINER_H

#include <pthread.h>
#include <stdatomic.h>

#include "job/job.h"
#include "train/train.h"

/* One rank's course of the run. */
typedef struct weft_run {
    weft_trainer *job;
    weft_rank rank;
    int64_t saved_step, evaluated_step, first_step;
    bool dismissed;                     /* of a run that goes on, its learner was told to leave */
    double started, last_step, working; /* working: seconds spent in steps, */
    double worked;                      /* of so many samples, of all learners */
    double recent_samples,
        recent_seconds; /* the same of the last steps, each a tenth less than the next */
    double first_step_seconds;
    double *planned; /* bytes of each rank's program */
    pthread_t thread;
    weft_status (*task)(struct weft_run *run);
} weft_run;

struct weft_trainer {
    weft_context *context, *own; /* own: with this run's threads */
    weft_train_options options;
    weft_settings settings; /* the same as text */
    weft_dataset *data;
    weft_bytes model; /* text of a YAML model, allocated */
    weft_checkpoint resumed;
    weft_comm *worlds[WEFT_MAX_RANKS];
    weft_run_spec recipe;
    weft_run *runs; /* of the ranks of this process */
    int local;
    int size, mesh, learners; /* ranks of the job; of a learner; size / mesh */
    int64_t samples, micro, total_steps, parameters; /* micro: samples of a micro-batch */
    atomic_int stop; /* lock-free: a signal handler sets it, ranks in other threads read it */

    weft_metrics *metrics;
    weft_event_fn fn;
    void *user;

    int folder_lock; /* see weft_folder_lock; -1 where this process does not write checkpoints */

    weft_learner_link link; /* to a run of processes that come and go, */
    bool linked;            /* if it is a learner of one */
    bool rejoins;           /* it was one before, whose outputs it goes on with */
    weft_removal removal;
    char *link_texts[3]; /* of the link: coordinator, model, data */
    weft_position begun; /* where that run began */
    int64_t run_steps;   /* that it takes; 0: not known yet */

    weft_core_sets *cores;        /* of the ranks on this machine; NULL: they share all */
    weft_supervisor_channel line; /* to a supervisor */

    pthread_mutex_t lock; /* of the first failure */
    weft_error error;     /* of the rank that has most to say */
};

/* ARGUMENT: there are more servers than parameters; of ranks that are built. */
weft_status weft_trainer_check_servers(const weft_trainer *t) WEFT_NODISCARD;

/* Runs task on every rank of this process at once; returns the failure that came first. */
weft_status weft_trainer_everywhere(weft_trainer *t,
                                    weft_status (*task)(weft_run *run)) WEFT_NODISCARD;

/* A learner of a run of processes that come and go: slot `slot` of `learners`, with the text of its
 * model where that is no file here (NULL: it is one, or built in). coordinator NULL: it is only to
 * be looked at. */
typedef struct weft_joining {
    const char *coordinator;
    int slot, learners;
    const char *model;
    weft_position begun; /* where the run began, */
    int64_t steps;       /* and what it takes in all; 0: not known yet */
    bool job;            /* see weft_learner_link */
    bool again;          /* it was lost to the run, and comes back */
} weft_joining;
weft_status weft_trainer_create_joining(weft_context *context, const weft_train_options *options,
                                        const weft_joining *joining,
                                        weft_trainer **out) WEFT_NODISCARD;

/* A trainer for as many ranks as the options say, none of which has been opened or built. */
weft_status weft_trainer_prepare(weft_context *context, const weft_train_options *options,
                                 weft_trainer **out) WEFT_NODISCARD;
/* fit.c: how many ranks, before they are opened. Then what else the options say, and the ranks of
 * one learner: what the mesh multiplies to, or all there are. ARGUMENT: options contradict each
 * other, or one needs another that is not there. */
weft_status weft_trainer_check_ranks(const weft_trainer *t) WEFT_NODISCARD;
weft_status weft_trainer_count_learners(weft_trainer *t) WEFT_NODISCARD;
/* resume.c: the checkpoint that the options go on from, if there is one. Never writes a new run
 * into the folder of an old one. ARGUMENT: the options cannot go on from it. */
weft_status weft_trainer_find_resumed(weft_trainer *t) WEFT_NODISCARD;
/* The text of a YAML model, which is kept, so that checkpoints do not depend on the file. ARGUMENT:
 * the checkpoint is of another model; the message names the first difference. */
weft_status weft_trainer_read_model(weft_trainer *t) WEFT_NODISCARD;
/* Where the run will write: nothing is made or emptied before it begins. Once, by rank 0, before
 * the step behind `step`. */
weft_status weft_trainer_open_outputs(weft_trainer *t, int64_t step) WEFT_NODISCARD;
/* batch.c: micro-batches, slots and samples of a micro-batch, once the number of samples is known.
 * ARGUMENT: the batch cannot be cut so, or its parts not be shared out to the ranks. */
weft_status weft_trainer_share_out(weft_trainer *t) WEFT_NODISCARD;
/* recipe.c: what the ranks are made from, once data and model are there. ARGUMENT: the options of
 * the optimiser contradict each other. */
weft_status weft_trainer_write_recipe(weft_trainer *t) WEFT_NODISCARD;
/* The optimiser that options ask for, in a run of so many steps. */
weft_status weft_optimizer_chosen(const weft_context *context, const weft_update_choice *options,
                                  int64_t total_steps, weft_optimizer_options *out) WEFT_NODISCARD;

#endif
