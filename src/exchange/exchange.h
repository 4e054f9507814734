/* The exchange interface: how learners, each with a complete copy of the model, synchronize.
 *
 * Every rank of a learner has an exchange, which talks to the ranks that hold the same shard of the
 * model in the other learners. A step calls its hooks:
 *
 *   before   before forward: received updates are written into the parameters
 *   ready    during backward, as soon as a range of the gradients is final for this step
 *   update   in place of the learner's own update, or `after` it: the result of the step is sent,
 *            or learners average
 *
 * A transfer that begins in one hook may go on until a later one, also into the next step. All
 * hooks of a rank are called in the thread that runs its steps.
 *
 * Gradients are as the update would read them: summed over the micro-batches and ranks of the
 * learner, the mean over its own batch, and clipped, if the run clips, by the norm of the learner's
 * own gradient. (So with clipping no gradient is final before the end of backward.) The loss of the
 * step has not been checked by then: if it is not finite, the step fails, and neither `update` nor
 * `after` is called for it.
 *
 * An exchange that owns the update has the optimizer's options from its site, where clipping and
 * micro-batches have been handled. The learner's graph then has neither moments nor updates; it
 * still counts its own steps, and its schedule gives the learning rate that is reported. Moments,
 * their age and the step of the schedule belong to the exchange (see weft_flat_optimizer), once for
 * each update that it makes, of which there may be more or fewer than a learner's steps. */
#ifndef WEFT_EXCHANGE_EXCHANGE_H
#define WEFT_EXCHANGE_EXCHANGE_H

#include <stdatomic.h>

#include "base/base.h"
#include "compress/compress.h"
#include "membership/member.h"
#include "weft/comm.h"
#include "weft/optim.h"
#include "weft/program.h"

/* --- learner groups --- */

typedef struct weft_learner_group weft_learner_group;
typedef struct weft_group_request weft_group_request;

/* A kind of learner group: the transport of collectives between learners. Only the function that
 * created a group knows its kind. */
typedef struct weft_learner_group_kind {
    size_t struct_size; /* sizeof(weft_learner_group_kind) */
    const char *name;
    void (*close)(weft_learner_group *endpoint);
    /* As weft_comm_prepare and weft_operation_*. UNSUPPORTED: this kind does not have the
     * transfer. */
    weft_status (*bind)(weft_learner_group *endpoint, const weft_transfer *transfer,
                        weft_group_request **out);
    weft_status (*start)(weft_group_request *request);
    weft_status (*test)(weft_group_request *request, bool *done);
    weft_status (*wait)(weft_group_request *request);
    void (*destroy)(weft_group_request *request);
    /* PEER: the learners' job has ended. NULL: not known. */
    weft_status (*check)(weft_learner_group *endpoint);
} weft_learner_group_kind;

/* The head of every learner group; implementations extend it. */
struct weft_learner_group {
    const weft_learner_group_kind *kind;
    int learner, learners; /* the index of this one, and their number */
    double timeout; /* seconds without an answer of another learner, after which this one fails */
};

/* The head of every request of a group; implementations extend it. */
struct weft_group_request {
    weft_learner_group *endpoint;
};

/* Over a communicator whose ranks are the learners; it stays the caller's. */
weft_status weft_learner_group_over(weft_comm *between, weft_learner_group **out) WEFT_NODISCARD;
/* The group of an elastic learner, which only messages connect with the others: reductions and
 * gathers have its own contribution alone, and a broadcast changes nothing. */
weft_status weft_learner_group_single(int learner, int learners, double timeout,
                                      weft_learner_group **out) WEFT_NODISCARD;
/* Closes *endpoint and nulls it. Its requests must have been destroyed. */
void weft_learner_group_close(weft_learner_group **endpoint);

/* Transfers between learners, which are its peers and counts; otherwise as in weft/comm.h. _bind
 * allocates, _start, _test and _wait do not. */
weft_status weft_learner_group_bind(weft_learner_group *endpoint, const weft_transfer *transfer,
                                    weft_group_request **out) WEFT_NODISCARD;
