/* The metrics of evaluations: one row of the table each. A metric follows from the sums that every
 * evaluation has, or counts each prediction in cells of its own, which ranks add up. One that needs
 * all scores in order, as AUC does, has cells for each prediction: only one rank fills them, so
 * that their sum over the ranks has the same bits on any number of ranks. */
#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/registry.h"
#include "learner/metrics.h"

/* The mean over the classes that occur as a label or as a prediction, as that of F1. at: of the
 * figure of a class. */
static double class_mean(const weft_report *r, size_t at)
{
    double sum = 0, figure;
    int present = 0;
    for (int c = 0; c < r->classes; c++) {
        const weft_class_figures *f = &r->by_class[c];
        memcpy(&figure, (const char *)f + at, sizeof(figure));
        present += f->support > 0 || f->predicted > 0;
        sum += figure;
    }
    return present ? sum / present : 0;
}

static double precision_macro(const weft_metric_sums *s, const weft_report *r, const double *cell)
{
    (void)s;
    (void)cell;
    return class_mean(r, offsetof(weft_class_figures, precision));
}

static double recall_macro(const weft_metric_sums *s, const weft_report *r, const double *cell)
{
    (void)s;
    (void)cell;
    return class_mean(r, offsetof(weft_class_figures, recall));
}

/* A class has h hits among s labels and p predictions: F1 is 2 h / (s + p), and the intersection
 * over the union h / (s + p - h). */
static double iou_macro(const weft_metric_sums *s, const weft_report *r, const double *cell)
{
    double sum = 0;
    int present = 0;
    (void)s;
    (void)cell;
    for (int c = 0; c < r->classes; c++) {
        const weft_class_figures *f = &r->by_class[c];
        present += f->support > 0 || f->predicted > 0;
        sum += f->f1 / (2 - f->f1);
    }
    return present ? sum / present : 0;
}

/* --- the true class among the five most probable ones --- */

static int64_t one_cell(const weft_data_stats *stats, int64_t predictions)
{
    (void)stats;
    (void)predictions;
    return 1;
}

/* The first one of classes with equal scores counts as more probable, as for accuracy. */
static void add_top5(double *cell, const weft_scored *p)
{
    int above = 0;
    for (int c = 0; c < p->classes; c++)
        above += p->scores[c] > p->scores[p->label] ||
                 (p->scores[c] == p->scores[p->label] && c < p->label);
    if (above < 5) *cell += p->weight;
}

static double share(const weft_metric_sums *s, const weft_report *r, const double *cell)
{
    double all = weft_metric_weight(s);
    (void)r;
    return all > 0 ? *cell / all : 0;
}

/* Sums the cross entropy, since the loss of the run may be another one. A probability that f32
 * rounds to 0 counts as the least above it. */
static void add_cross_entropy(double *cell, const weft_scored *p)
{
    float of_label = p->scores[p->label];
    *cell -= p->weight * log((double)(of_label == 0 ? FLT_TRUE_MIN : of_label));
}

static double perplexity(const weft_metric_sums *s, const weft_report *r, const double *cell)
{
    return exp(share(s, r, cell));
}

/* --- area under the receiver operating characteristic --- */

/* The cells of a prediction: its weight, its class, and the score of each class; with labels of 0
 * and 1 the probability of each, and behind them their values. */
enum { AUC_WEIGHT, AUC_LABEL, AUC_SCORES };

static int64_t auc_cells(const weft_data_stats *stats, int64_t predictions)
{
    int64_t each = AUC_SCORES + (stats->binary ? 2 * stats->targets : stats->classes);
    return predictions > INT64_MAX / each ? INT64_MAX : predictions * each;
}

static void add_auc(double *cell, const weft_scored *p)
{
    double *own = cell + p->index * (AUC_SCORES + (p->target ? 2 : 1) * p->classes);
    own[AUC_WEIGHT] = p->weight;
    own[AUC_LABEL] = p->label;
    for (int c = 0; c < p->classes; c++)
        own[AUC_SCORES + c] = p->target ? p->said[c] : (double)p->scores[c];
    for (int c = 0; p->target && c < p->classes; c++)
        own[AUC_SCORES + p->classes + c] = p->target[c];
}

typedef struct scored {
    double score, weight;
    bool own; /* it is of the class */
} scored;

static int by_score(const void *a, const void *b)
{
    const scored *x = a, *y = b;
    if (x->score != y->score) return x->score < y->score ? -1 : 1;
    if (x->own != y->own) return x->own ? 1 : -1;
    return x->weight < y->weight ? -1 : x->weight > y->weight;
}

/* The share of the pairs of a sample of the class and another one, by weight, in which the former
 * has the greater score; equal scores count half. NaN: there is no such pair. */
