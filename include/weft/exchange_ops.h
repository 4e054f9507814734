/*
 * The interface between Weft and exchanges, the strategies by which learners, each with a complete
 * copy of the model, synchronize; for programs and plug-ins that add one (weft/registry.h,
 * weft/plugin.h: an entry of kind WEFT_KIND_EXCHANGE whose `ops` is a weft_exchange_ops).
 * --exchange NAME:arguments chooses it. The exchanges of Weft are made of the same tables.
 *
 * Every rank of a learner has an exchange, which talks to the ranks that hold the same shard of the
 * model in the other learners. A step calls the hooks of the exchange in this order:
 *
 *   before   before the forward pass: the exchange writes received updates into the parameters
 *   needed   before the first instruction that reads a parameter, if the exchange asked for it
 *   ready    during backward, as soon as a gradient is final for this step
 *   poll     between instructions: the exchange makes progress on its transfers
 *   update   in place of the learner's own update, if the exchange owns the update
 *   after    after the update: the exchange sends the result of the step, or learners average
 *   wait     between two steps, before other code reads the parameters: waits for their new values
 *
 * One thread of each rank calls all functions of its exchange, one after the other; those of
 * several ranks run at once. In lock step the ranks of all learners call begin, before, update,
 * after, save and end with the same steps, so these functions may have collectives over
 * exchange->setup.endpoint, which all these ranks must then start in the same order. A transfer
 * that begins in one hook may end in a later one, also in the next step.
 *
 * The exchange gets gradients as the update would read them: summed over the micro-batches and
 * ranks of the learner, the mean over its own batch, and clipped, if the run clips, by the norm of
 * the learner's own gradient. (So with clipping no gradient is final before the end of backward.)
 * When `ready` is called, the loss of the step has not been checked yet: if the loss is not finite,
 * the step fails, and neither `update` nor `after` is called for it.
 *
 * An exchange that owns the update finds the optimizer's options in its setup. They have clip_norm
 * 0 and accumulate 1, since its gradients are already clipped and summed over the micro-batches.
 * The learner's graph then has neither moments nor updates. The graph only counts the learner's
 * steps, and its schedule gives the learning rate that is reported. The exchange holds the moments,
 * their age (the number of their updates) and the step of the schedule. These advance with each
 * update that the exchange makes; it may make more or fewer updates than a learner takes steps.
 *
 * A function that fails sets its message with services->fail. Its rank ends with that message, and
 * all others end, too: waits of the job fail with PEER. Memory that a function hands out (states,
 * figures) stays the exchange's.
 */
#ifndef WEFT_EXCHANGE_OPS_H
#define WEFT_EXCHANGE_OPS_H

#include "weft/comm.h"
#include "weft/optim.h"
#include "weft/program.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_exchange weft_exchange;
typedef struct weft_exchange_ops weft_exchange_ops;
/* A transfer between learners that is bound once and run several times (weft/services.h). */
typedef struct weft_group_request weft_group_request;

/* The group of the ranks that hold the same shard in all learners: transfers between learners,
 * whose `peer` is the index of a learner, and whose `counts` has one number for each learner. */
typedef struct weft_learner_group {
    const struct weft_learner_group_kind *kind; /* the library's */
    /* The index of this learner, from 0, and the number of learners. For an elastic learner: its
     * slot, which may be larger, and the number of learners with which the run begins. */
    int learner, learners;
    double timeout; /* seconds that this learner waits for another one before it fails */
} weft_learner_group;

/* The environment of an exchange: one rank of one learner. All pointers stay the caller's and
 * outlive the exchange. */
