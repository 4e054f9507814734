/*
 * Exchanges: how learners, each with a complete copy of the model, talk to each other.
 *
 * Every rank of a learner has one, which speaks to the ranks that hold the same part of the model
 * in the other learners. A step calls it at three moments:
 *
 *   before   before forward: what has come from elsewhere meanwhile is put into the parameters
 *   ready    during backward, as soon as a range of the gradients is final for this step
 *   update   in place of the learner's own update, or `after` it: what the step has come to goes
 *            out, or learners meet
 *
 * What it begins in one moment may go on until a later one, also into the next step; nobody else
 * waits for it. All moments of a rank are in the thread that runs its steps.
 *
 * Gradients are handed over as the update would read them: summed over the micro-batches and ranks
 * of the learner, as the mean over its own batch, and clipped, if the run clips, by the norm of the
 * learner's own gradient. (So with clipping no gradient is final before all of backward is.) The
 * loss of the step has not been looked at by then: where it is no number the step ends in a
 * failure, and neither `update` nor `after` is called for it.
 *
 * An exchange that owns the update has the optimiser's options from its site, where clipping and
 * micro-batches have been seen to. The learner's graph then has neither moments nor updates; it
 * counts its own steps still, and its schedule gives the learning rate that is reported. Moments,
 * their age and the step of the schedule are the exchange's own (weft_flat_optimizer has them),
 * once for each update that it makes, of which there may be more or fewer than a learner's steps.
 */
#ifndef WEFT_EXCHANGE_EXCHANGE_H
#define WEFT_EXCHANGE_EXCHANGE_H

#include <stdatomic.h>

#include "base/base.h"
#include "compress/compress.h"
#include "membership/member.h"
#include "weft/comm.h"
#include "weft/optim.h"
#include "weft/program.h"

/* --- endpoints --- */

typedef struct weft_learner_group weft_learner_group;
typedef struct weft_group_request weft_group_request;

/* A kind of endpoint: what carries what learners send each other. Which kind an endpoint is
 * concerns nobody but the function that made it. */
typedef struct weft_learner_group_kind {
    size_t struct_size; /* sizeof(weft_learner_group_kind) */
    const char *name;
    void (*close)(weft_learner_group *endpoint);
    /* As weft_comm_prepare and weft_operation_*. UNSUPPORTED: a transfer that this kind has not. */
    weft_status (*bind)(weft_learner_group *endpoint, const weft_transfer *transfer,
                        weft_group_request **out);
    weft_status (*start)(weft_group_request *passage);
    weft_status (*test)(weft_group_request *passage, bool *done);
    weft_status (*wait)(weft_group_request *passage);
    void (*destroy)(weft_group_request *passage);
    /* PEER: the learners' job has ended. NULL: it does not know. */
    weft_status (*check)(weft_learner_group *endpoint);
} weft_learner_group_kind;

/* The head of every endpoint; implementations extend it. */
struct weft_learner_group {
    const weft_learner_group_kind *kind;
    int learner, learners; /* which one this is, of how many */
    double timeout;        /* seconds that a learner waits for another one before it fails */
};

/* The head of every transfer that is bound to an endpoint; implementations extend it. */
struct weft_group_request {
    weft_learner_group *endpoint;
};

/* Over a communicator whose ranks are the learners; it stays the caller's. */
weft_status weft_learner_group_over(weft_comm *between, weft_learner_group **out) WEFT_NODISCARD;
/* Of a learner whom only messages connect with the others: sums are its own, and what it would
 * receive from others stays as it is. */
weft_status weft_learner_group_single(int learner, int learners, double timeout,
                                      weft_learner_group **out) WEFT_NODISCARD;
/* Closes *endpoint and nulls it. Its passages must have been destroyed. */
void weft_learner_group_close(weft_learner_group **endpoint);

/* Transfers between learners, which are its peers and counts; otherwise as weft_comm.h says.
 * _bind allocates, _start, _test and _wait do not. */
weft_status weft_learner_group_bind(weft_learner_group *endpoint, const weft_transfer *transfer,
                                    weft_group_request **out) WEFT_NODISCARD;
weft_status weft_group_request_start(weft_group_request *passage) WEFT_NODISCARD;
weft_status weft_group_request_test(weft_group_request *passage, bool *done) WEFT_NODISCARD;
weft_status weft_group_request_wait(weft_group_request *passage) WEFT_NODISCARD;
void weft_group_request_destroy(weft_group_request **passage);
/* For whoever waits for something else than a passage. PEER: nobody is going to answer. */
weft_status weft_learner_group_check(weft_learner_group *endpoint) WEFT_NODISCARD;
/* Binds, starts, waits and destroys. */
weft_status weft_learner_group_run(weft_learner_group *endpoint,
                                   const weft_transfer *transfer) WEFT_NODISCARD;

