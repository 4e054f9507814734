/* Inside of the exchange `server`: a learner whose updates are made by servers. */
#ifndef WEFT_EXCHANGE_PS_PS_EXCHANGE_H
#define WEFT_EXCHANGE_PS_PS_EXCHANGE_H

#include "exchange/simulated.h"
#include "exchange/shared_params.h"
#include "exchange/ps/client/local_steps.h"
#include "exchange/codec_checkpoint.h"
#include "exchange/actor_thread.h"
#include "exchange/ps/ps.h"

struct weft_ps_exchange;

/* What a range does with the mean of updates: the run's optimiser has it, or it is added. */
typedef struct weft_updater {
    weft_flat_optimizer *optimizer; /* NULL: it is added */
    weft_dtype dtype;
    int64_t count;
} weft_updater;

/* A range on a server that this learner's process runs for all. */
typedef struct weft_own_range {
    weft_updater updater;
    struct iovec *states; /* what the optimiser keeps, as it is sent */
} weft_own_range;

typedef struct weft_own_server {
    struct weft_ps_exchange *remote;
    weft_actor_thread *hosted; /* NULL: another learner runs it */
    weft_own_range *ranges;    /* [range_count]; empty where it has not this one */
} weft_own_server;

/* What the optimiser of all servers keeps, as a checkpoint has it: numbers for each parameter, or
 * one number, which is that of the first range. */
typedef struct weft_ps_exchange_state {
    char name[64];
    bool like_parameters;
    weft_type type;
    void *data;
    size_t bytes;
    bool known; /* what learners know of the parameters, where those come back compressed */
} weft_ps_exchange_state;

/* How learners that keep parameters of their own and those of the servers draw near each other:
 * `own` changes, and `force` is what the servers are to add. All are [count]. */
struct weft_ps_exchange;
typedef void (*weft_draw_fn)(const struct weft_ps_exchange *x, int learners, weft_dtype dtype,
                             int64_t count, void *own, const void *served, void *force);

typedef struct weft_ps_exchange {
    weft_exchange head;
    weft_policy policy;
    bool adds;               /* servers add what comes, without an optimiser */
    weft_draw_fn draw;       /* learners have parameters of their own. NULL: those of the servers */
    int64_t push, fetch;     /* every so many steps; fetch with `draw`: so often they meet */
    weft_local_sgd *descent; /* in between; NULL: there is nothing in between */
    char *codec, *back;      /* of updates, and of what comes back */
    int servers, range_count;
    weft_codec_checkpoint *kept; /* what codecs keep, in checkpoints */
    weft_shared_params *copies;  /* what ranks of the learner have in common */
    bool leads, ended;           /* it speaks to servers; it has left them, */
    bool stays;                  /* and is a member until it is closed */
    int64_t until;        /* as the first learner says, the step that all end with; 0: none */
    int asked;            /* steps since another one was asked to stop */
    weft_own_server *own; /* [servers] */
    weft_actor_thread *coordinator; /* of the first learner */
    weft_server_range *ranges;
    int64_t *missing;   /* of each range: elements of gradients that are not there yet */
    int64_t *whole;     /* the same, before a step */
    bool *late;         /* of each parameter that the program reads: it is still to come; NULL: all
                         * are there before a step begins */
    bool awaits;        /* some may be late */
    weft_error spoiled; /* a gradient of this step is no number, of which the loss is to tell first,
                         * since that is where it is looked for */
    weft_net_context *world;
    weft_net *net; /* of the learner; NULL: not begun */
    weft_dtype dtype;
    int64_t count;                /* of all parameters as they lie */
    void *parameters, *gradients; /* [count]: what came last, what goes next */
    void *own_parameters;         /* [count]: with `draw`, the learner's; NULL without */
    struct weft_ps_exchange_stats {
        double updates, dropped, bytes;   /* bytes: sent by learners and servers */
        double staleness[WEFT_STALENESS]; /* updates by it; the last: so much, or more */
    } figures;                            /* of all learners and servers of the run */
    weft_ps_exchange_state *states;
    int state_count;
    int64_t turn;       /* the step that is going on, or the last one: the clock of the learner */
    int64_t step;       /* the same, of the run */
    bool last;          /* the run's last step is over */
    bool fetched;       /* a checkpoint has brought the parameters themselves */
    bool resumed_known; /* it has what learners knew */
} weft_ps_exchange;

/* ARGUMENT: no such run can have such servers. */
weft_status weft_ps_exchange_fits(const weft_exchange *exchange,
                                  const weft_exchange_plan *plan) WEFT_NODISCARD;
weft_status weft_ps_exchange_sockets(const weft_exchange *exchange, const weft_exchange_plan *plan,
                                     int64_t *out) WEFT_NODISCARD;
/* cast.c: of an exchange that opens a weft_ps_exchange. */
weft_status weft_ps_exchange_simulate(const weft_exchange_ops *ops, const char *arguments,
                                      const weft_sim_exchange_options *scene,
                                      weft_sim_exchange **out) WEFT_NODISCARD;
/* updater.c: says in the options of a range, which has type and size by now, how it is updated.
 * *u stays where it is until the range is destroyed. */
