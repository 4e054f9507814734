/* Accumulates the sums of an evaluation, and computes its metrics from them: accuracy and macro F1
 * for classes; R2, MAE and RMSE for numeric targets. */
#include <math.h>

#include "base/registry.h"
#include "learner/metrics.h"

/* The cells of weft_metric_sums. First come HEAD cells: number of samples, sum of weights of
 * predictions, sum of losses. With classes there follow CELLS cells for each class, the weights of
 * the samples that are of this class, that are predicted as it, and both, and then, with at most
 * WEFT_CONFUSION_CLASSES, the confusion matrix in samples. With numeric targets there follow SUMS
 * cells for each target: the weighted sums of its deviation from the training mean (OFF), of the
 * square of this deviation, of the absolute error and of the squared error. Labels of 0 and 1 have
 * CELLS cells each, of their ones. Last come the cells of
 * the metrics that have some. */
enum { SAMPLES, WEIGHT, LOSS, HEAD };
enum { TRUE_ONES, PREDICTED, HITS, CELLS };
enum { OFF, OFF_SQUARE, ERROR, ERROR_SQUARE, SUMS };

/* The cells of the confusion matrix; 0: there is none. */
static size_t matrix_cells(int classes)
{
    return classes <= WEFT_CONFUSION_CLASSES ? (size_t)classes * (size_t)classes : 0;
}

static const char lost[] = "not a number (the parameters have diverged)";

/* The most cells of a metric: 1 GiB. */
#define MOST_CELLS ((int64_t)1 << 27)

/* Chooses the metrics that are reported, and their first cells. */
static weft_status choose_metrics(weft_metric_sums *s, const weft_context *context,
                                  const weft_data_stats *stats, const char *names)
{
    const weft_metric *m;
    int count = 0;
    while (weft_metric_at(context, count)) count++;
    WEFT_TRY(WEFT_NEW(&s->metric, count));
    WEFT_TRY(WEFT_NEW(&s->begin, count));
    for (int i = 0; (m = weft_metric_at(context, i)); i++) {
        bool named = names && weft_is_listed(names, m->name);
        if (!weft_metric_fits(m, stats) || !(m->usual || named)) continue;
        int64_t cells = m->cells ? m->cells(stats, s->predictions) : 0;
        if (cells > MOST_CELLS)
            return weft_fail(WEFT_ERR_ARGUMENT,
                             "the metric %s keeps %lld scores of %lld predictions of %d classes, "
                             "more than %lld; leave it out, or evaluate fewer samples",
                             m->name, (long long)cells, (long long)s->predictions, s->classes,
                             (long long)MOST_CELLS);
        s->metric[s->metrics] = m;
        s->begin[s->metrics++] = s->cells;
        s->cells += cells;
    }
    return WEFT_OK;
}

weft_status weft_metric_sums_init(weft_metric_sums *sums, const weft_context *context,
                                  const weft_data_stats *stats, int64_t predictions,
                                  const char *names)
{
    int64_t classes = stats->classes;
    *sums = (weft_metric_sums){.classes = stats->classes,
                               .targets = stats->targets,
                               .binary = stats->binary,
                               .predictions = predictions};
    sums->cells =
        HEAD + (sums->binary    ? (int64_t)CELLS * sums->targets
                : sums->targets ? (int64_t)SUMS * sums->targets
                                : CELLS * classes + (int64_t)matrix_cells(stats->classes));
    WEFT_TRY(choose_metrics(sums, context, stats, names));
    return WEFT_NEW(&sums->cell, sums->cells);
}

void weft_metric_sums_free(weft_metric_sums *sums)
{
    free(sums->cell);
    free((void *)sums->metric);
    free(sums->begin);
    *sums = (weft_metric_sums){0};
}

