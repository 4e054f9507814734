/* Optimizers, built of graph nodes, so that they are rewritten, lowered and traced like all other
 * nodes. */
#ifndef WEFT_OPTIM_H
#define WEFT_OPTIM_H

#include "weft/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The clock of the schedule: step `step` of the run is step `at` of the schedule, and each step of
 * the run counts as `pace` steps of it. A run that goes on with other batches keeps its place in
 * the schedule and changes its pace. */
typedef struct weft_schedule_clock {
    int64_t step;
    double at, pace;
} weft_schedule_clock;

/* The part of a program that updates the parameters. */
typedef enum weft_update {
    WEFT_UPDATE_HERE,     /* the graph, which exports no gradients */
    WEFT_UPDATE_TOLD,     /* the graph, which also exports the gradients */
    WEFT_UPDATE_ELSEWHERE /* the listener that gets the exported gradients; the graph has neither
                             updates nor moments, and still counts steps */
} weft_update;

typedef struct weft_optimizer_options {
    size_t struct_size; /* sizeof(weft_optimizer_options) */
    /* "sgd", "adam", "adamw", or another registered optimizer with its keys:
     * "rmsprop:alpha=0.9,momentum=0.9" */
    const char *name;
    double lr;       /* learning rate, > 0 */
    double momentum; /* sgd: in [0, 1); 0: none */
    bool nesterov;   /* sgd: Nesterov's momentum, needs momentum > 0 */
    /* Adds weight_decay times the parameter to the gradient; adamw, lion, adafactor, muon:
     * decoupled; lamb: added to the step. */
    double weight_decay;
    double beta1, beta2; /* adam, adamw: decay rates of the moments, in [0, 1) */
    double epsilon;      /* adam, adamw: added to the denominator, > 0 */
    double clip_norm;    /* largest global norm of all gradients; 0: no clipping */
    /* Number of the learning-rate schedule, as weft_optimizer_set_schedule finds it; 0:
     * constant. */
    int schedule;
    /* The following numbers are steps of the schedule: by default those of the run. */
    weft_schedule_clock clock;
    int64_t warmup; /* steps in which the learning rate grows linearly to lr; 0: none. A schedule
                       that rises by itself, such as one-cycle, has none */
    int64_t total;  /* cosine, linear, one-cycle: step, > 0, at which the schedule ends */
    int64_t every;  /* step: steps between two drops */
    double gamma;   /* step: factor of each drop */
    double floor;   /* cosine, linear: last learning rate; plateau: the smallest */
    int64_t accumulate; /* micro-batches in a step, whose gradients are added; at least 1 */
    weft_update update; /* exported gradients are summed over micro-batches and clipped */
    /* Factors of the learning rate, "PATTERN=FACTOR,...": a parameter has the factor of the first
     * pattern (fnmatch) that matches its name, otherwise 1. With 0 it has no moments, stays as it
     * is, and does not count for clip_norm. NULL: 1 for all. */
    const char *multipliers;
    /* Keys of the schedule. plateau: patience, the measurements without a smaller loss that are
     * accepted in a row; threshold, the share of the minimum by which a loss must be below it; and
     * cooldown, the measurements after a reduction that do not count. By default 10, 1e-4, 0. */
    double schedule_keys[4];
    /* Whether each parameter that moves has a state "average/<parameter>" (WEFT_ROLE_AVERAGE), its
     * exponential moving average over the updates: average_decay, in [0, 1), times itself and the
     * rest times the updated parameter. average_rises: the decay rises to average_decay, as
     * n / (n + 9) in the update after n others. With WEFT_UPDATE_ELSEWHERE the graph has these
     * states and does not change them. */
    bool averages, average_rises;
    double average_decay;
    /* Patterns of parameters that stay as they are, "PATTERN,...": as with the multiplier 0, before
     * all multipliers. NULL: none. */
    const char *frozen;
    /* A later program of the run trains the frozen parameters, so multipliers are checked as if
     * none were frozen: one of frozen parameters alone is no error. */
    bool thaws;
} weft_optimizer_options;

/* Sets adam with lr 0.001 and the defaults of its paper, a constant schedule, and
 * WEFT_UPDATE_HERE. */
WEFT_API void weft_optimizer_options_init_size(weft_optimizer_options *options, size_t size);
#define weft_optimizer_options_init(options)                                                       \
    weft_optimizer_options_init_size(options, sizeof(*(options)))

/* Sets the schedule of the options, and its keys, from a text NAME[:key=value,...], as in "cosine"
 * or "plateau:patience=3"; the context has the names. ARGUMENT: there is no such schedule or key,
 * or a number is out of range. */
WEFT_API WEFT_NODISCARD weft_status weft_optimizer_set_schedule(const weft_context *context,
                                                                const char *text,
                                                                weft_optimizer_options *options);

/* Values of the graph that a trainer feeds or reads. */
typedef struct weft_optimizer_values {
    weft_value step;          /* state, i32: finished steps, as of weft_graph_step */
    weft_value learning_rate; /* result: the learning rate of the current step */
    /* Input: index of the micro-batch in its step, from 0; WEFT_NO_VALUE: accumulate is 1. */
    weft_value keep;
    /* State, f64: what a schedule by measurements has measured; WEFT_NO_VALUE: another schedule.
     * All ranks must make the same measurements. */
    weft_value measured;
    uint64_t room[4]; /* of later versions: 0 */
} weft_optimizer_values;

/* Adds the update of every parameter that has a gradient, in the UPDATE phase; call
 * weft_graph_differentiate first. Moments are states named "<parameter>/<moment>"; where a leaf has
 * that name already, "_" is appended. ARGUMENT: an option is out of range, and the message gives
 * the range; a pattern of `multipliers` matches no parameter; or weft_graph_differentiate was not
 * called. */
WEFT_API WEFT_NODISCARD weft_status weft_optimizer_build(weft_graph *graph,
                                                         const weft_optimizer_options *options,
                                                         weft_optimizer_values *out);

/* The graph's counter of finished steps. The first call creates it, as a state named "step", or
 * "step_" if a leaf has that name already. */
WEFT_API weft_value weft_graph_step(weft_graph *graph);

#ifdef __cplusplus
}
#endif
#endif
