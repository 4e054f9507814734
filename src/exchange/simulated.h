/*
 * Who plays in a simulated run of an exchange.
 *
 * In a real run each learner opens its exchange, which speaks to the others through an endpoint. A
 * simulation has all learners in one process and virtual time (actor/sim.h): there an exchange
 * makes the same actors that it makes for a real run, learners' and others', and the simulation
 * does what they ask to be computed. An exchange that has no actors cannot be simulated.
 */
#ifndef WEFT_EXCHANGE_SIMULATED_H
#define WEFT_EXCHANGE_SIMULATED_H

#include "actor/actor.h"
#include "exchange/exchange.h"

typedef struct weft_sim_exchange weft_sim_exchange;

/* What a simulation has for them. All of it stays the caller's and outlives the cast. */
typedef struct weft_sim_exchange_options {
    size_t struct_size; /* sizeof(weft_sim_exchange_options) */
    weft_context *context;
    const weft_store *store; /* of one learner; all are alike */
    const weft_optimizer_options *optimizer;
    int learners;
    int servers;       /* as in weft_exchange_site */
    const char *codec; /* the same */
    const char *back;  /* the same */
    int64_t steps;     /* that every learner takes */
    weft_dtype dtype;
    int64_t count; /* of WEFT_ALL_PARAMETERS */
    /* [learners], [count] each. Computation number t of a learner is its step t: it reads
     * `parameters`, which all learners begin the run with, and leaves its gradient, or where the
     * exchange does not own the update (then gradients is NULL) the next parameters in their place.
     */
    void *const *parameters, *const *gradients;
    const double *weights; /* [learners]: of the samples of the computation that has ended */
} weft_sim_exchange_options;

typedef struct weft_sim_exchange_ops {
    void (*close)(weft_sim_exchange *cast); /* after the actors are gone */
    /* Actor `id`, from 0 on. */
    weft_status (*make)(weft_sim_exchange *cast, weft_actor_id id, weft_actor **out);
    /* Part i of what a learner reads in a computation and makes in it: elements [begin, begin +
     * count) of parameters and gradients; false past the last. NULL: it has what it reads when it
     * begins, and makes all at once. */
    bool (*part)(const weft_sim_exchange *cast, int i, int64_t *begin, int64_t *count);
    /* What the run has come to by now, [count]. over: nobody goes on, so what actors have kept back
     * counts, too. While the actors are there. */
    weft_status (*result)(weft_sim_exchange *cast, bool over, void *parameters);
    /* Figure i until now; false past the last. Numbers are the cast's. NULL: there are none. */
    bool (*figure)(weft_sim_exchange *cast, int i, weft_series *out);
} weft_sim_exchange_ops;

/* The head of every cast; implementations extend it, and fill it in. */
struct weft_sim_exchange {
    const weft_sim_exchange_ops *ops;
    weft_sim_exchange_options scene;
    int actors;                  /* 0 to actors - 1; of them learner i is actor */
    weft_actor_id first_learner; /* + i */
};

/* The cast of "NAME:key=value,...". ARGUMENT: as weft_exchange_open; UNSUPPORTED: this exchange has
 * no actors. */
weft_status weft_sim_exchange_open(const char *spec, const weft_sim_exchange_options *scene,
                                   weft_sim_exchange **out) WEFT_NODISCARD;
void weft_sim_exchange_close(weft_sim_exchange **cast);
/* UNSUPPORTED: the exchange has none; the message names those that have. */
weft_status weft_sim_exchange_check(const weft_context *context, const char *spec) WEFT_NODISCARD;

#endif
