/* Internals of the search for the run that reaches a target first: runs that pause, and the rule of
 * their learning rates. */
#ifndef WEFT_TRAIN_SIM_TARGET_H
#define WEFT_TRAIN_SIM_TARGET_H

#include "train/trainer.h"
#include "weft/time_to_target.h"

/* batch_rule.c: *batch: the samples of an update of a run. Sets the learning rate of the options,
 * which is meant for `base` samples (0: those of a learner), and a warm-up where it is more than
 * twice as great, unless the finalist has its own. */
weft_status weft_batch_rule(weft_context *context, const weft_finalist *finalist, int learners,
                            double base, weft_rate_rule rule, double *batch,
                            weft_train_options *options) WEFT_NODISCARD;

/* --- paused_run.c: a simulated run in a thread of its own, which runs only while it is waited for
 * --- */

typedef struct weft_paused_run weft_paused_run;

/* Pointers stay the caller's and outlive the run. */
typedef struct weft_paused_options {
    weft_context *context;
    const weft_train_options *train;
    const char *cluster, *metric; /* metric: of the target; NULL: none */
    double value;
    bool rises;            /* greater values of the metric are better */
    const weft_stop *stop; /* may be NULL */
    void (*tell)(void *user, double seconds, double share); /* after a step */
    void *user;
} weft_paused_options;

/* An evaluation. whole: of the model with which the run would end there; else the run's own, which
 * may be that of one learner. */
typedef struct weft_judgement {
    double seconds, loss, metric; /* metric: of the target, NaN: it is none of evaluations */
    bool whole;
} weft_judgement;

/* The state of a run while it pauses. */
typedef struct weft_paused_state {
    weft_target_point *points; /* steps and evaluations until now */
    size_t count, capacity;
    weft_judgement *judged; /* in the order of time */
    size_t judged_count, judged_capacity;
    double step; /* mean virtual seconds of the steps so far */
    double met;  /* see weft_pauses; 0 also of learners that wait for each other */
    int64_t total_steps;
    bool ended, failed; /* failed: its loss became NaN or infinite */
    bool reached;       /* the target, by its last point; it does not go on */
} weft_paused_state;

weft_status weft_paused_run_open(const weft_paused_options *options,
                                 weft_paused_run **out) WEFT_NODISCARD;
/* Runs on until the next step would be later than `until` virtual seconds, and evaluates there, or
 * until the run has ended or reached the target. INTERRUPTED: `stop` was set. Other errors are
 * those of weft_simulate. */
weft_status weft_paused_run_go(weft_paused_run *p, double until) WEFT_NODISCARD;
const weft_paused_state *weft_paused_run_state(const weft_paused_run *p);
/* Ends the run where it is, and frees its ranks; its state stays. */
void weft_paused_run_end(weft_paused_run *p);
void weft_paused_run_close(weft_paused_run **run);

#endif
