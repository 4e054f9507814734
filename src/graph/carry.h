/* Declares the pass by which recurrent states carry over from batch to batch. */
#ifndef WEFT_GRAPH_CARRY_H
#define WEFT_GRAPH_CARRY_H

#include "graph/graph.h"

/* Gives each recurrence of the graph (weft_op.carried) that begins with zeros the states of a leaf
 * instead. values[count] are mapped to those of the new graph. Before weft_graph_differentiate,
 * since no gradient goes through a leaf: back-propagation is truncated to a batch. UNSUPPORTED: the
 * graph has no recurrence, or one that begins with the last position. */
weft_status weft_graph_carry(weft_graph *graph, weft_value *const *values,
                             int count) WEFT_NODISCARD;
/* After the update is built: assigns these leaves the last states, in the update phase, since the
 * gradients read the first ones. */
weft_status weft_graph_carry_next(weft_graph *graph) WEFT_NODISCARD;

#endif
