/* Runs the training loop of one rank: its steps, and what follows them. */
#include <math.h>

#include "train/trainer.h"

static double mean_of(double sum, double count)
{
    return count > 0 ? sum / count : 0;
}

/* Sums the statistics of transfers and devices of the step over the learner's ranks, if metrics are
 * written. */
static weft_status add_up_transfers(const weft_run *run, weft_event *e)
{
    const weft_rank *r = &run->rank;
    weft_device_use use = weft_instance_device_use(r->instance);
    double n = run->job->mesh, timed = use.busy > 0, sized = use.total > 0;
    double sums[] = {(double)r->used.bytes,
                     r->used.seconds,
                     r->used.waited,
                     r->bubble,
                     r->passes,
                     use.busy,
                     timed,
                     (double)use.used,
                     (double)use.total,
                     sized};
    if (!run->job->options.output.metrics && !run->job->options.show.estimate) return WEFT_OK;
    WEFT_TRY(weft_sum_over(r->learner, "statistics of a step", sums, WEFT_COUNT(sums)));
    e->device_busy = mean_of(sums[5], sums[6]);
    e->device_used = mean_of(sums[7], sums[9]);
    e->device_total = mean_of(sums[8], sums[9]);
    e->comm_bytes = sums[0];
    e->comm_seconds = sums[1] / n;
    e->exposed_comm_seconds = sums[2] / n;
    e->bubble_fraction = weft_plan_places(r->plan) > 1 ? sums[3] / sums[4] : 0;
    return WEFT_OK;
}

/* Whether the evaluation and checkpoint of this step must wait for `finish`. Learners without lock
 * step have common parameters only after their exchange has ended, so the state after the last step
 * is evaluated and saved then. */
static bool saves_later(const weft_run *run, bool stop)
{
    const weft_rank *r = &run->rank;
    return !weft_rank_saves_all(r) && (stop || r->position.step == run->job->total_steps);
}

/* Whether a checkpoint follows a step, and whether an evaluation does, within an epoch. */
static bool saves_after(const weft_run *run, int64_t step)
{
    int64_t every = run->job->options.output.checkpoint_every;
    return every && step % every == 0;
}
static bool evaluates_after(const weft_run *run, int64_t step)
{
    int64_t every = run->job->options.output.evaluate_every;
    return every && step % every == 0;
}
static bool is_due(const weft_run *run, int64_t step)
{
    return saves_after(run, step) || evaluates_after(run, step);
}

bool weft_run_ends_phase(const weft_run *run)
{
    const weft_trainer *t = run->job;
    const weft_position *at = &run->rank.position;
    bool ends = run->changes || (t->phase_end > 0 && at->epoch >= t->phase_end);
    return ends && at->step < t->total_steps;
}

static weft_status after_step(weft_run *run, const weft_batch *b, const weft_step_consensus *v,
                              double noise_scale, bool *stop)
{
    weft_trainer *t = run->job;
    weft_rank *r = &run->rank;
    weft_event e = {.kind = WEFT_EVENT_STEP, .noise_scale = noise_scale};
    r->position.step++;
    r->position.batch = b->last ? 0 : r->position.batch + 1;
    r->position.samples = b->last ? 0 : b->done;
    r->position.epoch = b->last ? b->epoch + 1 : b->epoch;
    *stop = v->stop > 0;
    run->dismissed = t->linked && v->dismissed > 0 && v->stop <= 0;
    if (b->weight > 0) r->loss = v->loss;
    if (b->weight > 0) WEFT_TRY(weft_run_note_loss(run, v->loss, b->weight));
    weft_watch_step(run, v->loss, b->weight);
    weft_throughput_step(run, b, &e);
    WEFT_TRY(weft_rank_after_step(r, r->position.step == t->total_steps, b->last, stop));
    *stop = *stop || v->leave > 0;
    e.loss = b->weight > 0 ? v->loss : NAN;
    e.lr = weft_rank_learning_rate(r);
    e.host_seconds = r->host;
    WEFT_TRY(add_up_transfers(run, &e));
    if (run->first_step_seconds == 0) run->first_step_seconds = weft_process_seconds();
    WEFT_TRY(weft_run_report(run, &e));
    /* A single rank need not agree with others, so it stops at once, not after one more step. */
    if (t->size == 1 && !(r->exchange && weft_exchange_ends_together(r->exchange)))
        *stop = *stop || atomic_load(&t->stop);
    bool due = is_due(run, r->position.step);
    if (b->last || due) WEFT_TRY(weft_rank_settle(r));
    if (b->last || due) WEFT_TRY(weft_rank_check_finite(r));
    bool later = saves_later(run, *stop),
         others = !weft_run_reports(run) && !weft_rank_saves_all(r);
    if ((b->last || due) && others && !later)
        WEFT_TRY(weft_exchange_transfer_state(r->exchange, r->position.step));
    bool evaluates = b->last || evaluates_after(run, r->position.step);
    if (evaluates && !later) WEFT_TRY(weft_run_evaluate(run, t->watched));
    if (b->last) WEFT_TRY(weft_run_measure(run));
    if (b->last) WEFT_TRY(weft_run_rechoose(run));
    bool saves = b->last || saves_after(run, r->position.step) || weft_run_is_best(run);
    if (saves && !later && t->clock.seconds <= 0) WEFT_TRY(weft_run_save(run));
    *stop = *stop || weft_watch_ends(run) || weft_run_ends_phase(run);
    if (b->last || due) weft_throughput_begin(run);
    return WEFT_OK;
}

