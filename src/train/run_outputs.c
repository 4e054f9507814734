/* Makes the outputs of a run on one rank: events for metrics files and displays, evaluations,
 * checkpoints. */
#include <math.h>

#include "train/estimate/first_steps.h"
#include "train/trainer.h"

bool weft_run_reports(const weft_run *run)
{
    const weft_trainer *t = run->job;
    return run->rank.learner_index == 0 || (t->linked && !t->link.job);
}

/* The epoch of an event, counted from 1; at the end of an epoch the next step is in the next one.
 */
static int64_t epoch_of(const weft_position *p, weft_event_kind kind)
{
    bool next = kind == WEFT_EVENT_START || kind == WEFT_EVENT_BEGIN;
    return p->epoch + (next || p->batch > 0 || p->samples > 0);
}

weft_status weft_run_report(const weft_run *run, weft_event *e)
{
    weft_trainer *t = run->job;
    const weft_rank *r = &run->rank;
    if (r->rank != 0 || !weft_run_reports(run)) return WEFT_OK;
    e->step = r->position.step;
    e->epoch = epoch_of(&r->position, e->kind);
    e->total_steps = t->total_steps;
    e->epochs = t->options.length.steps ? 0 : t->options.length.epochs;
    e->samples = t->samples;
    e->parameters = t->parameters;
    e->ranks = t->link.job ? t->mesh * t->learners : t->size;
    e->learners = t->learners;
    e->process_ranks = t->local;
    e->threads = weft_context_threads(t->context);
    e->threads_by = t->threads_by;
    e->since = run->first_step;
    if (r->instance)
        e->device = weft_program_describe(weft_instance_program(r->instance)).device_about;
    e->seconds = t->clock.seconds > 0 ? (double)r->position.step * t->clock.seconds
                                      : weft_seconds() - run->started;
    if (t->metrics) WEFT_TRY(weft_metrics_event(t->metrics, e));
    if (t->first_steps) weft_first_steps_note(t->first_steps, e);
    if (t->fn) t->fn(t->user, e);
    return WEFT_OK;
}

weft_status weft_run_evaluate(weft_run *run, weft_split split)
{
    weft_report report;
    weft_rank *r = &run->rank;
    if (weft_dataset_count(run->job->data, split) == 0 ||
        run->evaluated_step[split] == r->position.step)
        return WEFT_OK;
    /* Freed memory of messages is not there beside the evaluation's, nor the reverse. */
    weft_trim_memory();
    WEFT_TRY(weft_rank_evaluate(r, split, &report));
    weft_trim_memory();
    weft_event e = {
        .kind = WEFT_EVENT_EVAL, .report = &report, .train_loss = NAN, .path = run->weights};
    weft_status status = WEFT_OK;
    if (split == run->job->watched) {
        run->watched_loss = report.loss;
        e.train_loss = weft_watch_mean(&run->watch);
        status = weft_watch_evaluated(run, &report, &e.best);
        if (e.best) run->saved_step = -1; /* a checkpoint of this step is not yet the best one */
    }
    if (status == WEFT_OK) status = weft_run_report(run, &e);
    weft_report_free(&report);
    run->evaluated_step[split] = r->position.step;
    if (status == WEFT_OK && weft_run_reports(run) && split == run->job->watched)
        status = weft_metrics_parameters(run->job, r);
    return status;
}

bool weft_run_is_best(const weft_run *run)
{
    return run->job->options.output.keep_best && run->watch.best_step == run->rank.position.step;
}