weft_status weft_group_request_start(weft_group_request *request) WEFT_NODISCARD;
weft_status weft_group_request_test(weft_group_request *request, bool *done) WEFT_NODISCARD;
weft_status weft_group_request_wait(weft_group_request *request) WEFT_NODISCARD;
void weft_group_request_destroy(weft_group_request **request);
/* For code that waits for something else than a request. PEER: no answer will come. */
weft_status weft_learner_group_check(weft_learner_group *endpoint) WEFT_NODISCARD;
/* Binds, starts, waits and destroys. */
weft_status weft_learner_group_run(weft_learner_group *endpoint,
                                   const weft_transfer *transfer) WEFT_NODISCARD;

/* --- exchanges --- */

typedef struct weft_exchange weft_exchange;

/* Elastic membership of a learner: its data of a run whose learners are processes. */
typedef struct weft_learner_link {
    const char *coordinator;  /* its address, as weft_net_add_peer takes it; NULL: not known yet */
    int slot, learners;       /* the slot of this learner; the number of learners to begin with */
    const char *model, *data; /* compared with those of other learners */
    bool job;  /* all learners are of one job: they stop together, and slot 0 saves the result */
    bool late; /* the run had taken steps before this learner joined: it must not begin anew */
    uint64_t checkpoint;    /* checksum of the one loaded; 0: none */
    int64_t step;           /* of that checkpoint */
    weft_removal *removal;  /* set by the exchange; may be NULL */
    const atomic_int *stop; /* not 0: a stop of this learner is requested; NULL: it cannot be */
} weft_learner_link;

/* Padding of a store's WEFT_ALL_PARAMETERS in memory: between parameters, and within those of a
 * padded layout. In order, none touching the next. */
typedef struct weft_gap_list {
    weft_codec_gap *gaps;
    size_t count;
} weft_gap_list;
weft_status weft_parameter_gaps(const weft_store *store, weft_gap_list *out) WEFT_NODISCARD;

/* Options of a server process. All of it stays the caller's and outlives the actor. */
typedef struct weft_serving {
    size_t struct_size; /* sizeof(weft_serving) */
    weft_context *context;
    const weft_store *store; /* on the device that applies the updates */
    const weft_optimizer_options *optimizer;
    weft_dtype dtype;
    int64_t count; /* of a learner's WEFT_ALL_PARAMETERS */
    int servers;   /* as in weft_exchange_site */
    int learners;
    const char *codec, *back; /* the same */
    weft_gap_list gaps;       /* padding of the parameters */
    int wished_slot;          /* requested slot, from 1; 0: any */
    uint32_t id;              /* of the actor; drawn, so that no other has it */
    void *own;                /* memory of the actor, to be freed after it */
} weft_serving;

/* The environment of an exchange: one rank of one learner. All of it stays the caller's and
 * outlives the exchange. */
typedef struct weft_exchange_site {
    size_t struct_size; /* sizeof(weft_exchange_site) */
    weft_context *context;
    weft_learner_group *endpoint;
    weft_store *store; /* with the parameters, though not yet those of the run */
    /* The learner's program, whose gradients weft_program_gradient lists for those with `ready`. */
    weft_instance *instance;
    const weft_optimizer_options *optimizer; /* of the run, for updates elsewhere */
    weft_comm *learner;                      /* ranks of this learner */
    int servers;                             /* number of servers; 0: the exchange decides */
    int replicas;                            /* replicas of each range, on other servers; 0 or 1 */
    const char *codec;                       /* of pushed updates: a specification */
    const char *back; /* of parameters sent back to learners; NULL or empty: the same */
    const weft_learner_link *cluster; /* NULL: the learners are one job, and fixed */
    bool again; /* a run is resumed, perhaps with fewer learners than it was planned for */
} weft_exchange_site;

/* The plan of a run, before any part of it exists. */
typedef struct weft_exchange_plan {
    int learners, servers, replicas; /* as in weft_exchange_site, like */
    const char *codec, *back;        /* these */
    bool again;                      /* and this */
    bool hosted; /* servers are threads of the learners' processes; membership is fixed */
    int here;    /* number of learners that are threads of one process; 0: not known yet */
} weft_exchange_plan;

/* A state for checkpoints. Either `like_parameters`: as many elements as WEFT_ALL_PARAMETERS of the
 * store, of their type and in their order; it is saved tensor by tensor and so loads on any mesh.
 * Or of a type of its own, and equal on all ranks of a learner. */
