/* Inside of runs whose processes come and go. */
#ifndef WEFT_TRAIN_ELASTIC_H
#define WEFT_TRAIN_ELASTIC_H

#include "exchange/process.h"
#include "train/trainer.h"
#include "weft/cluster.h"

/* Whether an option is each process's own, and none of the run's. */
bool weft_cluster_is_own(const char *option);
/* Whether a process of this kind takes an option of runs. */
bool weft_cluster_takes(weft_cluster_kind kind, const char *option);

/* What a coordinator gives joiners: the run's options, and what it has found out, as text. */
typedef struct weft_elastic_config {
    weft_train_options options; /* with the joiner's own */
    int learners, servers;
    int64_t count, steps; /* parameters as they lie; of the run */
    weft_gap_list gaps;   /* what of them is none, where codecs leave something out */
    weft_position begun;  /* where it began: after a checkpoint, or at 0 */
    weft_dtype dtype;
    char *model; /* the text of its file; NULL: it is built in */
} weft_elastic_config;
weft_status weft_elastic_config_write(weft_context *context, const weft_elastic_config *terms,
                                      weft_text *out) WEFT_NODISCARD;
/* own: what the joiner decides for itself. FORMAT: the coordinator is of another program. */
weft_status weft_elastic_config_read(weft_context *context, const char *text, size_t bytes,
                                     const weft_train_options *own,
                                     weft_elastic_config *out) WEFT_NODISCARD;
void weft_elastic_config_free(weft_context *context, weft_elastic_config *terms);

/* members_options.c: what a coordinator is given. ARGUMENT: a checkpoint that it neither writes nor
 * reads; one of a job is given the folder of all. */
weft_status weft_coordinator_check(const weft_train_options *options) WEFT_NODISCARD;
/* How to go on where the state of the run is lost, as the end of a sentence. The options of one job
 * are those of all its members; a learner that joins by itself has its own folder of checkpoints.
 */
const char *weft_coordinator_advice(const weft_train_options *options);

#endif
