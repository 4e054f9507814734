/* Predicts the time of a step from the programs of a run, measured times and a cluster file. */
#include <math.h>
#include <stdio.h>

#include "train/estimate/apart.h"
#include "train/estimate/estimate.h"
#include "train/estimate/forecast.h"
#include "train/estimate/learner_time.h"
#include "train/estimate/site.h"
#include "weft/estimate.h"

/* The relative error of the sum of all kernels: the errors of one way go together, those of
 * different ways do not. */
static double error_of(const weft_tracks *tracks)
{
    double all = 0, squares = 0;
    for (int i = 0; i < WEFT_ESTIMATES; i++) {
        all += tracks->by[i];
        squares += tracks->errors[i] * tracks->errors[i];
    }
    return all > 0 ? sqrt(squares) / all : 0;
}

static void find_shares(const weft_tracks *tracks, weft_step_estimate *out)
{
    double all = 0;
    const double *by = tracks->by;
    for (int i = 0; i < WEFT_ESTIMATES; i++) all += by[i];
    if (all <= 0) return;
    out->by_size = by[WEFT_BY_SIZE] / all;
    out->by_kind = by[WEFT_BY_KIND] / all;
    out->by_operator = by[WEFT_BY_OPERATOR] / all;
    out->by_rates = by[WEFT_BY_RATES] / all;
}

double weft_forecast_sent(const weft_forecast *f)
{
    double sum = 0, share = weft_forecast_meetings(f);
    for (int r = 0; r < f->t->mesh; r++) {
        const double *sent = f->tracks.tracks[f->tracks.of[r]].sent;
        sum += sent[0] + share * sent[1];
    }
    return sum;
}

void weft_forecast_ends(const weft_forecast *f, double *seconds)
{
    for (int r = 0; r < f->t->size; r++) {
        double *end = &seconds[r / f->t->mesh];
        *end = WEFT_MAX(*end, weft_timeline_rank(f->tracks.line, f->tracks.rank_of[r]).end);
    }
}

double weft_forecast_programs(const weft_forecast *f)
{
    double most = 0;
    for (int m = 0; m < f->hosts.machines; m++) most = WEFT_MAX(most, f->hosts.bytes[m]);
    return most;
}

/* Puts learners that do not wait for all others in the place of the last one to end. */
static weft_status run_apart(weft_forecast *f, weft_step_totals *sum, weft_step_estimate *out)
{
    weft_placed_learners at;
    const weft_apart a = {.job = f->t,
                          .at = &at,
                          .end = f->end,
                          .machines = f->hosts.machines,
                          .actors = f->actors,
                          .sending = f->fn ? f->parts.busy : NULL};
    weft_played played;
    weft_status status = weft_placed_learners_open(f->t, &f->cluster, f->times, &f->hosts, &at);
    if (status == WEFT_OK) {
        if (f->own)
            memcpy(at.seconds, f->own->seconds, (size_t)f->t->learners * sizeof(*at.seconds));
        else
            weft_forecast_ends(f, at.seconds);
        status = weft_apart_estimate(&a, &played);
    }
    weft_placed_learners_close(&at);
    WEFT_TRY(status);
    /* Handlers work in what kernels and transfers leave of a step, but for those at its ends. */
    double computed = WEFT_MIN(sum->computed * played.longer, played.seconds);
    double left = WEFT_MAX(played.seconds - computed - sum->transferred, 0.0);
    played.worked = WEFT_MIN(played.worked, left);
    f->handled = played.worked;
    f->posted = played.posted;
    out->sent_by_chance = played.by_chance;
    out->counted_learners = f->t->engine->hosted ? f->t->learners : 1;
    f->longer = played.seconds - sum->seconds - played.worked;
    *sum = (weft_step_totals){.weight = 1,
                              .seconds = played.seconds,
                              .computed = computed,
                              .transferred = sum->transferred + played.worked,
                              .bytes = sum->bytes + played.bytes,
                              .most_bytes = sum->most_bytes + played.most_bytes,
                              .busy = sum->busy + played.link * played.seconds};
    sum->waited = WEFT_MAX(sum->seconds - sum->computed - sum->transferred, 0.0);
    out->low = played.low;
    out->high = played.high;
    out->staleness = played.staleness;
    out->server_busy = played.server;
    return WEFT_OK;
}

