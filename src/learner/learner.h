/* The ranks of a learner: building them, the step that they run together, evaluation, and the start
 * and end of their exchange. */
#ifndef WEFT_LEARNER_LEARNER_H
#define WEFT_LEARNER_LEARNER_H

#include "base/base.h"
#include "checkpoint/checkpoint.h"
#include "data/loader.h"
#include "learner/metrics.h"
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

/* The plan, the rank and the communicators by which the ranks of a mesh evaluate together. */
typedef struct weft_eval_ranks {
    weft_plan *plan;
    int rank;
    const weft_comms *comms;
    bool bf16_weights;         /* parameters in stores are bf16; a rank may have none */
    const weft_graph *trained; /* has averages of parameters, which are evaluated; NULL: none */
} weft_eval_ranks;

/* Creates an evaluator: a forward program of the model (see weft_build_model), which reads the
 * parameters of the store. share NULL: a single rank evaluates alone. */
weft_status weft_evaluator_create(weft_context *context, weft_store *store, weft_dtype real,
                                  const weft_model_options *model, const weft_bytes *text,
                                  const weft_eval_ranks *share,
                                  weft_evaluator **out) WEFT_NODISCARD;
/* The evaluator's program alone, which is only looked at (weft_program_options, dry). graphs (NULL:
 * not asked) gets the bytes of malloc that an evaluator keeps beside it: its graphs. */
weft_status weft_evaluator_dry_program(weft_context *context, weft_store *store, weft_dtype real,
                                       const weft_model_options *model, const weft_bytes *text,
                                       const weft_eval_ranks *share, double *graphs,
                                       weft_program **out) WEFT_NODISCARD;
void weft_evaluator_destroy(weft_evaluator **evaluator);
/* The instance that the evaluator runs. */
weft_instance *weft_evaluator_instance(weft_evaluator *evaluator);

/* The samples whose predictions are not finite: their number, and the first and last of them. */
typedef struct weft_not_finite {
    int64_t samples, first, last;
} weft_not_finite;

/* Evaluates a prepared split of the data (out NULL: only predicts; metrics: names of further ones,
 * or NULL), and calls fn (NULL: none) with
 * each prediction of this rank. *lost (NULL: not wanted), which begins as zeros, counts the samples
 * of this rank that have no finite prediction. */
weft_status weft_evaluator_run(weft_evaluator *evaluator, const weft_dataset *data,
                               weft_split split, const char *metrics, weft_report *out,
                               weft_predict_fn fn, void *user,
                               weft_not_finite *lost) WEFT_NODISCARD;

/* Sets *out to the bytes that the evaluation of a split takes while it runs, beside its program:
 * batches of `batch` samples, and sums. */
weft_status weft_evaluator_bytes(const weft_context *context, const weft_dataset *data,
                                 weft_split split, int64_t batch, weft_dtype real,
                                 const char *metrics, size_t *out) WEFT_NODISCARD;

/* Copies this rank's part of input v from `rows`, the rows of the whole input, and converts their
 * type `dtype` to that of the input. The graph is that of the rank; v may be WEFT_NO_VALUE. */
WEFT_PRIVATE_API void weft_feed(const weft_graph *graph, const weft_instance *instance,
                                weft_value v, const void *rows, weft_dtype dtype);

/* --- ranks --- */

/* The specification from which the ranks of a job are built, the same for all of them. The struct
 * owns only the profile, and must outlive the ranks. */
