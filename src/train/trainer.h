/* The trainer: one job, with the ranks of it that live in this process. */
#ifndef WEFT_TRAIN_TRAINER_H
#define WEFT_TRAIN_TRAINER_H

#include <pthread.h>
#include <stdatomic.h>

#include "data/data.h"
#include "exchange/exchange.h"
#include "job/board.h"
#include "train/train.h"
#include "weft/comm.h"
#include "weft/plan.h"

/* One rank. Ranks of one mesh make up a learner; rank r is rank r % mesh of learner r / mesh. */
typedef struct weft_rank {
    weft_trainer *job;
    weft_comm *world, *learner, *between; /* all; of the same learner; of the same place in each */
    weft_comms comms;                     /* for the program */
    int rank, learner_index;

    weft_graph *graph; /* of the learner */
    weft_model_values values;
    weft_optimizer_values optimizer;
    weft_plan *plan;
    weft_rewritten *mine; /* this rank's part of the graph */
    weft_store *store;
    weft_instance *instance;
    weft_evaluator *evaluator;
    weft_schedule schedule;
    weft_exchange *exchange; /* NULL: one learner */

    bool plain_sums; /* see weft_plan_options */
    weft_position position;
    int64_t saved_step, evaluated_step, first_step;
    double began;                       /* when all ranks had been made */
    double started, last_step, working; /* working: seconds spent in steps */
    double first_step_seconds;
    weft_comm_stats used; /* by the program and the exchange in this step */
    double bubble;        /* seconds waited for others in this step's passes, of `passes` */
    double passes;
    pthread_t thread;
    weft_status (*task)(struct weft_rank *rank);
} weft_rank;

struct weft_trainer {
    weft_context *context;
    weft_train_options options;
    weft_dataset *data;
    weft_bytes model; /* text of a YAML model, allocated */
    weft_checkpoint resumed;
    weft_comm *worlds[WEFT_MAX_RANKS];
    weft_rank *ranks; /* of this process */
    int local;
    int size, mesh, learners; /* ranks of the job; of a learner; size / mesh */
    int64_t samples, micro, microbatches, steps_per_epoch, total_steps, parameters;
    int64_t slots;   /* samples of a batch with its padding */
    double *profile; /* measured costs of the graph's nodes; only where nothing is run */
    int64_t worker;  /* of them those of a virtual worker; 0: there are none */
    atomic_int stop; /* lock-free: a signal handler sets it, ranks in other threads read it */

    weft_metrics *metrics;
    weft_event_fn fn;
    void *user;

    int folder_lock; /* see weft_folder_lock; -1 where this process does not write checkpoints */

    weft_core_sets *cores; /* of the ranks on this machine; NULL: they share all */
    weft_line line;        /* to a supervisor */

    pthread_mutex_t lock; /* of the first failure */
    weft_status status;
    char message[2048];
};

/* Runs task on every rank of this process at once; returns the failure that came first. */
weft_status weft_trainer_everywhere(weft_trainer *t,
                                    weft_status (*task)(weft_rank *rank)) WEFT_NODISCARD;

/* A trainer for as many ranks as the options say, none of which has been opened or built. */
weft_status weft_trainer_prepare(weft_context *context, const weft_train_options *options,
                                 weft_trainer **out) WEFT_NODISCARD;
/* resume.c: the checkpoint that the options go on from, if there is one. Never writes a new run
 * into the folder of an old one. ARGUMENT: the options cannot go on from it. */
weft_status weft_trainer_find_resumed(weft_trainer *t) WEFT_NODISCARD;
/* The text of a YAML model, which is kept, so that checkpoints do not depend on the file. ARGUMENT:
 * the checkpoint is of another model; the message names the first difference. */
weft_status weft_trainer_read_model(weft_trainer *t) WEFT_NODISCARD;
/* Where the run will write: nothing is made or emptied before it begins. Once, by rank 0. */
weft_status weft_trainer_open_outputs(weft_trainer *t) WEFT_NODISCARD;
/* rank.c: graph, plan and the rank's part of the graph. Local. */
weft_status weft_rank_rewrite(weft_rank *rank) WEFT_NODISCARD;
/* rank.c: graph, plan, communicators, store and program of one rank. Collective. */
weft_status weft_rank_build(weft_rank *rank) WEFT_NODISCARD;
void weft_rank_free(weft_rank *rank);

/* loop.c */
weft_status weft_rank_run(weft_rank *rank) WEFT_NODISCARD;
/* Gives the program's present slot the inputs of micro-batch m. */
void weft_rank_feed(weft_rank *rank, const weft_batch *batch, int m);
/* explain.c: NUMERIC, with the rank and instruction that made the loss of this batch what it is.
 * Collective over the learner. */
weft_status weft_rank_explain(weft_rank *rank, const weft_batch *batch, double loss) WEFT_NODISCARD;

/* trace.c: the memory that each rank's program takes, in bytes. Collective. */
weft_status weft_gather_memory(weft_rank *rank, double *planned) WEFT_NODISCARD;
/* trace.c: the traces of all ranks as one file. Collective. */
weft_status weft_trace_write(weft_rank *rank, const char *path) WEFT_NODISCARD;

/* Adds up n numbers over a communicator. */
weft_status weft_sum_over(weft_comm *comm, const char *what, double *numbers,
                          int64_t n) WEFT_NODISCARD;

#endif
