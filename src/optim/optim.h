/* Declares the registration of the built-in optimisers (sgd, adam, adamw) and learning-rate
 * schedules. */
#ifndef WEFT_OPTIM_OPTIM_H
#define WEFT_OPTIM_OPTIM_H

#include "graph/graph.h"
#include "weft/optim.h"

/* Registers the built-in optimisers and learning-rate schedules. */
weft_status weft_optimizers_register(weft_context *context) WEFT_NODISCARD;

/* Finds the kind of a learning-rate schedule by its name. ARGUMENT: unknown name. */
weft_status weft_schedule_kind_of(const weft_context *context, const char *name,
                                  weft_schedule_kind *out) WEFT_NODISCARD;

#endif
