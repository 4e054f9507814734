/* Declares the pass of inference: of a graph built for training, the graph that only predicts. */
#ifndef WEFT_GRAPH_INFERENCE_H
#define WEFT_GRAPH_INFERENCE_H

#include "graph/graph.h"

/* Replaces the contents of a graph by their form for inference, in which operators that act in
 * training alone have given way (weft_op.inference). wanted[count]: the values that must stay,
 * which become those that stand for them; nodes and inputs that these do not need are left out.
 * After a failure the graph and the values are as they were. */
weft_status weft_graph_infer(weft_graph *graph, weft_value *const *wanted,
                             int count) WEFT_NODISCARD;

#endif
