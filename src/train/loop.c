/* The training loop. */
#include <math.h>

#include "data/data.h"
#include "train/trainer.h"

static weft_status tell(weft_trainer *t, weft_event *e)
{
    e->step = t->position.step;
    e->total_steps = t->total_steps;
    e->epochs = t->options.epochs;
    e->samples = t->samples;
    e->parameters = t->parameters;
    e->seconds = weft_seconds() - t->started;
    if (t->metrics) WEFT_TRY(weft_metrics_event(t->metrics, e));
    if (t->fn) t->fn(t->user, e);
    return WEFT_OK;
}

static weft_status evaluate(weft_trainer *t)
{
    weft_report report;
    WEFT_TRY(weft_dataset_prepare(t->data, WEFT_TEST));
    if (weft_dataset_count(t->data, WEFT_TEST) == 0) return WEFT_OK;
    if (!t->evaluator) {
        weft_shape shape = weft_dataset_shape(t->data);
        WEFT_TRY(weft_evaluator_create(t->context, t->store, &t->options, &t->model, &shape,
                                       weft_dataset_stats(t->data)->classes, t->micro,
                                       &t->evaluator));
    }
    WEFT_TRY(weft_evaluator_run(t->evaluator, t->data, WEFT_TEST, &report, NULL, NULL));
    weft_event e = {.kind = WEFT_EVENT_EVAL, .epoch = t->position.epoch, .report = &report};
    weft_status status = tell(t, &e);
    weft_report_free(&report);
    t->evaluated_step = t->position.step;
    return status;
}

static weft_status save(weft_trainer *t)
{
    if (!t->options.checkpoint || t->saved_step == t->position.step) return WEFT_OK;
    char *path = NULL;
    WEFT_TRY(weft_checkpoint_save(t->store, &t->options, weft_dataset_stats(t->data), &t->model,
                                  t->position, &path));
    t->saved_step = t->position.step;
    weft_event e = {.kind = WEFT_EVENT_CHECKPOINT, .epoch = t->position.epoch, .path = path};
    weft_status status = tell(t, &e);
    free(path);
    return status;
}

static weft_status explain_loss(weft_trainer *t, double loss)
{
    char *where = NULL;
    WEFT_TRY(weft_program_diagnose(t->program, &where));
    weft_status status = weft_fail(WEFT_ERR_NUMERIC,
                                   "step %lld: the loss is %g; %s. Nothing was updated in this "
                                   "step. A smaller --lr, --clip-norm or "
                                   "--warmup may help",
                                   (long long)t->position.step + 1, loss,
                                   where ? where : "running the step again gave finite numbers");
    weft_free(where);
    return status;
}

/* Forward and backward of every micro-batch, then, if the loss is a number, the update. */
static weft_status run_step(weft_trainer *t, const weft_batch *b, int64_t each, double *loss)
{
    *loss = 0;
    for (int64_t m = 0; m < t->options.accumulate; m++) {
        int64_t first = m * t->micro;
        float keep = m > 0;
        int32_t sample = (int32_t)first;
        weft_feed(t->graph, t->program, t->values.x, b->x + first * each, t->micro * each);
        weft_feed(t->graph, t->program, t->values.weights, b->weights + first, t->micro);
        weft_feed_int(t->program, t->values.labels, b->labels + first, t->micro);
        weft_feed_int(t->program, t->values.first_sample, &sample, 1);
        if (t->optimizer.keep != WEFT_NO_VALUE)
            weft_feed(t->graph, t->program, t->optimizer.keep, &keep, 1);
        WEFT_TRY(weft_program_run(t->program, WEFT_PHASE_MICRO));
        *loss += weft_fetch(t->graph, t->program, t->values.loss, 0);
        if (!isfinite(*loss)) return explain_loss(t, *loss);
    }
    return weft_program_run(t->program, WEFT_PHASE_UPDATE);
}

static weft_status after_step(weft_trainer *t, const weft_batch *b, double loss)
{
    double now = weft_seconds();
    t->position.step++;
    t->position.batch = b->last ? 0 : b->index + 1;
    t->position.epoch = b->last ? b->epoch + 1 : b->epoch;
    weft_event e = {.kind = WEFT_EVENT_STEP,
                    .epoch = b->epoch,
                    .loss = loss,
                    .lr = weft_fetch(t->graph, t->program, t->optimizer.learning_rate, 0),
                    .samples_per_second = (double)b->valid / (now - t->last_step)};
    if (t->first_step_seconds == 0) t->first_step_seconds = weft_process_seconds();
    t->working += now - t->last_step;
    t->last_step = now;
    WEFT_TRY(tell(t, &e));
    int64_t every = t->options.checkpoint_every;
    bool due = every && t->position.step % every == 0;
    if (b->last) WEFT_TRY(evaluate(t));
    if (b->last || due) WEFT_TRY(save(t));
    if (b->last || due) t->last_step = weft_seconds();
    return WEFT_OK;
}

static weft_status run_steps(weft_trainer *t, weft_loader *loader)
{
    weft_shape shape = weft_dataset_shape(t->data);
    int64_t each = weft_shape_elements(&shape);
    while (t->position.step < t->total_steps && !t->stop) {
        const weft_batch *batch = weft_loader_next(loader);
        double loss;
        if (!batch) break;
        WEFT_TRY(run_step(t, batch, each, &loss));
        WEFT_TRY(after_step(t, batch, loss));
    }
    return WEFT_OK;
}

static weft_status finish(weft_trainer *t)
{
    bool done = !t->stop;
    if (done && t->evaluated_step != t->position.step) WEFT_TRY(evaluate(t));
    WEFT_TRY(save(t));
    int64_t steps = t->position.step - t->first_step;
    weft_event e = {.kind = WEFT_EVENT_SUMMARY,
                    .epoch = t->position.epoch,
                    .peak_memory = weft_peak_memory(),
                    .first_step_seconds = t->first_step_seconds,
                    .samples_per_second =
                        t->working > 0 ? (double)(steps * t->options.batch) / t->working : 0};
    WEFT_TRY(tell(t, &e));
    WEFT_TRY(weft_metrics_close(&t->metrics));
    if (t->options.trace) WEFT_TRY(weft_program_trace_write(t->program, t->options.trace));
    if (done) return WEFT_OK;
    return weft_fail(
        WEFT_ERR_INTERRUPTED, "stopped after step %lld%s%s", (long long)t->position.step,
        t->options.checkpoint ? "; go on with --resume from " : " (no --checkpoint was given)",
        t->options.checkpoint ? t->options.checkpoint : "");
}

weft_status weft_trainer_run(weft_trainer *t, weft_event_fn fn, void *user)
{
    weft_loader *loader;
    t->fn = fn;
    t->user = user;
    t->first_step = t->position.step;
    t->started = t->last_step = weft_seconds();
    weft_loader_options options = {.split = WEFT_TRAIN,
                                   .batch = t->options.batch,
                                   .seed = (uint64_t)t->options.seed,
                                   .shuffle = true,
                                   .epoch = t->position.epoch,
                                   .index = t->position.batch,
                                   .epochs = t->options.steps ? INT64_MAX : t->options.epochs};
    weft_event e = {.kind = WEFT_EVENT_START, .epoch = t->position.epoch};
    WEFT_TRY(tell(t, &e));
    WEFT_TRY(weft_loader_start(t->data, &options, &loader));
    t->last_step = weft_seconds();
    weft_status status = run_steps(t, loader);
    weft_loader_stop(&loader);
    return status == WEFT_OK ? finish(t) : status;
}