/* A step takes no less than its kernels may be shorter, nor than the busiest link works. */
static void sum_up(const weft_forecast *f, const weft_step_totals *sum, weft_step_estimate *out)
{
    double link = sum->busy / sum->weight;
    out->seconds = sum->seconds / sum->weight;
    out->rest = f->tracks.rest;
    out->computed = sum->computed / sum->weight - out->rest;
    out->transferred = sum->transferred / sum->weight;
    out->waited = sum->waited / sum->weight;
    out->wire_bytes = sum->bytes / sum->weight;
    out->link_bytes = sum->most_bytes / sum->weight;
    out->busiest_link = out->seconds > 0 ? link / out->seconds : 0;
    double error = error_of(&f->tracks) * out->computed;
    out->low = WEFT_MIN(WEFT_MAX(out->low - error, WEFT_MAX(link, out->low / 10)), out->seconds);
    out->high += error;
    out->samples_per_second = (double)(f->t->options.length.batch * f->t->learners) / out->seconds;
    find_shares(&f->tracks, out);
    out->sent_bytes = (f->own ? f->own->sent : weft_forecast_sent(f)) + f->posted;
}

static weft_status play(weft_forecast *f, weft_step_estimate *out)
{
    weft_step_totals sum = {0};
    if (!(f->apart && f->actors)) f->own = NULL;
    if (f->own) {
        sum = f->own->sum;
        f->tracks.rest = f->own->rest;
        memcpy(f->tracks.by, f->own->by, sizeof(f->own->by));
        memcpy(f->tracks.errors, f->own->errors, sizeof(f->own->errors));
    } else {
        WEFT_TRY(weft_tracks_make(f->t, f->times, &f->hosts, &f->tracks));
    }
    if (f->memory) WEFT_TRY(weft_memory_run_step(f->memory, out));
    if (f->fn) WEFT_TRY(weft_parts_new(&f->tracks, f->t, &f->hosts, &f->parts));
    out->staleness = -1;
    if (f->apart) {
        double alone;
        if (!f->own) WEFT_TRY(weft_forecast_step(f, NULL, &sum, &alone));
        WEFT_TRY(run_apart(f, &sum, out));
    } else if (weft_cluster_varies(&f->cluster)) {
        WEFT_TRY(weft_forecast_draw(f, &sum, out));
    } else {
        WEFT_TRY(weft_forecast_step(f, NULL, &sum, &out->seconds));
        out->low = out->high = out->seconds;
    }
    sum_up(f, &sum, out);
    out->programs = f->own ? f->own->programs : weft_forecast_programs(f);
    out->limited_by = weft_estimate_limit(f->t, &f->cluster, out);
    out->learners = f->t->learners;
    out->learners_left = weft_estimate_left(f->t, &f->hosts);
    if (!f->fn) return WEFT_OK;
    weft_parts_tell(&f->parts, &f->tracks, &f->hosts, f->fn, f->user);
    bool links = out->busiest_link > 0.5;
    if (f->handled > 0)
        f->fn(f->user, WEFT_CAUSE_TRANSFERS, "handlers of the exchange", f->handled);
    if (f->apart)
        f->fn(f->user, links ? WEFT_CAUSE_LINKS : WEFT_CAUSE_WAITING, "the exchange", f->longer);
    return WEFT_OK;
}

/* How often learners add up their parameters, as their exchange says. */
static weft_status find_meetings(weft_forecast *f)
{
    const weft_run_spec *k = &f->t->run_spec;
    weft_meetings m;
    if (!k->exchange || f->t->learners == 1) return WEFT_OK; /* a single learner has none */
    WEFT_TRY(weft_exchange_meetings(k->context, k->exchange, &m));
    f->period = m.period;
    f->tracks.meets = m.period > 0 || (m.period == 0 && f->whole);
    f->tracks.with_state = m.state;
    f->tracks.pass_parameters = m.parameters;
    f->tracks.pass_state = m.passed;
    if (m.period >= 0) return WEFT_OK;
    f->apart = true;
    f->actors = m.actors;
    f->period = m.actors ? 0 : 1; /* learners that share memory pass over it in each step */
    if (m.actors || m.works) return WEFT_OK;
    return weft_fail(WEFT_ERR_UNSUPPORTED,
                     "the time of a step with --exchange %s cannot be estimated, since it does not "
                     "say how its learners exchange (meetings or passes of weft_exchange_life)",
                     k->exchange);
}