static double area(scored *p, int64_t count)
{
    double others = 0, own = 0, sum = 0;
    qsort(p, (size_t)count, sizeof(*p), by_score);
    for (int64_t i = 0, j; i < count; i = j) {
        double tied = 0, beside = 0;
        for (j = i; j < count && p[j].score == p[i].score; j++) {
            tied += p[j].own ? p[j].weight : 0;
            beside += p[j].own ? 0 : p[j].weight;
        }
        sum += tied * (others + beside / 2);
        own += tied;
        others += beside;
    }
    return own > 0 && others > 0 ? sum / (own * others) : (double)NAN;
}

/* The mean over the classes that occur, each against the rest, or over labels. */
static double auc(const weft_metric_sums *s, const weft_report *r, const double *cell)
{
    int classes = s->binary ? r->targets : r->classes;
    int64_t each = AUC_SCORES + (s->binary ? 2 : 1) * (int64_t)classes, count = 0;
    double sum = 0;
    int known = 0;
    scored *p;
    if (WEFT_NEW(&p, WEFT_MAX(s->predictions, (int64_t)1)) != WEFT_OK) return (double)NAN;
    for (int c = 0; c < classes; c++, count = 0) {
        for (int64_t i = 0; i < s->predictions; i++) {
            const double *own = cell + i * each;
            bool is = s->binary ? own[AUC_SCORES + classes + c] > 0.5 : (int)own[AUC_LABEL] == c;
            if (own[AUC_WEIGHT] > 0)
                p[count++] = (scored){own[AUC_SCORES + c], own[AUC_WEIGHT], is};
        }
        double one = area(p, count);
        if (r->by_label) r->by_label[c].auc = one;
        if (!isnan(one)) sum += one;
        known += !isnan(one);
    }
    free(p);
    return known ? sum / known : (double)NAN;
}

/* --- labels of 0 and 1 --- */

/* F1 of all ones of all labels together. */
static double f1_micro(const weft_metric_sums *s, const weft_report *r, const double *cell)
{
    double hits = 0, marked = 0;
    (void)s;
    (void)cell;
    for (int j = 0; j < r->targets; j++) {
        const weft_class_figures *f = &r->by_label[j].ones;
        hits += f->recall * f->support;
        marked += f->support + f->predicted;
    }
    return marked > 0 ? 2 * hits / marked : 0;
}

static void add_subset(double *cell, const weft_scored *p)
{
    bool right = true;
    for (int c = 0; c < p->classes && right; c++)
        right = (p->target[c] > 0.5) == (p->said[c] >= 0.5);
    if (right) *cell += p->weight;
}

/* --- the table --- */

static const weft_metric table[] = {
    {.name = "loss",
     .title = "loss",
     .summary =
         "the mean loss of the part that is evaluated; of numbers in units of their training "
         "deviation",
     .least = -INFINITY,
     .most = INFINITY,
     .classes = true,
     .numbers = true,
     .labels = true,
     .usual = true,
     .at = offsetof(weft_report, loss)},
    {.name = "accuracy",
     .title = "accuracy",
     .summary = "the share of predictions that are the true class, or of labels that are right",
     .least = 0,
     .most = 1,
     .classes = true,
     .labels = true,
     .usual = true,
     .rises = true,
     .at = offsetof(weft_report, accuracy)},
    {.name = "f1_macro",
     .title = "macro F1",
     .summary = "the mean of F1 over the classes that occur as a label or a prediction, or over "
                "labels",
     .least = 0,
     .most = 1,
     .classes = true,
     .labels = true,
     .usual = true,
     .rises = true,
     .at = offsetof(weft_report, f1_macro)},
    {.name = "f1_micro",
     .title = "micro F1",
     .summary = "F1 of the ones of all labels together",
     .least = 0,
     .most = 1,
     .labels = true,
     .usual = true,
     .rises = true,
     .value = f1_micro},
    {.name = "subset_accuracy",
     .title = "subset accuracy",
     .summary = "the share of samples of which all labels are right",
     .least = 0,
     .most = 1,
     .labels = true,
     .usual = true,
     .rises = true,
     .cells = one_cell,
     .add = add_subset,
     .value = share},
    {.name = "r2",
     .title = "R2",
     .summary = "the share of the variance of the targets that is explained",
     .least = -INFINITY,
     .most = 1,
     .numbers = true,
     .usual = true,
     .rises = true,
     .undefined = "undefined (the targets are all alike)",
     .at = offsetof(weft_report, fit.r2)},
    {.name = "mae",
     .title = "MAE",
     .summary = "the mean absolute error, in units of the targets",
     .least = 0,
     .most = INFINITY,
     .numbers = true,
     .usual = true,
     .in_units = true,
     .at = offsetof(weft_report, fit.mae)},
    {.name = "rmse",
     .title = "RMSE",
     .summary = "the root of the mean squared error, in units of the targets",
     .least = 0,
     .most = INFINITY,
     .numbers = true,
     .usual = true,
     .in_units = true,
     .at = offsetof(weft_report, fit.rmse)},
    {.name = "precision_macro",
     .title = "macro precision",
     .summary = "the mean over classes of the share of their predictions that are true",
     .least = 0,
     .most = 1,
     .classes = true,
     .rises = true,
     .value = precision_macro},
    {.name = "recall_macro",
     .title = "macro recall",
     .summary = "the mean over classes of the share of their samples that are found (balanced "
                "accuracy)",
     .least = 0,
     .most = 1,
     .classes = true,
     .rises = true,
     .value = recall_macro},
    {.name = "iou_macro",
     .title = "mean IoU",
     .summary = "the mean over classes of the intersection over the union of their labels and "
                "predictions",
     .least = 0,
     .most = 1,
     .classes = true,
     .rises = true,
     .value = iou_macro},
    {.name = "top5",
     .title = "top-5 accuracy",
     .summary = "the share of samples whose class is among the five most probable ones",
     .least = 0,
     .most = 1,
     .classes = true,
     .rises = true,
     .cells = one_cell,
     .add = add_top5,
     .value = share},
    {.name = "auc",
     .title = "AUC",
     .summary = "the area under the curve of true over false positives, the mean over classes, "
                "each against the rest, or over labels; keeps the scores of all predictions",
     .least = 0,
     .most = 1,
     .classes = true,
     .labels = true,
     .rises = true,
     .undefined = "undefined (no class has samples of it and others)",
     .cells = auc_cells,
     .add = add_auc,
     .value = auc},
    {.name = "perplexity",
     .title = "perplexity",
     .summary = "the exponential of the mean cross entropy, in nats, whatever the loss",
     .least = 1,
     .most = INFINITY,
     .classes = true,
     .cells = one_cell,
     .add = add_cross_entropy,
     .value = perplexity},
};

