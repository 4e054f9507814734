/* Supervises a job of identical workers (weft serve). A worker that dies is restarted while the
 * others continue; if the first one cannot even start, the job fails. */
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

#include "job/process_set.h"

/* Seconds. SHORTEST, LONGEST: bounds on the pause before a restart. GRACE: that a worker may take
 * to end beyond its drain time. */
static const double SHORTEST = 0.25, LONGEST = 30, GRACE = 5;
/* Deaths of the first worker before any was ready, after which the job fails. */
enum { MOST_DEATHS = 5 };

typedef struct workers {
    process_set t;
    weft_core_sets *cores; /* one set for each worker, or none */
    bool ready_reported;   /* the callback for readiness was called */
    double asked, ended;   /* times when the workers were told to end, and killed; 0: not yet */
} workers;

static void fail(workers *w, int code)
{
    w->t.failed = true;
    w->t.code = code;
}

static int ready(const workers *w)
{
    int count = 0;
    for (int i = 0; i < w->t.count; i++) count += w->t.all[i].runs && w->t.all[i].ready;
    return count;
}

/* Plans the restart of a worker after a pause (exponential backoff): twice the last pause, less the
 * time for which the worker was ready. */
static void plan_restart(workers *w, child_process *p, int state)
{
    double now = weft_job_seconds(w->t.j), served = p->ready ? now - p->since : 0;
    p->pause = fmin(fmax(2 * p->pause - served, SHORTEST), LONGEST);
    p->restart_at = now + p->pause;
    if (state == 0) /* ended by a signal from outside, after answering its requests */
        (void)snprintf(p->why, sizeof(p->why), "process %d was stopped by a signal", p->part->slot);
    weft_job_log(w->t.j, "weft: %s; it is started again in %.3g s (%d of %d processes serve)",
                 p->why, p->pause, ready(w), w->t.count);
}

/* --- start of a worker --- */

/* Starts a worker on its own set of cores: the process is created there, so that it counts its
 * available cores rightly. Once the first worker has served, a start that fails, as without memory,
 * is tried again later, since the others serve. */
static weft_status start(workers *w, child_process *p)
{
    void *before = weft_core_sets_enter(w->cores, p->part->slot);
    weft_status status = weft_child_process_start(&w->t, p);
    weft_core_sets_leave(w->cores, before);
    p->restart_at = 0;
    if (status == WEFT_OK || !w->t.all[0].has_served) return status;
    weft_child_process_explain_start(p);
    plan_restart(w, p, -1);
    return WEFT_OK;
}

/* --- end of a worker --- */

/* Handles the end of a worker. The job fails on an error of a worker that was never ready, since it
 * would recur in all workers; otherwise the worker is restarted. */
static void take_end(workers *w, child_process *p, int state)
{
    bool alone = !w->ready_reported && p->part->slot == 0; /* no worker has been ready yet */
    if (w->t.stopping) {
        if (state == 0 || w->ended > 0) return;
        weft_job_log(w->t.j, "weft: %s", p->said[0] ? p->said : p->why);
        w->t.code = 1;
        return;
    }
    if (WIFEXITED(state) && state != 0 && !p->has_served) {
        weft_job_log(w->t.j, "weft: %s", p->said[0] ? p->said : p->why);
        fail(w, WEXITSTATUS(state));
    } else if (alone && !p->has_served && ++p->deaths == MOST_DEATHS) {
        weft_job_log(w->t.j, "weft: %s, %d times before it was ready", p->why, MOST_DEATHS);
        fail(w, 1);
    } else {
        plan_restart(w, p, state);
    }
}

static void check_process(workers *w, child_process *p)
{
    bool was_ready = p->ready && p->since > 0;
    weft_child_process_end_suspended(&w->t, p);
    if (p->runs && weft_child_ended(&p->child)) {
        weft_child_process_drain(&w->t, p);
        int state = weft_child_end(&p->child);
        p->runs = false;
        weft_child_process_explain(&w->t, p, state);
        take_end(w, p, state);
        p->since = 0;
    } else if (p->runs && p->ready && !was_ready) {
        p->since = weft_job_seconds(w->t.j);
        if (p->has_served)
            weft_job_log(w->t.j, "weft: process %d serves again (%d of %d)", p->part->slot,
                         ready(w), w->t.count);
        p->has_served = true;
    }
}