typedef struct weft_run_spec {
    weft_context *context;
    const weft_dataset *data; /* all splits are prepared */
    weft_model_options model; /* for training; its batch is a micro-batch of all ranks together */
    const weft_bytes *text;   /* see weft_build_model */
    weft_dtype real;
    bool bf16_weights;                /* parameters are bf16, without f32 masters */
    const char *engine;               /* of a plan: what its ranks are; else NULL */
    const char *device;               /* one device, or a list that ranks take in turn */
    const char *shares;               /* of the data axis: numbers, or "measured"; NULL: equal */
    bool on_host;                     /* parameters stay in host memory (--home) */
    bool plain_parameters;            /* of the run that the learner joins, see weft_rank */
    const weft_bytes *tuning;         /* table of measurements, by which kernels are chosen; empty:
                                         none */
    const char *tuned_by;             /* its file */
    bool threads;                     /* ranks are threads of one process */
    uint64_t seed;                    /* of weights and sample order */
    weft_optimizer_options optimizer; /* without `update`, which the exchange determines */
    weft_plan_options plan;           /* plan of one learner */
    int learners;
    bool simulated;       /* a simulated run, in which even a single learner has an exchange */
    const char *schedule; /* pipeline schedule */
    int64_t microbatches;
    int64_t slots;  /* rows of a batch, with padding */
    int64_t worker; /* samples of a virtual worker; 0: there are no virtual workers */
    /* Steps from one measurement of the noise scale of gradients to the next (0: none), and the
     * parts of a batch whose gradients are compared. */
    int64_t noise_every, parts;
    /* The fewest samples of a micro-batch, or of a virtual worker, in any batch that the run will
     * take, and the end of a message for a model that needs more. */
    int64_t least_samples;
    char least_remedy[256];
    bool recompute;
    bool carries;                     /* recurrent states carry over from batch to batch */
    const char *metrics;              /* of evaluations beside the usual ones; NULL: none */
    bool measured;                    /* pipeline stages are balanced by measured costs */
    double *profile;                  /* in a dry run, the costs measured for rank 0; else NULL */
    bool counts_memory;               /* weft_rank_rewrite counts the bytes that it takes */
    bool traced;                      /* each rank records a trace of its first steps (--trace) */
    const char *exchange;             /* exchange between several learners */
    int servers;                      /* parameter servers; 0: as many as the exchange chooses */
    int replicas;                     /* replicas of each range */
    const char *codec;                /* uplink codec; NULL or empty: none */
    const char *back;                 /* downlink codec; NULL or empty: as the uplink */
    const weft_learner_link *cluster; /* of an elastic run; NULL: all learners are in this job */
    weft_position begun;              /* start position of the elastic run */
    double timeout;                   /* of the elastic run: seconds a learner waits for others */
    const weft_checkpoint *resumed;   /* checkpoint to resume from; NULL: none */
    const weft_initial *initial;      /* weights of the begin (--init); NULL: random ones */
    bool drops;       /* state that does not fit the run is dropped (--drop-state), not refused */
    bool resumed_run; /* the run is resumed, perhaps with fewer learners than it was planned for */
    bool saves;       /* this process has a checkpoint folder */
    /* NULL, or what ends a run of which nothing is kept, within a step, once it is not 0. */
    const volatile int *stop;
    bool (*asked)(void *user); /* see weft_exchange_setup */
    void *user;
} weft_run_spec;

/* Figures of a step: transfers, seconds of the host's work, and of all passes. */
typedef struct weft_step_cost {
    weft_comm_stats used;
    double host, passes;
} weft_step_cost;

/* One rank. The ranks of a mesh form a learner: with M ranks in a mesh, rank r of a job is rank r %
 * M of learner r / M. */
typedef struct weft_rank {
    weft_run_spec *run_spec;
    /* All ranks of the job; those of this learner; those with this rank's position in each
     * learner. */
    weft_comm *world, *learner, *between;
    weft_comm *together;     /* ranks in lock step: `world`, or `learner` */
    weft_comms comms;        /* communicators of the program's transfers */
    int rank, learner_index; /* rank in `world`; index of the learner, or its slot */

    weft_text *graphs; /* receives the graph after each pass over it; NULL: not shown */
    weft_graph *graph; /* training graph of the whole learner, before the rewrite */
    weft_model_values values;
    weft_optimizer_values optimizer;
    double *shares; /* of the data axis in each batch (--shares); NULL: equal ones */
    weft_plan *plan;
    weft_rewritten *mine; /* this rank's part of the graph */
    weft_store *store;
    weft_instance *instance;
    weft_evaluator *evaluator; /* created on first use */
    weft_schedule schedule;
    weft_learner_group *endpoint; /* the other learners; NULL: there is one learner */
    weft_exchange *exchange;      /* NULL: there is one learner */
    /* leaves: the exchange has requested that this learner leaves the run; dismissed: because this
     * learner alone was asked to leave; ended: the exchange has ended. */
    bool leaves, dismissed, ended;
    bool merged; /* the run began with the mean of learners that differ in the checkpoint */
    weft_optimizer_options elsewhere; /* the run's, for an exchange that owns the update */

    bool plain_sums; /* see weft_plan_options */
    /* Parameters and state are plain in this rank's memory, since the devices of ranks that
     * exchange them would lay them out differently. */
    bool plain_parameters;
    weft_position position;
    bool runs_ahead;         /* see weft_rank_queue */
    int64_t queued;          /* steps after `position` that were queued and have not ended yet */
    weft_step_cost costs[2]; /* of these, the oldest first */
    double host;             /* seconds of the host's work for the last step, without waits */
    double began;            /* time when all ranks had been built */
    weft_comm_stats used;    /* transfers of the program and the exchange in the last step */
    double bubble;           /* seconds within `passes` of waiting for other ranks */
    double passes;           /* seconds of all forward and backward passes of the last step */
    double exchange_waited;  /* `waited` of the exchange when it was last added to `used` */
    double loss, rate;       /* of the last step; rate: samples a second of this learner */
    /* noise.c: whether this program has the norms of gradients of parts, and the one that has;
     * NULL: the run does not measure them. */
    bool measures_noise;
    struct weft_noise *noise;
    struct weft_averages *averages; /* averages.c; NULL: the program moves the averages itself */
    /* With counts_memory, bytes of the host that weft_rank_rewrite took for the graph, and for the
     * rest; only of use where no other thread allocates. */
    double graph_bytes, part_bytes;
} weft_rank;

