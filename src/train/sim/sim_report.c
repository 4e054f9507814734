/* Reports the events of a simulated run, and saves its result. */
#include <math.h>

#include "train/sim/sim_internal.h"

/* The largest number of series in a summary, of the simulation and the exchange together. */
enum { MOST_SERIES = 16 };

static weft_status report_event(weft_simulation *s, weft_event *e)
{
    weft_trainer *t = s->job;
    e->step = s->done / s->learners;
    e->epoch = (e->step + s->epoch - 1) / s->epoch + (e->step == 0);
    e->total_steps = t->total_steps;
    e->epochs = t->options.length.steps ? 0 : t->options.length.epochs;
    e->samples = t->samples;
    e->parameters = t->parameters;
    e->ranks = e->learners = e->process_ranks = s->learners;
    e->seconds = s->last;
    if (t->metrics) WEFT_TRY(weft_metrics_event(t->metrics, e));
    if (t->fn) t->fn(t->user, e);
    return WEFT_OK;
}

weft_status weft_simulation_report_start(weft_simulation *s)
{
    weft_event e = {.kind = WEFT_EVENT_START};
    return report_event(s, &e);
}

/* --- steps --- */

/* The number of samples of a learner's step `step`. At the end of an epoch fewer samples remain,
 * which the learners share. */
static double samples_of(const weft_simulation *s, int index, int64_t step)
{
    int64_t all = s->learners * s->job->options.length.batch, begin = step % s->epoch * all;
    int64_t total = WEFT_MIN(all, s->job->samples - begin);
    return (double)(weft_part_start(total, index + 1, s->learners) -
                    weft_part_start(total, index, s->learners));
}

/* When all that the learners have sent will have arrived. */
static double arrival(const weft_simulation *s)
{
    double last = 0;
    for (int i = 0; i < s->learners; i++) {
        weft_actor_id id = s->exchange->first_learner + (weft_actor_id)i;
        double latency = 0;
        for (int k = 0; k < s->exchange->actors; k++)
            latency = fmax(latency, weft_placed_link(&s->at, id, (weft_actor_id)k).latency);
        last = fmax(last, weft_sim_sends_until(s->sim, id) + latency);
    }
    return last;
}

/* Reports a step event at the end of a round, which has as many steps as there are learners. */
static weft_status report_round(weft_simulation *s)
{
    weft_sim_report report = weft_sim_stats(s->sim);
    double seconds = report.seconds - s->reported_seconds, bytes = (double)report.bytes;
    double samples = s->samples - s->reported_samples;
    weft_event e = {.kind = WEFT_EVENT_STEP,
                    .loss = s->weight > 0 ? s->loss / s->weight : NAN,
                    .lr = s->rate / s->learners,
                    .samples_per_second = seconds > 0 ? samples / seconds : 0,
                    .step_seconds = seconds,
                    .comm_bytes = bytes - s->reported_bytes};
    WEFT_TRY(report_event(s, &e));
    s->watch.loss += s->loss;
    s->watch.weight += s->weight;
    s->loss = s->rate = s->weight = 0;
    s->reported_seconds = report.seconds;
    s->reported_bytes = bytes;
    s->reported_samples = s->samples;
    int64_t every = s->job->options.output.evaluate_every, rounds = s->done / s->learners;
    s->due = rounds % s->epoch == 0 || (every && rounds % every == 0);
    if (rounds == WEFT_MAX(s->exchange->period, (int64_t)1)) s->met = arrival(s);
    return WEFT_OK;
}

/* Computes utilisation and throughput until now: for the time in which all learners were training,
 * or, on the machines of a cluster, for the run, which ends with the last learner, as an estimate
 * has it: the learner beside a server may have finished long before. The time of a learner that is
 * ahead of its own messages ends when these have left. */
static void note_rate(weft_simulation *s)
{
    s->rated_until = weft_sim_stats(s->sim).seconds;
    for (int i = 0; i < s->learners; i++) {
        const weft_sim_learner *p = &s->learner[i];
        weft_actor_id id = s->exchange->first_learner + (weft_actor_id)i;
        double share = weft_sim_progress(s->sim, id); /* of the current step */
        double seconds = weft_sim_sends_until(s->sim, id);
        if (!(seconds > 0)) continue;
        s->utilisation += (p->busy + share * p->takes) / seconds / s->learners;
        s->samples_per_second += (p->samples + share * samples_of(s, i, p->steps)) / seconds;
    }
}

