/* Simulated training: many learners in virtual time, with real numbers.
 *
 * Each learner has parameters of its own and really computes its steps, with the program and from
 * the batches of a real run with the same options. Learners, servers and peers are the same actors
 * as in a real run and exchange the same messages. Durations of steps and messages are modelled
 * instead of measured: a file describes the cluster. So any machine can replay a run, and a
 * thousand learners fit on one machine.
 *
 * Ranks that wait for each other, as those of one learner or of learners that meet to average, are
 * the threads of a real run, and each step takes the time of weft_estimate_step. Where the file has
 * measured times, the steps of learners that do not wait take the time that is estimated for the
 * program of a learner, which may be a mesh, and learners fill the machines in their order. */
#ifndef WEFT_SIMULATE_H
#define WEFT_SIMULATE_H

#include "weft/members.h"
#include "weft/train.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Options of a simulated run: those of a run, and the cluster. */
typedef struct weft_simulate_options {
    weft_train_options train;
    size_t struct_size; /* sizeof(weft_simulate_options) */
    char *cluster;      /* YAML file that describes it; NULL: equal learners, 1 Gbit/s links */
    uint64_t room[8];   /* of later versions: 0 */
} weft_simulate_options;

/* The option table and the defaults, as weft_train_table and weft_train_options_init. */
WEFT_API const weft_option *weft_simulate_table(const weft_context *context);
WEFT_API WEFT_NODISCARD weft_status weft_simulate_options_init(const weft_context *context,
                                                               weft_simulate_options *options);

/* Options of a comparison of several runs. With a cluster the runs are simulated. */
typedef struct weft_compare_options {
    weft_simulate_options base;
    size_t struct_size; /* sizeof(weft_compare_options) */
    /* Options of each run, as in "exchange=average; exchange=gossip compress=bf16". */
    char *strategies;
    char *plot;    /* SVG file for a plot of the losses; NULL: none */
    double target; /* training loss to reach; 0: the lowest that all runs reach */
    /* An option with values that each run of `strategies` takes in turn, as in
     * "lr=1e-4..1e-1:log:8"; NULL: none. */
    char *sweep;
    uint64_t room[7]; /* of later versions: 0 */
} weft_compare_options;
WEFT_API const weft_option *weft_compare_table(const weft_context *context);
WEFT_API WEFT_NODISCARD weft_status weft_compare_options_init(const weft_context *context,
                                                              weft_compare_options *options);

/* Runs a simulation to the end. Events are those of weft_trainer_run, in virtual seconds. A step
 * event is reported whenever the learners have together finished as many steps as there are
 * learners; its loss is the mean of these steps. Evaluations, and the checkpoint at the end (option
 * `checkpoint`), are of the parameters of the run as a whole. The summary event covers the time
 * until the first learner has finished with
 *
 *   samples_per_second   of all learners
 *   utilisation          the share of that time in which learners computed
 *
 * and the whole run with
 *
 *   exchange_bytes, exchange_messages, exchange_messages_lost    bytes and messages sent, and lost
 *   staleness            histogram of the staleness of updates: 0, 1, ..., if servers apply them
 *
 * All but samples_per_second are in its series. Ranks that wait for each other have the events of
 * weft_trainer_run, with the loss of the first learner; of these figures utilisation (the share of
 * a step in which ranks compute, in the mean) and exchange_bytes (between machines); and those of
 * their exchange. stop (may be NULL): once it is set, the simulation
 * ends before its next event, without a summary (INTERRUPTED). ARGUMENT: the exchange cannot be
 * simulated, a simulation has no use for an option, or as weft_trainer_create. */
WEFT_API WEFT_NODISCARD weft_status weft_simulate(weft_context *context,
                                                  const weft_simulate_options *options,
                                                  const weft_stop *stop, weft_event_fn fn,
                                                  void *user);
/* Returns the failures of weft_simulate that are known before its first step; runs no step. */
WEFT_API WEFT_NODISCARD weft_status weft_simulate_check(weft_context *context,
                                                        const weft_simulate_options *options);

#ifdef __cplusplus
}
#endif
#endif
