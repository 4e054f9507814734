/* Simulated training: many learners in virtual time, with real numbers.
 *
 * Each learner has weights of its own and really computes its steps, by the program and from the
 * batches that a run with the same options would have; learners, servers and peers send each other
 * the messages that they would send. Durations are not measured but modelled, by a file that
 * describes the cluster, so a run can be replayed on any machine, and a thousand learners fit on
 * one. */
#ifndef WEFT_SIMULATE_H
#define WEFT_SIMULATE_H

#include "weft/members.h"
#include "weft/train.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The options of a run, and its cluster. */
typedef struct weft_simulate_options {
    weft_train_options train;
    char *cluster; /* a file; NULL: equal learners, on links of 1 Gbit/s */
} weft_simulate_options;

/* As weft_train_table and weft_train_options_init. */
WEFT_API const weft_option *weft_simulate_table(const weft_context *context);
WEFT_API WEFT_NODISCARD weft_status weft_simulate_options_init(const weft_context *context,
                                                               weft_simulate_options *options);

/* Options of runs that are compared, and simulated if there is a cluster. */
typedef struct weft_compare_options {
    weft_simulate_options base;
    char *strategies; /* "exchange=average; exchange=gossip compress=bf16": options of each run */
    char *plot;       /* a file for a plot of the losses; NULL: none */
    double target;    /* a loss; 0: the lowest that all runs reach */
} weft_compare_options;
WEFT_API const weft_option *weft_compare_table(const weft_context *context);
WEFT_API WEFT_NODISCARD weft_status weft_compare_options_init(const weft_context *context,
                                                              weft_compare_options *options);

/* Runs a simulation to the end. Events are those of weft_trainer_run, in virtual seconds: a step is
 * as many steps of learners as there are learners, whichever took them, and its loss their mean;
 * evaluations, and checkpoints with `checkpoint`, are of the parameters of the run as a whole. The
 * summary has
 *
 *   samples_per_second         while all learners were training, until the first had finished
 *   exchange_bytes, exchange_messages, exchange_messages_lost    bytes and messages sent, and lost
 *   utilisation                the share of the same time in which learners computed
 *   staleness                  histogram of the staleness of updates: 0, 1, ...
 *
 * among the statistics of the exchange. stop (may be NULL): when it is set, the simulation ends
 * after the step that is being computed, without a summary (INTERRUPTED). ARGUMENT: the exchange
 * cannot be simulated, an option that a simulation does not use, or as weft_trainer_create. */
WEFT_API WEFT_NODISCARD weft_status weft_simulate(weft_context *context,
                                                  const weft_simulate_options *options,
                                                  const weft_stop *stop, weft_event_fn fn,
                                                  void *user);
/* The failures of weft_simulate that are known before the first step. */
WEFT_API WEFT_NODISCARD weft_status weft_simulate_check(weft_context *context,
                                                        const weft_simulate_options *options);

#ifdef __cplusplus
}
#endif
#endif