weft_status weft_simulation_count_step(weft_simulation *s, weft_sim_learner *p)
{
    p->busy += p->takes;
    p->takes = 0;
    double samples = samples_of(s, (int)(p - s->learner), p->steps++);
    p->samples += samples;
    s->samples += samples;
    s->done++;
    s->last = weft_sim_stats(s->sim).seconds;
    s->loss += p->loss * s->weights[p - s->learner];
    s->weight += s->weights[p - s->learner];
    s->rate += p->rate;
    int64_t total = s->job->total_steps;
    bool ends = s->placed.learners ? s->done == total * s->learners : p->steps == total;
    if (s->rated_until < 0 && ends) note_rate(s);
    return s->done % s->learners == 0 ? report_round(s) : WEFT_OK;
}

/* --- results --- */

/* Copies the state other than parameters (statistics, counters, moments) of learner 0 to the store
 * that is evaluated and saved, as a real run saves the state of its first learner. */
static weft_status take_state(weft_simulation *s)
{
    const weft_store *from = s->learner[0].store;
    weft_store *to = s->lead->store;
    WEFT_TRY(weft_simulation_wait(s, 0));
    for (int i = 0; i < weft_store_count(to); i++) {
        weft_type type = weft_store_type(to, i);
        void *data;
        if (weft_store_kind(to, i) != WEFT_VALUE_STATE) continue;
        WEFT_TRY(weft_new_bytes(&data, 1, weft_type_bytes(&type)));
        weft_status status =
            weft_store_read(from, weft_store_find(from, weft_store_name(to, i)), data);
        if (status == WEFT_OK) status = weft_store_write(to, i, data);
        free(data);
        WEFT_TRY(status);
    }
    return WEFT_OK;
}

/* The averages of a store count the result, which all learners have now, as that of a step. */
static weft_status move_averages(weft_simulation *s, weft_store *store)
{
    weft_store *own = s->lead->store;
    void *from, *to;
    size_t bytes;
    weft_dtype dtype;
    if (!s->lead->averages) return WEFT_OK;
    WEFT_TRY(weft_store_map(own, WEFT_ALL_PARAMETERS, &dtype, &from, &bytes));
    weft_status status = weft_store_map(store, WEFT_ALL_PARAMETERS, &dtype, &to, &bytes);
    if (status == WEFT_OK && store != own) memcpy(to, from, bytes);
    weft_store_unmap_read(own, from);
    if (status == WEFT_OK) status = weft_store_unmap(store, WEFT_ALL_PARAMETERS, to);
    if (status == WEFT_OK) status = weft_averages_use(s->lead, store, true);
    return status == WEFT_OK ? weft_averages_move(s->lead) : status;
}

static weft_status take_result(weft_simulation *s, bool over)
{
    void *data;
    size_t bytes;
    weft_dtype dtype;
    weft_store *to = s->lead->store;
    WEFT_TRY(take_state(s));
    WEFT_TRY(weft_store_map(to, WEFT_ALL_PARAMETERS, &dtype, &data, &bytes));
    weft_status status = s->exchange->ops->result(s->exchange, over, data);
    if (status != WEFT_OK) weft_store_unmap_read(to, data);
    if (status == WEFT_OK) status = weft_store_unmap(to, WEFT_ALL_PARAMETERS, data);
    for (int i = 0; i < s->learners && status == WEFT_OK && over; i++)
        status = move_averages(s, s->learner[i].store);
    return status == WEFT_OK ? move_averages(s, to) : status;
}

static weft_status evaluate(weft_simulation *s, weft_split split)
{
    weft_report report;
    if (weft_dataset_count(s->job->data, split) == 0) return WEFT_OK;
    WEFT_TRY(weft_rank_evaluate(s->lead, split, &report));
    weft_event e = {.kind = WEFT_EVENT_EVAL, .report = &report, .train_loss = NAN};
    if (split == s->job->watched) e.train_loss = weft_watch_mean(&s->watch);
    weft_status status = report_event(s, &e);
    weft_report_free(&report);
    if (status == WEFT_OK && split == s->job->watched)
        status = weft_metrics_parameters(s->job, s->lead);
    return status;
}

weft_status weft_simulation_evaluate(weft_simulation *s, bool over)
{
    int64_t rounds = s->done / s->learners;
    s->due = false;
    weft_split watched = s->job->watched;
    if (weft_dataset_count(s->job->data, watched) == 0 && !over) return WEFT_OK;
    WEFT_TRY(take_result(s, over));
    s->lead->position.step = rounds; /* which messages name */
    WEFT_TRY(weft_rank_check_finite(s->lead));
    WEFT_TRY(evaluate(s, watched));
    return over && watched != WEFT_TEST ? evaluate(s, WEFT_TEST) : WEFT_OK;
}

