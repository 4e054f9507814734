/* Simulated exchanges: the actors of an exchange in a simulated run.
 *
 * In a real run each learner opens its exchange, which talks to the others through a learner group.
 * A simulation has all learners in one process and virtual time (actor/sim.h): there an exchange
 * creates the same actors as in a real run, those of learners and others, and the simulation
 * performs the computations that they request. An exchange without actors cannot be simulated. */
#ifndef WEFT_EXCHANGE_SIMULATED_H
#define WEFT_EXCHANGE_SIMULATED_H

#include "actor/actor.h"
#include "exchange/exchange.h"

typedef struct weft_sim_exchange weft_sim_exchange;

/* The simulated run. All of it stays the caller's and outlives the simulated exchange. */
typedef struct weft_sim_exchange_options {
    size_t struct_size; /* sizeof(weft_sim_exchange_options) */
    weft_context *context;
    const weft_store *store; /* of one learner; all are equal */
    const weft_optimizer_options *optimizer;
    int learners;
    int servers;       /* as in weft_exchange_site */
    const char *codec; /* the same */
    const char *back;  /* the same */
    int64_t steps;     /* of every learner */
    weft_dtype dtype;
    int64_t count; /* of WEFT_ALL_PARAMETERS */
    /* [learners], [count] each. Computation t of a learner is its step t: it reads `parameters`,
     * which are equal in all learners at first, and writes its gradient or, if the exchange does
     * not own the update (then gradients is NULL), the next parameters in place. */
    void *const *parameters, *const *gradients;
    const double *weights; /* [learners]: of the samples of the last computation */
} weft_sim_exchange_options;

typedef struct weft_sim_exchange_ops {
    void (*close)(weft_sim_exchange *exchange); /* after the actors are destroyed */
    /* Creates actor `id`, from 0 on. */
    weft_status (*make)(weft_sim_exchange *exchange, weft_actor_id id, weft_actor **out);
    /* Part i of a computation's input and output: elements [begin, begin + count) of parameters and
     * gradients; false past the last. NULL: input is complete at the beginning, and output at the
     * end. */
    bool (*part)(const weft_sim_exchange *exchange, int i, int64_t *begin, int64_t *count);
    /* The result of the run by now, [count]. over: no learner goes on, so pending updates count,
     * too. While the actors exist. */
    weft_status (*result)(weft_sim_exchange *exchange, bool over, void *parameters);
    /* State i of a learner's exchange for a checkpoint, as weft_exchange_ops has it at the end of a
     * run; false past the end. After `result`; valid until the next call. NULL: there is none. */
    bool (*state)(weft_sim_exchange *exchange, int learner, int i, weft_exchange_state *out);
    /* Statistic i until now; false past the last. The numbers are the simulated exchange's. NULL:
     * none. */
    bool (*figure)(weft_sim_exchange *exchange, int i, weft_series *out);
} weft_sim_exchange_ops;

/* The head of every simulated exchange; implementations extend it, and fill it in. */
struct weft_sim_exchange {
    const weft_sim_exchange_ops *ops;
    weft_sim_exchange_options sim_options;
    int actors;                  /* ids 0 to actors - 1; learner i is actor */
    weft_actor_id first_learner; /* + i */
};

/* Opens the simulated exchange of "NAME:key=value,...". ARGUMENT: as weft_exchange_open; or this
 * exchange has no actors. */
weft_status weft_sim_exchange_open(const char *spec, const weft_sim_exchange_options *sim_options,
                                   weft_sim_exchange **out) WEFT_NODISCARD;
void weft_sim_exchange_close(weft_sim_exchange **exchange);
/* State i of a learner for a checkpoint, after `result`; valid until the next call, and then the
 * exchange's. false: past the end. */
bool weft_sim_exchange_state_at(weft_sim_exchange *exchange, int learner, int i,
                                weft_exchange_state *out);
/* ARGUMENT: the exchange has no actors; the message names those that have. */
weft_status weft_sim_exchange_check(const weft_context *context, const char *spec) WEFT_NODISCARD;

#endif
