/* Declares the registration of the built-in optimizers and learning-rate schedules. */
#ifndef WEFT_OPTIM_OPTIM_H
#define WEFT_OPTIM_OPTIM_H

#include "graph/graph.h"
#include "weft/optim.h"
#include "weft/optim_ops.h"

/* Registers the built-in optimizers and learning-rate schedules. */
weft_status weft_optimizers_register(weft_context *context) WEFT_NODISCARD;

/* Checks an optimizer's specification NAME[:key=value,...]. */
weft_status weft_optimizer_check(const weft_context *context, const char *text,
                                 weft_tensor_need *need) WEFT_NODISCARD;

/* Elements of the state of a schedule by measurements behind those of its row: the sum of the
 * losses since the last measurement, and of their weights. */
enum { WEFT_MEASURED_LOSS, WEFT_MEASURED_WEIGHT, WEFT_MEASURED };

/* Sets factors[count] to the factors of the learning rate of parameters with these names, by the
 * options' patterns: 0 if they are frozen, else the multiplier, or 1. all_used: each pattern must
 * decide for one of them. ARGUMENT: a text is malformed, or all of them are frozen. */
weft_status weft_multipliers(const weft_optimizer_options *options, const char *const *names,
                             int count, bool all_used, double *factors) WEFT_NODISCARD;

/* weft_optimizer_build with a factor of the learning rate for each parameter that has a gradient,
 * in their order, in place of the text in `options`. */
weft_status weft_optimizer_build_with(weft_graph *graph, const weft_optimizer_options *options,
                                      const double *factors,
                                      weft_optimizer_values *out) WEFT_NODISCARD;

/* The leaf of a parameter's average (WEFT_ROLE_AVERAGE) is this prefix and its name, and that of
 * the count of updates "steps". */
#define WEFT_AVERAGE_PREFIX "average/"
/* average.c: adds the update phase that sets each parameter to its average. `trained` is the
 * training graph, which has the averages. */
weft_status weft_average_take(weft_graph *graph, const weft_graph *trained) WEFT_NODISCARD;
/* average.c: adds the update phase that moves the averages of `trained`, whose update is made
 * elsewhere, by the present parameters, to an empty graph. */
weft_status weft_average_build(weft_graph *graph, const weft_graph *trained,
                               const weft_optimizer_options *options) WEFT_NODISCARD;

#endif