weft_status weft_simulation_pause(weft_simulation *s, double next)
{
    weft_report report;
    weft_split watched = s->job->watched;
    double now = weft_sim_stats(s->sim).now;
    const weft_pauses *p = s->pauses;
    bool judges = s->done >= s->learners && weft_dataset_count(s->job->data, watched) > 0;
    if (judges) {
        WEFT_TRY(take_result(s, false));
        WEFT_TRY(weft_rank_evaluate(s->lead, watched, &report));
    }
    p->pause(p->user, now, next, judges ? &report : NULL, s->met);
    if (judges) weft_report_free(&report);
    return WEFT_OK;
}

/* --- end of the run --- */

static weft_status save(weft_simulation *s)
{
    weft_trainer *t = s->job;
    weft_rank *r = s->lead;
    char *path = NULL;
    const weft_store **stores;
    int64_t rest = t->total_steps % s->epoch;
    if (!t->options.output.checkpoint) return WEFT_OK;
    WEFT_TRY(WEFT_NEW(&stores, s->learners));
    for (int i = 0; i < s->learners; i++) stores[i] = s->learner[i].store;
    weft_checkpoint_source source = {.store = r->store,
                                     .graph = r->graph,
                                     .comms = &r->comms,
                                     .simulated = s->exchange,
                                     .stores = stores};
    weft_checkpoint_record record = {
        .position = weft_trainer_position(
            t, (weft_position){.step = t->total_steps,
                               .epoch = t->total_steps / s->epoch,
                               .batch = rest,
                               .samples = rest * t->options.length.batch * s->learners}),
        .settings = &t->settings,
        .stats = weft_dataset_stats(t->data),
        .splits = t->splits,
        .model = &t->model};
    weft_status status = weft_checkpoint_save(&source, &record, t->options.output.checkpoint,
                                              t->options.output.keep, &path);
    free((void *)stores);
    WEFT_TRY(status);
    weft_event e = {.kind = WEFT_EVENT_CHECKPOINT, .path = path};
    status = report_event(s, &e);
    free(path);
    return status;
}

static weft_status summarise(weft_simulation *s)
{
    weft_sim_report r = weft_sim_stats(s->sim);
    double bytes = (double)r.bytes, messages = (double)r.messages, lost = (double)r.lost, *memory;
    weft_series series[MOST_SERIES] = {{"exchange_bytes", &bytes, 1, false},
                                       {"exchange_messages", &messages, 1, false},
                                       {"exchange_messages_lost", &lost, 1, false},
                                       {"utilisation", &s->utilisation, 1, false}};
    weft_event e = {.kind = WEFT_EVENT_SUMMARY,
                    .peak_memory = weft_peak_memory(),
                    .samples_per_second = s->samples_per_second,
                    .series = series,
                    .series_count = 4};
    const weft_sim_exchange_ops *ops = s->exchange->ops;
    for (int i = 0; ops->figure && e.series_count < MOST_SERIES; i++, e.series_count++)
        if (!ops->figure(s->exchange, i, &series[e.series_count])) break;
    WEFT_TRY(WEFT_NEW(&memory, s->learners));
    for (int i = 0; i < s->learners; i++) memory[i] = weft_planned_bytes(s->lead->instance);
    e.rank_memory = memory;
    weft_status status = report_event(s, &e);
    free(memory);
    return status;
}

weft_status weft_simulation_finish(weft_simulation *s)
{
    if (s->done != s->job->total_steps * s->learners)
        return weft_fail(
            WEFT_ERR_PEER,
            "the simulation makes no progress after %lld of %lld steps at %g s: all learners wait",
            (long long)s->done, (long long)(s->job->total_steps * s->learners),
            weft_sim_stats(s->sim).seconds);
    /* The result has all updates, so the run ends when its last message has arrived. */
    s->last = WEFT_MAX(s->last, weft_sim_stats(s->sim).arrived);
    WEFT_TRY(weft_simulation_evaluate(s, true));
    WEFT_TRY(save(s));
    WEFT_TRY(summarise(s));
    return weft_metrics_close(&s->job->metrics);
}

weft_status weft_simulation_give_up(weft_simulation *s)
{
    if (s->done > 0 && s->rated_until < 0) note_rate(s);
    if (s->done > 0) WEFT_TRY(summarise(s));
    return weft_fail(WEFT_ERR_INTERRUPTED,
                     "stopped after step %lld of the simulation, which saves nothing before its "
                     "end",
                     (long long)(s->done / s->learners));
}