/* --- all workers --- */

/* Makes the workers that serve reload; one that starts reads everything anyway. */
static void pass_on_hangup(const process_set *t)
{
    if (!weft_job_wants_reload()) return;
    for (int i = 0; i < t->count; i++)
        if (t->all[i].runs && t->all[i].ready) kill(t->all[i].child.pid, SIGHUP);
}

/* Handles signals that ask this process to stop: the first one lets all workers drain, and the next
 * one, or the end of the drain time, kills them. */
static void pass_on(workers *w)
{
    process_set *t = &w->t;
    double now = weft_job_seconds(t->j), limit = t->j->options->drain + GRACE;
    int times, asked = weft_job_asked(&times);
    weft_process_set_suspend(t);
    pass_on_hangup(t);
    if (times > 0 && !t->stopping) {
        t->stopping = true;
        w->asked = now;
        weft_process_set_signal(t, SIGTERM);
        weft_process_set_signal(t, SIGCONT); /* a stopped process does not receive signals */
    }
    bool late = t->stopping && now - w->asked > limit;
    if (w->ended > 0 || (times < 2 && !late)) return;
    if (times < 2)
        weft_job_log(t->j, "weft: processes that have not ended after %g s are killed", limit);
    w->ended = now;
    t->code = times < 2 ? 1 : 128 + asked;
    weft_process_set_signal(t, SIGKILL);
}

static bool some_run(const workers *w)
{
    for (int i = 0; i < w->t.count; i++)
        if (w->t.all[i].runs) return true;
    return false;
}

/* Starts workers whose start or restart is due. The first start of the other workers waits until
 * the first worker is ready, so that a common error is reported once. */
static weft_status start_due(workers *w)
{
    process_set *t = &w->t;
    double now = weft_job_seconds(t->j);
    for (int i = 0; i < t->count; i++) {
        child_process *p = &t->all[i];
        bool first = !p->before && (i == 0 || t->all[0].has_served);
        if (!p->runs && (first || (p->restart_at > 0 && now >= p->restart_at)))
            WEFT_TRY(start(w, p));
    }
    return WEFT_OK;
}

static void report_ready(workers *w)
{
    const job *j = w->t.j;
    if (w->ready_reported || ready(w) < w->t.count) return;
    w->ready_reported = true;
    if (j->options->ready) j->options->ready(j->user);
}

static weft_status watch(workers *w, struct pollfd *fds)
{
    process_set *t = &w->t;
    do {
        if (!t->stopping) WEFT_TRY(start_due(w));
        weft_process_set_poll(t, fds);
        pass_on(w);
        for (int i = 0; i < t->count && !t->failed; i++) check_process(w, &t->all[i]);
        report_ready(w);
    } while (!t->failed && (!t->stopping || some_run(w)));
    return WEFT_OK;
}

/* Kills the remaining workers after a failure. */
static void end_all(workers *w)
{
    w->t.closing = true;
    weft_process_set_signal(&w->t, SIGKILL);
    for (int i = 0; i < w->t.count; i++) {
        child_process *p = &w->t.all[i];
        if (!p->runs) continue;
        (void)weft_child_end(&p->child);
        p->runs = false;
    }
}

weft_status weft_job_run_workers(job *j, int *code)
{
    const weft_job_options *o = j->options;
    workers w = {.t = {.j = j, .count = o->part_count, .last = SIGTERM}};
    struct pollfd *fds = NULL;
    weft_status status;
    weft_job_let_hangups_reload(true);
    weft_orphans_begin(&j->orphans, j->environment[0]);
    WEFT_TRY_GOTO(WEFT_NEW(&w.t.all, w.t.count), end);
    WEFT_TRY_GOTO(WEFT_NEW(&fds, w.t.count), end);
    WEFT_TRY_GOTO(weft_core_sets_make(w.t.count, false, &w.cores), end);
    for (int i = 0; i < w.t.count; i++) w.t.all[i] = (child_process){.part = &o->parts[i]};
    status = watch(&w, fds);
    end_all(&w);
end:
    weft_orphans_end(&j->orphans);
    weft_core_sets_free(&w.cores);
    free(fds);
    free(w.t.all);
    *code = w.t.code;
    return status;
}