weft_status weft_forecast_open(weft_forecast *f, weft_context *context,
                               const weft_train_options *options)
{
    WEFT_TRY(weft_options_check(weft_train_table(context), options));
    WEFT_TRY(weft_trainer_prepare(context, options, NULL, &f->t));
    WEFT_TRY(weft_estimate_check_devices(f->t));
    WEFT_TRY(find_meetings(f));
    weft_estimate_note_unused(f->t->context, &f->cluster, f->actors);
    return weft_machines_place(f->t, &f->cluster, &f->hosts);
}

static void note_effort(const weft_tracks *tracks, weft_estimate_effort *out)
{
    out->programs = tracks->count;
    out->kernels = tracks->kernels;
    out->line_ranks = tracks->line_ranks;
    out->tasks = weft_timeline_tasks(tracks->line);
    out->lookups = weft_known_count(tracks->known);
}

static weft_status refuse_length(weft_step_estimate *out)
{
    const weft_step_estimate e = *out;
    *out = (weft_step_estimate){.struct_size = sizeof(*out)};
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "a step takes %.4g s, more than a day: %.4g of kernels, %.4g of transfers, "
                     "%.4g of waiting; give a cluster file with greater rates, 'speed', 'awake' or "
                     "'bandwidth', or a smaller --batch",
                     e.seconds, e.computed, e.transferred, e.waited);
}

static weft_status forecast_step(weft_forecast *f, const weft_site *site, weft_context *context,
                                 const weft_train_options *options, weft_step_estimate *out)
{
    f->cluster = site->cluster;
    f->times = site->times;
    f->tracks.labelled = f->on_span != NULL;
    f->tracks.named = f->fn != NULL;
    WEFT_TRY(weft_forecast_open(f, context, options));
    if (f->on_span && f->actors)
        return weft_fail(
            WEFT_ERR_UNSUPPORTED,
            "learners with --exchange %s do not wait for each other, so there is no "
            "step of all ranks to be shown; leave --plot, --timeline and --predicted out",
            f->t->run_spec.exchange);
    if (f->memory) WEFT_TRY(weft_memory_run_begin(f->memory, f->t));
    if (f->plan) {
        WEFT_TRY(weft_plan_report_new(f->t, f->plan->dump_rank, &f->plan->report));
        f->tracks.planned[1] = (weft_planned){.fn = weft_plan_report_add, .user = f->plan->report};
        f->tracks.also = f->plan->dump_rank;
    }
    WEFT_TRY(play(f, out));
    if (out->seconds > WEFT_SIM_LONGEST) return refuse_length(out);
    if (f->plan) WEFT_TRY(weft_plan_report_take(f->plan->report, &f->plan->text));
    if (f->plan) WEFT_TRY(weft_memory_run_take(f->memory, f->plan->memory));
    if (!f->on_span) return WEFT_OK;
    return weft_tracks_tell(&f->tracks, f->t, &f->hosts, f->period > 0, f->on_span, f->user);
}

void weft_forecast_close(weft_forecast *f)
{
    weft_parts_free(&f->parts);
    weft_tracks_free(&f->tracks);
    weft_trainer_destroy(&f->t);
    weft_machines_free(&f->hosts);
}

weft_status weft_site_estimate(const weft_site *site, weft_context *context,
                               const weft_train_options *options, const weft_own_steps *own,
                               weft_estimate_end *end, weft_step_estimate *out)
{
    weft_forecast f = {.own = own, .end = end, .tracks = {.end = end}};
    *out = (weft_step_estimate){.struct_size = sizeof(*out)};
    weft_status status = forecast_step(&f, site, context, options, out);
    weft_forecast_close(&f);
    return status;
}

