/* Internals of elastic runs, whose processes join and leave. */
#ifndef WEFT_TRAIN_ELASTIC_H
#define WEFT_TRAIN_ELASTIC_H

#include "exchange/process.h"
#include "train/trainer.h"
#include "weft/cluster.h"

/* Whether an option is chosen by each process, and not by the run. */
bool weft_cluster_is_own(const char *option);
/* Whether a process of this kind accepts an option of training runs. */
bool weft_cluster_takes(weft_cluster_kind kind, const char *option);

/* The run configuration, which a coordinator sends to joining processes as text. */
typedef struct weft_elastic_config {
    weft_train_options options; /* merged with the process's own */
    int learners, servers;
    int64_t count, steps; /* parameters in their layout; steps of the run */
    weft_gap_list gaps;   /* padding between the parameters, if codecs skip it */
    weft_position begun;  /* start position of the run: after a checkpoint, or 0 */
    weft_dtype dtype;
    char *model; /* text of its file; NULL: built in */
} weft_elastic_config;
weft_status weft_elastic_config_write(weft_context *context, const weft_elastic_config *config,
                                      weft_text *out) WEFT_NODISCARD;
/* own: options of the joining process. FORMAT: the coordinator runs another program. */
weft_status weft_elastic_config_read(weft_context *context, const char *text, size_t bytes,
                                     const weft_train_options *own,
                                     weft_elastic_config *out) WEFT_NODISCARD;
void weft_elastic_config_free(weft_context *context, weft_elastic_config *config);

/* elastic_options.c: checks a coordinator's options. ARGUMENT: a checkpoint that it neither writes
 * nor reads; the coordinator of a job is given the folder of the job. */
weft_status weft_coordinator_check(const weft_train_options *options) WEFT_NODISCARD;
/* Advice for the case that the state of the run is lost, as the end of a sentence. In a job all
 * members have the same options; a separate learner has its own checkpoint folder. */
const char *weft_coordinator_advice(const weft_train_options *options);

#endif
