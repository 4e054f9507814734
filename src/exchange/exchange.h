/* The exchange interface: the strategy by which learners, each with a complete copy of the model,
 * synchronize.
 *
 * Every rank of a learner has an exchange, which talks to the ranks that hold the same shard of the
 * model in the other learners. A step calls the hooks of the exchange:
 *
 *   before   before the forward pass: the exchange writes received updates into the parameters
 *   needed   before the first instruction that reads a parameter, if the exchange asked for it
 *   ready    during backward, as soon as a gradient is final for this step
 *   poll     between instructions: the exchange makes progress on its transfers
 *   wait     between two steps, before other code reads the parameters: waits for their new values
 *   update   in place of the learner's own update, if the exchange owns the update
 *   after    after the update: the exchange sends the result of the step, or learners average
 *
 * A transfer that begins in one hook may end in a later one, also in the next step. The thread that
 * runs the steps of a rank calls all its hooks.
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
 * their age (the number of their updates) and the step of the schedule (see weft_flat_optimizer).
 * These advance with each update that the exchange makes; it may make more or fewer updates than a
 * learner takes steps. */
#ifndef WEFT_EXCHANGE_EXCHANGE_H
#define WEFT_EXCHANGE_EXCHANGE_H

#include <stdatomic.h>

#include "base/base.h"
#include "compress/compress.h"
#include "exchange/learner_group.h"
#include "exchange/segments.h"
#include "membership/member.h"
#include "weft/comm.h"
#include "weft/optim.h"
#include "weft/program.h"

typedef struct weft_exchange weft_exchange;

/* The membership of a learner in a run whose learners are processes: an elastic run, or a job with
 * --engine processes. */
typedef struct weft_learner_link {
    const char *coordinator; /* address, as weft_net_add_peer takes it; NULL: not known yet */
    const char *listen; /* where a peer listens, as weft_net_bind takes it; NULL: at any port */
    int slot, learners; /* slot of this learner; number of learners with which the run begins */
    const char *model, *data; /* must be equal in all learners of the run */
    bool job;   /* all learners are of one job: they stop together, and slot 0 saves the result */
    bool saves; /* this learner writes checkpoints, and so needs the state of servers at its end */
    /* The run had taken steps before this learner joined: if no member has the state of the run,
     * the run fails, and does not begin again with initial parameters. */
    bool late;
    uint64_t checkpoint;     /* checksum of the checkpoint that this learner has loaded; 0: none */
    int64_t step;            /* step of that checkpoint */
    uint64_t checkpoint_run; /* id of the run that wrote it; 0: not known */
    uint64_t run;            /* id of this run, which the learner joins and its checkpoints name */
    weft_removal *removal;   /* the exchange sets it when this learner was removed; may be NULL */
    const atomic_int *stop;  /* not 0: this learner is asked to stop; NULL: it cannot be asked */
} weft_learner_link;

/* The padding in a store's WEFT_ALL_PARAMETERS: elements between the parameters, and inside
 * parameters of a padded layout. The gaps are in ascending order, and none touches the next. */
typedef struct weft_gap_list {
    weft_codec_gap *gaps;
    size_t count;
} weft_gap_list;
/* Finds the padding of a store. The caller frees out->gaps. */
weft_status weft_parameter_gaps(const weft_store *store, weft_gap_list *out) WEFT_NODISCARD;

/* Options of a server process. All pointers except `own` stay the caller's and outlive the server's
 * actor. */
typedef struct weft_serving {
    size_t struct_size; /* sizeof(weft_serving) */
    weft_context *context;
    const weft_store *store; /* like a learner's, on the device that applies the updates */
    const weft_optimizer_options *optimizer;
    weft_dtype dtype;
    int64_t count; /* elements of a learner's WEFT_ALL_PARAMETERS */
    int servers;   /* as in weft_exchange_setup */
    int learners;
    const char *codec, *back;   /* as in weft_exchange_setup */
    weft_gap_list gaps;         /* padding of the parameters */
    weft_segment_list segments; /* of the parameters, see weft_segments_of */
    int wished_slot;            /* the slot that the server requests, from 1; 0: any */
    uint64_t run;               /* id of the run that has these options; 0: any */
    weft_removal *removal;      /* set when the server was removed, or may ask again; may be NULL */
    uint32_t id; /* id of the server's actor; weft_server_process draws it at random */
    void *own; /* memory that `serve` allocates for the actor; freed after the actor is destroyed */
} weft_serving;

/* The environment of an exchange: one rank of one learner. All pointers stay the caller's and
 * outlive the exchange. */
