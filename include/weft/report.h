/*
 * Results of a model on one split of the data: metrics over the whole split, and a prediction for
 * each sample.
 */
#ifndef WEFT_REPORT_H
#define WEFT_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "weft/port.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Regression metrics on one split: the coefficient of determination R2 (NaN if the targets do not
 * vary), the mean absolute error and the root mean squared error, both in the units of the targets.
 * If a prediction is not finite, none of the metrics is. */
typedef struct weft_fit {
    double r2, mae, rmse;
} weft_fit;

/* Metrics of one class: the share of its predictions that are true, the share of its samples that
 * are found, the harmonic mean of both, and the weights of its samples and of its predictions.
 * Shares of nothing are 0. */
typedef struct weft_class_figures {
    double precision, recall, f1, support, predicted;
} weft_class_figures;

/* Metrics of one of several labels that are 0 or 1: those of its ones, the share of its samples
 * that are predicted right, and, if the option `metric` names auc, the area under its curve (NaN:
 * it is undefined, or not asked for). */
typedef struct weft_label_figures {
    weft_class_figures ones;
    double accuracy, auc;
    uint64_t room[4]; /* of later versions: 0 */
} weft_label_figures;

struct weft_figure;

/* The most classes of which a report has a confusion matrix. */
enum { WEFT_CONFUSION_CLASSES = 1024 };

/* Metrics of a model on one split. Targets are classes, labels of 0 and 1, or numbers. Each metric
 * weights the samples by their weights; samples of weight 0 are ignored. */
typedef struct weft_report {
    int64_t samples;  /* samples with nonzero weight */
    const char *part; /* of the data: "train", "validation", "test" or "all" */
    double loss; /* mean training loss; for numeric targets in units of their training deviation */
    int classes; /* number of classes; 0: targets are numeric */
    double accuracy, f1_macro;
    int64_t *confusion; /* [true class, predicted class]: samples; NULL: numeric targets, or more
                           than WEFT_CONFUSION_CLASSES */
    int targets;        /* numbers of a target; 0: targets are classes */
    weft_fit fit;       /* means of `fits`; r2: over the targets that vary */
    weft_fit *fits;     /* [targets] */
    /* [classes], NULL: classes are numbers; or, of several targets of a table with a header,
     * [targets]. */
    char **class_names;
    weft_class_figures *by_class; /* [classes]; NULL: numeric targets */
    struct weft_figure *figures;  /* [figure_count], see weft_report_figure */
    int64_t figure_count;
    /* Targets that are labels of 0 and 1 have these metrics in place of `fits`. NULL: they are not.
     */
    weft_label_figures *by_label; /* [targets] */
    uint64_t room[4];             /* of later versions: 0 */
} weft_report;

/* Frees the arrays of the report and zeroes it. */
WEFT_API void weft_report_free(weft_report *report);

/* A metric of a report. With classes: loss, accuracy, f1_macro; with labels: loss, accuracy,
 * f1_macro, f1_micro, subset_accuracy; with numbers: loss, r2, mae, rmse; then those that the
 * option `metric` names. */
typedef struct weft_figure {
    const char *name, *title; /* for programs and for people: "f1_macro", "macro F1" */
    double value;
    bool in_units;   /* the value has the units of the targets; else it has none */
    const char *why; /* text to show if the value is NaN; NULL: the value is a number */
} weft_figure;
/* Sets *out to metric i of a report; false past the end. */
WEFT_API bool weft_report_figure(const weft_report *report, int i, weft_figure *out);
/* Sets *out to metric i of one target (r2, mae, rmse); false past the end. */
WEFT_API bool weft_fit_figure(const weft_fit *fit, int i, weft_figure *out);

/* The prediction for one sample, or for one of its positions: a class, or numbers. */
typedef struct weft_prediction {
    int64_t sample;   /* its number, from 0: the row of a table or array, else that in the split */
    const char *id;   /* its identifier; NULL: the data have none */
    int64_t position; /* in the sample, from 0; -1: the sample has one target */
    int classes;      /* number of classes; 0: numbers are predicted */
    int32_t label, predicted;   /* true and predicted class; label -1: unknown */
    const float *probabilities; /* [classes] */
    char *const *class_names;   /* [classes]; NULL: classes are numbers */
    int targets;                /* numbers of a target; 0: a class is predicted */
    const double *target;       /* [targets], true numbers, in the file's units; NULL: unknown */
    const double *numbers;      /* [targets], predicted numbers, in the same units */
    /* Further outputs of the model: those of the sample, given with its first position. */
    int outputs;
    const weft_model_output *output; /* [outputs] */
    const void *const *value;        /* [outputs]: the numbers, row-major, of the output's type */
    /* The fields of the row of a table, as they are in the file, and the names of its columns
     * (NULL: none), if weft_eval_options.join. */
    int fields;
    char *const *field;      /* [fields] */
    char *const *field_name; /* [fields] */
    const char *file;        /* whose row `sample` is, if the data are of several; else NULL */
    bool binary; /* targets are labels of 0 and 1, and `numbers` are the probabilities of 1 */
    char *const *target_names; /* [targets]; NULL: they have none */
} weft_prediction;
/* Called once for each sample of the split and each of its positions, in order; the prediction is
 * valid during the call. */
typedef void (*weft_predict_fn)(void *user, const weft_prediction *prediction);

#ifdef __cplusplus
}
#endif
#endif
