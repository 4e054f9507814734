/* The ranks of a learner: how they are built, and the phases of a step. */
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

/* The information that a rank needs for a joint evaluation. */
typedef struct weft_eval_ranks {
    weft_plan *plan;
    int rank;
    const weft_comms *comms;
} weft_eval_ranks;

/* Creates a forward program for a model (see weft_build_model) on a store. share: NULL for a single
 * rank. */
weft_status weft_evaluator_create(weft_context *context, weft_store *store, weft_dtype real,
                                  const weft_model_options *model, const weft_bytes *text,
                                  const weft_eval_ranks *share,
                                  weft_evaluator **out) WEFT_NODISCARD;
void weft_evaluator_destroy(weft_evaluator **evaluator);
/* The instance that it runs. */
weft_instance *weft_evaluator_instance(weft_evaluator *evaluator);

/* Evaluates a prepared part of the data; fn may be NULL. */
weft_status weft_evaluator_run(weft_evaluator *evaluator, const weft_dataset *data,
                               weft_split split, weft_report *out, weft_predict_fn fn,
                               void *user) WEFT_NODISCARD;

/* eval_metrics.c: the statistics of classes or numbers, and the metrics. A tally consists of sums,
 * so tallies of several ranks can be added. */
typedef struct weft_metric_sums {
    int classes, targets; /* one of them is 0 */
    bool weighted;        /* samples differ in weight */
    int64_t cells;
    double *cell; /* samples, weights, losses, then the sums of the metrics */
} weft_metric_sums;
weft_status weft_metric_sums_init(weft_metric_sums *sums, const weft_data_stats *stats,
                                  bool weighted) WEFT_NODISCARD;
void weft_metric_sums_free(weft_metric_sums *sums);
void weft_metric_sums_loss(weft_metric_sums *sums, double sum);
/* Adds a sample; one of weight 0 has no effect. label < 0: unknown. */
void weft_metric_sums_class(weft_metric_sums *sums, double weight, int32_t label, int predicted);
/* Numbers are in their own units; target NULL: unknown. */
void weft_metric_sums_numbers(weft_metric_sums *sums, double weight, const weft_data_stats *stats,
                              const double *target, const double *predicted);
/* Loss, and accuracy and macro F1 (over the classes that occur in labels or predictions), or R2 and
 * errors. */
weft_status weft_metric_sums_report(const weft_metric_sums *sums, weft_report *out) WEFT_NODISCARD;

/* Copies this rank's part of an input from the rows of the whole input; floats are widened if the
 * input is f64. The graph is that of the rank; v may be WEFT_NO_VALUE. */
void weft_feed(const weft_graph *graph, const weft_instance *instance, weft_value v,
               const void *rows, weft_dtype dtype);

/* --- ranks --- */

/* The specification of the ranks of a job, equal for all. It owns only the profile, and must
 * outlive the ranks. */
typedef struct weft_run_spec {
    weft_context *context;
    const weft_dataset *data; /* prepared for its splits */
    weft_model_options model; /* of training; batch: a micro-batch over all ranks */
    const weft_bytes *text;   /* see weft_build_model */
    weft_dtype real;
    const char *device;               /* one device, or a list that ranks take in turn */
    uint64_t seed;                    /* of weights and samples */
    weft_optimizer_options optimizer; /* `update` is set by the exchange */
    weft_plan_options plan;           /* within a learner */
    int learners;
    bool simulated; /* other learners are in the same process; a single learner has an exchange, too
                     */
    const char *schedule; /* pipeline schedule */
    int64_t microbatches;
    int64_t slots;  /* samples of a batch with padding */
    int64_t worker; /* samples of a virtual worker; 0: none */
    bool recompute;
    bool measured;                    /* stages are balanced by measured costs */
    double *profile;                  /* the measured costs; kept if nothing is run */
    bool traced;                      /* the first steps are traced */
    const char *exchange;             /* strategy between several learners */
    int servers;                      /* parameter servers; 0: as many as the exchange chooses */
    int replicas;                     /* replicas of each range */
    const char *codec;                /* uplink codec; NULL or empty: none */
    const char *back;                 /* downlink codec; the same */
    const weft_learner_link *cluster; /* of an elastic run; NULL: all learners are in this job */
    weft_position begun;              /* start position of the elastic run */
    double timeout;                   /* of the elastic run: how long a learner waits for others */
    const weft_checkpoint *resumed;   /* checkpoint to resume from; NULL: none */
    bool drops;                       /* state that does not fit is dropped instead of refused */
    bool again;                       /* the run is in progress, so the checkpoint may be old */
    bool saves;                       /* this process writes checkpoints */
} weft_run_spec;

