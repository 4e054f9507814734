/* Simulated exchanges: the actors of an exchange in a simulated run.
 *
 * In a real run each learner opens its exchange, which talks to the other learners through a
 * learner group. A simulation has all learners in one process and virtual time (actor/sim.h): there
 * an exchange creates the same actors as in a real run, such as learners, servers and the
 * coordinator, and the simulation performs the computations that the learners request. An exchange
 * without actors cannot be simulated. */
#ifndef WEFT_EXCHANGE_SIMULATED_H
#define WEFT_EXCHANGE_SIMULATED_H

#include "actor/actor.h"
#include "exchange/exchange.h"

typedef struct weft_sim_exchange weft_sim_exchange;

/* The simulated run. All pointers stay the caller's and outlive the simulated exchange. */
typedef struct weft_sim_exchange_options {
    size_t struct_size; /* sizeof(weft_sim_exchange_options) */
    weft_context *context;
    const weft_store *store; /* of one learner; the stores of all learners are equal */
    const weft_optimizer_options *optimizer;
    int learners;
    int servers;       /* as in weft_exchange_setup */
    const char *codec; /* as in weft_exchange_setup */
    const char *back;  /* as in weft_exchange_setup */
    int replicas;      /* as in weft_exchange_setup */
    double scale;      /* parameters for which each element stands; 0: one */
    int64_t steps;     /* number of steps of every learner */
    weft_dtype dtype;
    int64_t count; /* elements of WEFT_ALL_PARAMETERS */
    /* [learners] arrays of [count] numbers. Computation t of a learner is its step t: it reads its
     * `parameters`, which are equal in all learners at first. If the exchange owns the update, it
     * writes its gradient; otherwise `gradients` is NULL, and it writes the next parameters in
     * place. */
    void *const *parameters, *const *gradients;
    const double *weights; /* [learners]: sum of the sample weights of the last computation */
    const bool *empty;     /* [learners]: the last computation had no samples */
} weft_sim_exchange_options;

typedef struct weft_sim_exchange_ops {
    void (*close)(weft_sim_exchange *exchange); /* called after the actors are destroyed */
    /* Creates the actor with this id (0 to `actors` - 1); called again for an actor that
     * restarts. */
    weft_status (*make)(weft_sim_exchange *exchange, weft_actor_id id, weft_actor **out);
    /* The learner whose process runs the actor in a job of threads or MPI. NULL: each learner runs
     * its own actor, and there are no others. */
    int (*host)(const weft_sim_exchange *exchange, weft_actor_id id);
    /* Part i of a computation's input and output: elements [begin, begin + count) of parameters and
     * gradients; false past the last. NULL: a computation has its whole input when it begins, and
     * its whole output when it ends. */
    bool (*part)(const weft_sim_exchange *exchange, int i, int64_t *begin, int64_t *count);
    /* Gives the present result of the run, parameters[count], while the actors exist. over: no
     * learner goes on, so pending updates are applied, too. */
    weft_status (*result)(weft_sim_exchange *exchange, bool over, void *parameters);
    /* State i of a learner's exchange for a checkpoint, as weft_exchange_ops has it at the end of a
     * run; false past the end. Called after `result`; *out is valid until the next call. NULL: the
     * exchange has no state. */
    bool (*state)(weft_sim_exchange *exchange, int learner, int i, weft_exchange_state *out);
    /* Statistic i of the run so far; false past the last. The numbers stay the simulated
     * exchange's. NULL: the exchange has none. */
    bool (*figure)(weft_sim_exchange *exchange, int i, weft_series *out);
} weft_sim_exchange_ops;

/* The head of every simulated exchange; implementations extend it, and fill it in. */
struct weft_sim_exchange {
    const weft_sim_exchange_ops *ops;
    weft_sim_exchange_options sim_options;
    int actors;                  /* number of actors, with the ids 0 to actors - 1 */
    weft_actor_id first_learner; /* learner i is the actor with id first_learner + i */
    int64_t period; /* what the learners do repeats itself after so many steps; 0: after each */
};

/* Opens the simulated exchange of "NAME:key=value,...". ARGUMENT: as weft_exchange_open; or the
 * exchange has no actors. */
weft_status weft_sim_exchange_open(const char *spec, const weft_sim_exchange_options *sim_options,
                                   weft_sim_exchange **out) WEFT_NODISCARD;
void weft_sim_exchange_close(weft_sim_exchange **exchange);
/* State i of a learner for a checkpoint, called after `result`; false past the end. *out stays the
 * exchange's, and is valid until the next call. */
bool weft_sim_exchange_state_at(weft_sim_exchange *exchange, int learner, int i,
                                weft_exchange_state *out);
/* Checks that the exchange of a specification can be simulated. ARGUMENT: it has no actors; the
 * message names the exchanges that have. */
weft_status weft_sim_exchange_check(const weft_context *context, const char *spec) WEFT_NODISCARD;

#endif
