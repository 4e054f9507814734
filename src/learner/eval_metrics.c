/* Accumulates the sums of an evaluation, and computes its metrics from them: accuracy and macro F1
 * for classes; R2, MAE and RMSE for numeric targets. */
#include <math.h>

#include "learner/learner.h"

/* The cells of weft_metric_sums. First come HEAD cells: number of samples, sum of weights of
 * predictions, sum of losses. With classes there follow CELLS cells for each class, the weights of
 * the samples that are of this class, that are predicted as it, and both, and then, with at most
 * WEFT_CONFUSION_CLASSES, the confusion matrix in samples. With numeric targets there follow SUMS
 * cells for each target: the weighted sums of its deviation from the training mean (OFF), of the
 * square of this deviation, of the absolute error and of the squared error. */
enum { SAMPLES, WEIGHT, LOSS, HEAD };
enum { TRUE_ONES, PREDICTED, HITS, CELLS };
enum { OFF, OFF_SQUARE, ERROR, ERROR_SQUARE, SUMS };

/* The cells of the confusion matrix; 0: there is none. */
static size_t matrix_cells(int classes)
{
    return classes <= WEFT_CONFUSION_CLASSES ? (size_t)classes * (size_t)classes : 0;
}

weft_status weft_metric_sums_init(weft_metric_sums *sums, const weft_data_stats *stats)
{
    int64_t classes = stats->classes;
    *sums = (weft_metric_sums){.classes = stats->classes, .targets = stats->targets};
    sums->cells = HEAD + (sums->targets ? (int64_t)SUMS * sums->targets
                                        : CELLS * classes + (int64_t)matrix_cells(stats->classes));
    return WEFT_NEW(&sums->cell, sums->cells);
}

void weft_metric_sums_free(weft_metric_sums *sums)
{
    free(sums->cell);
    *sums = (weft_metric_sums){0};
}

void weft_metric_sums_loss(weft_metric_sums *sums, double sum)
{
    sums->cell[LOSS] += sum;
}

void weft_metric_sums_sample(weft_metric_sums *sums, double weight)
{
    sums->cell[SAMPLES] += weight > 0;
    sums->cell[WEIGHT] += weight;
}

void weft_metric_sums_class(weft_metric_sums *sums, double weight, int32_t label, int predicted)
{
    double *cell = sums->cell + HEAD, *matrix = cell + (int64_t)CELLS * sums->classes;
    if (label < 0 || label >= sums->classes) return;
    cell[label * CELLS + TRUE_ONES] += weight;
    cell[predicted * CELLS + PREDICTED] += weight;
    if (label == predicted) cell[label * CELLS + HITS] += weight;
    if (matrix_cells(sums->classes) > 0)
        matrix[(int64_t)label * sums->classes + predicted] += weight > 0;
}

void weft_metric_sums_numbers(weft_metric_sums *sums, double weight, const weft_data_stats *stats,
                              const double *target, const double *predicted)
{
    for (int j = 0; target && j < sums->targets; j++) {
        double *sum = sums->cell + HEAD + (int64_t)j * SUMS;
        double off = target[j] - stats->target_mean[j], error = predicted[j] - target[j];
        sum[OFF] += weight * off;
        sum[OFF_SQUARE] += weight * (off * off);
        sum[ERROR] += weight * fabs(error);
        sum[ERROR_SQUARE] += weight * (error * error);
    }
}

/* Computes the metrics of classes from the cells of all classes. */
static void report_classes(const double *cell, double all, weft_report *r)
{
    double right = 0, f1 = 0;
    int present = 0;
    for (int c = 0; c < r->classes; c++, cell += CELLS) {
        double marked = cell[TRUE_ONES] + cell[PREDICTED];
        right += cell[HITS];
        if (!(marked > 0)) continue;
        present++;
        f1 += 2 * cell[HITS] / marked;
    }
    r->accuracy = all > 0 ? right / all : 0;
    r->f1_macro = present ? f1 / present : 0;
}

