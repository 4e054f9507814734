/*
 * Time to accuracy: which of several ways to run the same training reaches a target first.
 *
 * The runs are simulated (weft/simulate.h): they have the numbers of real runs on the real data,
 * and the times of a cluster. All begin with the same seed, so with the same weights. Successive
 * halving (Jamieson and Talwalkar 2016) keeps this cheap: all runs go on up to a virtual time, the
 * better half goes on to twice that time, and so on, until one has reached the target; the last two
 * are not halved. A run that has taken fewer samples than the best one goes on, too, if it takes
 * more in a second.
 * A run is judged by an evaluation of the model with which it would end there, the mean of its
 * learners or the parameters of its servers: by the metric of the target, then by the loss. Without
 * data to evaluate, and for the target WEFT_TRAIN_LOSS, the training loss decides. A run is not
 * left out before its learners have exchanged what they learnt. Runs that only share out the work
 * of one learner otherwise (meshes, ZeRO, schedules) are computed once, and each has a clock of its
 * own.
 */
#ifndef WEFT_TIME_TO_TARGET_H
#define WEFT_TIME_TO_TARGET_H

#include "weft/members.h"
#include "weft/simulate.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The target that is the moving mean of the training loss over a fortieth of the run, and no metric
 * of evaluations. */
#define WEFT_TRAIN_LOSS "train_loss"

/* How the learning rate follows the batch. */
typedef enum weft_rate_rule {
    WEFT_RATE_USUAL,  /* by the square root with optimizers that divide gradients by their size
                         (Malladi et al. 2022), else in proportion */
    WEFT_RATE_LINEAR, /* in proportion (Goyal et al. 2017) */
    WEFT_RATE_ROOT,   /* by the square root (Krizhevsky 2014) */
    WEFT_RATE_KEPT    /* it does not */
} weft_rate_rule;

/* One of the runs. Pointers stay the caller's. */
typedef struct weft_finalist {
    const char *name; /* differs from those of the others */
    const weft_train_options *options;
    bool own_rate; /* options->update.lr is meant for this run; else for weft_target_options.batch
                    */
} weft_finalist;

typedef struct weft_target_options {
    size_t struct_size;  /* sizeof(weft_target_options) */
    const char *cluster; /* file of the cluster, with times */
    /* A metric of evaluations (weft_report_figure), or WEFT_TRAIN_LOSS; NULL: none, and the runs
     * are compared by the losses of evaluations. */
    const char *metric;
    double value;        /* of the metric that is to be reached */
    double budget;       /* virtual seconds after which all ends; 0: with the longest run */
    int seeds;           /* 1 to WEFT_MOST_SEEDS runs of each, with seeds that follow each other */
    weft_rate_rule rule; /* of learning rates that are not a run's own */
    int64_t batch;       /* for which these are meant; 0: for the batch of a learner */
    uint64_t room[8];    /* of later versions: 0 */
} weft_target_options;
enum { WEFT_MOST_SEEDS = 3, WEFT_MOST_FINALISTS = 1024 };

/* A step of a run, or an evaluation. */
typedef struct weft_target_point {
    double seconds, samples; /* virtual time, and samples of all learners until then */
    double loss;             /* mean training loss of the step; NaN: an evaluation */
    double metric;           /* of an evaluation; NaN: a step */
} weft_target_point;

/* The end of a finalist. */
typedef struct weft_target_result {
    int finalist;        /* its number in the caller's list */
    double lr;           /* that it ran with */
    double batch;        /* samples whose gradients make an update */
    double step_seconds; /* of a step, as weft_estimate_run has it, if it has; or of the first */
    int same_as;         /* the finalist whose numbers it shares; its own number: computed itself */
    bool reached;        /* the target, with all seeds */
    double seconds, low, high; /* until then, over the seeds: mean and range; else until it ended */
    double samples;            /* until then */
    double loss;               /* mean training loss before that time, NaN: it had no step */
    double metric;             /* as held_out, of the target; NaN: there was none */
    int round;                 /* after which it was left out, from 1; 0: it was not */
    char *why; /* it was left out, cannot run, or had ended before others, as a sentence; or NULL */
    bool refused;              /* it cannot run */
    weft_target_point *points; /* [point_count], with the first seed */
    int64_t point_count;
    /* Loss of the last evaluation; NaN: there was none. The model is the one with which the run
     * would have ended there, unless it reached the target. */
    double held_out;
    double best;      /* the best value of the metric until then, the mean over the seeds */
    int64_t warmup;   /* steps of the warm-up that it ran with */
    uint64_t room[1]; /* of later versions: 0 */
} weft_target_result;

/* Where the search is. */
typedef struct weft_target_progress {
    int round, rounds;     /* from 1 */
    int running;           /* finalists that are left */
    const char *name;      /* of the one that runs now */
    double seconds, until; /* its virtual time, and where the round ends; 0: not known */
    double share;          /* of its steps */
} weft_target_progress;
typedef void (*weft_target_fn)(void *user, const weft_target_progress *progress);

/* Sets struct_size and the defaults: no target, one seed, WEFT_RATE_USUAL. */
WEFT_API void weft_target_options_init_size(weft_target_options *options, size_t size);
#define weft_target_options_init(options) weft_target_options_init_size(options, sizeof(*(options)))

/* Sets *out to results [count], the best first: those that reached the target, by their times, then
 * the others, the last to be left out first. The order of the list has no effect. Outputs that the
 * options name (checkpoint, metrics, trace) are not written. fn and stop may be NULL; once stop is
 * set, the call ends soon (INTERRUPTED). ARGUMENT: there is no such metric, or none of the
 * finalists can run (the message is of the first one). weft_target_results_free frees the results,
 * which a failure does not make. */
WEFT_API WEFT_NODISCARD weft_status weft_time_to_target(weft_context *context,
                                                        const weft_target_options *options,
                                                        const weft_finalist *finalists, int count,
                                                        const weft_stop *stop, weft_target_fn fn,
                                                        void *user, weft_target_result **out);
WEFT_API void weft_target_results_free(weft_target_result **results, int count);

#ifdef __cplusplus
}
#endif
#endif
