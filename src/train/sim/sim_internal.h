/* Inside of a simulated run. */
#ifndef WEFT_TRAIN_SIM_INTERNAL_H
#define WEFT_TRAIN_SIM_INTERNAL_H

#include "exchange/simulated.h"
#include "train/sim/sim_cluster.h"
#include "base/thread_pool.h"
#include "train/trainer.h"
#include "weft/simulate.h"

/* One learner of the run. */
typedef struct weft_sim_learner {
    weft_store *store;
    void *parameters, *gradients; /* what the exchange reads and writes; gradients may be NULL */
    weft_random random;           /* of how long its steps take */
    int64_t steps;                /* that it has done */
    double takes, busy;           /* the step that goes on; seconds spent in those before */
    double loss, rate;            /* of the last step; the rate may not be known yet */
} weft_sim_learner;

/* A thread that computes the steps of one learner after another. */
typedef struct weft_sim_worker {
    weft_rank rank;
    weft_batch batch;
    weft_sim_learner *now;
    weft_dtype dtype;
} weft_sim_worker;

typedef struct weft_simulation {
    weft_trainer *job; /* whose first rank has the program, and the store that is evaluated */
    weft_rank *lead;
    weft_sim_cluster cluster;
    weft_sim_exchange *exchange;
    weft_sim *sim;
    weft_thread_pool *pool;
    weft_sim_worker *workers;
    int worker_count;
    weft_sim_learner *learner;
    int learners;
    void **parameters, **gradients; /* those of the learners */
    double *weights;                /* of the samples of their last steps */
    weft_dtype dtype;
    int64_t count;         /* of all parameters */
    double flops;          /* of a step of a learner */
    double *needs, *makes; /* [parts]: shares of a step before which a part of the parameters must
                            * be there, and after which that part of the gradients is */
    int parts;             /* of what learners exchange; 0: all is one */
    int64_t epoch;         /* steps in an epoch */

    /* What has happened. */
    int64_t done;      /* steps of all learners */
    double samples;    /* of these */
    double loss, rate; /* sums over those of this round; of losses by the weights of samples, */
    double weight;     /* which come to this */
    bool due;          /* to be evaluated, before anybody goes on */
    double told;       /* virtual seconds when a step was told of last, and by then */
    double told_bytes, told_samples;
    double last;      /* virtual seconds when the last step was done */
    double first_end; /* when the first learner had done its steps; below 0: none has */
    double utilisation, samples_per_second;
    weft_error error;      /* of a learner's step, in its own words */
    const weft_stop *stop; /* NULL: nobody can stop it */
} weft_simulation;

/* sim_learners.c: learners, and the threads that compute for them. */
weft_status weft_simulation_start_learners(weft_simulation *s) WEFT_NODISCARD;
void weft_simulation_stop_learners(weft_simulation *s);
/* Begins what learner `index` has asked for, and waits until it is there. */
void weft_simulation_submit(weft_simulation *s, int index);
weft_status weft_simulation_wait(weft_simulation *s, int index) WEFT_NODISCARD;

/* sim_timing.c: when in a step parts of the parameters are read, and parts of the gradients are
 * there.
 */
weft_status weft_simulation_measure(weft_simulation *s) WEFT_NODISCARD;

/* sim_report.c: what is said of the run, and what is kept of it. */
weft_status weft_simulation_report_start(weft_simulation *s) WEFT_NODISCARD;
/* A step of a learner is done. */
weft_status weft_simulation_count_step(weft_simulation *s, weft_sim_learner *p) WEFT_NODISCARD;
weft_status weft_simulation_evaluate(weft_simulation *s, bool over) WEFT_NODISCARD;
/* After the last step of all. */
weft_status weft_simulation_finish(weft_simulation *s) WEFT_NODISCARD;

#endif