weft_status weft_metrics_register(weft_context *context)
{
    weft_entry entries[WEFT_COUNT(table)];
    for (size_t i = 0; i < WEFT_COUNT(table); i++)
        entries[i] = (weft_entry){.kind = WEFT_KIND_METRIC,
                                  .name = table[i].name,
                                  .summary = table[i].summary,
                                  .ops = &table[i]};
    return weft_registry_add(context, entries, WEFT_COUNT(table));
}

double weft_metric_value(const weft_metric *metric, const weft_metric_sums *sums,
                         const weft_report *report, const double *cell)
{
    double value;
    if (metric->value) return metric->value(sums, report, cell);
    memcpy(&value, (const char *)report + metric->at, sizeof(value));
    return value;
}

bool weft_metric_fits(const weft_metric *m, const weft_data_stats *stats)
{
    return stats->binary ? m->labels : stats->targets > 0 ? m->numbers : m->classes;
}

const weft_metric *weft_metric_at(const weft_context *context, int i)
{
    const weft_entry *e = weft_context_entry(context, WEFT_KIND_METRIC, i);
    return e ? e->ops : NULL;
}

typedef struct list {
    const weft_context *context;
    const char *option, *names;
    const weft_data_stats *stats;
    weft_text taken; /* the names before, with commas between them */
} list;

/* Refuses a metric that is not defined for the target of the data. */
static weft_status refuse_other(const list *l)
{
    const weft_metric *m;
    weft_text known = {0};
    for (int i = 0; (m = weft_metric_at(l->context, i)); i++)
        if (weft_metric_fits(m, l->stats))
            weft_text_add(&known, "%s%s", known.size ? ", " : "", m->name);
    weft_status status = weft_fail(
        WEFT_ERR_ARGUMENT, "%s is '%s', must be of the metrics of %s: %s", l->option, l->names,
        l->stats->binary    ? "labels"
        : l->stats->targets ? "numbers"
                            : "classes",
        known.data);
    free(known.data);
    return status;
}

static weft_status take_name(void *user, char *name)
{
    list *l = user;
    const weft_entry *entry;
    weft_status status =
        weft_registry_find(l->context, WEFT_KIND_METRIC, name, strlen(name), &entry);
    if (status != WEFT_OK) return weft_fail_within(status, "%s '%s'", l->option, l->names);
    if (!weft_metric_fits(entry->ops, l->stats)) return refuse_other(l);
    if (l->taken.data && weft_is_listed(l->taken.data, name))
        return weft_fail(WEFT_ERR_ARGUMENT, "%s '%s': %s is given twice", l->option, l->names,
                         name);
    weft_text_add(&l->taken, "%s%s", l->taken.size ? "," : "", name);
    return l->taken.failed ? weft_fail(WEFT_ERR_MEMORY, "out of memory") : WEFT_OK;
}

weft_status weft_metrics_check(const weft_context *context, const char *option, const char *names,
                               const weft_data_stats *stats)
{
    list l = {.context = context, .option = option, .names = names, .stats = stats};
    if (!names) return WEFT_OK;
    weft_status status = weft_each_piece(option, names, take_name, &l);
    free(l.taken.data);
    return status;
}