/* Builds the learner's graph, its plan, and this rank's part of the graph. The caller has set
 * `run_spec` and `rank`. With `measured`, collective over the world, if there is one. */
weft_status weft_rank_rewrite(weft_rank *rank) WEFT_NODISCARD;
/* The mesh axis of several ranks that splits no operator of the rank that was rewritten, so that
 * these ranks compute the same; NULL: none. */
const char *weft_rank_idle_axis(const weft_rank *rank);
/* As weft_rank_rewrite, with the learner's graph that another rank of the run has built, which must
 * outlive this one; such a rank is freed by weft_rank_free_shared. */
weft_status weft_rank_rewrite_shared(weft_rank *rank, const weft_rank *built) WEFT_NODISCARD;
void weft_rank_free_shared(weft_rank *rank);
/* Whether another rank of the run would have the same program as this one: equal kernels, sizes and
 * transfers, at other places of the whole tensors. blocks: weft_program_cuts_blocks of it. */
weft_status weft_rank_alike(const weft_rank *rank, bool blocks, int other,
                            bool *out) WEFT_NODISCARD;
/* Creates a store on a device; NULL: that of this rank. */
weft_status weft_rank_store(const weft_rank *rank, const char *device,
                            weft_store **out) WEFT_NODISCARD;
/* Lowers the graph of weft_rank_rewrite to a program that is only looked at (weft_program_options,
 * dry): no values are drawn and no memory for them is taken. */
weft_status weft_rank_dry_program(const weft_rank *rank, weft_program **out) WEFT_NODISCARD;
/* Likewise, on a store of weft_rank_store. */
weft_status weft_rank_dry_program_on(const weft_rank *rank, weft_store *store,
                                     weft_program **out) WEFT_NODISCARD;
/* Likewise, the program that evaluates, after weft_rank_dry_program_on; *out is NULL if the run
 * does not evaluate, or, with `early`, if it does not make this program before the first step, so
 * that missing memory is not found after an epoch. graphs: as of weft_evaluator_dry_program. */
weft_status weft_rank_dry_evaluation_on(const weft_rank *rank, weft_store *store, bool early,
                                        double *graphs, weft_program **out) WEFT_NODISCARD;
/* Builds the rank: as weft_rank_rewrite, then its communicators, store, program and exchange, and
 * loads the checkpoint. The caller has also set `world`. Collective over the world. */
weft_status weft_rank_build(weft_rank *rank) WEFT_NODISCARD;
void weft_rank_free(weft_rank *rank);
/* Clones a rank for another thread of a simulation: the clone has its own instance of the same
 * program, at first on the same store. The original is a single rank, and must outlive the clone.
 */
weft_status weft_rank_clone(const weft_rank *rank, weft_rank *out) WEFT_NODISCARD;
void weft_rank_free_clone(weft_rank *rank);

/* The loss in the learner's graph. */
weft_value weft_rank_loss(const weft_rank *rank);
/* Number of parameter elements of the learner. */
int64_t weft_rank_parameters(const weft_rank *rank);
/* Sets in *out which rows of a batch the rank reads (micro, first, rows). */
void weft_rank_rows(const weft_rank *rank, weft_loader_options *out);

/* The numbers that one all-reduce sums over the ranks of a learner, between their passes and the
 * update. The caller sets `stop` of this rank; the step sets the others and replaces all by their
 * sums. */
typedef struct weft_step_consensus {
    double loss;      /* of the learner's whole batch */
    double stop;      /* number of ranks that want to stop */
    double leave;     /* number of ranks whose exchange has requested that the learner leaves */
    double dismissed; /* number of ranks whose learner alone was asked to leave */
} weft_step_consensus;

/* Runs the forward and backward passes of all micro-batches, and the update. Collective over the
 * learner. NUMERIC: the loss is not finite, and nothing was updated; the message names the rank and
 * the instruction that caused it. */
weft_status weft_rank_step(weft_rank *rank, const weft_batch *batch,
                           weft_step_consensus *consensus) WEFT_NODISCARD;
/* noise.c: the noise scale of gradients (McCandlish et al. 2018), by a program of its own on the
 * same store, which some steps run in place of the other. _open makes that program; _due: whether
 * step position.step + 1 runs it on this batch; _step: as weft_rank_step, and adds to the sums.
 * Collective over the learner. _scale: the number of samples at which the noise of a batch's
 * gradient is as long as the mean gradient; 0: not known. */
