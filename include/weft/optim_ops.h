/*
 * The interface between Weft and the implementations of optimizers, for programs and plug-ins that
 * add one (weft/registry.h, weft/plugin.h: an entry of kind WEFT_KIND_OPTIMIZER whose `ops` is a
 * weft_optimizer_ops).
 *
 * The `form` of the entry is its name with its keys, as in "lion[:beta1=0.9]", for help. Its
 * `reads` are the options of a run that it reads, of those that not all optimizers read, as in
 * "weight-decay,momentum"; an option that it does not read is refused. The functions keep no state,
 * and several threads call them at once, with different graphs.
 */
#ifndef WEFT_OPTIM_OPS_H
#define WEFT_OPTIM_OPS_H

#include "weft/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A number that an optimizer takes as NAME:key=value. */
typedef struct weft_rule_key {
    const char *name; /* NULL ends the list */
    double initial;   /* the default */
    double low, high; /* inclusive bounds */
    bool integer;     /* the value is a whole number; for a flag 0 or 1 */
} weft_rule_key;

enum { WEFT_MOST_RULE_KEYS = 8 };

/* The part of a tensor that the update of one of its elements reads: the element alone, the norm of
 * the tensor, or its rows and columns. Ways to train that keep parts of tensors apart refuse
 * optimizers that need more than they have. */
typedef enum weft_tensor_need {
    WEFT_NEEDS_ELEMENT,
    WEFT_NEEDS_NORM,
    WEFT_NEEDS_MATRIX
} weft_tensor_need;

typedef struct weft_rule weft_rule; /* the update of one parameter under construction */

/* The values from which the update of one parameter is made. */
typedef struct weft_rule_values {
    weft_graph *graph;
    weft_value parameter, gradient; /* or the part of them that this rank updates */
    weft_value learning_rate;       /* scalar: of this step */
    const double *keys;             /* of the optimizer's keys, in their order */
    /* Options of the run, if `reads` has weight-decay and momentum. */
    double weight_decay, momentum;
} weft_rule_values;

typedef struct weft_optimizer_ops {
    size_t struct_size;        /* sizeof(weft_optimizer_ops) */
    const weft_rule_key *keys; /* at most WEFT_MOST_RULE_KEYS; NULL: none */
    weft_tensor_need need;
    /* Adds the nodes that update one parameter, of operators that treat each element alone, of
     * services->rule_moment for what is kept from step to step, and at the end
     * services->rule_move. */
    void (*update)(weft_rule *rule, const weft_rule_values *values);
} weft_optimizer_ops;

#ifdef __cplusplus
}
#endif
#endif