weft_status weft_run_save(weft_run *run)
{
    weft_trainer *t = run->job;
    weft_rank *r = &run->rank;
    if (!t->options.output.checkpoint || run->saved_step == r->position.step) return WEFT_OK;
    if (!weft_run_reports(run) && (t->linked || !weft_rank_saves_all(r))) return WEFT_OK;
    run->saved_step = r->position.step;
    weft_trim_memory();
    if (r->exchange) WEFT_TRY(weft_exchange_save(r->exchange));
    if (!weft_rank_saves_all(r))
        WEFT_TRY(weft_exchange_transfer_state(r->exchange, r->position.step));
    weft_trim_memory();
    char *path = NULL;
    weft_checkpoint_source source = {.store = r->store,
                                     .graph = r->graph,
                                     .comms = &r->comms,
                                     .between =
                                         weft_rank_saves_all(r) && !t->linked ? r->endpoint : NULL,
                                     .exchange = r->exchange};
    weft_checkpoint_record record = {.position = weft_trainer_position(t, r->position),
                                     .settings = &t->settings,
                                     .stats = weft_dataset_stats(t->data),
                                     .splits = t->splits,
                                     .model = &t->model,
                                     .tuning = &t->tuning,
                                     .run = t->link.run,
                                     .watch = run->watch,
                                     .best = weft_run_is_best(run)};
    if (weft_dataset_count(t->data, t->watched) == 0)
        record.watch = (weft_watch){.noise = run->watch.noise};
    WEFT_TRY(weft_checkpoint_save(&source, &record, t->options.output.checkpoint,
                                  t->options.output.keep, &path));
    weft_event e = {.kind = WEFT_EVENT_CHECKPOINT, .path = path};
    weft_status status = weft_run_report(run, &e);
    free(path);
    return status;
}

/* --- the end --- */

/* Whether the run has kept weights that are better than its last ones. */
static bool has_better(const weft_run *run)
{
    const weft_output_choice *o = &run->job->options.output;
    return o->keep_best && o->checkpoint && run->watch.best_step > 0 &&
           run->watch.best_step != run->rank.position.step;
}

/* Whether the checkpoint is that of the best evaluation, and tells what this run evaluates: a run
 * that averages its parameters (--ema) has no averages of one that did not. */
static bool is_best(const weft_run *run, const weft_checkpoint *c)
{
    bool averages = run->job->options.weights.ema && !weft_settings_find(&c->settings, "ema");
    return c->position.step == run->watch.best_step && !averages;
}

/* Loads the weights in DIR/best, if all ranks can read them. State that this run has no place for,
 * since it resumed with other options, is left. Collective over all ranks. */
static weft_status load_best(weft_run *run, const char *folder, bool *loaded)
{
    static const char what[] = "whether the best weights are there";
    const weft_rank *r = &run->rank;
    const weft_option *table = weft_train_table(run->job->context);
    weft_checkpoint c = {0};
    weft_dropped dropped = {0};
    double lacks = weft_checkpoint_open_model(folder, table, &c) != WEFT_OK || !is_best(run, &c);
    weft_status status = weft_sum_over(r->learner, what, &lacks, 1);
    if (status == WEFT_OK && r->exchange) status = weft_exchange_sum(r->exchange, what, &lacks);
    *loaded = status == WEFT_OK && lacks == 0;
    if (*loaded)
        status =
            weft_checkpoint_load_learner(&c, r->store, r->graph, r->learner_index, false, &dropped);
    weft_dropped_free(&dropped);
    weft_checkpoint_close(&c);
    return status;
}

static void note_best(const weft_run *run, const char *folder, bool loaded)
{
    const weft_output_choice *o = &run->job->options.output;
    if (run->rank.rank != 0 || !weft_run_reports(run)) return;
    weft_log(run->job->context, loaded ? WEFT_LOG_NOTE : WEFT_LOG_WARNING,
             "%s %s the weights that were best by %s of the validation, those after step %lld%s; "
             "%s alone names the last ones, those after step %lld",
             folder, loaded ? "has" : "should have", o->keep_best, (long long)run->watch.best_step,
             loaded ? "" : ", and the last ones are evaluated in their place", o->checkpoint,
             (long long)run->rank.position.step);
}

weft_status weft_run_finish_outputs(weft_run *run, bool done)
{
    char *folder = NULL;
    bool saves = done || run->job->clock.seconds <= 0, loaded = false;
    if (done) WEFT_TRY(weft_run_evaluate(run, run->job->watched));
    const bool better = done && has_better(run);
    if (done && !better) WEFT_TRY(weft_run_evaluate(run, WEFT_TEST));
    if (saves) WEFT_TRY(weft_run_save(run));
    if (!better) return WEFT_OK;
    WEFT_TRY(weft_format(&folder, "%s/" WEFT_BEST, run->job->options.output.checkpoint));
    weft_status status = load_best(run, folder, &loaded);
    if (status == WEFT_OK) note_best(run, folder, loaded);
    run->weights = loaded ? folder : NULL;
    if (status == WEFT_OK) status = weft_run_evaluate(run, WEFT_TEST);
    run->weights = NULL;
    free(folder);
    return status;
}