typedef struct weft_exchange_setup {
    size_t struct_size; /* sizeof(weft_exchange_setup) */
    weft_context *context;
    weft_learner_group *endpoint; /* group of the ranks that have the same shard in all learners */
    weft_store *store; /* parameters; during `open` they do not have the values of the run yet */
    /* The program of this rank. weft_program_gradient lists the gradients that `ready` reports. */
    weft_instance *instance;
    const weft_optimizer_options *optimizer; /* the run's, for an exchange that owns the update */
    weft_comm *learner;                      /* the ranks of this learner */
    int servers;                             /* number of servers; 0: the exchange decides */
    int replicas;                            /* replicas of each range, on other servers; 0 or 1 */
    const char *codec;                       /* specification of the codec of pushed updates */
    const char *back; /* downlink codec, for parameters from servers; NULL or empty: as `codec` */
    const weft_learner_link *cluster; /* NULL: one job of threads or MPI; its learners are fixed */
    bool resumed_run; /* the run is resumed, perhaps with fewer learners than its options were made
                         for */
    bool (*asked)(void *user); /* whether the job is asked to stop; NULL: it cannot be asked */
    void *user;
} weft_exchange_setup;

/* The plan of a run, to check it before any part of the run exists. Fields without a comment are as
 * in weft_exchange_setup. */
typedef struct weft_exchange_plan {
    weft_context *context; /* set by weft_exchange_fits */
    int learners, servers, replicas;
    const char *codec, *back;
    bool resumed_run;
    bool hosted; /* servers are threads of the learners' processes; membership is fixed */
    int here;    /* number of learners that are threads of one process; 0: not known yet */
} weft_exchange_plan;

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
} weft_step_result;

struct weft_actor;
struct weft_sim_exchange_options;
struct weft_sim_exchange;
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
     * exchange's. weft_exchange_figure_at adds the learners of an elastic run. */
    bool (*figure)(weft_exchange *exchange, int i, weft_series *out);
} weft_exchange_life;

/* Where the learners and servers of a run are. All may be NULL. */
typedef struct weft_exchange_deployment {
    /* Checks whether the planned run can have this exchange, which was opened without a setup.
     * ARGUMENT: the run cannot. NULL: every run can. */
    weft_status (*fits)(const weft_exchange *exchange, const weft_exchange_plan *plan);
    /* Gives the number of sockets that all learners and servers of the planned run open. NULL: the
     * exchange opens none. */
    weft_status (*sockets)(const weft_exchange *exchange, const weft_exchange_plan *plan,
                           int64_t *out);
    /* Opens the actors of a simulated run (exchange/simulated.h). NULL: the exchange cannot be
     * simulated. */
    weft_status (*simulate)(const char *arguments,
                            const struct weft_sim_exchange_options *sim_options,
                            struct weft_sim_exchange **out);
    /* Creates the actor of a server process; the run has `serving->servers` such processes. NULL:
     * the exchange has no servers. */
    weft_status (*serve)(const char *arguments, weft_serving *serving, struct weft_actor **out);
    /* The step of the run at which this elastic learner began, called after `begin`. Below 0:
     * another rank of the learner knows the step. NULL: the learners of this exchange cannot be
     * elastic. */
    int64_t (*began)(weft_exchange *exchange);
} weft_exchange_deployment;

typedef struct weft_exchange_ops {
    size_t struct_size; /* sizeof(weft_exchange_ops) */
    const char *name;
    const char *form; /* syntax of a specification, for help texts */
    const char *help;
    /* Learners go in lock step: all take the same steps and synchronize after the same ones, and
     * stopping and saving are collective over the learners. Otherwise a learner waits for others
     * only in the hooks of the exchange, learners may join and leave, and the first learner saves
     * the checkpoints. */
    bool lockstep;
    /* The hook `update` replaces the learner's own update. Such an exchange cannot run with ZeRO,
     * which shards the learner's own update. */
    bool owns_update;
    /* The options that the exchange uses, among `servers`, `replicas`, `compress` and
     * `compress-downlink`, separated by commas; NULL: none. */
    const char *reads;
    /* Opens the exchange, whose state has its initial values. setup NULL: only checks the
     * arguments; only `fits`, `sockets`, `averages` and `close` may follow. */
    weft_status (*open)(const weft_context *context, const char *arguments,
                        const weft_exchange_setup *setup, weft_exchange **out);
    void (*close)(weft_exchange *exchange);
    weft_exchange_step step;
    weft_exchange_life life;
    weft_exchange_deployment deployment;
} weft_exchange_ops;

typedef struct weft_collect weft_collect;

/* The head of every exchange; implementations extend it. weft_exchange_open fills it in after
 * `open` has returned. */
struct weft_exchange {
    const weft_exchange_ops *ops;
    weft_exchange_setup setup;
    weft_collect *others; /* collects the state of other learners; NULL: not collected */
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
};

extern const weft_exchange_ops weft_exchange_average, weft_exchange_oneshot, weft_exchange_server,
    weft_exchange_gossip, weft_exchange_easgd, weft_exchange_hogwild;

/* Register one exchange with a context, or all built-in exchanges. */
weft_status weft_exchange_register(weft_context *context,
                                   const weft_exchange_ops *ops) WEFT_NODISCARD;
weft_status weft_exchanges_register(weft_context *context) WEFT_NODISCARD;

