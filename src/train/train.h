/* Internals of training: the outputs of metrics, and the option tables. */
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

/* --- metrics.c: the outputs of --metrics --- */

typedef struct weft_metrics weft_metrics;
/* As `after`: the file keeps all of its lines. */
#define WEFT_METRICS_KEEP (INT64_MAX - 1)
/* Opens the outputs. after: the step from which the run resumes; -1: a new run. Lines of later
 * steps are removed, since the run writes them again. FORMAT: a file has a line that is no metrics,
 * and is left unchanged. */
weft_status weft_metrics_open(const char *spec, int64_t after, weft_metrics **out) WEFT_NODISCARD;
/* Writes the options of the run, where a format has them. */
weft_status weft_metrics_settings(weft_metrics *metrics,
                                  const weft_settings *settings) WEFT_NODISCARD;
weft_status weft_metrics_event(weft_metrics *metrics, const weft_event *event) WEFT_NODISCARD;
weft_status weft_metrics_close(weft_metrics **metrics) WEFT_NODISCARD;
/* Calls fn with the format and the path of each output. ARGUMENT: a path is empty, or there are too
 * many. */
enum { WEFT_MOST_METRICS = 8 };
struct weft_metrics_format;
typedef weft_status weft_metrics_fn(void *user, const struct weft_metrics_format *format,
                                    const char *path);
weft_status weft_metrics_each(const char *spec, weft_metrics_fn *fn, void *user) WEFT_NODISCARD;

/* ARGUMENT: the struct or one of its groups has another size than in this library. */
weft_status weft_train_options_check(const weft_context *context,
                                     const weft_train_options *options) WEFT_NODISCARD;
extern const weft_option weft_train_rows[];
/* Registers the option tables of simulations and comparisons: the rows of weft_train_rows, followed
 * by their own. */
weft_status weft_simulate_tables_register(weft_context *context) WEFT_NODISCARD;
/* Registers the table of weft_measure. */
weft_status weft_measure_tables_register(weft_context *context) WEFT_NODISCARD;

#endif
