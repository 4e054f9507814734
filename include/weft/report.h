/*
 * Results of a model on a part of the data: metrics over all of it, and a prediction for each
 * sample.
 */
#ifndef WEFT_REPORT_H
#define WEFT_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "weft/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Regression metrics, in the units of the targets: the coefficient of determination R2 on this part
 * of the data (NaN if the targets do not vary), the mean absolute error, and the root mean squared
 * error. All are NaN if a prediction is not finite. */
typedef struct weft_fit {
    double r2, mae, rmse;
} weft_fit;

/* Metrics of a model on a part of the data. Targets are classes or numbers. All metrics are
 * weighted by the samples' weights; samples of weight 0 are ignored. */
typedef struct weft_report {
    int64_t samples; /* with nonzero weight */
    double loss;     /* the training loss; numeric targets are in units of their deviation */
    int classes;     /* 0: targets are numeric */
    double accuracy, f1_macro;
    int64_t *confusion; /* [classes (true), classes (predicted)], number of samples */
    int targets;        /* 0: targets are classes */
    weft_fit fit;       /* the mean over the targets; r2: over those that vary */
    weft_fit *fits;     /* [targets] */
} weft_report;

WEFT_API void weft_report_free(weft_report *report);

/* A metric of a report: loss, accuracy, f1_macro; or loss, r2, mae, rmse. */
typedef struct weft_figure {
    const char *name, *title; /* "f1_macro", "macro F1" */
    double value;
    bool in_units;   /* in the units of the targets, else a plain number */
    const char *why; /* text instead of NaN; NULL: the value is a number */
} weft_figure;
/* false past the end. */
WEFT_API bool weft_report_figure(const weft_report *report, int i, weft_figure *out);
/* As above, for one target: r2, mae, rmse. */
WEFT_API bool weft_fit_figure(const weft_fit *fit, int i, weft_figure *out);

/* A prediction, of a class or of numbers. */
typedef struct weft_prediction {
    int64_t sample;
    int classes;                /* 0: numbers are predicted */
    int32_t label, predicted;   /* label: -1 if unknown */
    const float *probabilities; /* [classes] */
    char *const *class_names;   /* [classes], or NULL */
    int targets;                /* 0: a class is predicted */
    const double *target;       /* [targets] as in the file; NULL: unknown */
    const double *numbers;      /* [targets] in the same units */
} weft_prediction;
typedef void (*weft_predict_fn)(void *user, const weft_prediction *prediction);

#ifdef __cplusplus
}
#endif
#endif