typedef struct weft_exchange_state {
    const char *name; /* letters, digits and _, beginning with a letter */
    const char *what; /* description, such as "the momentum of outer=nesterov"; NULL: none */
    bool like_parameters;
    bool alike;     /* equal in all learners; otherwise each learner's is saved */
    weft_type type; /* ignored with like_parameters */
    void *data;     /* in host memory; the exchange's, until it is closed */
    size_t bytes;
    /* Additive: a number for each parameter, such as a residual. If a run is resumed with fewer
     * learners, the states of those that are gone are added to the others', so that the sum
     * stays. */
    bool adds;
    /* A checkpoint may lack this state, and this says whether it had it; NULL: it has all such
     * states or none. */
    bool *found;
} weft_exchange_state;

/* A finished step of a learner. */
typedef struct weft_exchange_turn {
    int64_t step;      /* its number, from 1 */
    bool last;         /* of the run */
    double loss, rate; /* of the step; samples a second of this learner */
    bool asked;        /* a stop of this learner is requested; all its ranks know */
    int64_t until; /* set by an exchange whose learners end together: the end step; 0: the learner
                      stops when it is asked to */
    bool met;   /* set by the exchange: all learners have synchronized in this step, which is when
                   those in lock step agree on whether to stop */
    bool leave; /* set by an exchange without lock step: this learner leaves, while others may go
                   on. The learner takes one more step, so that all its ranks know */
    bool dismissed; /* with leave: this learner alone was asked to leave */
} weft_exchange_turn;

struct weft_actor;
struct weft_sim_exchange_options;
struct weft_sim_exchange;
typedef struct weft_exchange_ops {
    size_t struct_size; /* sizeof(weft_exchange_ops) */
    const char *name;
    const char *form; /* form of a specification */
    const char *help;
    /* Learners go in lock step: all take the same steps and synchronize at the same ones, and
     * stopping and saving are collective. Otherwise no learner waits for another except in the
     * exchange, learners may join and leave, and a checkpoint is the first learner's. */
    bool lockstep;
    /* `update` replaces the learner's update. Not with ZeRO, which shards that. */
    bool owns_update;
    const char *reads; /* those of the options `servers`, `replicas` and `compress` that it uses,
                          separated by commas; NULL: none */
    /* site NULL: only checks the arguments, and only `close` follows. The state has its initial
     * values. */
    weft_status (*open)(const char *arguments, const weft_exchange_site *site, weft_exchange **out);
    void (*close)(weft_exchange *exchange);
    /* ARGUMENT: the planned run cannot have the exchange, which was opened without a site. NULL:
     * all can. */
    weft_status (*fits)(const weft_exchange *exchange, const weft_exchange_plan *plan);
    /* Number of sockets of all learners and servers of the planned run. NULL: none. */
    weft_status (*sockets)(const weft_exchange *exchange, const weft_exchange_plan *plan,
                           int64_t *out);
    /* State i; false past the end. NULL: there is none. */
    bool (*state)(weft_exchange *exchange, int i, weft_exchange_state *out);

    /* Before the first step of a process, with parameters and state in place. May be NULL, like all
     * hooks below. */
    weft_status (*begin)(weft_exchange *exchange);
    /* Before the forward pass of step `step` (from 1), when nothing reads the parameters: they may
     * be written. */
    weft_status (*before)(weft_exchange *exchange, int64_t step);
    /* A gradient of the step is final (weft_listener, whose rules hold). Each once a step, in the
     * order in which they are made; weft_gradient_map gives the numbers, until the next
     * `before`. */
    weft_status (*ready)(weft_exchange *exchange, const weft_gradient *gradient);
    /* The program is about to read a parameter (weft_listener), after weft_instance_await: its
     * numbers must be there when this returns. */
    weft_status (*needed)(weft_exchange *exchange, const weft_reading *parameter);
    /* Between two instructions of a pass: makes progress with transfers, and does not wait. */
    weft_status (*poll)(weft_exchange *exchange);
    /* After the last gradient, with owns_update: updates the parameters, or arranges that each is
     * updated when it is `needed`. Required with owns_update, and only with it. */
    weft_status (*update)(weft_exchange *exchange, int64_t step);
    /* Between two steps: code outside the program is about to read the parameters, so all of them
     * must be there. Collective over the ranks of the learner. */
    weft_status (*wait)(weft_exchange *exchange);
    /* After the update: parameters and the learner's state may be read and written. */
    weft_status (*after)(weft_exchange *exchange, weft_exchange_turn *turn);
    /* Before a checkpoint of the learner whose ranks are called: puts parameters and state where
     * they are read. Collective over the ranks. */
    weft_status (*save)(weft_exchange *exchange);
    /* Without lock step: puts this learner's own state where `state` says, for another learner's
     * checkpoint. Required with such state. */
    weft_status (*store_state)(weft_exchange *exchange);
    /* Without lock step: whether no learner begins a step before all have finished the one before.
     * NULL: no. */
    bool (*together)(const weft_exchange *exchange);
    /* After the last step of a process: outstanding transfers end, and other learners are notified
     * if necessary. A checkpoint may follow. */
    weft_status (*end)(weft_exchange *exchange);
    /* Statistic i of the whole run, after `end`; false past the last. The numbers are the
     * exchange's. */
    bool (*figure)(weft_exchange *exchange, int i, weft_series *out);
    /* The actors of a simulated run (exchange/simulated.h). NULL: it cannot be simulated. */
    weft_status (*simulate)(const char *arguments,
                            const struct weft_sim_exchange_options *sim_options,
                            struct weft_sim_exchange **out);
    /* The actor of a server process, of which the run has as many as `serving` says. NULL: it has
     * no servers. */
    weft_status (*serve)(const char *arguments, weft_serving *serving, struct weft_actor **out);
    /* Elastic: the step of the run at which this learner began; after `begin`. Below 0: another
     * rank of the learner knows it. NULL: its learners cannot be elastic. */
    int64_t (*began)(weft_exchange *exchange);
} weft_exchange_ops;

