/* Internals of a simulated run. */
#ifndef WEFT_TRAIN_SIM_INTERNAL_H
#define WEFT_TRAIN_SIM_INTERNAL_H

#include "exchange/simulated.h"
#include "train/sim/sim_cluster.h"
#include "base/thread_pool.h"
#include "train/trainer.h"
#include "weft/simulate.h"

/* A simulated learner. */
typedef struct weft_sim_learner {
    weft_store *store;
    void *parameters, *gradients; /* used by the exchange's actor; gradients may be NULL */
    weft_random random;           /* for the times of its steps */
    int64_t steps;                /* steps done */
    double takes, busy;           /* seconds of the current step; sum over the previous steps */
    double loss, rate;            /* of the last step; the rate may not be known yet */
} weft_sim_learner;

/* A thread that computes steps of any learner. */
typedef struct weft_sim_worker {
    weft_rank rank;
    weft_batch batch;
    weft_sim_learner *now;
    weft_dtype dtype;
} weft_sim_worker;

typedef struct weft_simulation {
    weft_trainer *job; /* its first rank has the program, and the store that is evaluated */
    weft_rank *lead;
    weft_sim_cluster cluster;
    weft_sim_exchange *exchange;
    weft_sim *sim;
    weft_thread_pool *pool;
    weft_sim_worker *workers;
    int worker_count;
    weft_sim_learner *learner;
    int learners;
    void **parameters, **gradients; /* of the learner */
    double *weights;                /* sample weights of their last steps */
    weft_dtype dtype;
    int64_t count;         /* number of parameters */
    double flops;          /* of a step of one learner */
    double *needs, *makes; /* [parts]: fractions of a step before which a part of the parameters is
                              needed, and after which the gradients of that part are ready */
    int parts;             /* parts of the exchanged parameters; 0: they are exchanged as a whole */
    int64_t epoch;         /* steps of an epoch */

    /* Progress of the run. */
    int64_t done;            /* steps of all learners */
    double samples;          /* of these steps */
    double loss, rate;       /* sums over the current round; losses are weighted by samples */
    double weight;           /* sum of the weights */
    bool due;                /* an evaluation is due before any learner continues */
    double reported_seconds; /* virtual time of the last step event, and totals at that time */
    double reported_bytes, reported_samples;
    double last;      /* virtual time of the last step */
    double first_end; /* virtual time when the first learner finished; below 0: not yet */
    double utilisation, samples_per_second;
    weft_error error;      /* of a learner's step */
    const weft_stop *stop; /* may be NULL */
} weft_simulation;

/* sim_learners.c: the learners, and the threads that compute their steps. */
weft_status weft_simulation_start_learners(weft_simulation *s) WEFT_NODISCARD;
void weft_simulation_stop_learners(weft_simulation *s);
/* Starts the step that learner `index` has requested; waits for its end. */
void weft_simulation_submit(weft_simulation *s, int index);
weft_status weft_simulation_wait(weft_simulation *s, int index) WEFT_NODISCARD;

/* sim_timing.c: when in a step each part of the parameters is needed, and its gradients are ready.
 */
weft_status weft_simulation_measure(weft_simulation *s) WEFT_NODISCARD;

/* sim_report.c: events, evaluation and results of the run. */
weft_status weft_simulation_report_start(weft_simulation *s) WEFT_NODISCARD;
/* Records a finished step of a learner. */
weft_status weft_simulation_count_step(weft_simulation *s, weft_sim_learner *p) WEFT_NODISCARD;
weft_status weft_simulation_evaluate(weft_simulation *s, bool over) WEFT_NODISCARD;
/* After the last step of all learners. */
weft_status weft_simulation_finish(weft_simulation *s) WEFT_NODISCARD;

#endif
