/* The training loop of one rank. All ranks of a learner take every step together; what must be
 * agreed on (the loss, whether to stop) is added up over them once a step. */
#include <math.h>
#include <stdio.h>

#include "train/trainer.h"

weft_status weft_sum_over(weft_comm *comm, const char *what, double *numbers, int64_t n)
{
    return weft_comm_run(comm, &(weft_transfer){.kind = WEFT_ALL_REDUCE,
                                                .dtype = WEFT_F64,
                                                .what = what,
                                                .send = numbers,
                                                .receive = numbers,
                                                .count = n,
                                                .reproducible = true});
}

/* Only rank 0 speaks. */
static weft_status tell(weft_rank *r, weft_event *e)
{
    weft_trainer *t = r->job;
    if (r->rank != 0) return WEFT_OK;
    e->step = r->position.step;
    e->total_steps = t->total_steps;
    e->epochs = t->options.epochs;
    e->samples = t->samples;
    e->parameters = t->parameters;
    e->ranks = t->size;
    e->learners = t->learners;
    e->seconds = weft_seconds() - r->started;
    if (t->metrics) WEFT_TRY(weft_metrics_event(t->metrics, e));
    if (t->fn) t->fn(t->user, e);
    return WEFT_OK;
}

static weft_status evaluate(weft_rank *r)
{
    weft_report report;
    weft_trainer *t = r->job;
    if (weft_dataset_count(t->data, WEFT_TEST) == 0) return WEFT_OK;
    if (!r->evaluator) {
        weft_shape shape = weft_dataset_shape(t->data);
        weft_share share = {r->plan, r->rank % t->mesh, &r->comms};
        WEFT_TRY(weft_evaluator_create(t->context, r->store, &t->options, &t->model, &shape,
                                       weft_dataset_stats(t->data)->classes, t->micro, &share,
                                       &r->evaluator));
    }
    WEFT_TRY(weft_evaluator_run(r->evaluator, t->data, WEFT_TEST, &report, NULL, NULL));
    weft_event e = {.kind = WEFT_EVENT_EVAL, .epoch = r->position.epoch, .report = &report};
    weft_status status = tell(r, &e);
    weft_report_free(&report);
    r->evaluated_step = r->position.step;
    return status;
}

/* The first rank gathers the parts of the others, and writes. */
static weft_status save(weft_rank *r)
{
    weft_trainer *t = r->job;
    if (!t->options.checkpoint || r->saved_step == r->position.step) return WEFT_OK;
    r->saved_step = r->position.step;
    char *path = NULL;
    weft_checkpoint_source source = {.store = r->store,
                                     .graph = r->graph,
                                     .comms = &r->comms,
                                     .between = t->learners > 1 ? r->between : NULL,
                                     .exchange = r->exchange};
    WEFT_TRY(weft_checkpoint_save(&source, &t->options, weft_dataset_stats(t->data), &t->model,
                                  r->position, &path));
    weft_event e = {.kind = WEFT_EVENT_CHECKPOINT, .epoch = r->position.epoch, .path = path};
    weft_status status = tell(r, &e);
    free(path);
    return status;
}

/* --- a step --- */

static void feed_scalar(weft_rank *r, weft_value v, double value)
{
    const weft_graph *g = weft_rewritten_graph(r->mine);
    weft_value local = weft_rewritten_value(r->mine, v);
    void *to = local == WEFT_NO_VALUE ? NULL : weft_instance_input(r->instance, local);
    if (!to) return;
    weft_dtype dtype = weft_graph_value_type(g, local).dtype;
    if (dtype == WEFT_I32) *(int32_t *)to = (int32_t)value;
    if (dtype == WEFT_F32) *(float *)to = (float)value;
    if (dtype == WEFT_F64) *(double *)to = value;
}

/* Where the rows of a micro-batch begin as rank 0 of the data axis counts them. The virtual workers
 * of a rank follow each other, those of one micro-batch do not. */
static int64_t first_row(const weft_rank *r, int m)
{
    const weft_trainer *t = r->job;
    int64_t d = weft_plan_coordinate(r->plan, r->rank % t->mesh, 0);
    if (t->worker == 0) return m * t->micro;
    return (d * t->microbatches + m - d) * t->worker;
}

void weft_rank_feed(weft_rank *r, const weft_batch *b, int m)
{
    const weft_graph *g = weft_rewritten_graph(r->mine);
    weft_shape sample = weft_dataset_shape(r->job->data);
    int64_t first = first_row(r, m), each = weft_shape_elements(&sample);
    const weft_value x = weft_rewritten_value(r->mine, r->values.x);
    const weft_value weights = weft_rewritten_value(r->mine, r->values.weights);
    const weft_value labels = weft_rewritten_value(r->mine, r->values.labels);
    weft_feed(g, r->instance, x, b->x + first * each, WEFT_F32);
    weft_feed(g, r->instance, weights,
              (const char *)b->weights + (size_t)first * weft_dtype_size(weft_graph_real(g)),
              weft_graph_real(g));
    weft_feed(g, r->instance, labels, b->labels + first, WEFT_I32);
    feed_scalar(r, r->values.first_sample, (double)first);
    feed_scalar(r, r->optimizer.keep, m);
}