typedef struct weft_collect weft_collect;

/* The head of every exchange; implementations extend it. weft_exchange_open fills it, after
 * `open`. */
struct weft_exchange {
    const weft_exchange_ops *ops;
    weft_exchange_site site;
    weft_collect *others; /* state of other learners; NULL: not collected */
    /* State that is equal in all learners comes from a checkpoint. So does other state, unless the
     * checkpoint lacks this learner. */
    bool restored;
    /* Sum of the sample weights of the running step. Set before `before`. */
    double weight;
    /* Seconds for which it has made its rank wait in `needed` and `update`; the exchange's. */
    double waited;
    bool finished; /* the last step of the run is over; a learner may begin after it */
};

extern const weft_exchange_ops weft_exchange_average, weft_exchange_oneshot, weft_exchange_server,
    weft_exchange_gossip, weft_exchange_easgd, weft_exchange_hogwild;

/* Registers an exchange with a context, or all built-in ones. */
weft_status weft_exchange_register(weft_context *context,
                                   const weft_exchange_ops *ops) WEFT_NODISCARD;
weft_status weft_exchanges_register(weft_context *context) WEFT_NODISCARD;

/* Opens "NAME:key=value,...". ARGUMENT: a wrong name, key or value. INTERNAL: a wrong state. */
weft_status weft_exchange_open(const char *spec, const weft_exchange_site *site,
                               weft_exchange **out) WEFT_NODISCARD;
/* Checks the specification alone. */
weft_status weft_exchange_check(weft_context *context, const char *spec) WEFT_NODISCARD;
/* Also checks whether the planned run can have it, as weft_exchange_open does, too. */
weft_status weft_exchange_fits(weft_context *context, const char *spec,
                               const weft_exchange_plan *plan) WEFT_NODISCARD;
void weft_exchange_close(weft_exchange **exchange);

/* Call the hooks, where the exchange has them. */
weft_status weft_exchange_begin(weft_exchange *exchange) WEFT_NODISCARD;
weft_status weft_exchange_before(weft_exchange *exchange, int64_t step) WEFT_NODISCARD;
weft_status weft_exchange_ready(weft_exchange *exchange,
                                const weft_gradient *gradient) WEFT_NODISCARD;
weft_status weft_exchange_poll(weft_exchange *exchange) WEFT_NODISCARD;
weft_status weft_exchange_update(weft_exchange *exchange, int64_t step) WEFT_NODISCARD;
weft_status weft_exchange_wait(weft_exchange *exchange) WEFT_NODISCARD;
weft_status weft_exchange_after(weft_exchange *exchange, weft_exchange_turn *turn) WEFT_NODISCARD;
weft_status weft_exchange_save(weft_exchange *exchange) WEFT_NODISCARD;
weft_status weft_exchange_end(weft_exchange *exchange) WEFT_NODISCARD;
bool weft_exchange_figure_at(weft_exchange *exchange, int i, weft_series *out);
bool weft_exchange_state_at(weft_exchange *exchange, int i, weft_exchange_state *out);
/* Whether no learner begins a step before all have finished the one before. */
bool weft_exchange_is_together(const weft_exchange *exchange);
/* Whether its learners, without agreeing on it in lock step, end with the same step: the first one
 * chooses it, and the exchange sends it to the others. */
