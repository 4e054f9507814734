/* Declares the registration of the built-in optimizers and learning-rate schedules. */
#ifndef WEFT_OPTIM_OPTIM_H
#define WEFT_OPTIM_OPTIM_H

#include "graph/graph.h"
#include "weft/optim.h"

/* Registers the built-in optimizers and learning-rate schedules. */
weft_status weft_optimizers_register(weft_context *context) WEFT_NODISCARD;

/* Checks an optimizer's specification NAME[:key=value,...]. *by_tensor: the update of an element
 * depends on the whole tensor, so a range of several tensors cannot be updated alone. */
weft_status weft_optimizer_check(const weft_context *context, const char *text,
                                 bool *by_tensor) WEFT_NODISCARD;

/* Finds the kind of a learning-rate schedule by its name. ARGUMENT: unknown name. */
weft_status weft_schedule_kind_of(const weft_context *context, const char *name,
                                  weft_schedule_kind *out) WEFT_NODISCARD;

#endif
