/* Internals of a simulated run: its state, the learners that really compute their steps, and the
 * reports. */
#ifndef WEFT_TRAIN_SIM_INTERNAL_H
#define WEFT_TRAIN_SIM_INTERNAL_H

#include "exchange/simulated.h"
#include "cost/cluster.h"
#include "train/estimate/learner_time.h"
#include "train/sim/overlap.h"
#include "train/sim/thread_pool.h"
#include "train/trainer.h"
#include "weft/simulate.h"

/* A simulated learner. */
typedef struct weft_sim_learner {
    weft_store *store;
    void *parameters, *gradients; /* buffers of the exchange's actor; gradients may be NULL */
    weft_random random;           /* for the times of its steps */
    int64_t steps;                /* steps done */
    double samples;               /* of these steps */
    double takes, busy;           /* virtual seconds of the current step, and of all steps before */
    double loss, rate;            /* loss and learning rate of the last step */
} weft_sim_learner;

/* A thread that computes steps, each for any of the learners. */
typedef struct weft_sim_worker {
    weft_rank rank; /* a clone of the simulation's first rank */
    weft_batch batch;
    weft_sim_learner *now; /* the learner whose step it computes */
    weft_dtype dtype;
} weft_sim_worker;

typedef struct weft_simulation {
    weft_trainer *job;
    weft_rank *lead; /* the job's only real rank: it has the program and the store to evaluate */
    weft_cluster cluster;
    weft_site site;              /* of a cluster with times of kernels: its learners are placed */
    weft_placed_learners placed; /* `learners` 0: they are not, and the cluster has their times */
    weft_placed_actors at;
    weft_sim_exchange *exchange;
    weft_sim *sim;
    weft_thread_pool *pool;
    weft_sim_worker *workers;
    int worker_count;
    weft_sim_learner *learner;
    int learners;
    void **parameters, **gradients; /* [learners]: their buffers; gradients NULL: not exported */
    double *weights;                /* [learners]: sums of sample weights of their last steps */
    bool *empty;                    /* [learners]: their last steps had no samples */
    weft_dtype dtype;
    int64_t count;         /* number of parameters */
    weft_overlapped step;  /* of one learner */
    double *needs, *makes; /* [parts]: fractions of a step before which a part of the parameters is
                              needed, and after which the gradients of that part are ready */
    int parts; /* parts (ranges) of the exchanged parameters; 0: they are exchanged as a whole */
    int64_t epoch; /* steps of an epoch */

    /* Progress of the run. */
    int64_t done;            /* number of steps that all learners together have finished */
    double samples;          /* of these steps */
    double loss, rate;       /* sums over the current round: losses times weights; learning rates */
    double weight;           /* sum of the sample weights of the round */
    weft_watch watch;        /* losses since the last evaluation */
    bool due;                /* an evaluation is due before any learner continues */
    double reported_seconds; /* virtual time of the last step event, and totals at that time */
    double reported_bytes, reported_samples;
    double last;        /* virtual time of the last step, and at the end of the last message */
    double rated_until; /* virtual time at which the following two were found; below 0: not yet */
    double utilisation, samples_per_second;
    weft_error error;          /* of a learner's step */
    const weft_stop *stop;     /* may be NULL */
    const weft_pauses *pauses; /* NULL: none */
    double met; /* when what learners send until their first meeting has arrived; INFINITY: they
                   have not sent it yet */
} weft_simulation;

/* simulate.c: weft_simulate, with pauses (NULL: none). */
weft_status weft_simulate_paused(weft_context *context, const weft_simulate_options *options,
                                 const weft_stop *stop, const weft_pauses *pauses, weft_event_fn fn,
                                 void *user) WEFT_NODISCARD;

/* synchronous.c: simulates learners that wait for each other, or one learner, whose ranks do: they
 * run as threads, with the numbers of a real run, and each step takes the time that is estimated
 * for it. weft_learners_wait: whether learners of an exchange (NULL: one learner) are simulated so.
 */
weft_status weft_learners_wait(weft_context *context, const char *exchange,
                               bool *out) WEFT_NODISCARD;
/* Sets the number of ranks of options that have one alone: as many as a cluster has machines, with
 * an exchange, or else those of the mesh. */
weft_status weft_simulate_ranks(const char *path, weft_train_options *options) WEFT_NODISCARD;
weft_status weft_simulate_synchronous(weft_context *context, const weft_simulate_options *given,
                                      const weft_stop *stop, const weft_pauses *pauses,
                                      weft_event_fn fn, void *user) WEFT_NODISCARD;
weft_status weft_simulate_synchronous_check(weft_context *context,
                                            const weft_simulate_options *given) WEFT_NODISCARD;

/* sim_learners.c: creates the learners, and the threads that compute their steps. */
weft_status weft_simulation_start_learners(weft_simulation *s) WEFT_NODISCARD;
void weft_simulation_stop_learners(weft_simulation *s);
/* _submit has a thread compute the next step of learner `index`; _wait waits for its end. */
void weft_simulation_submit(weft_simulation *s, int index);
weft_status weft_simulation_wait(weft_simulation *s, int index) WEFT_NODISCARD;

/* sim_report.c: events, evaluation and results of the run. */
weft_status weft_simulation_report_start(weft_simulation *s) WEFT_NODISCARD;
/* Records a finished step of a learner; reports a step event at the end of each round. */
weft_status weft_simulation_count_step(weft_simulation *s, weft_sim_learner *p) WEFT_NODISCARD;
weft_status weft_simulation_evaluate(weft_simulation *s, bool over) WEFT_NODISCARD;
/* Evaluates what the run would end with now, and pauses it until it may go on to `next`. */
weft_status weft_simulation_pause(weft_simulation *s, double next) WEFT_NODISCARD;
/* Summarizes what there is of a run that was asked to stop; INTERRUPTED. */
weft_status weft_simulation_give_up(weft_simulation *s) WEFT_NODISCARD;
/* Evaluates, saves and summarizes the run, after the last step of all learners. */
weft_status weft_simulation_finish(weft_simulation *s) WEFT_NODISCARD;

#endif