static weft_fit fit_of(const double *sum, double n)
{
    /* sum[OFF] is divided by n before it is multiplied with itself, since its square could overflow
     * or underflow with very large or small weights. */
    double variation = sum[OFF_SQUARE] - sum[OFF] * (sum[OFF] / n);
    /* Constant targets vary by rounding errors alone; their R2 is undefined (NaN). */
    bool varies = variation > 1e-12 * sum[OFF_SQUARE];
    return (weft_fit){.r2 = varies ? 1 - sum[ERROR_SQUARE] / variation : (double)NAN,
                      .mae = sum[ERROR] / n,
                      .rmse = sqrt(sum[ERROR_SQUARE] / n)};
}

static void report_numbers(const double *sums, double all, weft_report *r)
{
    int varying = 0;
    for (int j = 0; j < r->targets; j++) {
        weft_fit f = r->fits[j] = fit_of(sums + (size_t)j * SUMS, all);
        bool alike = isnan(f.r2) && !isnan(f.rmse);
        if (!alike) r->fit.r2 += f.r2;
        varying += !alike;
        r->fit.mae += f.mae / r->targets;
        r->fit.rmse += f.rmse / r->targets;
    }
    r->fit.r2 = varying ? r->fit.r2 / varying : (double)NAN;
}

weft_status weft_metric_sums_report(const weft_metric_sums *sums, weft_report *out)
{
    weft_report r = {.samples = (int64_t)sums->cell[SAMPLES],
                     .classes = sums->classes,
                     .targets = sums->targets};
    const double *cell = sums->cell + HEAD, *matrix = cell + (int64_t)CELLS * r.classes;
    size_t cells = matrix_cells(r.classes);
    double all = sums->cell[WEIGHT];
    if (r.targets > 0)
        WEFT_TRY(WEFT_NEW(&r.fits, r.targets));
    else if (cells > 0)
        WEFT_TRY(WEFT_NEW(&r.confusion, cells));
    r.loss = all > 0 ? sums->cell[LOSS] / all : 0;
    for (size_t i = 0; r.confusion && i < cells; i++) r.confusion[i] = (int64_t)matrix[i];
    if (r.targets == 0) report_classes(cell, all, &r);
    if (r.targets > 0 && all > 0) report_numbers(cell, all, &r);
    *out = r;
    return WEFT_OK;
}

void weft_report_free(weft_report *report)
{
    WEFT_NEED_VOID(report);
    free(report->confusion);
    free(report->fits);
    weft_strings_free(&report->class_names, report->classes);
    *report = (weft_report){0};
}

/* Makes a figure and, if its value is NaN, gives the reason. errors: the value is an R2 whose
 * errors are numbers, so the targets are all alike; otherwise the model has diverged. */
static weft_figure figure(const char *name, const char *title, double value, bool in_units,
                          bool errors)
{
    weft_figure f = {.name = name, .title = title, .value = value, .in_units = in_units};
    if (!isfinite(value))
        f.why = errors ? "undefined (the targets are all alike)"
                       : "not a number (the parameters have diverged)";
    return f;
}

bool weft_fit_figure(const weft_fit *fit, int i, weft_figure *out)
{
    WEFT_NEED_ELSE(false, fit, out);
    bool errors = !isnan(fit->rmse);
    const weft_figure all[] = {figure("r2", "R2", fit->r2, false, errors),
                               figure("mae", "MAE", fit->mae, true, false),
                               figure("rmse", "RMSE", fit->rmse, true, false)};
    if (i < 0 || i >= (int)WEFT_COUNT(all)) return false;
    *out = all[i];
    return true;
}

bool weft_report_figure(const weft_report *r, int i, weft_figure *out)
{
    WEFT_NEED_ELSE_AS(false, "report, out", r, out);
    const weft_figure all[] = {figure("loss", "loss", r->loss, false, false),
                               figure("accuracy", "accuracy", r->accuracy, false, false),
                               figure("f1_macro", "macro F1", r->f1_macro, false, false)};
    if (r->targets > 0 && i > 0) return weft_fit_figure(&r->fit, i - 1, out);
    if (i < 0 || i >= (int)WEFT_COUNT(all)) return false;
    *out = all[i];
    return true;
}
