/* Inside of training. */
#ifndef WEFT_TRAIN_TRAIN_H
#define WEFT_TRAIN_TRAIN_H

#include <stdio.h>

#include "base/base.h"
#include "exchange/exchange.h"
#include "formats/safetensors.h"
#include "weft/data.h"
#include "weft/comm.h"
#include "weft/model.h"
#include "weft/optim.h"
#include "weft/plan.h"
#include "weft/program.h"
#include "weft/train.h"

/* --- checkpoints --- */

/* Where a run stands: the next batch is `batch` of `epoch`. */
typedef struct weft_position {
    int64_t step, epoch, batch;
} weft_position;

enum {
    WEFT_PARAMETERS_FILE,
    WEFT_STATE_FILE,
    WEFT_LEARNERS_FILE,
    WEFT_EXCHANGE_FILE,
    WEFT_CHECKPOINT_FILES
};
/* Their names in a checkpoint's folder. */
extern const char *const weft_checkpoint_files[WEFT_CHECKPOINT_FILES];

/* 1: without WEFT_INDEX_CRC. */
#define WEFT_CHECKPOINT_FORMAT 2
/* What the index ends with, before eight digits. */
#define WEFT_INDEX_CRC ",\n \"crc32\": \""

typedef struct weft_checkpoint {
    char *path; /* the folder that was read, links resolved */
    weft_position position;
    weft_train_options options;
    weft_data_stats stats;
    weft_bytes model; /* text of the YAML model, or empty */
    /* Parameters and state of the first learner; where there are several, those of the others, and
     * the exchange's ranges. */
    weft_bytes files[WEFT_CHECKPOINT_FILES];
    weft_safetensors tensors[WEFT_CHECKPOINT_FILES];
} weft_checkpoint;

/* Reads a checkpoint: a step folder, a link to one, or the folder that holds them. Every file is
 * compared with its checksum. FORMAT: damaged; the message offers the one before. */
weft_status weft_checkpoint_open(const char *path, weft_checkpoint *out) WEFT_NODISCARD;
void weft_checkpoint_close(weft_checkpoint *checkpoint);

/* Copies tensors, or the parts of them that the store has. The graph (NULL: the store itself) says
 * which parameters the model has. ARGUMENT: the first tensor that is missing or has another shape.
 * State that is a sum within a step is left alone. */
weft_status weft_checkpoint_load(const weft_checkpoint *checkpoint, weft_store *store,
                                 const weft_graph *graph) WEFT_NODISCARD;
/* The same for one learner of several; one that the checkpoint does not know gets what the first
 * one had. Then what the exchange had, if the checkpoint is of such a one. */
weft_status weft_checkpoint_load_learner(const weft_checkpoint *checkpoint, weft_store *store,
                                         const weft_graph *graph, int learner) WEFT_NODISCARD;
weft_status weft_checkpoint_load_exchange(const weft_checkpoint *checkpoint,
                                          weft_exchange *exchange) WEFT_NODISCARD;

/* Where the tensors of a checkpoint come from. */
typedef struct weft_checkpoint_source {
    weft_store *store;
    const weft_graph *graph;
    const weft_comms *comms; /* of a learner */
    weft_comm *between;      /* of the same place in all learners; NULL: there is one learner */
    weft_exchange *exchange; /* NULL: there is none */
} weft_checkpoint_source;

/* Collective over all ranks; the first rank gathers and writes,
 * and *path is set there. Writes DIR/step-N and points DIR/latest at it; removes all but the newest
 * `keep` of this run. */
weft_status weft_checkpoint_save(const weft_checkpoint_source *from,
                                 const weft_train_options *options, const weft_data_stats *stats,
                                 const weft_bytes *model, weft_position position,
                                 char **path) WEFT_NODISCARD;

/* Whole checkpoints of DIR, newest first: their steps. *count may be 0. */
weft_status weft_checkpoint_list(const char *directory, int64_t **steps, int *count) WEFT_NODISCARD;

/* --- evaluation --- */

typedef struct weft_evaluator weft_evaluator;

/* What a rank needs to take part in a common evaluation. */
typedef struct weft_share {
    weft_plan *plan;
    int rank;
    const weft_comms *comms;
} weft_share;

/* A forward program on a store. model is NULL for a built-in one, share for one rank alone. */
weft_status weft_evaluator_create(weft_context *context, weft_store *store,
                                  const weft_train_options *options, const weft_bytes *model,
                                  const weft_shape *sample, int classes, int64_t batch,
                                  const weft_share *share, weft_evaluator **out) WEFT_NODISCARD;
void weft_evaluator_destroy(weft_evaluator **evaluator);

/* Runs a part of the data; fn may be NULL. The part must be prepared. */
weft_status weft_evaluator_run(weft_evaluator *evaluator, const weft_dataset *data,
                               weft_split split, weft_report *out, weft_predict_fn fn,
                               void *user) WEFT_NODISCARD;

weft_status weft_report_init(weft_report *report, int classes) WEFT_NODISCARD;
/* Accuracy and macro F1 from the confusion matrix. A class that is in neither labels nor
 * predictions is left out of the mean. */
void weft_report_finish(weft_report *report);

/* --- metrics file: one JSON object a line --- */

typedef struct weft_metrics weft_metrics;
/* after: step that the run goes on from, -1: it begins. Lines of later steps are taken out of the
 * file, which the run writes again. FORMAT: a line is not ours; nothing is taken out then. */
weft_status weft_metrics_open(const char *path, int64_t after, weft_metrics **out) WEFT_NODISCARD;
weft_status weft_metrics_event(weft_metrics *metrics, const weft_event *event) WEFT_NODISCARD;
weft_status weft_metrics_close(weft_metrics **metrics) WEFT_NODISCARD;

/* Collective over the learner: its rank 0 gets the whole of a tensor of which each rank holds a
 * part (or none); data is NULL elsewhere. */
weft_status weft_gather_tensor(const weft_comms *comms, const weft_store *store, const char *name,
                               const weft_type *whole, void *data) WEFT_NODISCARD;
/* Copies the part of `shape` that begins at `start` into the whole, or out of it. */
void weft_copy_part(const weft_type *whole, const int64_t *start, const weft_shape *shape,
                    void *all, void *data, bool out);

/* --- shared --- */

weft_status weft_train_options_copy(const weft_train_options *from,
                                    weft_train_options *to) WEFT_NODISCARD;

/* Builds the model that the options name (or the text) into a graph. */
weft_status weft_build_model(weft_graph *graph, const weft_train_options *options,
                             const weft_bytes *model, const weft_shape *sample, int classes,
                             int64_t batch, bool training, weft_model_values *out) WEFT_NODISCARD;

/* Copies this rank's part of an input from the whole's rows, which are of this type; floats are
 * widened if the input is f64. The graph is the rank's own; input may be WEFT_NO_VALUE. */
void weft_feed(const weft_graph *graph, const weft_instance *instance, weft_value v,
               const void *rows, weft_dtype dtype);
/* Element i of a fetched real value. */
double weft_fetch(const weft_graph *graph, const weft_instance *instance, weft_value value,
                  int64_t i);

#endif
