/* Internals of the exchanges with parameter servers: a learner whose updates are made by
 * servers. */
#ifndef WEFT_EXCHANGE_PS_PS_EXCHANGE_H
#define WEFT_EXCHANGE_PS_PS_EXCHANGE_H

#include "exchange/shared_params.h"
#include "exchange/simulated.h"
#include "exchange/ps/client/local_steps.h"
#include "exchange/codec_checkpoint.h"
#include "exchange/actor_thread.h"
#include "exchange/ps/host/range_factory.h"

/* A server that this learner's process runs. */
typedef struct weft_own_server {
    weft_actor_thread *hosted; /* NULL: another learner runs it */
    weft_range_factory *ranges;
} weft_own_server;

/* Optimizer state of all servers in a checkpoint: a number for each parameter, or one number, that
 * of the first range. */
typedef struct weft_ps_exchange_state {
    char name[64];
    bool like_parameters;
    weft_type type;
    void *data;
    size_t bytes;
    bool known; /* reference parameters of a compressed downlink */
} weft_ps_exchange_state;

typedef struct weft_ps_exchange {
    weft_exchange head;
    weft_ps_options options;
    weft_local_sgd *descent; /* local SGD between two pulls; NULL: none */
    char *codec, *back;      /* of pushes, and of pulls (downlink) */
    int servers, range_count;
    weft_codec_checkpoint *codec_states; /* codec state for checkpoints */
    weft_shared_params *shared;          /* parameters that ranks of the learner share */
    bool leads, ended;                   /* this rank talks to the servers; it has left them, */
    bool stays;                          /* and remains a member until the exchange is closed */
    int64_t until;                  /* the end step, as the first learner has set it; 0: none */
    int asked;                      /* steps since this learner, not the first, was asked to stop */
    weft_own_server *own;           /* [servers] */
    weft_actor_thread *coordinator; /* of the first learner */
    weft_server_range *ranges;
    int64_t *missing;         /* of each range: gradient elements that are not ready yet */
    int64_t *gradient_counts; /* the same, before a step */
    bool *late;  /* of each parameter that the program reads: its pull may be outstanding; NULL:
                    pulls end before a step begins */
    bool awaits; /* some pulls may be outstanding */
    weft_error spoiled; /* a gradient of this step is not finite; the loss is checked first, whose
                           error has the diagnosis */
    weft_net_context *world;
    weft_net *net; /* of the learner; NULL: not begun */
    weft_dtype dtype;
    int64_t count;                /* of all parameters, in the layout of the store */
    void *parameters, *gradients; /* [count]: last pull, next push */
    void *own_parameters;         /* [count]: with an elastic update, the learner's; NULL without */
    struct weft_ps_exchange_stats {
        double updates, dropped, bytes;   /* bytes: sent by learners and servers */
        double staleness[WEFT_STALENESS]; /* histogram; the last: that or more */
    } figures;                            /* of all learners and servers of the run */
    weft_ps_exchange_state *states;
    int state_count;
    int64_t turn;              /* the running or last step: the clock of the learner */
    int64_t step;              /* the same, of the run */
    bool has_exact_parameters; /* a checkpoint has put the exact parameters in place */
    bool resumed_known;        /* a checkpoint had the reference parameters */
} weft_ps_exchange;

/* ARGUMENT: the run cannot have such servers. */
weft_status weft_ps_exchange_fits(const weft_exchange *exchange,
                                  const weft_exchange_plan *plan) WEFT_NODISCARD;
weft_status weft_ps_exchange_sockets(const weft_exchange *exchange, const weft_exchange_plan *plan,
                                     int64_t *out) WEFT_NODISCARD;
/* ps_exchange.c: common part of exchanges with servers. The opener sets the options; `head` is
 * the exchange's. */
weft_status weft_ps_exchange_make_room(weft_ps_exchange *x,
                                       const weft_exchange_site *site) WEFT_NODISCARD;
