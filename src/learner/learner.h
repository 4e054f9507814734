/* What a rank of a learner has, and what it does in a step. */
#ifndef WEFT_LEARNER_LEARNER_H
#define WEFT_LEARNER_LEARNER_H

#include "base/base.h"
#include "checkpoint/checkpoint.h"
#include "data/data.h"
#include "exchange/exchange.h"
#include "weft/comm.h"
#include "weft/data.h"
#include "weft/model.h"
#include "weft/optim.h"
#include "weft/plan.h"
#include "weft/program.h"
#include "weft/report.h"

/* --- evaluation --- */

typedef struct weft_evaluator weft_evaluator;

/* What a rank needs to take part in a common evaluation. */
typedef struct weft_eval_ranks {
    weft_plan *plan;
    int rank;
    const weft_comms *comms;
} weft_eval_ranks;

/* A forward program on a store: of a model as weft_build_model takes it. share is NULL for one rank
 * alone. */
weft_status weft_evaluator_create(weft_context *context, weft_store *store, weft_dtype real,
                                  const weft_model_options *model, const weft_bytes *text,
                                  const weft_eval_ranks *share,
                                  weft_evaluator **out) WEFT_NODISCARD;
void weft_evaluator_destroy(weft_evaluator **evaluator);
/* What it runs. */
weft_instance *weft_evaluator_instance(weft_evaluator *evaluator);

/* Runs a part of the data; fn may be NULL. The part must be prepared. */
weft_status weft_evaluator_run(weft_evaluator *evaluator, const weft_dataset *data,
                               weft_split split, weft_report *out, weft_predict_fn fn,
                               void *user) WEFT_NODISCARD;

/* report.c: what is counted of classes, or of numbers, and what is said of it. A tally is sums
 * alone, so those of several ranks are added up. */
typedef struct weft_metric_sums {
    int classes, targets; /* one of them is 0 */
    bool weighted;        /* samples differ in how much they count */
    int64_t cells;
    double *cell; /* samples, their weights, the sum of their losses, then what the figures need */
} weft_metric_sums;
weft_status weft_metric_sums_init(weft_metric_sums *tally, const weft_data_stats *stats,
                                  bool weighted) WEFT_NODISCARD;
void weft_metric_sums_free(weft_metric_sums *tally);
void weft_metric_sums_loss(weft_metric_sums *tally, double sum);
/* A sample, which counts nowhere if its weight is 0; label < 0: it has none. */
void weft_metric_sums_class(weft_metric_sums *tally, double weight, int32_t label, int predicted);
/* Numbers in their own units; target NULL: there are none. */
void weft_metric_sums_numbers(weft_metric_sums *tally, double weight, const weft_data_stats *stats,
                              const double *target, const double *predicted);
/* Loss, and accuracy and macro F1 (a class that is in neither labels nor predictions is left out of
 * the mean), or R2 and errors. */
weft_status weft_metric_sums_report(const weft_metric_sums *tally, weft_report *out) WEFT_NODISCARD;

/* Copies this rank's part of an input from the whole's rows, which are of this type; floats are
 * widened if the input is f64. The graph is the rank's own; input may be WEFT_NO_VALUE. */
void weft_feed(const weft_graph *graph, const weft_instance *instance, weft_value v,
               const void *rows, weft_dtype dtype);

/* --- ranks --- */

/* What every rank of a job is made from, the same for all. It owns nothing but the profile, and
 * outlives the ranks. */
typedef struct weft_run_spec {
    weft_context *context;
    const weft_dataset *data; /* its parts prepared */
    weft_model_options model; /* of training; its batch is a micro-batch of all ranks */
    const weft_bytes *text;   /* see weft_build_model */
    weft_dtype real;
    const char *device;               /* or several, which ranks take in turn */
    uint64_t seed;                    /* of weights and samples */
    weft_optimizer_options optimizer; /* `update` goes by the exchange */
    weft_plan_options plan;           /* of a learner */
    int learners;
    bool simulated;       /* others are in the same process; also one alone has its exchange */
    const char *schedule; /* of micro-batches in a pipeline */
    int64_t microbatches;
    int64_t slots;  /* samples of a batch with its padding */
    int64_t worker; /* of them those of a virtual worker; 0: there are none */
    bool recompute;
    bool measured;                    /* stages are balanced by measured costs */
    double *profile;                  /* these; kept where nothing is run */
    bool traced;                      /* the first steps */
    const char *exchange;             /* between learners, where there are several */
    int servers;                      /* of it; 0: as many as it takes */
    int replicas;                     /* of what each of them has */
    const char *codec;                /* of its updates; NULL or empty: none is given */
    const char *back;                 /* of what comes back; the same */
    const weft_learner_link *cluster; /* NULL: all learners are of this job */
    weft_position begun;              /* where the run of those that are not began */
    double timeout;                   /* with it: how long a learner waits for others */
    const weft_checkpoint *resumed;   /* to go on from; NULL: none */
    bool drops;                       /* what of it does not fit is left out, and not refused */
    bool again;                       /* the run goes on, whoever has its checkpoint */
    bool saves;                       /* this process writes checkpoints */
} weft_run_spec;

