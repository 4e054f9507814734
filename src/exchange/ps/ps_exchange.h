/* Internals of the exchanges with parameter servers: the state of one rank of a learner, and the
 * functions that its hooks share. */
#ifndef WEFT_EXCHANGE_PS_PS_EXCHANGE_H
#define WEFT_EXCHANGE_PS_PS_EXCHANGE_H

#include "exchange/shared_params.h"
#include "exchange/simulated.h"
#include "exchange/ps/client/local_steps.h"
#include "exchange/codec_checkpoint.h"
#include "exchange/actor_thread.h"
#include "exchange/ps/host/range_factory.h"
#include "exchange/ps/range/downlink.h"

/* A server of a job; one of the learners runs it as a thread of its process. */
typedef struct weft_own_server {
    weft_actor_thread *hosted; /* thread of the server; NULL: another learner runs the server */
    weft_range_factory *ranges;
} weft_own_server;

/* A state of the servers in a checkpoint: a number for each parameter, or one number, that of the
 * first range. */
typedef struct weft_ps_exchange_state {
    char name[64];
    char what[96];
    bool like_parameters;
    bool of_range; /* each range has one double, which all of its parameters have in a checkpoint */
    bool downlink; /* it is of the downlink, and older checkpoints may lack it */
    bool found;    /* with `downlink`: the loaded checkpoint had it */
    bool known;    /* it is the reference parameters of the downlink */
    double initial; /* with of_range */
    weft_type type;
    void *data;
    size_t bytes;
} weft_ps_exchange_state;

typedef struct weft_ps_exchange {
    weft_exchange head;
    weft_ps_options options;
    weft_local_sgd *descent; /* local SGD between two pulls; NULL: none */
    char *codec, *back;      /* specifications of the codecs of pushes and of the downlink */
    int servers, range_count;
    weft_segment_list segments;          /* by which the servers update the parameters */
    weft_codec_checkpoint *codec_states; /* codec state for checkpoints */
    weft_shared_params *shared;          /* parameters that ranks of the learner share */
    bool leads;    /* this rank talks to the servers, as the leader of its shards */
    bool ended;    /* it has left the servers */
    bool halts;    /* after `ended`: the leave asks all learners to end */
    bool stays;    /* after `ended` the learner remains a member until the exchange is closed */
    int64_t until; /* on the first learner: the end step that it has set; 0: none */
    int asked;     /* on another learner: steps since it was asked to stop */
    weft_own_server *own;           /* [servers] */
    weft_actor_thread *coordinator; /* thread of the coordinator, on the first learner; else NULL */
    weft_server_range *ranges;      /* [range_count]: place and codec of each range */
    int64_t *missing; /* [range_count]: gradient elements that are not ready yet in this step */
    int64_t *gradient_counts; /* [range_count]: gradient elements of a step */
    /* For each parameter that the program reads: its pull may be outstanding. NULL: no overlap, all
     * pulls end before a step begins. */
    bool *late;
    bool awaits; /* some pulls may be outstanding */
    /* Error of a gradient of this step that is not finite. `update` raises it after the check of
     * the loss, whose error has a better diagnosis. */
    weft_error spoiled;
    weft_net_context *world;
    weft_net *net; /* transport of the client; NULL: the exchange has not begun */
    weft_dtype dtype;
    int64_t count;                /* elements of all parameters, in the layout of the store */
    void *parameters, *gradients; /* [count]: last pulled; to be pushed next */
    void *own_parameters;         /* [count]: with elastic updates, the learner's own; else NULL */
    struct weft_ps_exchange_stats {
        double updates, dropped, bytes;   /* updates of servers; messages dropped; bytes sent */
        double staleness[WEFT_STALENESS]; /* histogram; the last bin counts larger ones, too */
    } figures;                            /* sums over all learners and servers of the run */
    weft_ps_exchange_state *states;
    int state_count;
    int64_t clock; /* the clock of the running or last computation (easgd: of the elastic update) */
    int64_t step;  /* the step of the run at that clock */
    bool idle;     /* easgd: no step since the last elastic update had samples */
    /* A checkpoint has put the exact parameters into the store; `before` puts the reference
     * parameters back. */
    bool has_exact_parameters;
} weft_ps_exchange;

/* The learner whose process runs a server of a job. */
static inline int weft_ps_host_of(int server, int learners)
{
    return server % learners;
}

/* The operations `fits` and `sockets` of the exchanges with servers. */
weft_status weft_ps_exchange_fits(const weft_exchange *exchange,
                                  const weft_exchange_plan *plan) WEFT_NODISCARD;
weft_status weft_ps_exchange_sockets(const weft_exchange *exchange, const weft_exchange_plan *plan,
                                     int64_t *out) WEFT_NODISCARD;
/* ps_memory.c: the operation `memory`. */
weft_status weft_ps_exchange_memory(const weft_exchange *exchange, const weft_exchange_sizes *sizes,
                                    weft_exchange_memory *out) WEFT_NODISCARD;
