/* What a rank of a learner has and does in a step. */
#ifndef WEFT_LEARNER_LEARNER_H
#define WEFT_LEARNER_LEARNER_H

#include "base/base.h"
#include "weft/data.h"
#include "weft/model.h"
#include "weft/plan.h"
#include "weft/program.h"
#include "weft/train.h"

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

/* --- feed and fetch --- */

/* Copies this rank's part of an input from the whole's rows, which are of this type; floats are
 * widened if the input is f64. The graph is the rank's own; input may be WEFT_NO_VALUE. */
void weft_feed(const weft_graph *graph, const weft_instance *instance, weft_value v,
               const void *rows, weft_dtype dtype);
/* Element i of a fetched real value. */
double weft_fetch(const weft_graph *graph, const weft_instance *instance, weft_value value,
                  int64_t i);

#endif
