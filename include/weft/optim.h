/* Optimisers, as nodes of the graph: they are rewritten, lowered and traced like all others. */
#ifndef WEFT_OPTIM_H
#define WEFT_OPTIM_H

#include "weft/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum weft_schedule_kind {
    WEFT_SCHEDULE_CONSTANT,
    WEFT_SCHEDULE_STEP,  /* times gamma every `every` steps */
    WEFT_SCHEDULE_COSINE /* half a cosine from lr down to floor at step total */
} weft_schedule_kind;

/* The part of the program that updates the parameters. */
typedef enum weft_update {
    WEFT_UPDATE_HERE,     /* the graph */
    WEFT_UPDATE_TOLD,     /* the graph, which also exports the gradients */
    WEFT_UPDATE_ELSEWHERE /* the listener that gets the gradients; the graph counts steps all the
                             same */
} weft_update;

typedef struct weft_optimizer_options {
    size_t struct_size;  /* sizeof(weft_optimizer_options) */
    const char *name;    /* "sgd", "adam" or "adamw" */
    double lr;           /* learning rate, > 0 */
    double momentum;     /* sgd, in [0, 1) */
    bool nesterov;       /* sgd */
    double weight_decay; /* sgd, adam: added to the gradient; adamw: decoupled */
    double beta1, beta2; /* adam, in [0, 1) */
    double epsilon;      /* adam, > 0 */
    double clip_norm;    /* largest global norm of the gradients; 0: no clipping */
    weft_schedule_kind schedule;
    int64_t warmup;     /* steps of linear growth */
    int64_t total;      /* cosine: steps until floor */
    int64_t every;      /* step: steps between drops */
    double gamma;       /* step: factor of a drop */
    double floor;       /* cosine: last learning rate */
    int64_t accumulate; /* micro-batches in a step, at least 1 */
    weft_update
        update; /* gradients are exported summed and clipped, see weft_graph_export_gradient */
} weft_optimizer_options;

/* adam, lr 0.001 and the published defaults. */
WEFT_API void weft_optimizer_options_init(weft_optimizer_options *options);

/* Values that a trainer feeds or reads. */
typedef struct weft_optimizer_values {
    weft_value step;          /* state, i32: finished steps; see weft_graph_step */
    weft_value learning_rate; /* of the current step */
    weft_value keep; /* input: 0 for the first micro-batch of a step, else 1; WEFT_NO_VALUE without
      accumulation */
} weft_optimizer_values;

/* Adds the update of every parameter that has a gradient, in the UPDATE phase; call
 * weft_graph_differentiate first. States are named "<parameter>/<moment>"; if a leaf has that name
 * already, "_" is appended. ARGUMENT: an option is out of range; the message gives the range. */
WEFT_API WEFT_NODISCARD weft_status weft_optimizer_build(weft_graph *graph,
                                                         const weft_optimizer_options *options,
                                                         weft_optimizer_values *out);

/* The number of finished steps of a graph, a state that is created on the first call: "step", or
 * "step_" if a leaf has that name already. */
WEFT_API weft_value weft_graph_step(weft_graph *graph);

#ifdef __cplusplus
}
#endif
#endif
