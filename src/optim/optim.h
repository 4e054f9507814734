/* Inside of optimisers. */
#ifndef WEFT_OPTIM_OPTIM_H
#define WEFT_OPTIM_OPTIM_H

#include "graph/graph.h"
#include "weft/optim.h"

/* The optimisers and courses of the learning rate that are built in, to what a context knows. */
weft_status weft_optimizers_register(weft_context *context) WEFT_NODISCARD;

/* A course by its name. ARGUMENT: there is none. */
weft_status weft_schedule_kind_of(const weft_context *context, const char *name,
                                  weft_schedule_kind *out) WEFT_NODISCARD;

#endif