/* --- exchanges --- */

typedef struct weft_exchange weft_exchange;

/* Of a run whose learners are processes that come and go: what one of them knows of it. */
typedef struct weft_learner_link {
    const char *coordinator; /* where that is, as weft_net_add_peer takes it; NULL: not known yet */
    int slot, learners;      /* which learner this is; how many there are to be */
    const char *model, *data; /* by which others know that it trains the same */
    bool job;  /* all learners are of one job: when one is stopped all are, and the first speaks */
    bool late; /* the run had taken steps before this learner came: it is not to begin anew */
    uint64_t checkpoint;    /* checksum of the one that it has loaded; 0: none */
    int64_t step;           /* of that checkpoint */
    weft_removal *removal;  /* set by the exchange; NULL: nobody asks */
    const atomic_int *stop; /* not 0: somebody wants this one to end; NULL: nobody can */
} weft_learner_link;

/* What is no parameter of a store's WEFT_ALL_PARAMETERS as they lie: what stands between them, and
 * within one whose layout is padded. In order, none touching the next. */
typedef struct weft_gap_list {
    weft_codec_gap *gaps;
    size_t count;
} weft_gap_list;
weft_status weft_parameter_gaps(const weft_store *store, weft_gap_list *out) WEFT_NODISCARD;

/* What a process that is a server of such a run is to serve. All of it stays the caller's and
 * outlives the actor. */
typedef struct weft_serving {
    size_t struct_size; /* sizeof(weft_serving) */
    weft_context *context;
    const weft_store *store; /* on the device that is to update */
    const weft_optimizer_options *optimizer;
    weft_dtype dtype;
    int64_t count; /* of a learner's WEFT_ALL_PARAMETERS */
    int servers;   /* as in weft_exchange_site */
    int learners;
    const char *codec, *back; /* the same */
    weft_gap_list gaps;       /* of these */
    int place;                /* the slot that it is to have, from 1; 0: any */
    uint32_t id;              /* of the actor; drawn, as no other one has it */
    void *own;                /* the actor's; to be freed after it */
} weft_serving;

/* Where an exchange is: one rank of one learner. All of it stays the caller's and outlives it. */
typedef struct weft_exchange_site {
    size_t struct_size; /* sizeof(weft_exchange_site) */
    weft_context *context;
    weft_learner_group *endpoint;
    weft_store *store; /* with the parameters, though not yet those of the run */
    /* The learner's program, whose gradients weft_program_gradient lists for those with `ready`. */
    weft_instance *instance;
    const weft_optimizer_options *optimizer; /* of the run, as an update elsewhere needs them */
    weft_comm *learner;                      /* the ranks of this one */
    int servers;       /* that the run is to have; 0: as many as the exchange likes */
    int replicas;      /* of what each server has, on others; 0 or 1 */
    const char *codec; /* of updates: a specification */
    const char *back;  /* of what comes back to learners; NULL or empty: the same */
    const weft_learner_link *cluster; /* NULL: the learners are one job, which makes all there is */
    bool again; /* a run goes on, perhaps with fewer learners than it was laid out for */
} weft_exchange_site;

/* What a run is to be of, before any of it is there. */
typedef struct weft_exchange_plan {
    int learners, servers, replicas; /* the latter as in weft_exchange_site, as are */
    const char *codec, *back;        /* these */
    bool again;                      /* this, too */
    bool hosted; /* servers are threads of the learners' processes; nobody comes or goes */
    int here;    /* so many of the learners are threads of one process; 0: not known yet */
} weft_exchange_plan;

/* Something that belongs into a checkpoint. Either `like_parameters`: as many elements as
 * WEFT_ALL_PARAMETERS of the store, of their type and in their order; it is saved tensor by tensor
 * and so loads on any mesh. Or of a type of its own, and the same on all ranks of a learner. */
