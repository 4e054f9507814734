/*
 * What a model makes of a part of the data: figures of all of it, and a prediction for each sample.
 */
#ifndef WEFT_REPORT_H
#define WEFT_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "weft/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How near numbers come to their targets, in the targets' own units: the share of their variance
 * about their mean in this part of the data that is explained (NaN where they do not vary: all are
 * NaN where what is predicted is no number), the
 * mean of absolute errors, and the root of the mean of squared ones. */
typedef struct weft_fit {
    double r2, mae, rmse;
} weft_fit;

/* What a model does with a part of the data. Targets are classes, or numbers. Where samples have
 * weights all figures are by these, and what has weight 0 counts nowhere. */
typedef struct weft_report {
    int64_t samples; /* whose weight is not 0 */
    double loss;     /* as training minimises it: of numbers in units of their deviation */
    int classes;     /* 0: targets are numbers */
    double accuracy, f1_macro;
    int64_t *confusion; /* [classes (true), classes (predicted)], samples of each */
    int targets;        /* 0: they are classes */
    weft_fit fit;       /* the mean over the targets; r2: over those that vary */
    weft_fit *fits;     /* [targets] */
} weft_report;

WEFT_API void weft_report_free(weft_report *report);

/* One of a report's figures: loss, accuracy, f1_macro; or loss, r2, mae, rmse. */
typedef struct weft_figure {
    const char *name, *title; /* "f1_macro", "macro F1" */
    double value;
    bool in_units;   /* of the targets, else a plain number */
    const char *why; /* what is said in the place of NaN; NULL: the value is a number */
} weft_figure;
/* false past the end. */
WEFT_API bool weft_report_figure(const weft_report *report, int i, weft_figure *out);
/* The same of one target: r2, mae, rmse. */
WEFT_API bool weft_fit_figure(const weft_fit *fit, int i, weft_figure *out);

/* One prediction, of a class or of numbers. */
typedef struct weft_prediction {
    int64_t sample;
    int classes;                /* 0: numbers are predicted */
    int32_t label, predicted;   /* label: -1 where there is none */
    const float *probabilities; /* [classes] */
    char *const *class_names;   /* [classes], or NULL */
    int targets;                /* 0: a class is predicted */
    const double *target;       /* [targets] as it stands in the file; NULL: there is none */
    const double *numbers;      /* [targets] in the same units */
} weft_prediction;
typedef void (*weft_predict_fn)(void *user, const weft_prediction *prediction);

#ifdef __cplusplus
}
#endif
#endif