bool weft_exchange_ends_together(const weft_exchange *exchange);
/* Checkpoints during a run are the first learner's, but also contain the state of the others:
 * `_share` after `begin`, of all learners. Then `_hand` after each step with a checkpoint: the
 * others send their state, and the first receives it. `_state_of` reads the state of a learner;
 * false also if none has arrived. Both are collective over the ranks of a learner. */
weft_status weft_exchange_share(weft_exchange *exchange) WEFT_NODISCARD;
weft_status weft_exchange_hand(weft_exchange *exchange, int64_t step) WEFT_NODISCARD;
bool weft_exchange_state_of(weft_exchange *exchange, int learner, int i, weft_exchange_state *out);
/* Sums a number over all learners, which go in lock step. */
weft_status weft_exchange_sum(weft_exchange *exchange, const char *what,
                              double *number) WEFT_NODISCARD;

/* The mean of numbers over all learners, in place. Collective over them. */
weft_status weft_exchange_mean(weft_exchange *exchange, const char *what, weft_dtype dtype,
                               void *data, int64_t count) WEFT_NODISCARD;

/* Registers the exchange's hooks with the site's program. */
void weft_exchange_listen(weft_exchange *exchange);
/* Registers only `poll`, with an instance other than the site's. */
void weft_exchange_attend(weft_exchange *exchange, weft_instance *instance);
/* Where the parameters of a learner with this exchange are updated. */
weft_update weft_exchange_updates(const weft_exchange_ops *ops);

/* --- the optimizer of a flat range --- */

/* The update of a run's optimizer for `count` contiguous parameters outside a model: a graph with
 * one parameter and its update, on the device that computes in host memory (that of the store
 * `like`, if it does; then updates have the bits of the learner's own). For exchanges that own the
 * update, and for servers. */
typedef struct weft_flat_optimizer weft_flat_optimizer;
/* The options' clip_norm must be 0, since a range does not know the whole norm, and accumulate
 * 1. */
weft_status weft_flat_optimizer_open(weft_context *context, const weft_store *like,
                                     const weft_optimizer_options *options, weft_dtype dtype,
                                     int64_t count, weft_flat_optimizer **out) WEFT_NODISCARD;
void weft_flat_optimizer_close(weft_flat_optimizer **optimizer);
/* Updates the parameters in place. Both are [count]. */
weft_status weft_flat_optimizer_step(weft_flat_optimizer *optimizer, void *parameters,
                                     const void *gradient) WEFT_NODISCARD;
/* The next update is that of step `step` of the run, from 1, which sets its learning rate. Without
 * this call the schedule counts the updates. */
void weft_flat_optimizer_at(weft_flat_optimizer *optimizer, int64_t step);
/* Without copies: the parameters that it reads and writes, and a buffer for a gradient, [count]
 * each; its own. `_run` takes a gradient anywhere, at a multiple of its element size. */
void weft_flat_optimizer_rooms(weft_flat_optimizer *optimizer, void **parameters, void **gradient);
weft_status weft_flat_optimizer_run(weft_flat_optimizer *optimizer,
                                    const void *gradient) WEFT_NODISCARD;
/* Its state: moments ("m", "v", "momentum") as [count], their age and the step as scalars; false
 * past the end. The caller sets `alike` and `like_parameters`. */
bool weft_flat_optimizer_state(weft_flat_optimizer *optimizer, int i, weft_exchange_state *out);

/* registry.c: an exchange by its specification, and its arguments. */
weft_status weft_exchange_find(const weft_context *context, const char *spec,
                               const weft_exchange_ops **ops,
                               const char **arguments) WEFT_NODISCARD;

/* ARGUMENT: no exchange (NULL), or one without elastic learners; the message names those that have
 * them. */
weft_status weft_exchange_is_elastic(const weft_context *context, const char *spec,
                                     const weft_exchange_ops **ops) WEFT_NODISCARD;

#endif
