/* A simulated run in a thread of its own. The thread waits before the first step or event that lies
 * beyond the time to which the run may go, so several runs can take turns without ever beginning
 * anew. */
#include <math.h>
#include <time.h>

#include "train/sim/sim_internal.h"
#include "train/sim/target.h"

struct weft_paused_run {
    weft_paused_options options;
    weft_simulate_options run; /* owns run.train */
    weft_paused_state state;
    weft_stop stop; /* of this run */
    weft_pauses pauses;
    double until;  /* changes only while the run waits */
    char part[16]; /* split that is evaluated during the run; "": none yet */
    double batch;  /* samples of a learner's step */
    bool started, waits, ended, joined;
    weft_error error;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
};

static void ask_to_stop(weft_paused_run *p)
{
    __atomic_store_n(&p->stop.wanted, 1, __ATOMIC_RELAXED);
}

/* --- in the thread of the run --- */

static bool is_due(void *user, double next)
{
    const weft_paused_run *p = user;
    return next > p->until && !weft_stop_wanted(&p->stop);
}

/* Waits until the run may go to this time, or is asked to end. */
static void wait_for_turn(weft_paused_run *p, double seconds)
{
    pthread_mutex_lock(&p->lock);
    while (seconds > p->until && !weft_stop_wanted(&p->stop)) {
        p->waits = true;
        pthread_cond_broadcast(&p->changed);
        pthread_cond_wait(&p->changed, &p->lock);
    }
    p->waits = false;
    pthread_mutex_unlock(&p->lock);
}

/* Samples that all learners have taken until this event; the last step of an epoch may have fewer.
 */
static double samples_by(const weft_paused_run *p, const weft_event *e)
{
    double batch = p->batch * e->learners, all = (double)e->samples;
    double steps = ceil(all / batch), epochs = floor((double)e->step / steps);
    return epochs * all + fmin(((double)e->step - epochs * steps) * batch, all);
}

/* The mean training loss over the last fortieth of the run; NaN: it has fewer steps yet. */
static double recent_loss(const weft_paused_state *s)
{
    int64_t window = s->total_steps / 40 + 1, found = 0;
    double sum = 0;
    for (size_t i = s->count; i-- > 0 && found < window;)
        if (!isnan(s->points[i].loss)) {
            sum += s->points[i].loss;
            found++;
        }
    return found < window ? NAN : sum / (double)window;
}

static bool is_reached(const weft_paused_run *p, double value)
{
    return isfinite(value) &&
           (p->options.rises ? value >= p->options.value : value <= p->options.value);
}

static weft_status add_point(weft_paused_state *s, weft_target_point point)
{
    WEFT_TRY(WEFT_GROW(&s->points, &s->capacity, s->count));
    s->points[s->count++] = point;
    return WEFT_OK;
}

static weft_status take_step(weft_paused_run *p, const weft_event *e)
{
    weft_paused_state *s = &p->state;
    const weft_paused_options *o = &p->options;
    if (isnan(e->loss)) return WEFT_OK;
    weft_target_point point = {e->seconds, samples_by(p, e), e->loss, NAN};
    WEFT_TRY(add_point(s, point));
    if (o->metric && strcmp(o->metric, WEFT_TRAIN_LOSS) == 0)
        s->reached = is_reached(p, recent_loss(s));
    if (o->tell) o->tell(o->user, e->seconds, (double)e->step / (double)e->total_steps);
    return WEFT_OK;
}

/* The metric of the target in a report; NAN: there is none. */
static double metric_in(const weft_paused_run *p, const weft_report *report)
{
    weft_figure f;
    const char *metric = p->options.metric;
    for (int i = 0; metric && weft_report_figure(report, i, &f); i++)
        if (strcmp(f.name, metric) == 0) return f.value;
    return NAN;
}

static weft_status add_judgement(weft_paused_run *p, double seconds, const weft_report *report,
                                 bool whole)
{
    weft_paused_state *s = &p->state;
    WEFT_TRY(WEFT_GROW(&s->judged, &s->judged_capacity, s->judged_count));
    s->judged[s->judged_count++] =
        (weft_judgement){seconds, report->loss, metric_in(p, report), whole};
    return WEFT_OK;
}

static weft_status take_evaluation(weft_paused_run *p, const weft_event *e)
{
    double value = metric_in(p, e->report);
    if (!*p->part) (void)snprintf(p->part, sizeof(p->part), "%s", e->report->part);
    if (strcmp(p->part, e->report->part) != 0) return WEFT_OK;
    WEFT_TRY(add_judgement(p, e->seconds, e->report, false));
    if (isnan(value)) return WEFT_OK;
    p->state.reached = p->state.reached || is_reached(p, value);
    return add_point(&p->state, (weft_target_point){e->seconds, samples_by(p, e), NAN, value});
}

static void on_event(void *user, const weft_event *e)
{
    weft_paused_run *p = user;
    weft_paused_state *s = &p->state;
    weft_status status = WEFT_OK;
    bool step = e->kind == WEFT_EVENT_STEP, evaluation = e->kind == WEFT_EVENT_EVAL;
    if (e->kind == WEFT_EVENT_START) s->total_steps = e->total_steps;
    if (s->reached || weft_stop_wanted(&p->stop) || (!step && !evaluation)) return;
    if (step && e->step > 0) s->step = e->seconds / (double)e->step;
    status = step ? take_step(p, e) : take_evaluation(p, e);
    weft_error_catch(&p->error, status);
    if (s->reached || status != WEFT_OK) ask_to_stop(p);
}

