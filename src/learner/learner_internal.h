/* What a step is made of. */
#ifndef WEFT_LEARNER_LEARNER_INTERNAL_H
#define WEFT_LEARNER_LEARNER_INTERNAL_H

#include "learner/learner.h"

/* Gives an input of the model its column of a batch, from sample `row` on; value is its form in the
 * graph. Ports that take no column are left alone. ARGUMENT: the data have none for it. */
weft_status weft_feed_port(const weft_graph *graph, const weft_instance *instance,
                           const weft_port *port, weft_value value, const weft_batch *batch,
                           int64_t row) WEFT_NODISCARD;
/* Element i of a fetched real value. */
double weft_fetch(const weft_graph *graph, const weft_instance *instance, weft_value value,
                  int64_t i);
/* Gives the program's present slot the inputs of micro-batch m. */
weft_status weft_rank_feed(weft_rank *rank, const weft_batch *batch, int m) WEFT_NODISCARD;

/* Costs of the graph's nodes, measured by rank 0 and told to all, so that all cut alike. */
weft_status weft_rank_measure(weft_rank *rank, double *costs) WEFT_NODISCARD;
/* unsharded_exchange.c: whether some rank of the learner lacks some of a parameter, and the
 * exchange of such a learner at that site, with whatever learners there are. Both are collective
 * over its ranks. */
weft_status weft_whole_is_needed(const weft_rank *rank, bool *out) WEFT_NODISCARD;
weft_status weft_whole_open(weft_rank *rank, const weft_exchange_site *site,
                            weft_exchange **out) WEFT_NODISCARD;

/* NUMERIC, with the rank and instruction that made the loss of this batch what it is. Collective
 * over the learner. */
weft_status weft_rank_explain(weft_rank *rank, const weft_batch *batch, double loss) WEFT_NODISCARD;

#endif