typedef struct weft_noise weft_noise;
weft_status weft_noise_open(weft_rank *rank) WEFT_NODISCARD;
void weft_noise_close(weft_rank *rank);
bool weft_noise_due(const weft_rank *rank, const weft_batch *batch);
weft_status weft_noise_step(weft_rank *rank, const weft_batch *batch,
                            weft_step_consensus *consensus, weft_noise_sums *noise) WEFT_NODISCARD;
double weft_noise_scale(const weft_noise_sums *noise);
/* averages.c: averages of parameters that the exchange updates. _use: binds the program to another
 * store, due: with a step that is still to be counted there. _move: counts the last step, if that
 * is still to be done; the exchange has no transfers of parameters under way. _begun: whether the
 * averages have an update. */
typedef struct weft_averages weft_averages;
weft_status weft_averages_use(weft_rank *rank, weft_store *store, bool due) WEFT_NODISCARD;
weft_status weft_averages_move(weft_rank *rank) WEFT_NODISCARD;
bool weft_averages_begun(const weft_rank *rank);
/* As weft_rank_dry_program_on, of these averages; *out is NULL if the run has none. */
weft_status weft_averages_dry_program(const weft_rank *rank, weft_store *store,
                                      weft_program **out) WEFT_NODISCARD;
/* The rank whose program ran the last step: that of noise.c, or this one. */
const weft_rank *weft_noise_last(const weft_rank *rank);
/* Where the ranks compute on devices with memory of their own that reach each other's
 * (runs_ahead), steps are queued: _queue queues the step after all that were queued before, and
 * _finish waits for the oldest of one or two, and sets the numbers as weft_rank_step does. All
 * ranks of the learner must make the same calls. NUMERIC, of _finish: as of weft_rank_step, and the
 * step after it is dropped. */
weft_status weft_rank_queue(weft_rank *rank, const weft_batch *batch) WEFT_NODISCARD;
weft_status weft_rank_finish(weft_rank *rank, weft_step_consensus *consensus) WEFT_NODISCARD;
/* NUMERIC: the store of a rank holds a number that is not finite; the message names its tensor and
 * the rank. Collective over the ranks in lock step. */
weft_status weft_rank_check_finite(weft_rank *rank) WEFT_NODISCARD;
/* Runs the exchange's hook `after` for step position.step. last: the step is the last of the run;
 * epoch: the last of an epoch. *stop: whether this learner wants to stop, and then whether it does.
 * Learners in lock step agree on *stop when they synchronise and after the last batch of an epoch,
 * and never stop in between. Learners that end together without lock step
 * (weft_exchange_ends_together) stop at the end step that the exchange gives. */
weft_status weft_rank_after_step(weft_rank *rank, bool last, bool epoch, bool *stop) WEFT_NODISCARD;
/* begin.c: begins the exchange. If an elastic run has taken steps before this learner joined,
 * advances the rank's position and the schedule of its learning rate to the run's step. Collective
 * over the learner. steps: steps of an epoch; all: samples that all learners take in one step. */
weft_status weft_rank_begin(weft_rank *rank, int64_t steps, int64_t all) WEFT_NODISCARD;
/* Ends the exchange. finished: the last step of the run is over. Collective over all learners. */
weft_status weft_rank_end(weft_rank *rank, bool finished) WEFT_NODISCARD;
/* Waits until all parameters are those after the last step, and moves their averages. Collective
 * over the learner. */
weft_status weft_rank_settle(weft_rank *rank) WEFT_NODISCARD;
/* Whether a checkpoint holds the parameters of all learners. Without lock step and before the end
 * of the exchange it holds those of the first learner alone. */
bool weft_rank_saves_all(const weft_rank *rank);
/* Evaluates the test data. Collective over the learner. */
weft_status weft_rank_evaluate(weft_rank *rank, weft_split split, weft_report *out) WEFT_NODISCARD;
/* The learning rate of the last step. */
double weft_rank_learning_rate(const weft_rank *rank);

/* Gathers the bytes of memory that each rank's program has planned; planned: [ranks of the world].
 * Collective over the world, before the first step. */
weft_status weft_gather_memory(weft_rank *rank, double *planned) WEFT_NODISCARD;
/* The planned memory of a rank's program: the sum of all bytes of its description. */
double weft_planned_bytes(const weft_instance *instance);
/* Rank 0 writes the traces of the ranks in lock step to its output; NULL elsewhere. Collective over
 * these ranks. */
weft_status weft_trace_write(weft_rank *rank, weft_output *to) WEFT_NODISCARD;

/* Sums n numbers over the ranks of a communicator, in place and reproducibly. */
weft_status weft_sum_over(weft_comm *comm, const char *what, double *numbers,
                          int64_t n) WEFT_NODISCARD;

#endif