double weft_metric_weight(const weft_metric_sums *sums)
{
    return sums->cell[WEIGHT];
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

void weft_metric_sums_class(weft_metric_sums *sums, const weft_scored *p, int predicted)
{
    double *cell = sums->cell + HEAD, *matrix = cell + (int64_t)CELLS * sums->classes;
    if (p->label < 0 || p->label >= sums->classes) return;
    cell[p->label * CELLS + TRUE_ONES] += p->weight;
    cell[predicted * CELLS + PREDICTED] += p->weight;
    if (p->label == predicted) cell[p->label * CELLS + HITS] += p->weight;
    if (matrix_cells(sums->classes) > 0)
        matrix[(int64_t)p->label * sums->classes + predicted] += p->weight > 0;
    for (int i = 0; i < sums->metrics && p->weight > 0; i++)
        if (sums->metric[i]->add) sums->metric[i]->add(sums->cell + sums->begin[i], p);
}

void weft_metric_sums_labels(weft_metric_sums *sums, const weft_scored *p)
{
    for (int j = 0; p->target && j < p->classes; j++) {
        double *cell = sums->cell + HEAD + (int64_t)j * CELLS;
        bool is = p->target[j] > 0.5, said = p->said[j] >= 0.5;
        cell[TRUE_ONES] += is ? p->weight : 0;
        cell[PREDICTED] += said ? p->weight : 0;
        cell[HITS] += is && said ? p->weight : 0;
    }
    for (int i = 0; i < sums->metrics && p->target && p->weight > 0; i++)
        if (sums->metric[i]->add) sums->metric[i]->add(sums->cell + sums->begin[i], p);
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

/* The metrics of a class, or of the ones of a label, from its cells. */
static weft_class_figures figures_of(const double *cell)
{
    double marked = cell[TRUE_ONES] + cell[PREDICTED];
    return (weft_class_figures){.precision = cell[PREDICTED] > 0 ? cell[HITS] / cell[PREDICTED] : 0,
                                .recall = cell[TRUE_ONES] > 0 ? cell[HITS] / cell[TRUE_ONES] : 0,
                                .f1 = marked > 0 ? 2 * cell[HITS] / marked : 0,
                                .support = cell[TRUE_ONES],
                                .predicted = cell[PREDICTED]};
}

/* Computes the metrics of classes from the cells of all classes. */
static void report_classes(const double *cell, double all, weft_report *r)
{
    double right = 0, f1 = 0;
    int present = 0;
    for (int c = 0; c < r->classes; c++, cell += CELLS) {
        right += cell[HITS];
        r->by_class[c] = figures_of(cell);
        present += cell[TRUE_ONES] + cell[PREDICTED] > 0;
        f1 += r->by_class[c].f1;
    }
    r->accuracy = all > 0 ? right / all : 0;
    r->f1_macro = present ? f1 / present : 0;
}

/* Computes those of labels: the accuracy is the mean over them, F1 that over the labels of which a
 * sample has one or is predicted to. */
static void report_labels(const double *cell, double all, weft_report *r)
{
    double f1 = 0;
    int present = 0;
    for (int j = 0; j < r->targets; j++, cell += CELLS) {
        double wrong = cell[TRUE_ONES] + cell[PREDICTED] - 2 * cell[HITS];
        weft_label_figures *f = &r->by_label[j];
        *f = (weft_label_figures){
            .ones = figures_of(cell), .accuracy = 1 - wrong / all, .auc = (double)NAN};
        r->accuracy += f->accuracy / r->targets;
        present += cell[TRUE_ONES] + cell[PREDICTED] > 0;
        f1 += f->ones.f1;
    }
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

/* Sets the figures of the metrics that are reported. */
static void report_figures(const weft_metric_sums *sums, weft_report *r)
{
    for (int i = 0; i < sums->metrics; i++) {
        const weft_metric *m = sums->metric[i];
        weft_figure *f = &r->figures[r->figure_count++];
        *f = (weft_figure){.name = m->name, .title = m->title, .in_units = m->in_units};
        f->value = weft_metric_value(m, sums, r, sums->cell + sums->begin[i]);
        if (!isfinite(f->value))
            f->why = m->undefined && isfinite(r->loss) && !isnan(r->fit.rmse) ? m->undefined : lost;
    }
}

weft_status weft_metric_sums_report(const weft_metric_sums *sums, weft_report *out)
{
    weft_report r = {.samples = (int64_t)sums->cell[SAMPLES],
                     .classes = sums->classes,
                     .targets = sums->targets};
    const double *cell = sums->cell + HEAD, *matrix = cell + (int64_t)CELLS * r.classes;
    size_t cells = matrix_cells(r.classes);
    double all = sums->cell[WEIGHT];
    weft_status status = WEFT_NEW(&r.figures, sums->metrics);
    if (status == WEFT_OK && sums->binary) status = WEFT_NEW(&r.by_label, r.targets);
    if (status == WEFT_OK && r.targets > 0 && !sums->binary) status = WEFT_NEW(&r.fits, r.targets);
    if (status == WEFT_OK && r.targets == 0) status = WEFT_NEW(&r.by_class, r.classes);
    if (status == WEFT_OK && r.targets == 0 && cells > 0) status = WEFT_NEW(&r.confusion, cells);
    if (status != WEFT_OK) {
        weft_report_free(&r);
        return status;
    }
    r.loss = all > 0 ? sums->cell[LOSS] / all : 0;
    for (size_t i = 0; r.confusion && i < cells; i++) r.confusion[i] = (int64_t)matrix[i];
    if (r.targets == 0) report_classes(cell, all, &r);
    if (r.by_label && all > 0) report_labels(cell, all, &r);
    if (r.fits && all > 0) report_numbers(cell, all, &r);
    report_figures(sums, &r);
    *out = r;
    return WEFT_OK;
}

void weft_report_free(weft_report *report)
{
    WEFT_NEED_VOID(report);
    free(report->confusion);
    free(report->fits);
    free(report->by_class);
    free(report->figures);
    weft_strings_free(&report->class_names,
                      report->targets > 0 ? report->targets : report->classes);
    free(report->by_label);
    *report = (weft_report){0};
}

/* Makes a figure and, if its value is NaN, gives the reason. errors: the value is an R2 whose
 * errors are numbers, so the targets are all alike; otherwise the model has diverged. */
static weft_figure figure(const char *name, const char *title, double value, bool in_units,
                          bool errors)
{
    weft_figure f = {.name = name, .title = title, .value = value, .in_units = in_units};
    if (!isfinite(value)) f.why = errors ? "undefined (the targets are all alike)" : lost;
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
    if (i < 0 || i >= r->figure_count) return false;
    *out = r->figures[i];
    return true;
}