/* Frees the exchange, too. */
void weft_ps_exchange_close(weft_exchange *exchange);
weft_status weft_ps_exchange_poll(weft_exchange *exchange) WEFT_NODISCARD;
/* The learner begins with the parameters of the servers. Only by the leading rank. */
weft_status weft_ps_exchange_begin(weft_ps_exchange *x) WEFT_NODISCARD;
/* Waits until nothing is outstanding, or the learner is done; `_for`: until that range is there. */
weft_status weft_ps_exchange_wait(weft_ps_exchange *x) WEFT_NODISCARD;
weft_status weft_ps_exchange_wait_for(weft_ps_exchange *x, int range) WEFT_NODISCARD;
/* pull_overlap.c: overlaps pulls with the next step, parameter by parameter; where the ranks of a
 * learner cannot do that, waits for all pulls. Collective over them. */
weft_status weft_ps_exchange_open_late(weft_ps_exchange *x) WEFT_NODISCARD;
weft_status weft_ps_exchange_await(weft_ps_exchange *x) WEFT_NODISCARD;
weft_status weft_ps_exchange_needed(weft_exchange *exchange,
                                    const weft_reading *parameter) WEFT_NODISCARD;
/* Waits for all outstanding pulls. */
weft_status weft_ps_exchange_finish(weft_exchange *exchange) WEFT_NODISCARD;
/* Disarms the waiting: another request replaces the outstanding pulls. */
void weft_ps_exchange_forgo(weft_ps_exchange *x);

/* After a step: statistics for heartbeats, the end step, and whether this learner is to leave. */
void weft_ps_exchange_turn(weft_ps_exchange *x, weft_exchange_turn *turn);
/* Before a checkpoint: stores the codec state of this learner, and pulls the servers' parameters
 * into `parameters`, with the state of their updates. Collective over all ranks of the learner. */
weft_status weft_ps_exchange_save(weft_ps_exchange *x) WEFT_NODISCARD;
/* Stores the codec state of this learner for a checkpoint. */
weft_status weft_ps_exchange_store_state(weft_exchange *exchange) WEFT_NODISCARD;
/* At the end of the run: leaves the servers, with the final parameters and states if all learners
 * have left. Collective over all learners. */
weft_status weft_ps_exchange_end(weft_ps_exchange *x) WEFT_NODISCARD;

/* host_threads.c: starts the servers and sends all learners the coordinator's address. Collective
 * between learners. */
weft_status weft_ps_exchange_start(weft_ps_exchange *x) WEFT_NODISCARD;
/* Stops the servers of this process. */
weft_status weft_ps_exchange_stop(weft_ps_exchange *x) WEFT_NODISCARD;

/* stats.c: sums the statistics of servers and learners before they end. Collective over all
 * ranks. */
weft_status weft_ps_exchange_count(weft_ps_exchange *x) WEFT_NODISCARD;
bool weft_ps_exchange_stat(weft_exchange *exchange, int i, weft_series *out);

/* optimizer_state.c: lists the state before there are servers; takes it from a range and gives
 * it. */
weft_status weft_ps_exchange_list_states(weft_ps_exchange *x, weft_context *context,
                                         const weft_store *store,
                                         const weft_optimizer_options *optimizer) WEFT_NODISCARD;
weft_status weft_ps_exchange_take_state(void *ps, int range, const void *data,
                                        size_t bytes) WEFT_NODISCARD;
size_t weft_ps_exchange_state_bytes(void *ps, int range);
weft_status weft_ps_exchange_give_state(void *ps, int range, void *data,
                                        size_t bytes) WEFT_NODISCARD;
/* Sets the parameters to the reference parameters of a compressed downlink. */
void weft_ps_exchange_know(const weft_ps_exchange *x);
bool weft_ps_exchange_state_at(weft_exchange *exchange, int i, weft_exchange_state *out);

#endif
