/* Inside of training. */
#ifndef WEFT_TRAIN_TRAIN_H
#define WEFT_TRAIN_TRAIN_H

#include <stdio.h>

#include "base/base.h"
#include "checkpoint/checkpoint.h"
#include "comm/comm.h"
#include "exchange/exchange.h"
#include "learner/learner.h"
#include "weft/comm.h"
#include "weft/model.h"
#include "weft/optim.h"
#include "weft/plan.h"
#include "weft/program.h"
#include "weft/simulate.h"
#include "weft/train.h"

/* --- metrics file: one JSON object a line --- */

typedef struct weft_metrics weft_metrics;
/* after: step that the run goes on from, -1: it begins. Lines of later steps are taken out of the
 * file, which the run writes again. FORMAT: a line is not ours; nothing is taken out then. */
weft_status weft_metrics_open(const char *path, int64_t after, weft_metrics **out) WEFT_NODISCARD;
weft_status weft_metrics_event(weft_metrics *metrics, const weft_event *event) WEFT_NODISCARD;
weft_status weft_metrics_close(weft_metrics **metrics) WEFT_NODISCARD;

weft_status weft_train_options_copy(const weft_context *context, const weft_train_options *from,
                                    weft_train_options *to) WEFT_NODISCARD;

/* ARGUMENT: the struct or a group of it is of another size. */
weft_status weft_train_options_check(const weft_train_options *options) WEFT_NODISCARD;
extern const weft_option weft_train_rows[];
/* The tables of simulations and comparisons: rows of their own behind those of a run. */
weft_status weft_simulate_tables_register(weft_context *context) WEFT_NODISCARD;

#endif
