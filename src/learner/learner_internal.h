/* Internals of a rank: its programs, feeding of batches, measured costs, the exchange of sharded
 * learners, and the search for the cause of a loss that is not finite. */
#ifndef WEFT_LEARNER_LEARNER_INTERNAL_H
#define WEFT_LEARNER_LEARNER_INTERNAL_H

#include "learner/learner.h"

/* Writes the batch's column for a model input, from row `row` on, to `value`, which is the input in
 * this graph. Ports that take no column, such as the position, are skipped. ARGUMENT: the data have
 * no such column. */
weft_status weft_feed_port(const weft_graph *graph, const weft_instance *instance,
                           const weft_port *port, weft_value value, const weft_batch *batch,
                           int64_t row) WEFT_NODISCARD;
/* Element i of an output of the program, as a double. */
double weft_fetch(const weft_graph *graph, const weft_instance *instance, weft_value value,
                  int64_t i);
/* Writes micro-batch m of a batch to the inputs of the program's current slot. */
weft_status weft_rank_feed(weft_rank *rank, const weft_batch *batch, int m) WEFT_NODISCARD;

/* Builds the program. If ranks have chosen different layouts for values that are summed over ranks,
 * all ranks plan again, with plain layouts for these values. Ranks on different devices may agree
 * in the training program and differ in the evaluation program, so the evaluator is built now, too,
 * rather than during the run. */
weft_status weft_rank_make_programs(weft_rank *rank) WEFT_NODISCARD;
/* rank_graph.c: whether the run has an exchange, which a single learner has not; and whether that
 * updates the parameters, and not the rank's program. */
bool weft_run_exchanges(const weft_run_spec *run);
bool weft_rank_updates_elsewhere(const weft_rank *rank);
/* averages.c: makes the program on the rank's store, and one for a clone of the rank; notes that a
 * step was taken. */
weft_status weft_averages_open(weft_rank *rank) WEFT_NODISCARD;
void weft_averages_close(weft_rank *rank);
weft_status weft_averages_clone(const weft_rank *rank, weft_rank *out) WEFT_NODISCARD;
void weft_averages_stepped(weft_rank *rank);
/* rank.c: whether this rank logs what holds for its learner: of the learners of a job, the first
 * one does. */
bool weft_rank_speaks(const weft_rank *rank);
/* Frees the programs with the graph and the plan from which they were made. */
void weft_rank_drop_programs(weft_rank *rank);
/* Makes the program of the graph of weft_rank_rewrite, on a store that has a program already. */
weft_status weft_rank_add_program(weft_rank *rank) WEFT_NODISCARD;
/* shares.c: sets *out to the shares of the data axis, for a plan with these options, which the rank
 * keeps; NULL: equal shares. Collective over all ranks if they are measured. */
weft_status weft_rank_shares(weft_rank *r, const weft_plan_options *options,
                             const double **out) WEFT_NODISCARD;
/* Measures the costs of the graph's nodes on rank 0 and broadcasts them, so that all ranks cut the
 * graph into the same pipeline stages. */
weft_status weft_rank_measure(weft_rank *rank, double *costs) WEFT_NODISCARD;
/* Whether some rank of the learner lacks a part of a parameter, or the first one's parameters lie
 * otherwise than in this layout of the run (0: not known), and the exchange for such a learner.
 * Both are collective over the ranks of the learner. */
weft_status weft_unsharded_is_needed(const weft_rank *rank, uint64_t layout,
                                     bool *out) WEFT_NODISCARD;
weft_status weft_unsharded_open(weft_rank *rank, const weft_exchange_setup *setup,
                                weft_exchange **out) WEFT_NODISCARD;

/* Finds the cause of a loss that is not finite, and fails with NUMERIC; the message names the rank
 * and the instruction. batch NULL: the inputs are those of the step. Collective over the learner.
 */
weft_status weft_rank_explain(weft_rank *rank, const weft_batch *batch, double loss) WEFT_NODISCARD;

/* step.c: copies tensors of the store into new buffers, kept: [tensors of the store], or with
 * `back` from there into the store: the parameters, or without `parameters` all that an update
 * changes but counters. The caller frees the buffers. */
weft_status weft_rank_keep(weft_store *store, bool parameters, void **kept,
                           bool back) WEFT_NODISCARD;

#endif
