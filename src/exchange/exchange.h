/* Opens and runs exchanges, the strategies by which learners synchronize; weft/exchange_ops.h
 * describes what an exchange is. */
#ifndef WEFT_EXCHANGE_EXCHANGE_H
#define WEFT_EXCHANGE_EXCHANGE_H

#include <stdatomic.h>

#include "base/base.h"
#include "compress/compress.h"
#include "exchange/learner_group.h"
#include "exchange/segments.h"
#include "membership/member.h"
#include "weft/exchange_ops.h"
#include "weft/registry.h"

/* The membership of a learner in a run whose learners are processes: an elastic run, or a job with
 * --engine processes. */
typedef struct weft_learner_link {
    const char *coordinator; /* address, as weft_net_add_peer takes it; NULL: not known yet */
    const char *listen; /* where a peer listens, as weft_net_bind takes it; NULL: at any port */
    int slot, learners; /* slot of this learner; number of learners with which the run begins */
    const char *model, *data; /* must be equal in all learners of the run */
    uint64_t layout;          /* weft_store_form of the run's parameters; 0: not known */
    /* The device by which they are laid out, and the message of a learner that cannot lay out its
     * own so. NULL: not known. */
    const char *device, *otherwise;
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

struct weft_actor;
struct weft_sim_exchange_options;
struct weft_sim_exchange;

/* The work of handlers, as weft_actor_work has it: bytes that they encode, decode, decode by the
 * downlink codec, and read and write, for each byte of the parameters. */
typedef struct weft_handled {
    double encoded, decoded, back, passed;
} weft_handled;

/* The least that the actors of an exchange do while each learner takes a step, in the mean over
 * many steps. */
typedef struct weft_exchange_least {
    weft_handled learner, servers; /* of each learner; of all servers together */
    /* How often a learner sends all parameters to the servers, in messages of the codec; and how
     * often it gets all from them, in those of the downlink codec. */
    double pushes, pulls;
    int pieces;                            /* into which the parameters are divided; 0: one */
    int (*host)(int server, int learners); /* the learner whose process has a server; NULL: none */
} weft_exchange_least;

/* The actors of an exchange: where the learners and servers of a run are. All may be NULL. */
typedef struct weft_exchange_actors {
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
    /* For searches of a strategy: *out is zeroed. exchange was opened without a setup; the store of
     * the sizes is NULL. NULL: zeros. */
    void (*least)(const weft_exchange *exchange, const weft_exchange_sizes *sizes,
                  weft_exchange_least *out);
} weft_exchange_actors;

/* Whether an exchange has one of its actors' functions. */
#define WEFT_EXCHANGE_HAS(ops, function) ((ops)->actors && (ops)->actors->function)

typedef struct weft_collect weft_collect;

extern const weft_entry weft_exchange_average, weft_exchange_oneshot, weft_exchange_server,
    weft_exchange_gossip, weft_exchange_easgd, weft_exchange_hogwild;

/* Registers the built-in exchanges with a context. */
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
weft_status weft_exchange_averages(weft_context *context, const char *spec, int learners,
                                   double *out) WEFT_NODISCARD;
/* The hooks `meetings` and `passes` of the exchange of a specification. */
typedef struct weft_meetings {
    int64_t period; /* below 0: the learners do not meet */
    bool state;
    bool works;                /* it has `passes` */
    double parameters, passed; /* of `passes`; passed: those of the optimizer's state */
    bool actors;               /* it has actors that can be simulated */
} weft_meetings;
weft_status weft_exchange_meetings(weft_context *context, const char *spec,
                                   weft_meetings *out) WEFT_NODISCARD;
/* The hook `memory` of the exchange of a specification; zeros: it has none. */
weft_status weft_exchange_memory_of(const char *spec, const weft_exchange_sizes *sizes,
                                    weft_exchange_memory *out) WEFT_NODISCARD;
/* The function `least` of the actors of a specification. */
weft_status weft_exchange_least_of(const char *spec, const weft_exchange_sizes *sizes,
                                   weft_exchange_least *out) WEFT_NODISCARD;
/* mean.c: the bytes that a meeting takes whose changes cross in bf16. */
size_t weft_exchange_changes_bytes(int64_t count);
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
weft_status weft_exchange_preview(weft_exchange *exchange, int64_t step) WEFT_NODISCARD;
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

/* mean.c, collective over the learners. `_mean` replaces numbers by their mean over all learners.
 * `_average_learners` does that with their parameters and statistics, and with `optimizer` also
 * with the state of their optimizers. `_check_layouts`: INTERNAL: their stores have different
 * layouts, which weft_rank_build prevents. `_learners_differ`: whether the parameters of the
 * learners differ, as they may in a resumed run; all ranks of all learners get the same answer.
 * `_equalize_learners` averages them if so. `_average_from`: only what learners have changed since
 * the parameters `base`, which are equal in all of them and laid out like their own, crosses ranks,
 * in bf16. NULL: as _average_learners. */
weft_status weft_exchange_mean(weft_exchange *exchange, const char *what, weft_dtype dtype,
                               void *data, int64_t count) WEFT_NODISCARD;
weft_status weft_exchange_average_learners(weft_exchange *exchange, bool optimizer) WEFT_NODISCARD;
weft_status weft_exchange_average_from(weft_exchange *exchange, bool optimizer,
                                       const void *base) WEFT_NODISCARD;
weft_status weft_exchange_check_layouts(weft_exchange *exchange) WEFT_NODISCARD;
weft_status weft_exchange_learners_differ(weft_exchange *exchange, bool *differ) WEFT_NODISCARD;
weft_status weft_exchange_equalize_learners(weft_exchange *exchange, bool optimizer) WEFT_NODISCARD;
/* kept_state.c: `_keep` allocates an array like all parameters, zeroed, for an exchange in lock
 * step that opens with a setup, and sets the pointer at `out` to it. The array is equal in all
 * learners, and a state in checkpoints, with this name and description. `_kept_at` gives state *i
 * of these, or takes their number off *i. */
weft_status weft_exchange_keep(weft_exchange *exchange, const char *name, const char *what,
                               void *out) WEFT_NODISCARD;
bool weft_exchange_kept_at(const weft_exchange *exchange, int *i, weft_exchange_state *out);
void weft_exchange_free_kept(weft_exchange *exchange);
/* The type, the number of elements and the bytes of a store's WEFT_ALL_PARAMETERS. */
weft_status weft_exchange_parameters(const weft_store *store, weft_dtype *dtype, int64_t *count,
                                     size_t *bytes) WEFT_NODISCARD;

/* shared_params.c: whether ranks of the learner that share a parameter have it in different memory
 * layouts, as this rank finds. Collective over the ranks. */
weft_status weft_exchange_ranks_differ(weft_comm *learner, weft_store *store,
                                       bool *out) WEFT_NODISCARD;

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