typedef struct weft_exchange_state {
    const char *name; /* letters, digits and _, beginning with a letter */
    const char *what; /* the same in words, such as "the momentum of outer=nesterov"; NULL: none */
    bool like_parameters;
    bool alike;     /* in all learners; otherwise each one's is saved */
    weft_type type; /* not looked at where like_parameters */
    void *data;     /* in the host's memory; the exchange's, as long as it is open */
    size_t bytes;
    /* Of each parameter, and linear in it: where a run goes on with fewer learners, what those had
     * who are no more is added up, so that the sum over all stays. */
    bool adds;
    /* A checkpoint may lack it, and whether it did not is said here; NULL: it is there with the
     * others, or none is. */
    bool *found;
} weft_exchange_state;

/* A step of a learner that has come to its end. */
typedef struct weft_exchange_turn {
    int64_t step;      /* its number, from 1 */
    bool last;         /* of the run */
    double loss, rate; /* of the step; samples a second of this learner */
    bool asked;        /* somebody wants this learner to stop; all its ranks know */
    int64_t until; /* set by an exchange whose learners end together: the step that this one ends
                    * with; 0: it stops when it is asked to */
    bool met;   /* set by the exchange: all learners have met in it, which is when those that go in
                 * lock step agree on whether to stop */
    bool leave; /* set by an exchange without lock step: this learner ends, while others may go on.
                 * It takes one more step, so that all its ranks know */
    bool dismissed; /* with leave: it alone is to, and not since all are */
} weft_exchange_turn;

struct weft_actor;
struct weft_sim_exchange_options;
struct weft_sim_exchange;
typedef struct weft_exchange_ops {
    size_t struct_size; /* sizeof(weft_exchange_ops) */
    const char *name;
    const char *form; /* how a specification looks */
    const char *help;
    /* Learners go in lock step: all take the same steps and meet at the same ones, and to stop and
     * to save are collectives between them. Where they do not, none waits for another one that the
     * exchange does not wait for, learners may come and go, and a checkpoint is the first one's. */
    bool lockstep;
    /* `update` takes the place of the learner's update. Not with ZeRO, which shares that out. */
    bool owns_update;
    const char *reads; /* of the options `servers`, `replicas` and `compress` those that it has a
                        * use for, with a comma; NULL: none */
    /* site NULL: only the arguments are checked; nothing but `close` follows. Its state is as it is
     * to begin with. */
    weft_status (*open)(const char *arguments, const weft_exchange_site *site, weft_exchange **out);
    void (*close)(weft_exchange *exchange);
    /* ARGUMENT: no such run can have it. Of one that was opened without a site. NULL: all can. */
    weft_status (*fits)(const weft_exchange *exchange, const weft_exchange_plan *plan);
    /* Sockets that all learners and servers of such a run open together. NULL: none. */
    weft_status (*sockets)(const weft_exchange *exchange, const weft_exchange_plan *plan,
                           int64_t *out);
    /* State number i; false past the end. NULL: there is none. */
    bool (*state)(weft_exchange *exchange, int i, weft_exchange_state *out);

    /* Before the first step of a process, with parameters and state in place. May be NULL, as all
     * that follow may. */
    weft_status (*begin)(weft_exchange *exchange);
    /* Before the forward pass of step number `step` (from 1), when nothing reads the parameters:
     * they may be written. */
    weft_status (*before)(weft_exchange *exchange, int64_t step);
    /* A gradient of it is final (weft_listener, whose rules hold). Each once a step, in the order
     * in which they are made; weft_gradient_map gives the numbers, until the next `before`. */
    weft_status (*ready)(weft_exchange *exchange, const weft_gradient *gradient);
    /* The program is about to read a parameter (weft_listener), after weft_instance_await: its
     * numbers may come until then. */
    weft_status (*needed)(weft_exchange *exchange, const weft_reading *parameter);
    /* Between two instructions of a pass: lets what was begun go on, and does not wait. */
    weft_status (*poll)(weft_exchange *exchange);
    /* After the last gradient, with owns_update: the parameters get their next values, or will have
     * got each when it is `needed`. With owns_update there must be one, without it there is none.
     */
    weft_status (*update)(weft_exchange *exchange, int64_t step);
    /* Between two steps: somebody else than the program is about to read the parameters, so all of
     * them must be there. Collective over the ranks of the learner. */
    weft_status (*settle)(weft_exchange *exchange);
    /* After the update: parameters and the learner's state may be read and written. */
    weft_status (*after)(weft_exchange *exchange, weft_exchange_turn *turn);
    /* A checkpoint follows, of the learner whose ranks are asked: what belongs into it is brought
     * where it is read, parameters and state. Collective over them. */
    weft_status (*save)(weft_exchange *exchange);
    /* Without lock step: what is this learner's own is brought where `state` says, since another
     * one's checkpoint is to have it. Needed where there is such state. */
    weft_status (*keep)(weft_exchange *exchange);
    /* Without lock step: nobody begins a step before all have finished the one before. NULL: no. */
    bool (*together)(const weft_exchange *exchange);
    /* After the last step of a process: what is under way has to come to its end, and the others
     * are told if they need to know. A checkpoint may follow. */
    weft_status (*end)(weft_exchange *exchange);
    /* Figure i of the whole run, after `end`; false past the last. Numbers are the exchange's. */
    bool (*figure)(weft_exchange *exchange, int i, weft_series *out);
    /* The actors of a simulated run (exchange/simulated.h). NULL: it cannot be simulated. */
    weft_status (*cast)(const char *arguments, const struct weft_sim_exchange_options *scene,
                        struct weft_sim_exchange **out);
    /* The actor of a server process, of which such a run has as many as `serving` says. NULL: it
     * has no servers. */
    weft_status (*serve)(const char *arguments, weft_serving *serving, struct weft_actor **out);
    /* With a cluster: steps the run had come to when this learner began; after `begin`. Below 0:
     * another rank of the learner knows. NULL: its learners cannot be processes that come and go.
     */
    int64_t (*began)(weft_exchange *exchange);
} weft_exchange_ops;