typedef struct weft_exchange_setup {
    size_t struct_size; /* sizeof(weft_exchange_setup) */
    weft_context *context;
    weft_learner_group *endpoint;
    /* Parameters and state of this rank. All parameters are one flat range (WEFT_ALL_PARAMETERS),
     * whose order and layout are the device's; weft_store_range gives the segment of each tensor.
     * During `open` the parameters do not have the values of the run yet. */
    weft_store *store;
    /* The program of this rank. weft_program_gradient lists the gradients that `ready` reports. */
    weft_instance *instance;
    const weft_optimizer_options *optimizer; /* the run's, for an exchange that owns the update */
    weft_comm *learner;                      /* the ranks of this learner */
    int servers;                             /* number of servers; 0: the exchange decides */
    int replicas;                            /* replicas of each range, on other servers; 0 or 1 */
    const char *codec;                       /* specification of the codec of pushed updates */
    const char *back; /* downlink codec, for parameters from servers; NULL or empty: as `codec` */
    /* The library's: membership in a run whose learners are processes. NULL, as for every added
     * exchange: one job of threads or MPI, whose learners are fixed. */
    const struct weft_learner_link *cluster;
    bool resumed_run; /* the run is resumed, perhaps with fewer learners than its options were made
                         for */
    bool (*asked)(void *user); /* whether the job is asked to stop; NULL: it cannot be asked */
    void *user;
    bool bf16_sums; /* what learners add up should cross ranks in BF16 (--sum-dtype) */
    uint64_t saves; /* 1: the run writes checkpoints, so it needs the exchange's state at its end */
    uint64_t room[2]; /* of later versions: 0 */
} weft_exchange_setup;

/* The plan of a run, to check it before any part of the run exists. Fields without a comment are as
 * in weft_exchange_setup. */
typedef struct weft_exchange_plan {
    weft_context *context;
    int learners, servers, replicas;
    const char *codec, *back;
    bool resumed_run;
    bool hosted; /* servers are threads of the learners' processes; membership is fixed */
    int here;    /* number of learners that are threads of one process; 0: not known yet */
} weft_exchange_plan;

/* The sizes of a run, for estimates of the memory that its exchange takes for one shard of the
 * model. */
typedef struct weft_exchange_sizes {
    size_t struct_size; /* sizeof(weft_exchange_sizes) */
    const weft_exchange_plan *plan;
    weft_dtype dtype; /* of the parameters */
    int64_t count;    /* parameters of the shard, with the padding of their layouts */
    const weft_optimizer_options *optimizer;
    const weft_store *store; /* of the rank's device; it has no memory */
    bool bf16_sums;
    int64_t steps;    /* of the run; 0: not known */
    uint64_t saves;   /* see weft_exchange_setup */
    uint64_t room[2]; /* of later versions: 0 */
} weft_exchange_sizes;

/* Bytes of host memory. */
typedef struct weft_exchange_memory {
    size_t struct_size;
    double learner; /* of each learner; without lock step, until `end` has returned */
    double moment;  /* of each learner for a moment, as while learners meet */
    double shared;  /* once, in the process of the first learner */
    double end;     /* there, for a moment at the end of the run */
    double server; /* of all servers together; where each is a process (plan->hosted is false), with
                      the messages of a moment */
    uint64_t room[3]; /* of later versions: 0 */
} weft_exchange_memory;

/* A state of an exchange, for checkpoints. With like_parameters it has the elements of the store's
 * WEFT_ALL_PARAMETERS, in their type and order; a checkpoint has it tensor by tensor, so it can be
 * loaded on any mesh. Otherwise it has a type of its own, and must be equal on all ranks of a
 * learner. */
typedef struct weft_exchange_state {
    const char *name; /* letters, digits and _, beginning with a letter */
    const char *what; /* description, such as "the momentum of outer=nesterov"; NULL: none */
    bool like_parameters;
    bool alike; /* equal in all learners, and saved once; false: each learner's state is saved */
    weft_type type; /* ignored with like_parameters */
    void *data;     /* in host memory; belongs to the exchange until that is closed */
    size_t bytes;
    /* Additive, with like_parameters: the states of the learners add up, as residuals do. If a run
     * is resumed with fewer learners, the states of the missing learners are added to those of the
     * others, so that the total effect stays. */
    bool adds;
    /* Not NULL: a checkpoint may lack this state, and loading sets *found to whether it has it.
     * NULL: a checkpoint has all such states or none. */
    bool *found;
} weft_exchange_state;

/* A finished step of a learner, for the hook `after`, which also sets the fields from `until`
 * on. */
typedef struct weft_step_result {
    int64_t step;      /* number of the step in the run, from 1 */
    bool last;         /* the last step of the run */
    double loss, rate; /* loss of the step; samples per second of this learner */
    bool asked;        /* this learner is asked to stop; all its ranks know */
    /* Set if the learners end together: the common last step; INT64_MAX: not known yet. 0: the
     * learner stops when it is asked to. */
    int64_t until;
    /* All learners have synchronized in this step; learners in lock step then agree on whether to
     * stop. */
    bool met;
    /* Without lock step: this learner is to leave, while others may go on. The learner takes one
     * more step, in which all its ranks learn of the leave. */
    bool leave;
    bool dismissed; /* with leave: this learner alone was asked to leave */
    /* The use of this rank's device, see weft_device_use; 0: unknown. Set before the hook. */
    double device_busy;
    uint64_t device_used, device_total;
    uint64_t room[1]; /* of later versions: 0 */
} weft_step_result;

