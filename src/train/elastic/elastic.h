/* Internals of elastic runs: the run configuration that joining processes receive, and the options
 * that each kind of process has. */
#ifndef WEFT_TRAIN_ELASTIC_H
#define WEFT_TRAIN_ELASTIC_H

#include "exchange/process.h"
#include "train/trainer.h"
#include "weft/cluster.h"

/* Whether each process chooses this option for itself, so that it is not in the run configuration.
 */
bool weft_cluster_is_own(const char *option);
/* Whether a process of this kind accepts an option of training runs. */
bool weft_cluster_takes(weft_cluster_kind kind, const char *option);

/* The run configuration, which a coordinator sends to joining processes as text. */
typedef struct weft_elastic_config {
    weft_train_options options; /* of the run; after reading, with the process's own in place */
    int learners, servers;      /* numbers with which the run begins */
    int64_t count, steps;       /* elements of all parameters, with padding; steps of the run */
    weft_gap_list gaps;         /* padding in the parameters; empty: no codec needs it */
    weft_segment_list segments; /* of the parameters, if servers update them */
    weft_position begun;        /* start position of the run: after a checkpoint, or 0 */
    weft_schedule_place place;  /* in the schedule, at `begun` */
    weft_dtype dtype;           /* type of the parameters */
    bool plain_parameters;      /* see weft_rank */
    uint64_t layout;            /* weft_store_form of the parameters */
    char *model;                /* text of the YAML model; NULL: the model is built in */
    char *tuning;               /* table of measurements; NULL: none */
    char *device, *mesh;        /* by which the parameters are laid out; mesh NULL: one rank */
} weft_elastic_config;
weft_status weft_elastic_config_write(weft_context *context, const weft_elastic_config *config,
                                      weft_text *out) WEFT_NODISCARD;
/* Reads the configuration. own: options of the joining process. FORMAT: it cannot be read, since
 * the coordinator has another version of weft. */
weft_status weft_elastic_config_read(weft_context *context, const char *text, size_t bytes,
                                     const weft_train_options *own,
                                     weft_elastic_config *out) WEFT_NODISCARD;
void weft_elastic_config_free(weft_context *context, weft_elastic_config *config);

/* Sets *world to the process's network context, with the keys of the options in place. ARGUMENT: a
 * key beside open-unencrypted. */
weft_status weft_elastic_enter(weft_context *context, const weft_cluster_options *options,
                               weft_net_context **world) WEFT_NODISCARD;

/* elastic_options.c: checks a coordinator's options. ARGUMENT: --zero with an exchange
 * that owns the update; --zero 3, since learners exchange whole parameters; --checkpoint without
 * --resume, since a coordinator writes no checkpoints. In a job --checkpoint passes, as all members
 * get the job's folder. */
weft_status weft_coordinator_check(const weft_train_options *options,
                                   const weft_exchange_ops *exchange) WEFT_NODISCARD;
/* The end of the sentence by which the coordinator reports that the state of the run is lost: how
 * to continue from a checkpoint. In a job, the options say whether there is one; otherwise each
 * learner has its own checkpoint folder. */
const char *weft_coordinator_advice(const weft_train_options *options);

/* Checks the sizes of the structs, and that each number is within its bounds. */
weft_status weft_cluster_options_check(const weft_context *context,
                                       const weft_cluster_options *options) WEFT_NODISCARD;

#endif
