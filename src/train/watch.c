/* Watches a run: the mean training loss between evaluations, and the best evaluation, after which
 * --patience ends the run. All ranks decide alike, since a report is the same on all ranks of a
 * learner, and its metric is the mean over the learners. A checkpoint has what was watched. */
#include <math.h>

#include "base/registry.h"
#include "train/trainer.h"

void weft_watch_step(weft_run *run, double loss, double weight)
{
    if (!(weight > 0)) return;
    run->watch.loss += loss * weight;
    run->watch.weight += weight;
}

double weft_watch_mean(weft_watch *w)
{
    double mean = w->weight > 0 ? w->loss / w->weight : (double)NAN;
    w->loss = w->weight = 0;
    return mean;
}

/* The metric by which evaluations are compared, or NULL. */
static const char *metric_of(const weft_train_options *o)
{
    if (o->output.keep_best) return o->output.keep_best;
    return o->length.patience > 0 ? "loss" : NULL;
}

/* Finds a metric in a report by its name. */
static bool find_figure(const weft_report *report, const char *name, weft_figure *out)
{
    for (int i = 0; weft_report_figure(report, i, out); i++)
        if (strcmp(out->name, name) == 0) return true;
    return false;
}

weft_status weft_watch_check(const weft_trainer *t)
{
    const weft_train_options *o = &t->options;
    const weft_data_stats *s = weft_dataset_stats(t->data);
    WEFT_TRY(weft_metrics_check(t->context, "metric", o->output.metric, s));
    if (!metric_of(o)) return WEFT_OK;
    bool kept = o->output.checkpoint || o->show.best || o->length.patience > 0;
    if (o->output.keep_best && !kept)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "keep-best is '%s', and there is no --checkpoint DIR that keeps anything; "
                         "give it, or --patience, which follows the same metric",
                         o->output.keep_best);
    if (t->watched != WEFT_VALIDATION)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "%s chooses by an evaluation, and test data that have chosen no longer "
                         "judge; give --validation SHARE or other data",
                         o->output.keep_best ? "keep-best" : "patience");
    return weft_metrics_check(t->context, "keep-best", metric_of(o), s);
}

void weft_watch_begin(weft_run *run)
{
    const weft_trainer *t = run->job;
    if (!t->resumed.path) return;
    run->watch = t->resumed.watch;
    const char *then = weft_settings_find(&t->resumed.settings, "keep-best");
    const char *now = t->options.output.keep_best;
    bool same = now && then ? strcmp(now, then) == 0 : now == then;
    if (!same) run->watch.best_step = run->watch.waited = 0;
}

bool weft_watch_ends(const weft_run *run)
{
    int64_t patience = run->job->options.length.patience;
    return patience > 0 && run->watch.waited >= patience;
}

weft_status weft_watch_evaluated(weft_run *run, const weft_report *report, bool *best)
{
    const weft_rank *r = &run->rank;
    const char *name = metric_of(&run->job->options);
    weft_watch *w = &run->watch;
    weft_figure f;
    const weft_entry *entry;
    *best = false;
    if (!name || r->position.step <= w->step || !find_figure(report, name, &f)) return WEFT_OK;
    WEFT_TRY(weft_registry_find(run->job->context, WEFT_KIND_METRIC, name, strlen(name), &entry));
    bool rises = ((const weft_metric *)entry->ops)->rises;
    double sums[2] = {f.value, 1};
    for (int i = 0; i < 2 && r->exchange; i++)
        WEFT_TRY(weft_exchange_sum(r->exchange, "the metric of an evaluation", &sums[i]));
    double value = sums[0] / sums[1];
    *best = isfinite(value) && (w->best_step == 0 || (rises ? value > w->best : value < w->best));
    w->step = r->position.step;
    w->waited = *best ? 0 : w->waited + 1;
    if (*best) w->best_step = w->step;
    if (*best) w->best = value;
    return WEFT_OK;
}

void weft_watch_note_end(const weft_run *run)
{
    const weft_watch *w = &run->watch;
    weft_log(run->job->context, WEFT_LOG_NOTE,
             "the run ends after step %lld: %s of the validation was best after step %lld (%.6g), "
             "and not better in the %lld evaluation%s since",
             (long long)run->rank.position.step, metric_of(&run->job->options),
             (long long)w->best_step, w->best, (long long)w->waited, weft_plural(w->waited));
}