typedef struct weft_collect weft_collect;

/* The head of every exchange; implementations extend it. weft_exchange_open fills it, and `open`
 * does not have it yet. */
struct weft_exchange {
    const weft_exchange_ops *ops;
    weft_exchange_site site;
    weft_collect *others; /* what others keep for themselves; NULL: nobody asks for it */
    /* What is alike in all learners comes from a checkpoint. So does what is not, unless the
     * checkpoint does not know this learner. */
    bool restored;
    /* Of the samples of the step that is going on: the sum of their weights. Set before `before`.
     */
    double weight;
    /* Seconds for which it has kept its rank waiting in `needed` and `update`; the exchange's. */
    double waited;
};

extern const weft_exchange_ops weft_exchange_average, weft_exchange_oneshot, weft_exchange_server,
    weft_exchange_gossip, weft_exchange_easgd, weft_exchange_hogwild;

/* Adds an exchange to what a context knows, and those that are built in. */
weft_status weft_exchange_register(weft_context *context,
                                   const weft_exchange_ops *ops) WEFT_NODISCARD;
weft_status weft_exchanges_register(weft_context *context) WEFT_NODISCARD;

/* Opens "NAME:key=value,...". ARGUMENT: a wrong name, key or value. INTERNAL: a wrong state. */
weft_status weft_exchange_open(const char *spec, const weft_exchange_site *site,
                               weft_exchange **out) WEFT_NODISCARD;
/* Checks the specification alone. */
weft_status weft_exchange_check(weft_context *context, const char *spec) WEFT_NODISCARD;
/* The same, and whether such a run can have it. What is opened at a site is looked at so, too. */
weft_status weft_exchange_fits(weft_context *context, const char *spec,
                               const weft_exchange_plan *plan) WEFT_NODISCARD;
void weft_exchange_close(weft_exchange **exchange);

/* The same for exchanges that have nothing to do there. */
weft_status weft_exchange_begin(weft_exchange *exchange) WEFT_NODISCARD;
weft_status weft_exchange_before(weft_exchange *exchange, int64_t step) WEFT_NODISCARD;
weft_status weft_exchange_ready(weft_exchange *exchange,
                                const weft_gradient *gradient) WEFT_NODISCARD;
weft_status weft_exchange_poll(weft_exchange *exchange) WEFT_NODISCARD;
weft_status weft_exchange_update(weft_exchange *exchange, int64_t step) WEFT_NODISCARD;
weft_status weft_exchange_settle(weft_exchange *exchange) WEFT_NODISCARD;
weft_status weft_exchange_after(weft_exchange *exchange, weft_exchange_turn *turn) WEFT_NODISCARD;
weft_status weft_exchange_save(weft_exchange *exchange) WEFT_NODISCARD;
weft_status weft_exchange_end(weft_exchange *exchange) WEFT_NODISCARD;
bool weft_exchange_figure_at(weft_exchange *exchange, int i, weft_series *out);
bool weft_exchange_state_at(weft_exchange *exchange, int i, weft_exchange_state *out);
/* Whether nobody begins a step before all have finished the one before. */
bool weft_exchange_is_together(const weft_exchange *exchange);
/* Whether its learners, which do not agree on it in lock step, end with the same step all the same:
 * the first one chooses it, and the exchange says so to the others. */