/* Reports the step to the supervisor, and reads its request to stop. */
static void report_step_and_poll_stop(weft_run *run, weft_step_consensus *consensus)
{
    weft_trainer *t = run->job;
    const weft_rank *r = &run->rank;
    consensus->stop = weft_trainer_stop_requested(t);
    weft_status_page_step(&t->line, r->rank, r->position.step + r->queued + 1);
}

/* Waits for the oldest queued step, which run->queued describes, and reports it. */
static weft_status finish_queued(weft_run *run, bool *stop)
{
    bool asked = *stop;
    WEFT_TRY(weft_rank_finish(&run->rank, &run->queued));
    WEFT_TRY(after_step(run, &run->queued_batch, &run->queued, 0, stop));
    *stop = *stop || asked;
    return WEFT_OK;
}

/* Queues a step, and reports the one before it. A step must have ended before its checkpoint, its
 * evaluation or the end of the run. */
static weft_status queue_step(weft_run *run, const weft_batch *b, weft_step_consensus *v,
                              bool *stop)
{
    weft_rank *r = &run->rank;
    WEFT_TRY(weft_rank_queue(r, b));
    int64_t step = r->position.step + r->queued;
    if (r->queued > 1) WEFT_TRY(finish_queued(run, stop));
    run->queued_batch = *b;
    run->queued = *v;
    /* A single rank knows that it stops; several ones learn it from the sum of their requests. */
    bool stops = run->job->size == 1 && v->stop > 0;
    bool settles = b->last || is_due(run, step) || step == run->job->total_steps || stops;
    return settles || *stop ? finish_queued(run, stop) : WEFT_OK;
}

static weft_status run_steps(weft_run *run, weft_loader *loader)
{
    bool stop = false;
    weft_rank *r = &run->rank;
    while (r->position.step + r->queued < run->job->total_steps && !stop) {
        const weft_batch *batch = weft_loader_next(loader);
        weft_step_consensus v;
        if (!batch) break;
        WEFT_TRY(weft_run_pause(run));
        bool noise = weft_noise_due(r, batch), alone = run->job->size == 1;
        bool ahead = r->runs_ahead && batch->valid > 0 && !noise && !run->job->clock.pauses;
        bool settles = !ahead || (alone && (batch->wrong >= 0 || atomic_load(&run->job->stop)));
        if (r->queued > 0 && settles) WEFT_TRY(finish_queued(run, &stop));
        if (stop) break;
        WEFT_TRY(weft_batch_check(batch, run->job->data, WEFT_TRAIN));
        report_step_and_poll_stop(run, &v);
        if (ahead) {
            WEFT_TRY(queue_step(run, batch, &v, &stop));
        } else {
            weft_noise_sums *sums = &run->watch.noise;
            WEFT_TRY(noise ? weft_noise_step(r, batch, &v, sums) : weft_rank_step(r, batch, &v));
            WEFT_TRY(after_step(run, batch, &v, noise ? weft_noise_scale(sums) : 0, &stop));
        }
    }
    return r->queued > 0 ? finish_queued(run, &stop) : WEFT_OK;
}

enum { MOST_SERIES = 16 }; /* of an exchange that the summary reports */

static weft_status summarise(weft_run *run)
{
    weft_rank *r = &run->rank;
    weft_event e = {.kind = WEFT_EVENT_SUMMARY,
                    .peak_memory = weft_peak_memory(),
                    .rank_memory = run->planned,
                    .first_step_seconds = run->first_step_seconds,
                    .samples_per_second = run->working > 0 ? run->worked / run->working : 0};
    const weft_step_clock *clock = &run->job->clock;
    double sent = clock->bytes * (double)r->position.step;
    weft_series series[MOST_SERIES] = {{"exchange_bytes", &sent, 1, false},
                                       {"utilisation", &clock->utilisation, 1, false}};
    if (clock->seconds > 0) e.series_count = 2;
    int own = e.series_count;
    while (r->exchange && e.series_count < MOST_SERIES &&
           weft_exchange_figure_at(r->exchange, e.series_count - own, &series[e.series_count]))
        e.series_count++;
    e.series = series;
    return weft_run_report(run, &e);
}