weft_status weft_updater_open(weft_updater *u, bool adds, weft_context *context,
                              const weft_store *like, const weft_optimizer_options *optimizer,
                              weft_range_options *range) WEFT_NODISCARD;
void weft_updater_close(weft_updater *u);

/* ps_exchange.c: what exchanges have in common whose learners speak to servers. Whoever opens one
 * sets the policy, `adds`, push and fetch; its head is the exchange's. */
weft_status weft_ps_exchange_make_room(weft_ps_exchange *x,
                                       const weft_exchange_site *site) WEFT_NODISCARD;
/* Frees the exchange, too. */
void weft_ps_exchange_close(weft_exchange *exchange);
weft_status weft_ps_exchange_poll(weft_exchange *exchange) WEFT_NODISCARD;
/* The learner begins, with what the servers have. Only by the rank that leads. */
weft_status weft_ps_exchange_begin(weft_ps_exchange *x) WEFT_NODISCARD;
/* Until it lacks nothing, or is done; or until it does not lack that range. */
weft_status weft_ps_exchange_wait(weft_ps_exchange *x) WEFT_NODISCARD;
weft_status weft_ps_exchange_wait_for(weft_ps_exchange *x, int range) WEFT_NODISCARD;
/* pull_overlap.c: what was asked for comes while the next step goes on, parameter by parameter, or
 * where the ranks of a learner cannot do that, at once. Collective over them. */
weft_status weft_ps_exchange_open_late(weft_ps_exchange *x) WEFT_NODISCARD;
weft_status weft_ps_exchange_await(weft_ps_exchange *x) WEFT_NODISCARD;
weft_status weft_ps_exchange_needed(weft_exchange *exchange,
                                    const weft_reading *parameter) WEFT_NODISCARD;
/* All of it is there. */
weft_status weft_ps_exchange_finish(weft_exchange *exchange) WEFT_NODISCARD;
/* Nobody waits for it any more, as something else is asked for in its place. */
void weft_ps_exchange_forgo(weft_ps_exchange *x);

/* A step is over: what others hear of it, and whether this learner is to leave. */
void weft_ps_exchange_turn(weft_ps_exchange *x, weft_exchange_turn *turn);
/* The codec of what comes back, of --compress and --compress-downlink as they are given. */
const char *weft_ps_exchange_back(bool adds, const char *codec, const char *back);
/* What the servers have, into `parameters`, with the state of their updates; and the same when all
 * learners have left. Collective over all ranks of the learner, or of all learners. */
weft_status weft_ps_exchange_fetch(weft_ps_exchange *x) WEFT_NODISCARD;
/* What the codecs of this learner keep, where checkpoints look for it. */
weft_status weft_ps_exchange_keep(weft_exchange *exchange) WEFT_NODISCARD;
weft_status weft_ps_exchange_end(weft_ps_exchange *x) WEFT_NODISCARD;

/* host_process.c: of an exchange that opens a weft_ps_exchange. */
weft_status weft_ps_exchange_serve(const weft_exchange_ops *ops, const char *arguments,
                                   weft_serving *site, weft_actor **out) WEFT_NODISCARD;

/* host_threads.c: the servers are started, and all learners know where. Collective between
 * learners. */
weft_status weft_ps_exchange_start(weft_ps_exchange *x) WEFT_NODISCARD;
/* Stops those that run here. */
weft_status weft_ps_exchange_stop(weft_ps_exchange *x) WEFT_NODISCARD;

/* stats.c: what servers and learners have counted, before they go. Collective over all ranks. */
weft_status weft_ps_exchange_count(weft_ps_exchange *x) WEFT_NODISCARD;
bool weft_ps_exchange_stat(weft_exchange *exchange, int i, weft_series *out);

/* optimizer_state.c: what there is, before there are servers; out of a range's state and into it.
 */
weft_status weft_ps_exchange_list_states(weft_ps_exchange *x,
                                         const weft_exchange_site *site) WEFT_NODISCARD;
weft_status weft_ps_exchange_take_state(void *remote, int range, const void *data,
                                        size_t bytes) WEFT_NODISCARD;
size_t weft_ps_exchange_state_bytes(void *remote, int range);
weft_status weft_ps_exchange_give_state(void *remote, int range, void *data,
                                        size_t bytes) WEFT_NODISCARD;
/* Where the optimiser of a range keeps it. */
weft_status weft_ps_exchange_point_states(const weft_ps_exchange *x, int range,
                                          const weft_downlink *known,
                                          weft_own_range *own) WEFT_NODISCARD;
/* Parameters as learners know them, where that is not what they are. */
void weft_ps_exchange_know(const weft_ps_exchange *x);
/* Of the range that begins there; *out is NULL where nothing comes back compressed. gaps: what of
 * all ranges is no parameter. */
weft_status weft_ps_exchange_publish(weft_context *context, const char *back, weft_dtype dtype,
                                     int64_t count, int64_t begin, weft_gap_list gaps,
                                     weft_downlink **out) WEFT_NODISCARD;
bool weft_ps_exchange_state_at(weft_exchange *exchange, int i, weft_exchange_state *out);

#endif