/* Opens the exchange of a specification "NAME:key=value,...". ARGUMENT: its name, a key or a value
 * is wrong, or the run cannot have it. INTERNAL: the exchange declares a state that is not
 * valid. */
weft_status weft_exchange_open(const char *spec, const weft_exchange_setup *setup,
                               weft_exchange **out) WEFT_NODISCARD;
/* Checks a specification alone, without a run. */
weft_status weft_exchange_check(weft_context *context, const char *spec) WEFT_NODISCARD;
/* The number of updates of which an exchange of this specification applies the mean in a run of so
 * many learners (the hook `averages`). */
weft_status weft_exchange_averages(const weft_context *context, const char *spec, int learners,
                                   double *out) WEFT_NODISCARD;
/* Checks a specification, and whether the planned run can have the exchange; weft_exchange_open
 * includes this check. */
weft_status weft_exchange_fits(weft_context *context, const char *spec,
                               const weft_exchange_plan *plan) WEFT_NODISCARD;
void weft_exchange_close(weft_exchange **exchange);

/* Each of these functions calls the hook of its name, if the exchange has it. */
weft_status weft_exchange_begin(weft_exchange *exchange) WEFT_NODISCARD;
weft_status weft_exchange_before(weft_exchange *exchange, int64_t step) WEFT_NODISCARD;
weft_status weft_exchange_ready(weft_exchange *exchange,
                                const weft_gradient *gradient) WEFT_NODISCARD;
weft_status weft_exchange_poll(weft_exchange *exchange) WEFT_NODISCARD;
weft_status weft_exchange_update(weft_exchange *exchange, int64_t step) WEFT_NODISCARD;
weft_status weft_exchange_wait(weft_exchange *exchange) WEFT_NODISCARD;
weft_status weft_exchange_after(weft_exchange *exchange, weft_step_result *result) WEFT_NODISCARD;
weft_status weft_exchange_save(weft_exchange *exchange) WEFT_NODISCARD;
weft_status weft_exchange_end(weft_exchange *exchange) WEFT_NODISCARD;
bool weft_exchange_figure_at(weft_exchange *exchange, int i, weft_series *out);
bool weft_exchange_state_at(weft_exchange *exchange, int i, weft_exchange_state *out);
/* Whether no learner begins a step before all have finished the one before: in lock step, or by the
 * policy of the exchange. */
bool weft_exchange_is_together(const weft_exchange *exchange);
/* For a learner of one job of threads or MPI that has ended and waits for the others: whether the
 * job is asked to stop, so that this learner has to tell the others to end. */
bool weft_exchange_is_asked(const weft_exchange *exchange);
/* Whether the learners end with a common last step that the first learner chooses and the exchange
 * sends to the others. Not in lock step, where a collective decides on the stop. */
bool weft_exchange_ends_together(const weft_exchange *exchange);
/* The first learner saves the checkpoints in the middle of a run, with the exchange state of the
 * other learners. All learners call `_share` after `begin`, and `_hand` after each step with a
 * checkpoint, in which the other learners send their state and the first one receives it; both are
 * collective over the ranks of a learner. `_state_of` reads state i of a learner; false past the
 * end, or if no state of that learner has arrived. */
weft_status weft_exchange_begin_state_collection(weft_exchange *exchange) WEFT_NODISCARD;
weft_status weft_exchange_transfer_state(weft_exchange *exchange, int64_t step) WEFT_NODISCARD;
bool weft_exchange_state_of(weft_exchange *exchange, int learner, int i, weft_exchange_state *out);
/* Sums a number over all learners, in place. Collective over the learners. */
weft_status weft_exchange_sum(weft_exchange *exchange, const char *what,
                              double *number) WEFT_NODISCARD;

/* Replaces numbers by their mean over all learners. Collective over the learners. */
weft_status weft_exchange_mean(weft_exchange *exchange, const char *what, weft_dtype dtype,
                               void *data, int64_t count) WEFT_NODISCARD;

/* Registers the hooks `ready`, `needed` and `poll` with the program of the setup. */
void weft_exchange_listen(weft_exchange *exchange);
/* Registers only `poll`, with another program, such as the evaluator's, so that heartbeats go on
 * while it runs. */
void weft_exchange_progress(weft_exchange *exchange, weft_instance *instance);
/* The part of the program that updates the parameters of a learner with this exchange. */
weft_update weft_exchange_updates(const weft_exchange_ops *ops);

/* registry.c: finds the exchange that a specification names. *arguments: the text after "NAME:",
 * within `spec`. */
weft_status weft_exchange_find(const weft_context *context, const char *spec,
                               const weft_exchange_ops **ops,
                               const char **arguments) WEFT_NODISCARD;

/* Checks that an exchange can have elastic learners. ARGUMENT: `spec` is NULL, or names an exchange
 * that cannot; the message names those that can. */
weft_status weft_exchange_is_elastic(const weft_context *context, const char *spec,
                                     const weft_exchange_ops **ops) WEFT_NODISCARD;

#endif