/* As forecast_step, on the cluster of a file, and with the memory. */
static weft_status forecast_at(weft_forecast *f, const char *cluster, weft_context *context,
                               const weft_train_options *options, weft_step_estimate *out)
{
    weft_site site;
    weft_memory_run memory;
    *out = (weft_step_estimate){.struct_size = sizeof(*out)};
    WEFT_TRY(weft_site_open(cluster, &site));
    f->memory = &memory;
    f->tracks.planned[0] = weft_memory_run_planned(&memory);
    weft_status status = weft_memory_run_open(context, &site, &memory);
    if (status == WEFT_OK) status = forecast_step(f, &site, context, options, out);
    weft_memory_run_close(&memory);
    weft_site_close(&site);
    return status;
}

weft_status weft_estimate_step_with(weft_context *context, const weft_train_options *options,
                                    const char *cluster, weft_estimate_effort *effort,
                                    weft_step_estimate *out)
{
    weft_site site;
    weft_forecast f = {.tracks = {.apart = effort->apart}};
    *out = (weft_step_estimate){.struct_size = sizeof(*out)};
    WEFT_TRY(weft_site_open(cluster, &site));
    weft_status status = forecast_step(&f, &site, context, options, out);
    if (status == WEFT_OK) note_effort(&f.tracks, effort);
    weft_forecast_close(&f);
    weft_site_close(&site);
    return status;
}

static bool is_wanted(void *stop)
{
    return weft_stop_wanted(stop);
}

static weft_estimate_end end_at(const weft_stop *stop)
{
    return (weft_estimate_end){.asked = is_wanted, .user = (void *)(uintptr_t)stop};
}

weft_status weft_estimate_step(weft_context *context, const weft_train_options *options,
                               const char *cluster, weft_step_estimate *out)
{
    WEFT_NEED(context, options, cluster, out);
    return weft_estimate_step_until(context, options, cluster, NULL, out);
}

weft_status weft_estimate_step_until(weft_context *context, const weft_train_options *options,
                                     const char *cluster, const weft_stop *stop,
                                     weft_step_estimate *out)
{
    WEFT_NEED(context, options, cluster, out);
    weft_estimate_end end = end_at(stop);
    weft_forecast f = {.end = &end, .tracks = {.end = &end}};
    weft_status status = forecast_at(&f, cluster, context, options, out);
    weft_forecast_close(&f);
    return status;
}

weft_status weft_estimate_plan(weft_context *context, const weft_train_options *options,
                               int dump_rank, const char *cluster, char **text,
                               weft_memory_estimate *memory, weft_step_estimate *step)
{
    WEFT_NEED(context, options, text, memory);
    if (step && !cluster) return weft_fail(WEFT_ERR_ARGUMENT, "the time of a step needs a cluster");
    weft_plan_told plan = {.dump_rank = dump_rank, .memory = memory};
    weft_forecast f = {.plan = &plan};
    *memory = (weft_memory_estimate){.struct_size = sizeof(*memory)};
    weft_status status = step ? forecast_at(&f, cluster, context, options, step)
                              : weft_memory_run_tell(context, options, cluster, &plan);
    weft_plan_report_free(&plan.report);
    weft_forecast_close(&f);
    if (status == WEFT_OK)
        *text = plan.text;
    else
        free(plan.text);
    return status;
}

weft_status weft_estimate_run(weft_context *context, const weft_train_options *options,
                              const char *cluster, const weft_stop *stop, weft_step_estimate *out)
{
    weft_estimate_end end = end_at(stop);
    weft_forecast f = {.whole = true, .end = &end, .tracks = {.end = &end}};
    weft_status status = forecast_at(&f, cluster, context, options, out);
    weft_forecast_close(&f);
    return status;
}

weft_status weft_estimate_parts(weft_context *context, const weft_train_options *options,
                                const char *cluster, weft_step_part_fn fn, void *user,
                                weft_step_estimate *out)
{
    WEFT_NEED(context, options, cluster, fn, out);
    weft_forecast f = {.fn = fn, .user = user};
    weft_status status = forecast_at(&f, cluster, context, options, out);
    weft_forecast_close(&f);
    return status;
}

weft_status weft_estimate_spans(weft_context *context, const weft_train_options *options,
                                const char *cluster, weft_span_fn fn, void *user,
                                weft_step_estimate *out)
{
    WEFT_NEED(context, options, cluster, fn, out);
    weft_forecast f = {.on_span = fn, .user = user};
    weft_status status = forecast_at(&f, cluster, context, options, out);
    weft_forecast_close(&f);
    return status;
}