static double loss_share(weft_rank *r)
{
    weft_value local = weft_rewritten_value(r->mine, r->values.loss);
    if (!weft_rewritten_counts(r->mine, r->values.loss)) return 0;
    return weft_fetch(weft_rewritten_graph(r->mine), r->instance, local, 0);
}

/* What the ranks of a learner agree on between their passes and the update. */
typedef struct vote {
    double loss, stop;
} vote;

static void add_stats(weft_comm_stats *sum, const weft_comm_stats *since, const weft_rank *r)
{
    weft_comm_stats now = weft_comm_get_stats(r->world);
    sum->bytes += now.bytes - since->bytes;
    sum->seconds += now.seconds - since->seconds;
    sum->waited += now.waited - since->waited;
}

/* What the step's transfers came to over the learner, for those who keep metrics. */
static weft_status add_up_transfers(weft_rank *r, weft_event *e)
{
    double n = r->job->mesh,
           sums[] = {(double)r->used.bytes, r->used.seconds, r->used.waited, r->bubble, r->passes};
    if (!r->job->options.metrics) return WEFT_OK;
    WEFT_TRY(weft_sum_over(r->learner, "the figures of a step", sums, 5));
    e->comm_bytes = sums[0];
    e->comm_seconds = sums[1] / n;
    e->exposed_comm_seconds = sums[2] / n;
    e->bubble_fraction = weft_plan_places(r->plan) > 1 ? sums[3] / sums[4] : 0;
    return WEFT_OK;
}

/* Forward and backward of every micro-batch, then, if the loss is a number, the update. */
static weft_status run_step(weft_rank *r, const weft_batch *b, vote *out)
{
    const weft_schedule *s = &r->schedule;
    weft_comm_stats before = weft_comm_get_stats(r->world);
    double began = weft_seconds();
    if (r->rank == 0 && weft_board_listen(&r->job->line)) weft_trainer_stop(r->job);
    *out = (vote){.stop = atomic_load_explicit(&r->job->stop, memory_order_relaxed)};
    weft_board_step(&r->job->line, r->rank, r->position.step + 1);
    for (int i = 0; i < s->count; i++) {
        const weft_action *a = &s->actions[i];
        weft_instance_set_slot(r->instance, a->micro % s->slots);
        if (a->phase == WEFT_PHASE_FORWARD) weft_rank_feed(r, b, a->micro);
        WEFT_TRY(weft_instance_run(r->instance, a->phase));
        if (a->phase == WEFT_PHASE_BACKWARD) out->loss += loss_share(r);
    }
    r->used = (weft_comm_stats){0};
    add_stats(&r->used, &before, r);
    r->passes = weft_seconds() - began;
    r->bubble = r->used.waited;
    WEFT_TRY(weft_sum_over(r->learner, "the loss", &out->loss, sizeof(*out) / sizeof(double)));
    if (!isfinite(out->loss)) return weft_rank_explain(r, b, out->loss);
    before = weft_comm_get_stats(r->world);
    WEFT_TRY(weft_instance_run(r->instance, WEFT_PHASE_UPDATE));
    add_stats(&r->used, &before, r);
    return WEFT_OK;
}

static weft_status after_step(weft_rank *r, const weft_batch *b, const vote *v, bool *stop)
{
    weft_trainer *t = r->job;
    double now = weft_seconds();
    weft_value lr = weft_rewritten_value(r->mine, r->optimizer.learning_rate);
    r->position.step++;
    r->position.batch = b->last ? 0 : b->index + 1;
    r->position.epoch = b->last ? b->epoch + 1 : b->epoch;
    bool met = false, last = r->position.step == t->total_steps;
    *stop = v->stop > 0;
    weft_comm_stats exchanged = weft_comm_get_stats(r->world);
    if (r->exchange) {
        WEFT_TRY(weft_exchange_step(r->exchange, r->position.step, last, &met));
        add_stats(&r->used, &exchanged, r);
        double all = *stop;
        if (met || b->last) WEFT_TRY(weft_sum_over(r->between, "whether to stop", &all, 1));
        *stop = (met || b->last) && all > 0;
    }
    weft_event e = {.kind = WEFT_EVENT_STEP,
                    .epoch = b->epoch,
                    .loss = v->loss,
                    .lr = weft_fetch(weft_rewritten_graph(r->mine), r->instance, lr, 0),
                    .samples_per_second = (double)b->total / (now - r->last_step)};
    WEFT_TRY(add_up_transfers(r, &e));
    if (r->first_step_seconds == 0) r->first_step_seconds = weft_process_seconds();
    r->working += now - r->last_step;
    r->last_step = now;
    WEFT_TRY(tell(r, &e));
    if (t->size == 1) *stop = atomic_load(&t->stop) != 0; /* nobody to agree with */
    int64_t every = t->options.checkpoint_every;
    bool due = every && r->position.step % every == 0;
    if (b->last) WEFT_TRY(evaluate(r));
    if (b->last || due) WEFT_TRY(save(r));
    if (b->last || due) r->last_step = weft_seconds();
    return WEFT_OK;
}

