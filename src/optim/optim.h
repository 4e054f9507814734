/* Inside of optimisers. */
#ifndef WEFT_OPTIM_OPTIM_H
#define WEFT_OPTIM_OPTIM_H

#include "graph/graph.h"
#include "weft/optim.h"

/* The optimisers that are built in, to what a context knows. */
weft_status weft_optimizers_register(weft_context *context) WEFT_NODISCARD;

#endif