/* ps_memory.c: the function `least` of the actors. */
void weft_ps_exchange_least(const weft_exchange *exchange, const weft_exchange_sizes *sizes,
                            weft_exchange_least *out);
/* ps_exchange.c: allocates the common part of an exchange with servers, whose options the opener
 * has set. */
weft_status weft_ps_exchange_make_room(weft_ps_exchange *x,
                                       const weft_exchange_setup *setup) WEFT_NODISCARD;
void weft_ps_exchange_close(weft_exchange *exchange);
weft_status weft_ps_exchange_poll(weft_exchange *exchange) WEFT_NODISCARD;
/* Starts servers and client, and waits for the parameters of the servers, with which the learner
 * begins. Only leading ranks call it. */
weft_status weft_ps_exchange_begin(weft_ps_exchange *x) WEFT_NODISCARD;
/* Waits until no request is outstanding, or the learner is done; `_for`: until the parameters of
 * that range have arrived. */
weft_status weft_ps_exchange_wait(weft_ps_exchange *x) WEFT_NODISCARD;
weft_status weft_ps_exchange_wait_for(weft_ps_exchange *x, int range) WEFT_NODISCARD;
/* pull_overlap.c: overlaps pulls with the next step, parameter by parameter. `_open_late` checks
 * whether the ranks of the learner can do that. `_await`, called when pulls are outstanding, makes
 * `_needed` wait for each parameter; without overlap it waits for all pulls. Collective over the
 * ranks. */
weft_status weft_ps_exchange_open_late(weft_ps_exchange *x) WEFT_NODISCARD;
weft_status weft_ps_exchange_begin_pull_overlap(weft_ps_exchange *x) WEFT_NODISCARD;
weft_status weft_ps_exchange_needed(weft_exchange *exchange,
                                    const weft_reading *parameter) WEFT_NODISCARD;
/* Waits for all outstanding pulls, and writes the parameters into the store. */
weft_status weft_ps_exchange_wait_all_pulls(weft_exchange *exchange) WEFT_NODISCARD;
/* Makes `_needed` wait no longer, since another request replaces the outstanding pulls. */
void weft_ps_exchange_skip_overlap(weft_ps_exchange *x);

/* After a step: sets the statistics of heartbeats, and in `result` the end step and whether this
 * learner is to leave. */
void weft_ps_exchange_after_step(weft_ps_exchange *x, weft_step_result *result);
/* Before a checkpoint: pushes the gradients that are added up, pulls the servers' parameters into
 * `parameters`, with their optimizer state, and stores the codec state of this learner. Collective
 * over all ranks of the learner. */
weft_status weft_ps_exchange_save(weft_ps_exchange *x) WEFT_NODISCARD;
/* Pushes the gradients that are added up, and stores the codec state of this learner, for the
 * checkpoint of another one. */
weft_status weft_ps_exchange_store_state(weft_exchange *exchange) WEFT_NODISCARD;
/* At the end of the run: leaves the servers. Pulls the final parameters and states, unless this
 * learner leaves alone while others go on. Collective over all learners. */
weft_status weft_ps_exchange_end(weft_ps_exchange *x) WEFT_NODISCARD;

/* host_threads.c: starts the coordinator and servers of a job as threads, sends all learners the
 * coordinator's address, and starts the client. An elastic learner starts only its client.
 * Collective between learners. */
weft_status weft_ps_exchange_start(weft_ps_exchange *x) WEFT_NODISCARD;
/* Stops the client, and the servers and the coordinator that this process runs. */
weft_status weft_ps_exchange_stop(weft_ps_exchange *x) WEFT_NODISCARD;

/* stats.c: ends this process's servers, and sums the statistics of all servers and learners.
 * Collective over all ranks. */
weft_status weft_ps_exchange_count(weft_ps_exchange *x) WEFT_NODISCARD;
bool weft_ps_exchange_stat(weft_exchange *exchange, int i, weft_series *out);

/* server_state.c: `_list_states` lists the state of the servers before these exist.
 * `_take_state` takes the state of a range from a server, `_give_state` writes it for a server. */
weft_status weft_ps_exchange_list_states(weft_ps_exchange *x, weft_context *context,
                                         const weft_store *store,
                                         const weft_optimizer_options *optimizer) WEFT_NODISCARD;
weft_status weft_ps_exchange_take_state(void *ps, int range, const void *data,
                                        size_t bytes) WEFT_NODISCARD;
size_t weft_ps_exchange_state_bytes(void *ps, int range);
weft_status weft_ps_exchange_give_state(void *ps, int range, void *data,
                                        size_t bytes) WEFT_NODISCARD;
/* Copies the reference parameters of a compressed downlink into `parameters`. */
void weft_ps_exchange_know(const weft_ps_exchange *x);
bool weft_ps_exchange_state_at(weft_exchange *exchange, int i, weft_exchange_state *out);

#endif
