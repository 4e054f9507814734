/* Declares what update rules are built of. An optimizer is a file: its keys, and a rule that adds
 * the nodes which update one parameter. The nodes are functions of each element, which devices fuse
 * into one pass, so a rule holds for parts and ranges of a parameter as for all of it. */
#ifndef WEFT_OPTIM_RULE_H
#define WEFT_OPTIM_RULE_H

#include "optim/optim.h"
#include "weft/optim_ops.h"

/* The largest decay rate: below 1. */
#define WEFT_ALMOST_ONE 0.999999999

/* The update of one parameter under construction. */
struct weft_rule {
    const struct weft_optimizer *optimizer;
    weft_graph *graph;
    const weft_optimizer_options *options;
    double keys[WEFT_MOST_RULE_KEYS]; /* of the optimizer's keys, in their order */
    weft_value lr;                    /* scalar: the learning rate of the step */
    weft_value w, gradient;           /* the parameter, and the gradient that its update reads */
    /* Shared by all parameters; WEFT_NO_VALUE: not added yet. */
    weft_value age, steps, shared[2]; /* shared: of the optimizer's own */
    struct {
        double beta;
        weft_value factor;
    } corrections[WEFT_MOST_RULE_KEYS];
    int correction_count;
};

/* added_optimizer.c: optimizers and schedules that programs and plug-ins add. */
extern const struct weft_extension weft_optimizers_extension, weft_rates_extension;

typedef struct weft_optimizer {
    const char *name, *summary;
    const char *form;          /* with its keys, as in "lion[:beta1=0.9]"; NULL: it has none */
    const char *reads;         /* options of a run that it reads, see weft_entry */
    const weft_rule_key *keys; /* NULL: none */
    bool adaptive;         /* a step does not grow with the gradient: it is divided by its size */
    weft_tensor_need need; /* of the update of an element */
    void (*update)(weft_rule *rule);
} weft_optimizer;

extern const weft_optimizer weft_optimizer_sgd, weft_optimizer_adam, weft_optimizer_adamw,
    weft_optimizer_rmsprop, weft_optimizer_adagrad, weft_optimizer_adadelta, weft_optimizer_nadam,
    weft_optimizer_lion, weft_optimizer_lars, weft_optimizer_lamb, weft_optimizer_adafactor,
    weft_optimizer_muon;

/* options.c: ARGUMENT: a number of the options is out of range. */
weft_status weft_optimizer_options_check(const weft_context *context,
                                         const weft_optimizer_options *options) WEFT_NODISCARD;

/* Adds a node of the parameter's update. */
weft_value weft_rule_node(const weft_rule *r, const char *op, const weft_value *in, int count,
                          const weft_attr *attrs, int attr_count);
weft_value weft_rule_unary(const weft_rule *r, const char *op, weft_value x);
weft_value weft_rule_binary(const weft_rule *r, const char *op, weft_value a, weft_value b);
weft_value weft_rule_scale(const weft_rule *r, weft_value x, double factor);
/* A scalar of the graph's real type. */
weft_value weft_rule_number(const weft_rule *r, double value);
/* beta old + (1 - beta) x */
weft_value weft_rule_average(const weft_rule *r, weft_value old, weft_value x, double beta);

/* A state "<parameter>/<name>", which begins at zero; `_moment`: of the parameter's type. */
weft_value weft_rule_state(const weft_rule *r, const char *name, const weft_type *type);
weft_value weft_rule_moment(const weft_rule *r, const char *name);
/* The number of steps that the moments have seen before this one, i32. When learners synchronize
 * and clear the moments, this count begins anew, while the step of the run goes on. */
weft_value weft_rule_age(weft_rule *r);
/* The number of this step for the moments, from 1, as an f64 scalar. */
weft_value weft_rule_steps(weft_rule *r);
/* A scalar state that all parameters share, which begins at zero; real type f64. */
weft_value weft_rule_shared(const weft_rule *r, const char *name);
/* Converts a scalar to the graph's real type. */
weft_value weft_rule_real(const weft_rule *r, weft_value x);
/* A scalar of type f64. */
weft_value weft_rule_exact(const weft_rule *r, double value);
/* 1 / (1 - beta^t), the correction of a moment that began at zero (Adam), for the step t. */
weft_value weft_rule_correction(weft_rule *r, double beta);

/* The gradient with the L2 term weight_decay w. */
weft_value weft_rule_decayed(const weft_rule *r);
/* The parameter with decoupled weight decay (Loshchilov and Hutter 2019): (1 - lr weight_decay) w.
 */
weft_value weft_rule_shrunk(const weft_rule *r);
/* The Euclidean norm of a tensor like the parameter, a scalar: the exact sum of squares over all
 * ranks that have a part, rounded once. */
weft_value weft_rule_norm(const weft_rule *r, weft_value x);
/* A value has the same elements under another shape; `_matrix`: the first dimension by all others.
 */
weft_value weft_rule_reshaped(const weft_rule *r, weft_value x, const weft_shape *shape);
weft_value weft_rule_matrix(const weft_rule *r, weft_value x);
/* average.c: the averages of the parameters (weft_optimizer_options.averages): what the averages of
 * all parameters share; that of r->w, whose update has been added; and the count of updates. */
typedef struct weft_average_values {
    weft_value count;       /* of updates, i32; WEFT_NO_VALUE: there are no averages */
    weft_value kept, taken; /* shares of the average and of the parameter, of the real type */
} weft_average_values;
void weft_average_begin(weft_rule *r, weft_average_values *out);
void weft_average_update(const weft_rule *r, const weft_average_values *v);
void weft_average_end(const weft_rule *r, const weft_average_values *v);
/* adam.c: makes the whole update one of Adam, with decoupled weight decay or an L2 term. */
void weft_rule_adam(weft_rule *r, bool decoupled, double beta1, double beta2, double epsilon);
/* Sets the next value of the parameter to from - lr direction. */
void weft_rule_move(const weft_rule *r, weft_value from, weft_value direction);

#endif