static weft_status finish(weft_run *run)
{
    weft_trainer *t = run->job;
    weft_rank *r = &run->rank;
    bool ends = weft_watch_ends(run), done = ends || r->position.step >= t->total_steps;
    if (ends && r->rank == 0 && weft_run_reports(run)) weft_watch_note_end(run);
    if (!weft_rank_saves_all(r) && r->position.step > run->first_step) run->saved_step = -1;
    WEFT_TRY(weft_rank_end(r, done));
    /* At the last step itself learners may have had the last average still to make. */
    if (r->exchange && r->exchange->changed && r->position.step == t->total_steps)
        run->saved_step = -1;
    WEFT_TRY(weft_throughput_end(run));
    WEFT_TRY(weft_rank_check_finite(r));
    WEFT_TRY(weft_run_finish_outputs(run, done));
    WEFT_TRY(summarise(run));
    if (r->rank == 0) WEFT_TRY(weft_metrics_close(&t->metrics));
    weft_status_page_stage(&t->line, r->rank, WEFT_STAGE_FINISHED);
    weft_output *trace = r->rank == 0 ? t->trace : NULL;
    if (t->options.output.trace) WEFT_TRY(weft_trace_write(r, trace));
    if (trace) WEFT_TRY(weft_output_close(&t->trace, true));
    if (run->dismissed && r->rank == 0)
        weft_log(t->context, WEFT_LOG_NOTE,
                 "this learner has left after step %lld, as requested; the run continues",
                 (long long)r->position.step);
    if (done && r->learner_index == 0 && r->exchange && r->exchange->early > 0)
        return weft_fail(
            WEFT_ERR_INTERRUPTED,
            "stopped; the first learner had finished all %lld steps%s%s, and %.0f of "
            "the others had not",
            (long long)t->total_steps, t->options.output.checkpoint ? " and saved them in " : "",
            t->options.output.checkpoint ? t->options.output.checkpoint : "", r->exchange->early);
    /* Without lock step the first learner reports that the run was stopped; other learners of the
     * job end without an error. */
    if (done || run->dismissed || weft_run_ends_phase(run) ||
        (r->learner_index > 0 && !t->linked && !r->exchange->ops->lockstep))
        return WEFT_OK;
    return weft_fail(WEFT_ERR_INTERRUPTED, "stopped after step %lld%s%s",
                     (long long)r->position.step,
                     t->options.output.checkpoint ? "; continue with --resume from "
                                                  : " (no --checkpoint was given)",
                     t->options.output.checkpoint ? t->options.output.checkpoint : "");
}

/* The seed of the sample order. Elastic learners beyond the planned number read the same part of
 * the data as an earlier learner, so they shuffle it with another seed. */
static uint64_t samples_seed(const weft_run *run)
{
    uint64_t seed = (uint64_t)run->job->options.task.seed;
    int round = run->rank.learner_index / run->job->learners;
    return round ? weft_mix(seed, (uint64_t)round) : seed;
}

weft_loader_options weft_run_loader(const weft_run *run)
{
    const weft_trainer *t = run->job;
    const weft_rank *r = &run->rank;
    const weft_length_choice *length = &t->options.length;
    weft_loader_options o = {.split = WEFT_TRAIN,
                             .batch = length->batch,
                             .slots = t->run_spec.slots,
                             .parts = t->learners,
                             .part = r->learner_index % t->learners,
                             .seed = samples_seed(run),
                             .shuffle = !length->carry_state,
                             .streams = length->carry_state,
                             .real = weft_graph_real(r->graph),
                             .epoch = r->position.epoch,
                             .done = r->position.samples,
                             .epochs = length->steps ? INT64_MAX : length->epochs};
    weft_rank_rows(r, &o);
    return o;
}

static weft_status report_start(weft_run *run)
{
    const weft_rank *r = &run->rank;
    int64_t without = run->job->learners - run->job->samples;
    if (!r->exchange && run->job->options.parallel.exchange)
        weft_log(run->job->context, WEFT_LOG_NOTE,
                 "there is only one learner, so --exchange %s has no effect",
                 run->job->options.parallel.exchange);
    if (r->rank == 0 && without > 0)
        weft_log(run->job->context, WEFT_LOG_NOTE,
                 "%lld of the %d learners get%s no sample, since there %s %lld to train on",
                 (long long)without, run->job->learners, without == 1 ? "s" : "",
                 run->job->samples == 1 ? "is" : "are", (long long)run->job->samples);
    weft_event e = {.kind = WEFT_EVENT_START};
    if (r->rank == 0 && weft_run_reports(run)) {
        WEFT_TRY(weft_trainer_open_outputs(run->job, r->position.step));
        WEFT_TRY(weft_metrics_begin(run->job, r));
    }
    return weft_run_report(run, &e);
}

