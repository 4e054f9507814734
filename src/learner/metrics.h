/* Declares the metrics of evaluations, and the sums that they are computed from. */
#ifndef WEFT_LEARNER_METRICS_H
#define WEFT_LEARNER_METRICS_H

#include "data/data.h"
#include "weft/report.h"

struct weft_metric;

/* eval_metrics.c: the sums from which the metrics of an evaluation are computed. The sums of
 * several ranks are added cell by cell. */
typedef struct weft_metric_sums {
    int classes, targets; /* one of them is 0 */
    bool binary;          /* the targets are labels of 0 and 1 */
    int64_t predictions;  /* of the split: its samples, or all their positions */
    int64_t cells;
    double *cell; /* [cells]: see eval_metrics.c */
    /* The metrics that are reported, in the order of the table, and their first cells. */
    const struct weft_metric **metric;
    int64_t *begin;
    int metrics;
} weft_metric_sums;

/* A predicted class, with the scores of all classes; or labels of 0 and 1, with their
 * probabilities. */
typedef struct weft_scored {
    int64_t index; /* among the predictions of the split */
    double weight;
    int32_t label;
    int classes; /* or labels */
    const float *scores;
    const double *target, *said; /* [classes], of labels; else NULL */
} weft_scored;

/* A metric: a row of the table in metrics.c. */
typedef struct weft_metric {
    const char *name, *title, *summary;
    double least, most;            /* of its values */
    bool classes, numbers, labels; /* the targets for which it is defined */
    bool usual;                    /* it is reported without being named */
    bool rises;                    /* greater values are better */
    bool in_units;                 /* the value has the units of the targets */
    const char *undefined; /* text for a value that is not a number though the loss is; or NULL */
    /* The number of its own cells, which begin as zeros, and what a prediction that counts adds to
     * them. NULL: it has none. */
    int64_t (*cells)(const weft_data_stats *stats, int64_t predictions);
    void (*add)(double *cell, const weft_scored *prediction);
    /* The value, from the report so far and its own cells. NULL: the report has it, in the double
     * `at` bytes from its beginning. */
    size_t at;
    double (*value)(const weft_metric_sums *sums, const weft_report *report, const double *cell);
} weft_metric;

double weft_metric_value(const weft_metric *metric, const weft_metric_sums *sums,
                         const weft_report *report, const double *cell);

weft_status weft_metrics_register(weft_context *context) WEFT_NODISCARD;
/* Metric i of a context; NULL: there is none. */
const weft_metric *weft_metric_at(const weft_context *context, int i);
/* Whether a metric is defined for the target of the data. */
bool weft_metric_fits(const weft_metric *metric, const weft_data_stats *stats);
/* ARGUMENT: one of the names, with commas between them (NULL: none), is no metric of such data, is
 * empty or is given twice. */
weft_status weft_metrics_check(const weft_context *context, const char *option, const char *names,
                               const weft_data_stats *stats) WEFT_NODISCARD;

/* names: further metrics beside the usual ones, with commas between them; NULL: none. ARGUMENT: a
 * metric would keep too many scores. */
weft_status weft_metric_sums_init(weft_metric_sums *sums, const weft_context *context,
                                  const weft_data_stats *stats, int64_t predictions,
                                  const char *names) WEFT_NODISCARD;
void weft_metric_sums_free(weft_metric_sums *sums);
void weft_metric_sums_loss(weft_metric_sums *sums, double sum);
/* Counts a sample with the sum of the weights of its predictions; weight 0 has no effect. */
void weft_metric_sums_sample(weft_metric_sums *sums, double weight);
/* The sum of the weights of all predictions. */
double weft_metric_weight(const weft_metric_sums *sums);
/* Adds a prediction; weight 0 has no effect. A label below 0 is unknown. predicted: the class of
 * the greatest score. */
void weft_metric_sums_class(weft_metric_sums *sums, const weft_scored *prediction, int predicted);
/* Adds the predicted numbers of a sample that was counted. Predictions and targets are in the units
 * of the data; target NULL: unknown. */
void weft_metric_sums_numbers(weft_metric_sums *sums, double weight, const weft_data_stats *stats,
                              const double *target, const double *predicted);
/* Adds the predicted probabilities of labels of 0 and 1; the label is predicted from 1/2 on. */
void weft_metric_sums_labels(weft_metric_sums *sums, const weft_scored *prediction);
/* Computes the metrics: the loss; with classes, accuracy and macro F1 over the classes that occur
 * in labels or predictions; with numeric targets, R2, MAE and RMSE; and those that were named. */
weft_status weft_metric_sums_report(const weft_metric_sums *sums, weft_report *out) WEFT_NODISCARD;

#endif