static weft_status run_steps(weft_rank *r, weft_loader *loader)
{
    bool stop = false;
    while (r->position.step < r->job->total_steps && !stop) {
        const weft_batch *batch = weft_loader_next(loader);
        vote v;
        if (!batch) break;
        WEFT_TRY(run_step(r, batch, &v));
        WEFT_TRY(after_step(r, batch, &v, &stop));
    }
    return WEFT_OK;
}

static weft_status finish(weft_rank *r)
{
    weft_trainer *t = r->job;
    bool done = r->position.step >= t->total_steps;
    double planned[WEFT_MAX_RANKS];
    if (done && r->evaluated_step != r->position.step) WEFT_TRY(evaluate(r));
    WEFT_TRY(save(r));
    WEFT_TRY(weft_gather_memory(r, planned));
    int64_t steps = r->position.step - r->first_step;
    weft_event e = {
        .kind = WEFT_EVENT_SUMMARY,
        .epoch = r->position.epoch,
        .peak_memory = weft_peak_memory(),
        .rank_memory = planned,
        .first_step_seconds = r->first_step_seconds,
        .samples_per_second =
            r->working > 0 ? (double)(steps * t->options.batch * t->learners) / r->working : 0};
    WEFT_TRY(tell(r, &e));
    if (r->rank == 0) WEFT_TRY(weft_metrics_close(&t->metrics));
    weft_board_stage(&t->line, r->rank, WEFT_STAGE_FINISHED);
    if (t->options.trace) WEFT_TRY(weft_trace_write(r, t->options.trace));
    if (done) return WEFT_OK;
    return weft_fail(
        WEFT_ERR_INTERRUPTED, "stopped after step %lld%s%s", (long long)r->position.step,
        t->options.checkpoint ? "; go on with --resume from " : " (no --checkpoint was given)",
        t->options.checkpoint ? t->options.checkpoint : "");
}

/* Rows of each micro-batch that this rank feeds. */
static void wanted_rows(const weft_rank *r, weft_loader_options *o)
{
    const weft_graph *g = weft_rewritten_graph(r->mine);
    weft_value local = weft_rewritten_value(r->mine, r->values.labels);
    weft_shape whole;
    int64_t start[WEFT_MAX_RANK];
    if (local == WEFT_NO_VALUE) return;
    weft_graph_part(g, local, &whole, start);
    if (r->job->worker > 0) {
        o->micro = r->job->slots;
        o->rows = r->job->microbatches * r->job->worker;
        o->first = weft_plan_coordinate(r->plan, r->rank % r->job->mesh, 0) * o->rows;
        return;
    }
    o->micro = whole.dim[0];
    o->first = start[0];
    o->rows = weft_graph_value_type(g, local).shape.dim[0];
}

weft_status weft_rank_run(weft_rank *r)
{
    weft_trainer *t = r->job;
    weft_loader *loader;
    r->first_step = r->position.step;
    r->started = r->last_step = weft_seconds();
    weft_loader_options options = {.split = WEFT_TRAIN,
                                   .batch = t->options.batch,
                                   .slots = t->slots,
                                   .parts = t->learners,
                                   .part = r->learner_index,
                                   .seed = (uint64_t)t->options.seed,
                                   .shuffle = true,
                                   .real = weft_graph_real(r->graph),
                                   .epoch = r->position.epoch,
                                   .index = r->position.batch,
                                   .epochs = t->options.steps ? INT64_MAX : t->options.epochs};
    wanted_rows(r, &options);
    if (r->rank == 0) WEFT_TRY(weft_trainer_open_outputs(t));
    weft_event e = {.kind = WEFT_EVENT_START, .epoch = r->position.epoch};
    WEFT_TRY(tell(r, &e));
    if (r->exchange) WEFT_TRY(r->exchange->ops->begin(r->exchange));
    WEFT_TRY(weft_loader_start(t->data, &options, &loader));
    r->last_step = weft_seconds();
    weft_status status = run_steps(r, loader);
    weft_loader_stop(&loader);
    return status == WEFT_OK ? finish(r) : status;
}

weft_status weft_trainer_run(weft_trainer *t, weft_event_fn fn, void *user)
{
    t->fn = fn;
    t->user = user;
    return weft_trainer_everywhere(t, weft_rank_run);
}