/* One rank. Ranks of one mesh make up a learner; rank r is rank r % mesh of learner r / mesh. */
typedef struct weft_rank {
    weft_run_spec *recipe;
    weft_comm *world, *learner, *between; /* all; of the same learner; of the same place in each */
    weft_comm *together; /* ranks that go in lock step: all, or those of the same learner */
    weft_comms comms;    /* for the program */
    int rank, learner_index;

    weft_graph *graph; /* of the learner */
    weft_model_values values;
    weft_optimizer_values optimizer;
    weft_plan *plan;
    weft_rewritten *mine; /* this rank's part of the graph */
    weft_store *store;
    weft_instance *instance;
    weft_evaluator *evaluator; /* made when it is needed */
    weft_schedule schedule;
    weft_learner_group *endpoint;     /* to the other learners; NULL: one learner */
    weft_exchange *exchange;          /* the same */
    bool leaves, dismissed, ended;    /* the exchange has said so; it has come to its end */
    weft_optimizer_options elsewhere; /* for an exchange that owns the update */

    bool plain_sums; /* see weft_plan_options */
    weft_position position;
    double began;         /* when all ranks had been made */
    weft_comm_stats used; /* by the program and the exchange in the last step */
    double bubble;        /* seconds waited for others in its passes, of `passes` */
    double passes;
    double exchange_waited; /* what the exchange had waited, when that was last looked at */
    double loss, rate;      /* of the last step, for those who look at the run; samples a second */
} weft_rank;

/* Graph, plan and the rank's part of the graph, for a rank that has its recipe and its number. With
 * `measured` collective over the world, if there is one. */
weft_status weft_rank_rewrite(weft_rank *rank) WEFT_NODISCARD;
/* A store on the device of this rank. */
weft_status weft_rank_store(const weft_rank *rank, weft_store **out) WEFT_NODISCARD;
/* Also communicators, store, program and exchange, and what the checkpoint has of them; the rank
 * has a world, too. Collective. */
weft_status weft_rank_build(weft_rank *rank) WEFT_NODISCARD;
void weft_rank_free(weft_rank *rank);
/* The same rank once more, for another thread: an instance of its own of the same program, on the
 * same store for now. The first one has one rank and outlives it. */
weft_status weft_rank_clone(const weft_rank *rank, weft_rank *out) WEFT_NODISCARD;
void weft_rank_free_twin(weft_rank *rank);

/* The loss in the learner's graph. */
weft_value weft_rank_loss(const weft_rank *rank);
/* The elements of all parameters of the learner. */
int64_t weft_rank_parameters(const weft_rank *rank);
/* Which rows of a batch the rank reads. */
void weft_rank_rows(const weft_rank *rank, weft_loader_options *out);

/* What the ranks of a learner agree on between their passes and the update. */
typedef struct weft_step_consensus {
    double loss;      /* of the whole batch; given by the step */
    double stop;      /* how many ranks want to */
    double leave;     /* how many are told to by their exchange; given by the step */
    double dismissed; /* the same, where their learner alone is to leave */
} weft_step_consensus;

/* Forward and backward of every micro-batch, and the update. Collective over the learner. NUMERIC:
 * the loss is no number, nothing was updated; the message names the rank and the instruction that
 * made it so. */
weft_status weft_rank_step(weft_rank *rank, const weft_batch *batch,
                           weft_step_consensus *vote) WEFT_NODISCARD;
/* NUMERIC: something in the store is no finite number; the message names it, and the rank.
 * Collective over the ranks that go in lock step. */
weft_status weft_rank_check_finite(weft_rank *rank) WEFT_NODISCARD;
/* The exchange after it, and its transfers. position.step is that of the step. Where learners go in
 * lock step, they agree on *stop when they have met, and after the last batch of an epoch; before,
 * nobody stops. Where they end together all the same (weft_exchange_ends_together), it becomes true
 * with the step that they end with. */
weft_status weft_rank_exchange(weft_rank *rank, bool last, bool epoch, bool *stop) WEFT_NODISCARD;
/* The beginning of the exchange, and of the position where others are further already. Collective
 * over the learner. steps: of an epoch; all: samples of a step of all learners. */
weft_status weft_rank_begin(weft_rank *rank, int64_t steps, int64_t all) WEFT_NODISCARD;
/* The end of the exchange; collective over all learners. */
weft_status weft_rank_end(weft_rank *rank) WEFT_NODISCARD;
/* Whether all learners are saved together, or the first one alone: where they do not go in lock
 * step, before their exchange has ended. */
bool weft_rank_saves_all(const weft_rank *rank);
/* Evaluates the test part. Collective over the learner. */
weft_status weft_rank_evaluate(weft_rank *rank, weft_report *out) WEFT_NODISCARD;
/* The learning rate of the last step. */
double weft_rank_learning_rate(const weft_rank *rank);

/* The memory that the program of each rank takes, in bytes; planned has room for all. Collective
 * over the world, before learners go their own ways. */
weft_status weft_gather_memory(weft_rank *rank, double *planned) WEFT_NODISCARD;
/* The traces of ranks that go in lock step with this one as one file, written by rank 0. Collective
 * over them. */
weft_status weft_trace_write(weft_rank *rank, const char *path) WEFT_NODISCARD;

/* Adds up n numbers over a communicator. */
weft_status weft_sum_over(weft_comm *comm, const char *what, double *numbers,
                          int64_t n) WEFT_NODISCARD;

#endif