/* The hooks of a step. All may be NULL. */
typedef struct weft_exchange_step {
    /* Called before the forward pass of step `step` (from 1). Nothing reads the parameters then, so
     * the exchange may write them. */
    weft_status (*before)(weft_exchange *exchange, int64_t step);
    /* A gradient of the step is final (weft_listener, whose rules hold). Called once a step for
     * each gradient, in the order in which backward makes them. weft_gradient_map gives the
     * numbers, until the next `before`. */
    weft_status (*ready)(weft_exchange *exchange, const weft_gradient *gradient);
    /* The program is about to read a parameter (weft_listener); called only while
     * weft_instance_enable_needed_hook is set. When the hook returns, the parameter must have its
     * new values in the store. */
    weft_status (*needed)(weft_exchange *exchange, const weft_reading *parameter);
    /* Called between two instructions of a pass, and while a thread writes a checkpoint: makes
     * progress with transfers, and does not wait. The state that a checkpoint has does not change.
     */
    weft_status (*poll)(weft_exchange *exchange);
    /* Called after the last gradient, with owns_update: updates the parameters, or begins transfers
     * for which `needed` waits. An exchange has this hook if and only if it owns the update. */
    weft_status (*update)(weft_exchange *exchange, int64_t step);
    /* Called between two steps, before code outside the program reads the parameters: waits until
     * all of them have their new values. Collective over the ranks of the learner. */
    weft_status (*wait)(weft_exchange *exchange);
    /* Called after the update: the exchange may read and write the parameters and the learner's
     * optimizer state and statistics. */
    weft_status (*after)(weft_exchange *exchange, weft_step_result *result);
    /* In lock step, after `after` of step `step`, for an evaluation: replaces the parameters and
     * the statistics by those with which a run that ends there would end. The caller keeps what the
     * store has, and puts it back; the state of the exchange does not change. Collective over the
     * learners. NULL: a run ends with what each learner has. */
    weft_status (*preview)(weft_exchange *exchange, int64_t step);
    void (*room[2])(void); /* of later versions: NULL */
} weft_exchange_step;

/* The life of an exchange: its beginning and end in a process, its state, and what it says of
 * itself. All may be NULL. */
typedef struct weft_exchange_life {
    /* Called before the first step of a process, when parameters and state are in place. */
    weft_status (*begin)(weft_exchange *exchange);
    /* State i of the exchange, for checkpoints; false past the end. NULL: the exchange has no
     * state. */
    bool (*state)(weft_exchange *exchange, int i, weft_exchange_state *out);
    /* Called before a learner saves a checkpoint: puts the newest parameters into its store, and
     * the state of the exchange to where `state` says. Collective over the ranks of that
     * learner. */
    weft_status (*save)(weft_exchange *exchange);
    /* Without lock step, on a learner whose state goes into another learner's checkpoint: copies
     * its own state to where `state` says. Required if the exchange has state that differs between
     * learners. */
    weft_status (*store_state)(weft_exchange *exchange);
    /* The number of updates of which the mean is applied in a run of `learners`, so that each, with
     * its part of an additive state, counts for one divided by it. NULL: 1. */
    int (*averages)(const weft_exchange *exchange, int learners);
    /* Without lock step: whether no learner begins a step before all have finished the one before.
     * NULL: learners may be at different steps. */
    bool (*together)(const weft_exchange *exchange);
    /* Called after the last step of a process: ends outstanding transfers, and notifies other
     * learners if necessary. A checkpoint may follow. */
    weft_status (*end)(weft_exchange *exchange);
    /* Statistic i of the whole run, called after `end`; false past the last. The numbers stay the
     * exchange's. */
    bool (*figure)(weft_exchange *exchange, int i, weft_series *out);
    /* For estimates of a run's time: the steps from one sum over the parameters of all learners to
     * the next one, for which they wait; 0: they meet at the end of the run alone. exchange was
     * opened without a setup. *state: they add up the optimizer's state, too. NULL: learners
     * exchange otherwise. */
    int64_t (*meetings)(const weft_exchange *exchange, bool *state);
    /* For estimates: the bytes of memory that a learner reads and writes in a meeting beside the
     * sum, as multiples of the bytes of its parameters and of its optimizer's state. Without
     * `meetings`, learners share memory, and this is what each does there after a step, without
     * waiting. exchange was opened without a setup. NULL: none. */
    void (*passes)(const weft_exchange *exchange, double *parameters, double *state);
    /* For searches of a strategy (weft/strategies.h): arguments i with which a run may be worth
     * trying, "" for none, or NULL past the end. NULL: it is tried without arguments. */
    const char *(*offered)(int i);
    /* For estimates of a run's memory: what the exchange allocates at most. exchange was opened
     * without a setup; *out is zeroed. NULL: it takes no arrays. */
    weft_status (*memory)(const weft_exchange *exchange, const weft_exchange_sizes *sizes,
                          weft_exchange_memory *out);
} weft_exchange_life;