/* Ends a run of which nothing is kept, within a step; rank 0 tells after which one. */
static weft_status give_up(weft_run *run)
{
    if (run->rank.rank != 0) return weft_fail(WEFT_ERR_PEER, "the run was asked to stop");
    WEFT_TRY(summarise(run));
    return weft_fail(WEFT_ERR_INTERRUPTED,
                     "stopped after step %lld of the simulation, which saves nothing before its "
                     "end",
                     (long long)run->rank.position.step);
}

static weft_status run_rank(weft_run *run)
{
    weft_trainer *t = run->job;
    weft_rank *r = &run->rank;
    weft_loader *loader;
    run->first_step = r->position.step;
    /* There is nothing to save yet. A run that begins with the mean of learners does not save it if
     * the checkpoint is beyond the end of the run, since the checkpoint has more. */
    if (t->resumed.path && (!r->merged || r->position.step > t->total_steps))
        run->saved_step = r->position.step;
    run->started = weft_seconds();
    weft_watch_begin(run);
    weft_loader_options options = weft_run_loader(run);
    /* A process of a job may be a restart. Such a process, and one that joins again, appends to its
     * outputs, so it opens them after weft_rank_begin has found the step of the run. */
    bool before = t->link.job || t->rejoins;
    if (!before) WEFT_TRY(report_start(run));
    int ranks = t->link.job ? t->mesh * t->learners : t->size;
    free(run->planned);
    WEFT_TRY(WEFT_NEW(&run->planned, ranks));
    WEFT_TRY(weft_gather_memory(r, run->planned));
    for (int i = t->size; i < ranks; i++) run->planned[i] = run->planned[i - t->size];
    int64_t all = t->options.length.batch * t->learners;
    WEFT_TRY(weft_rank_begin(r, (t->samples + all - 1) / all, all));
    if (r->exchange && t->options.output.checkpoint)
        WEFT_TRY(weft_exchange_begin_state_collection(r->exchange));
    if (before) WEFT_TRY(report_start(run));
    run->first_step = r->position.step;
    WEFT_TRY(weft_run_report(run, &(weft_event){.kind = WEFT_EVENT_BEGIN}));
    options.epoch = r->position.epoch;
    options.done = r->position.samples;
    weft_trim_memory();
    WEFT_TRY(weft_loader_start(t->data, &options, &loader));
    weft_throughput_begin(run);
    weft_status status = weft_watch_ends(run) ? WEFT_OK : run_steps(run, loader);
    weft_loader_stop(&loader);
    if (status == WEFT_OK) status = finish(run);
    bool ended = status == WEFT_ERR_INTERRUPTED || status == WEFT_ERR_PEER;
    return ended && t->run_spec.stop && *t->run_spec.stop ? give_up(run) : status;
}

/* Adds to the error of an elastic learner, which other members have caused, how the user may go on:
 * by another member in its place, or, if the run is lost, from its newest checkpoint. */
static weft_status advise(const weft_trainer *t, weft_status failure)
{
    bool removed = atomic_load(&t->removal.removed);
    const char *folder = t->options.output.checkpoint;
    char *latest;
    if (t->advises_rejoin && removed)
        return weft_fail(failure, "%s (weft join --rejoin does so by itself)", weft_last_message());
    if (!t->linked || t->link.job || removed || !folder) return failure;
    WEFT_TRY(weft_format(&latest, "%s/latest", folder));
    if (weft_file_exists(latest))
        failure = weft_fail(failure, "%s; this learner's newest checkpoint is %s",
                            weft_last_message(), latest);
    free(latest);
    return failure;
}

bool weft_trainer_goes_on(const weft_trainer *t)
{
    WEFT_NEED_ELSE_AS(false, "trainer", t);
    return t->runs && weft_run_ends_phase(&t->runs[0]) && !weft_watch_ends(&t->runs[0]);
}

weft_status weft_trainer_run(weft_trainer *t, weft_event_fn fn, void *user)
{
    WEFT_NEED_AS("trainer", t);
    if (t->dry)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "a trainer of weft_trainer_create_dry cannot run; weft_trainer_create "
                         "makes one that can");
    t->fn = fn;
    t->user = user;
    weft_status status = weft_trainer_everywhere(t, run_rank);
    atomic_store_explicit(&t->stop, 0, memory_order_relaxed); /* the request ends with the run */
    return status == WEFT_ERR_PEER ? advise(t, status) : status;
}