/* One rank. The ranks of a mesh form a learner: rank r is rank r % mesh of learner r / mesh. */
typedef struct weft_rank {
    weft_run_spec *run_spec;
    weft_comm *world, *learner, *between; /* all; of this learner; of this position */
    weft_comm *together;                  /* ranks in lock step: all, or those of this learner */
    weft_comms comms;                     /* of the program */
    int rank, learner_index;

    weft_graph *graph; /* of the learner */
    weft_model_values values;
    weft_optimizer_values optimizer;
    weft_plan *plan;
    weft_rewritten *mine; /* this rank's part of the graph */
    weft_store *store;
    weft_instance *instance;
    weft_evaluator *evaluator; /* created on first use */
    weft_schedule schedule;
    weft_learner_group *endpoint;     /* the other learners; NULL: one learner */
    weft_exchange *exchange;          /* NULL: one learner */
    bool leaves, dismissed, ended;    /* as the exchange has requested; it has ended */
    weft_optimizer_options elsewhere; /* for an exchange that makes the update */

    bool plain_sums; /* see weft_plan_options */
    weft_position position;
    double began;         /* time when all ranks were built */
    weft_comm_stats used; /* of the program and the exchange in the last step */
    double bubble;        /* seconds that the passes waited for other ranks, out of `passes` */
    double passes;
    double exchange_waited; /* `waited` of the exchange at the last look */
    double loss, rate;      /* of the last step, for status displays; samples a second */
} weft_rank;

/* Builds graph, plan and the rank's part of the graph; specification and rank number are set.
 * Collective over the world, if there is one, with `measured`. */
weft_status weft_rank_rewrite(weft_rank *rank) WEFT_NODISCARD;
/* Creates a store on the device of this rank. */
weft_status weft_rank_store(const weft_rank *rank, weft_store **out) WEFT_NODISCARD;
/* Builds the rank: also communicators, store, program and exchange, and loads the checkpoint. The
 * rank's world is set. Collective. */
weft_status weft_rank_build(weft_rank *rank) WEFT_NODISCARD;
void weft_rank_free(weft_rank *rank);
/* Clones a rank for another thread: a new instance of the same program, initially on the same
 * store. The original is a single rank, and must outlive the clone. */
weft_status weft_rank_clone(const weft_rank *rank, weft_rank *out) WEFT_NODISCARD;
void weft_rank_free_clone(weft_rank *rank);

/* The loss in the learner's graph. */
weft_value weft_rank_loss(const weft_rank *rank);
/* Number of parameter elements of the learner. */
int64_t weft_rank_parameters(const weft_rank *rank);
/* Determines which rows of a batch the rank reads. */
void weft_rank_rows(const weft_rank *rank, weft_loader_options *out);

/* The sums that the ranks of a learner agree on between their passes and the update. */
typedef struct weft_step_consensus {
    double loss;      /* of the whole batch; set by the step */
    double stop;      /* number of ranks that want to stop */
    double leave;     /* ranks whose exchange wants to leave; set by the step */
    double dismissed; /* ranks whose learner alone was evicted; set by the step */
} weft_step_consensus;

/* Forward and backward passes of all micro-batches, and the update. Collective over the learner.
 * NUMERIC: the loss is not finite, and nothing was updated; the message names the rank and the
 * instruction that caused it. */
weft_status weft_rank_step(weft_rank *rank, const weft_batch *batch,
                           weft_step_consensus *consensus) WEFT_NODISCARD;
/* NUMERIC: a number in the store is not finite; the message names it and the rank. Collective over
 * the ranks in lock step. */
weft_status weft_rank_check_finite(weft_rank *rank) WEFT_NODISCARD;
/* Runs the exchange after a step; position.step is that step. Learners in lock step agree on *stop
 * when they synchronise and after the last batch of an epoch, and never stop in between. Otherwise,
 * if they end together (weft_exchange_ends_together), *stop is set with the common last step. */
weft_status weft_rank_exchange(weft_rank *rank, bool last, bool epoch, bool *stop) WEFT_NODISCARD;
/* Begins the exchange, and advances the position if the run is ahead. Collective over the learner.
 * steps: of an epoch; all: samples of a step of all learners. */
weft_status weft_rank_begin(weft_rank *rank, int64_t steps, int64_t all) WEFT_NODISCARD;
/* Ends the exchange; collective over all learners. finished: the last step of the run is over. */
weft_status weft_rank_end(weft_rank *rank, bool finished) WEFT_NODISCARD;
/* Whether all learners are saved together. Without lock step only the first one is, until the
 * exchange has ended. */
bool weft_rank_saves_all(const weft_rank *rank);
/* Evaluates the test data. Collective over the learner. */
weft_status weft_rank_evaluate(weft_rank *rank, weft_report *out) WEFT_NODISCARD;
/* The learning rate of the last step. */
double weft_rank_learning_rate(const weft_rank *rank);

/* Gathers the bytes of each rank's program; planned has room for all ranks. Collective over the
 * world, before the first step. */
weft_status weft_gather_memory(weft_rank *rank, double *planned) WEFT_NODISCARD;
/* Rank 0 writes the traces of the ranks in lock step to one file. Collective over these ranks. */
weft_status weft_trace_write(weft_rank *rank, const char *path) WEFT_NODISCARD;

/* Sums n numbers over a communicator. */
weft_status weft_sum_over(weft_comm *comm, const char *what, double *numbers,
                          int64_t n) WEFT_NODISCARD;

#endif