struct weft_exchange_ops {
    size_t struct_size; /* sizeof(weft_exchange_ops) */
    size_t size;        /* of the struct of an exchange, which begins with a weft_exchange */
    /* Learners go in lock step: all take the same steps and synchronize after the same ones, and
     * stopping and saving are collective over the learners. Otherwise a learner waits for others
     * only in the hooks of the exchange, learners may join and leave, and the first learner saves
     * the checkpoints. */
    bool lockstep;
    /* The hook `update` replaces the learner's own update. Such an exchange cannot run with ZeRO,
     * which shards the learner's own update. */
    bool owns_update;
    /* Opens the exchange, whose state has its initial values. exchange: `size` zeroed bytes, whose
     * head is filled in. arguments: the text after "NAME:", or "". setup: exchange->setup; NULL:
     * only checks the arguments, and then only `fits`, `averages`, `meetings`, `passes`, `memory`
     * and `close` may follow. ARGUMENT: an argument is wrong. If it fails, `close` is called. */
    weft_status (*open)(weft_exchange *exchange, const char *arguments,
                        const weft_exchange_setup *setup);
    /* Frees what the exchange has allocated, but not its struct. NULL: nothing. */
    void (*close)(weft_exchange *exchange);
    /* Checks whether the planned run can have this exchange, which was opened without a setup.
     * ARGUMENT: the run cannot. NULL: every run can. */
    weft_status (*fits)(const weft_exchange *exchange, const weft_exchange_plan *plan);
    weft_exchange_step step;
    weft_exchange_life life;
    const char *name; /* that of its entry; the library sets it in an added exchange */
    /* The actors of the library's own exchanges; NULL in an added exchange, which can neither be
     * simulated nor have learners or servers that are processes of their own. */
    const struct weft_exchange_actors *actors;
};

/* The head of every exchange; implementations extend it. The library fills it in before `open`. */
struct weft_exchange {
    const weft_exchange_ops *ops;
    weft_exchange_setup setup;
    struct weft_collect
        *others; /* the library's: collects the state of other learners; NULL: not collected */
    /* A checkpoint had the state that is equal in all learners (without such state: this learner's
     * own). The checkpoint may still lack the own state of this learner. Equal in all ranks of a
     * learner. */
    bool restored;
    /* Sum of the weights of this learner's samples in the running step. Set before the call of
     * `before`. */
    double weight;
    bool empty; /* this learner has no samples in the running step; set with `weight` */
    /* Seconds that the exchange has made its rank wait for replies, in all hooks together; the
     * exchange counts them. */
    double waited;
    bool coordinator_lost; /* the coordinator of an elastic run does not answer */
    bool finished; /* the last step of the run is over; also if this learner joined after it */
    /* Set by `end`: the number of learners that have stopped before the last step; 0 also where
     * this rank does not know it. */
    double early;
    /* The number of learners that an elastic run had when this one began, and before this one's
     * end; 0: this rank does not know it. */
    double learners_at[2];
    /* Set by `end`, in lock step: it has changed the parameters, although this process has taken no
     * step. A checkpoint of the same step is then written again. */
    bool changed;
    struct weft_kept_state *kept; /* the library's: arrays that it keeps for the exchange */
    int layouts;      /* the library's: whether the learners' memory layouts are alike */
    uint64_t room[8]; /* of later versions: 0 */
};

#ifdef __cplusplus
}
#endif
#endif