static void pause_run(void *user, double now, double next, const weft_report *judged, double met)
{
    weft_paused_run *p = user;
    if (judged) weft_error_catch(&p->error, add_judgement(p, now, judged, true));
    if (p->error.status != WEFT_OK) ask_to_stop(p);
    p->state.met = met;
    wait_for_turn(p, next);
}

static void *run_thread(void *user)
{
    weft_paused_run *p = user;
    weft_status status =
        weft_simulate_paused(p->options.context, &p->run, &p->stop, &p->pauses, on_event, p);
    pthread_mutex_lock(&p->lock);
    weft_error_catch(&p->error, status);
    p->state.ended = p->ended = true;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* --- in the thread of the caller --- */

static bool is_stopped(const weft_paused_run *p)
{
    return weft_stop_wanted(p->options.stop);
}

/* Waits until the run pauses or has ended. Looks from time to time whether the caller is asked to
 * stop. */
static void wait_for_pause(weft_paused_run *p)
{
    enum { LOOK = 50000000 }; /* ns */
    while (!p->waits && !p->ended) {
        struct timespec at;
        (void)clock_gettime(CLOCK_REALTIME, &at);
        at.tv_nsec += LOOK;
        at.tv_sec += at.tv_nsec / 1000000000;
        at.tv_nsec %= 1000000000;
        (void)pthread_cond_timedwait(&p->changed, &p->lock, &at);
        if (is_stopped(p)) ask_to_stop(p);
    }
}

/* The error of the run, unless it was stopped. A run that is stopped has been asked to by this file
 * or by the caller. */
static weft_status judge(weft_paused_run *p)
{
    weft_status status = p->error.status;
    if (is_stopped(p))
        return weft_fail(WEFT_ERR_INTERRUPTED, "stopped before the runs were compared");
    if (!p->ended || status == WEFT_OK || status == WEFT_ERR_INTERRUPTED) return WEFT_OK;
    p->state.failed = status == WEFT_ERR_NUMERIC;
    return p->state.failed ? WEFT_OK : weft_error_raise(&p->error);
}

weft_status weft_paused_run_go(weft_paused_run *p, double until)
{
    if (!p->started) {
        WEFT_TRY(weft_thread_start(&p->thread, run_thread, p));
        p->started = true;
    }
    pthread_mutex_lock(&p->lock);
    p->until = WEFT_MAX(p->until, until);
    p->waits = false;
    pthread_cond_broadcast(&p->changed);
    wait_for_pause(p);
    pthread_mutex_unlock(&p->lock);
    return judge(p);
}

const weft_paused_state *weft_paused_run_state(const weft_paused_run *p)
{
    return &p->state;
}

static void clear_text(char **text)
{
    free(*text);
    *text = NULL;
}

/* The run writes nothing, and its ranks are threads. */
static weft_status change_options(weft_context *context, weft_train_options *o)
{
    const weft_option *table = weft_train_table(context);
    weft_train_options plain = {0};
    weft_status status = weft_train_options_init(context, &plain);
    if (status == WEFT_OK) status = weft_options_set(table, o, "engine", plain.job.engine);
    o->job.timeout = plain.job.timeout;
    o->job.max_restarts = plain.job.max_restarts;
    o->output.checkpoint_every = plain.output.checkpoint_every;
    weft_options_free(table, &plain);
    clear_text(&o->job.hosts);
    clear_text(&o->output.checkpoint);
    clear_text(&o->output.metrics);
    clear_text(&o->output.trace);
    return status;
}

weft_status weft_paused_run_open(const weft_paused_options *options, weft_paused_run **out)
{
    weft_paused_run *p;
    WEFT_TRY(WEFT_NEW(&p, 1));
    p->options = *options;
    p->until = -1;
    p->pauses = (weft_pauses){.due = is_due, .pause = pause_run, .user = p};
    p->batch = (double)options->train->length.batch;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->changed, NULL);
    weft_status status = weft_simulate_options_init(options->context, &p->run);
    weft_options_free(weft_train_table(options->context), &p->run.train);
    if (status == WEFT_OK)
        status = weft_train_options_copy(options->context, options->train, &p->run.train);
    if (status == WEFT_OK) status = change_options(options->context, &p->run.train);
    p->run.cluster = (char *)(uintptr_t)options->cluster;
    *out = p;
    if (status != WEFT_OK) weft_paused_run_close(out);
    return status;
}

void weft_paused_run_end(weft_paused_run *p)
{
    if (!p->started || p->joined) return;
    pthread_mutex_lock(&p->lock);
    ask_to_stop(p);
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
    pthread_join(p->thread, NULL);
    p->joined = true;
}

void weft_paused_run_close(weft_paused_run **run)
{
    if (!run || !*run) return;
    weft_paused_run *p = *run;
    weft_paused_run_end(p);
    weft_options_free(weft_train_table(p->options.context), &p->run.train);
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->changed);
    free(p->state.points);
    free(p->state.judged);
    free(p);
    *run = NULL;
}
