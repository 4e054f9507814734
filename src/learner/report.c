/* What is counted in an evaluation, and the figures that come of it. */
#include <math.h>

#include "learner/learner.h"

/* Cells of a tally: samples and the sum of their losses, then the confusion matrix; or, for each
 * target, sums of: how far it is from the mean of training, the square of that, the absolute error,
 * and the square of that. */
enum { SAMPLES, LOSS, HEAD };
enum { OFF, OFF_SQUARE, ERROR, ERROR_SQUARE, SUMS };

weft_status weft_tally_init(weft_tally *t, const weft_data_stats *stats)
{
    int64_t classes = stats->classes;
    *t = (weft_tally){.classes = stats->classes, .targets = stats->targets};
    t->cells = HEAD + (t->targets ? (int64_t)SUMS * t->targets : classes * classes);
    return WEFT_NEW(&t->cell, t->cells);
}

void weft_tally_free(weft_tally *t)
{
    free(t->cell);
    *t = (weft_tally){0};
}

void weft_tally_loss(weft_tally *t, double sum)
{
    t->cell[LOSS] += sum;
}

void weft_tally_class(weft_tally *t, int32_t label, int predicted)
{
    t->cell[SAMPLES]++;
    if (label >= 0) t->cell[HEAD + (int64_t)label * t->classes + predicted]++;
}

void weft_tally_numbers(weft_tally *t, const weft_data_stats *stats, const double *target,
                        const double *predicted)
{
    t->cell[SAMPLES]++;
    for (int j = 0; target && j < t->targets; j++) {
        double *sum = t->cell + HEAD + (int64_t)j * SUMS;
        double off = target[j] - stats->target_mean[j], error = predicted[j] - target[j];
        sum[OFF] += off;
        sum[OFF_SQUARE] += off * off;
        sum[ERROR] += fabs(error);
        sum[ERROR_SQUARE] += error * error;
    }
}

static void report_classes(weft_report *r)
{
    int64_t right = 0;
    int present = 0;
    double f1 = 0;
    for (int c = 0; c < r->classes; c++) {
        int64_t hit = r->confusion[(size_t)c * (size_t)r->classes + (size_t)c], row = 0, column = 0;
        for (int o = 0; o < r->classes; o++) {
            row += r->confusion[(size_t)c * (size_t)r->classes + (size_t)o];
            column += r->confusion[(size_t)o * (size_t)r->classes + (size_t)c];
        }
        right += hit;
        if (row + column == 0) continue;
        present++;
        f1 += 2.0 * (double)hit / (double)(row + column);
    }
    r->accuracy = r->samples ? (double)right / (double)r->samples : 0;
    r->f1_macro = present ? f1 / present : 0;
}

static weft_fit fit_of(const double *sum, double n)
{
    double variation = sum[OFF_SQUARE] - sum[OFF] * sum[OFF] / n;
    /* What is left of targets that are all alike is rounding. */
    bool varies = variation > 1e-12 * sum[OFF_SQUARE];
    return (weft_fit){.r2 = varies ? 1 - sum[ERROR_SQUARE] / variation : (double)NAN,
                      .mae = sum[ERROR] / n,
                      .rmse = sqrt(sum[ERROR_SQUARE] / n)};
}

static void report_numbers(const double *sums, weft_report *r)
{
    int varying = 0;
    for (int j = 0; j < r->targets; j++) {
        weft_fit f = r->fits[j] = fit_of(sums + (size_t)j * SUMS, (double)r->samples);
        if (!isnan(f.r2)) r->fit.r2 += f.r2;
        varying += !isnan(f.r2);
        r->fit.mae += f.mae / r->targets;
        r->fit.rmse += f.rmse / r->targets;
    }
    r->fit.r2 = varying ? r->fit.r2 / varying : (double)NAN;
}

weft_status weft_tally_report(const weft_tally *t, weft_report *out)
{
    weft_report r = {
        .samples = (int64_t)t->cell[SAMPLES], .classes = t->classes, .targets = t->targets};
    size_t cells = (size_t)r.classes * (size_t)r.classes;
    if (r.targets > 0)
        WEFT_TRY(WEFT_NEW(&r.fits, r.targets));
    else
        WEFT_TRY(WEFT_NEW(&r.confusion, cells));
    r.loss = r.samples ? t->cell[LOSS] / (double)r.samples : 0;
    for (size_t i = 0; i < cells; i++) r.confusion[i] = (int64_t)t->cell[HEAD + i];
    if (r.targets == 0) report_classes(&r);
    if (r.targets > 0 && r.samples > 0) report_numbers(t->cell + HEAD, &r);
    *out = r;
    return WEFT_OK;
}

void weft_report_free(weft_report *report)
{
    free(report->confusion);
    free(report->fits);
    *report = (weft_report){0};
}

bool weft_report_figure(const weft_report *r, int i, weft_figure *out)
{
    const weft_figure of_classes[] = {{"loss", "loss", r->loss, false},
                                      {"accuracy", "accuracy", r->accuracy, false},
                                      {"f1_macro", "macro F1", r->f1_macro, false}};
    const weft_figure of_numbers[] = {{"loss", "loss", r->loss, false},
                                      {"r2", "R2", r->fit.r2, false},
                                      {"mae", "MAE", r->fit.mae, true},
                                      {"rmse", "RMSE", r->fit.rmse, true}};
    int count = (int)(r->targets ? WEFT_COUNT(of_numbers) : WEFT_COUNT(of_classes));
    if (i < 0 || i >= count) return false;
    *out = r->targets ? of_numbers[i] : of_classes[i];
    return true;
}
