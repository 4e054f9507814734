/* Declares the random numbers of the operator stochastic_round, which all devices draw alike. */
#ifndef WEFT_DEVICE_ROUNDING_H
#define WEFT_DEVICE_ROUNDING_H

#include "device/device.h"

/* The position in the whole tensor of element i of a node. *run: so many elements from i on have
 * positions that follow each other. */
int64_t weft_round_position(const weft_graph *graph, const weft_node *node, int64_t i,
                            int64_t *run);
/* The key of a node's random numbers. Position p has bits 16 (p % 2) and above of word p % 8 / 2 of
 * the block p / 8 of weft_philox, with the step above the block. */
uint64_t weft_round_key(const weft_node *node);

#endif
