/* Parts of a step. */
#ifndef WEFT_LEARNER_LEARNER_INTERNAL_H
#define WEFT_LEARNER_LEARNER_INTERNAL_H

#include "learner/learner.h"

/* Writes the column of a model input, from sample `row` on; value: the input in this graph. Ports
 * without a column are skipped. ARGUMENT: the data have no such column. */
weft_status weft_feed_port(const weft_graph *graph, const weft_instance *instance,
                           const weft_port *port, weft_value value, const weft_batch *batch,
                           int64_t row) WEFT_NODISCARD;
/* Element i of a fetched real value. */
double weft_fetch(const weft_graph *graph, const weft_instance *instance, weft_value value,
                  int64_t i);
/* Writes the inputs of micro-batch m to the current slot of the program. */
weft_status weft_rank_feed(weft_rank *rank, const weft_batch *batch, int m) WEFT_NODISCARD;

/* Measures the costs of the graph's nodes on rank 0 and broadcasts them, so that all ranks choose
 * the same cut. */
weft_status weft_rank_measure(weft_rank *rank, double *costs) WEFT_NODISCARD;
/* unsharded_exchange.c: whether a rank of the learner lacks a part of a parameter; and the exchange
 * for such a learner, whatever the meshes of the other learners. Both are collective over its
 * ranks. */
weft_status weft_unsharded_is_needed(const weft_rank *rank, bool *out) WEFT_NODISCARD;
weft_status weft_unsharded_open(weft_rank *rank, const weft_exchange_site *site,
                                weft_exchange **out) WEFT_NODISCARD;

/* NUMERIC: the message names the rank and the instruction that caused this loss. Collective over
 * the learner. */
weft_status weft_rank_explain(weft_rank *rank, const weft_batch *batch, double loss) WEFT_NODISCARD;

#endif