bool weft_exchange_ends_together(const weft_exchange *exchange);
/* Checkpoints in the middle of a run are the first learner's, but are to have what is the others'
 * own, too: after `begin`, of all learners. Then `_hand` after each step that one follows: others
 * hand theirs over, and the first one takes it. With `_state_of` it has their states; false also
 * where nothing has come of that learner. Both are collective over the ranks of a learner. */
weft_status weft_exchange_share(weft_exchange *exchange) WEFT_NODISCARD;
weft_status weft_exchange_hand(weft_exchange *exchange, int64_t step) WEFT_NODISCARD;
bool weft_exchange_state_of(weft_exchange *exchange, int learner, int i, weft_exchange_state *out);
/* Seconds that a learner waits for others that say nothing, where it would wait for `usual`: hardly
 * any when it comes and goes, and somebody wants it to go. */
double weft_exchange_limit(const weft_exchange *exchange, double usual);
bool weft_exchange_is_stopped(const weft_exchange *exchange);
/* And seconds that it waits to hear that it may go; `last`: it has taken all steps of the run. */
double weft_exchange_farewell(const weft_exchange *exchange, bool last);
/* Adds up a number over all learners, which go in lock step. */
weft_status weft_exchange_sum(weft_exchange *exchange, const char *what,
                              double *number) WEFT_NODISCARD;

/* The mean of numbers over all learners, in place. Collective over them. */
weft_status weft_exchange_mean(weft_exchange *exchange, const char *what, weft_dtype dtype,
                               void *data, int64_t count) WEFT_NODISCARD;

/* Lets the site's program tell the exchange what it listens to. */
void weft_exchange_listen(weft_exchange *exchange);
/* Lets it go on between the instructions of an instance that is none of its own. */
void weft_exchange_attend(weft_exchange *exchange, weft_instance *instance);
/* Who updates the parameters of a learner with this exchange. */
weft_update weft_exchange_updates(const weft_exchange_ops *ops);

/* --- the optimiser of a flat range --- */

/* The update of a run's optimiser for `count` parameters in a row, which are not a model's: a graph
 * with one parameter and its update, on the device that computes in the host's memory (that of the
 * store `like`, if it does; then its updates have the bits of the learner's own). For exchanges
 * that own the update, and for servers. */
typedef struct weft_flat_optimizer weft_flat_optimizer;
/* The options' clip_norm must be 0, since a range does not know the whole norm, and accumulate 1.
 */
weft_status weft_flat_optimizer_open(weft_context *context, const weft_store *like,
                                     const weft_optimizer_options *options, weft_dtype dtype,
                                     int64_t count, weft_flat_optimizer **out) WEFT_NODISCARD;
void weft_flat_optimizer_close(weft_flat_optimizer **optimizer);
/* Parameters get their next values in place. Both are [count]. */
weft_status weft_flat_optimizer_step(weft_flat_optimizer *optimizer, void *parameters,
                                     const void *gradient) WEFT_NODISCARD;
/* The next update is that of step `step` of the run, from 1, by which its rate is scheduled.
 * Without it the schedule goes by the number of updates. */
void weft_flat_optimizer_at(weft_flat_optimizer *optimizer, int64_t step);
/* The same without copies: where it reads and writes the parameters, and where there is room for a
 * gradient, [count] each; its own. The gradient may as well be anywhere else, at a multiple of its
 * numbers' size. */
void weft_flat_optimizer_rooms(weft_flat_optimizer *optimizer, void **parameters, void **gradient);
weft_status weft_flat_optimizer_run(weft_flat_optimizer *optimizer,
                                    const void *gradient) WEFT_NODISCARD;
/* What it keeps: moments ("m", "v", "momentum") as [count], their age and the step as scalars;
 * false past the end. `alike` and `like_parameters` are for the caller to set. */
bool weft_flat_optimizer_state(weft_flat_optimizer *optimizer, int i, weft_exchange_state *out);

/* registry.c: an exchange by its specification, and what stands behind its name. */
weft_status weft_exchange_find(const weft_context *context, const char *spec,
                               const weft_exchange_ops **ops,
                               const char **arguments) WEFT_NODISCARD;

/* ARGUMENT: there is none (NULL), or its learners do not come and go; says which exchange's do. */
weft_status weft_exchange_is_elastic(const weft_context *context, const char *spec,
                                     const weft_exchange_ops **ops) WEFT_NODISCARD;

#endif
