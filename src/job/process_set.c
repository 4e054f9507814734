/* Supervises a job of members: one coordinator, servers and learners, each of which is a process. A
 * process that dies is restarted while the others continue. */
#include "job/process_set.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LOOK = 50 }; /* milliseconds */
/* Seconds. PAUSE: before a restart, since the coordinator may be about to end as well, which would
 * explain the failure. GRACE: that processes may take to end when they are told to. LATE: that the
 * other learners may take once the first one has finished. */
static const double PAUSE = 0.25, GRACE = 2, LATE = 10;

/* --- starting --- */

enum { OWN_WORDS = 4 };

/* Builds the command line of a process. A restarted learner gets the parameters from the run, and
 * reads the newest checkpoint only for the state that is its own. */
static weft_status write_command(const process_set *t, const child_process *p, const char ***out)
{
    const job *j = t->j;
    int count = 0, n = 0;
    weft_part_role role = p->part->role;
    bool resumes = t->resumes || (p->before && role == WEFT_PART_LEARNER);
    while (p->part->words[count]) count++;
    WEFT_TRY(WEFT_NEW(out, count + OWN_WORDS + 1));
    const char **w = *out;
    w[n++] = j->program;
    for (int i = 0; i < count; i++) w[n++] = p->part->words[i];
    if (j->model && role == WEFT_PART_COORDINATOR) {
        w[n++] = "--model";
        w[n++] = j->model;
    }
    if (resumes && role != WEFT_PART_SERVER && j->options->checkpoint) w[n++] = "--resume";
    return WEFT_OK;
}

weft_status weft_child_process_start(process_set *t, child_process *p)
{
    const char **words, *environment[4];
    char slot[32];
    (void)snprintf(slot, sizeof(slot), WEFT_SLOT_VARIABLE "=%d", p->part->slot);
    environment[0] = t->j->environment[0];
    environment[1] = t->j->environment[1];
    environment[2] = slot;
    environment[3] = NULL;
    WEFT_TRY(write_command(t, p, &words));
    p->what[0] = p->said[0] = '\0';
    p->line_size = 0;
    p->died = p->paused = 0;
    p->hung = p->ready = false;
    if (p->part->role < WEFT_PART_WORKER && p->part->slot < WEFT_MAX_RANKS)
        atomic_fetch_add(&t->j->page->starts[p->part->role][p->part->slot], 1);
    weft_status status =
        weft_child_start((char *const *)(uintptr_t)words, environment, t->last, false, &p->child);
    free(words);
    p->runs = status == WEFT_OK;
    p->before = true;
    return status;
}

/* --- ending --- */

static void fail(process_set *t, int code, bool own)
{
    t->failed = true;
    t->code = code == 2 ? 2 : 1;
    if (own) t->j->own = t->code;
}

/* Whether any learner has begun a step. */
static bool has_begun(const process_set *t)
{
    for (int i = 0; i < t->count; i++)
        if (weft_child_process_step(t, &t->all[i]) > 0) return true;
    return false;
}

/* Asks all learners to save and stop. A learner that has not begun has nothing to save, and is
 * killed. */
static void stop_learners(process_set *t)
{
    t->stopping = true;
    for (int i = 0; i < t->count; i++) {
        child_process *p = &t->all[i];
        if (!p->runs || p->part->role != WEFT_PART_LEARNER) continue;
        weft_child_ask(&p->child);
        p->not_begun = weft_child_process_step(t, p) == 0;
        if (p->not_begun) kill(p->child.pid, SIGKILL);
    }
}

/* Handles a learner that ended because it was interrupted: it stops the job, since the learners of
 * a job stop together. A learner that stops because the others do ends with the code of SIGINT.
 * Before the run begins, nothing tells the others, which wait for the learner. */
static void take_stop(process_set *t, child_process *p, int code)
{
    char name[64];
    if (!t->stopping && !has_begun(t)) stop_learners(t);
    if (t->passed == 0 && code > 128 && code != 128 + SIGINT && !t->by[0])
        (void)snprintf(t->by, sizeof(t->by), "%s was stopped by signal %d (%s)",
                       weft_child_process_name(p, name, sizeof(name)), code - 128,
                       strsignal(code - 128));
    t->stopping = p->done = true;
    if (t->code == 0 || code != 128 + SIGINT) t->code = code;
    if (p->part->slot == 0 && p->part->role == WEFT_PART_LEARNER)
        (void)snprintf(t->j->stopped, sizeof(t->j->stopped), "weft: %.500s", p->said);
}

/* Handles a process that ended with an error while the job is stopping or ending: it is not
 * restarted. If the process is learner 0, the last steps are not saved if the job is stopping;
 * otherwise they are, and its own error, as in writing a trace, is that of the job. */
static void take_end(process_set *t, child_process *p, int state)
{
    p->done = true;
    if (p->part->role != WEFT_PART_LEARNER || p->part->slot > 0) return;
    if (t->stopping) p->died = weft_job_seconds(t->j);
    if (!t->stopping) {
        if (!WIFEXITED(state) || weft_is_status(p->what, WEFT_ERR_PEER)) return;
        weft_job_log(t->j, "weft: %s", p->said[0] ? p->said : p->why);
        t->code = t->j->own = WEXITSTATUS(state) == 2 ? 2 : 1;
        return;
    }
    if (p->not_begun) {
        (void)snprintf(t->j->stopped, sizeof(t->j->stopped), "weft: stopped before the first step");
        return;
    }
    (void)snprintf(t->j->stopped, sizeof(t->j->stopped),
                   "weft: stopped, and the last steps are not saved, since %.300s; continue with "
                   "--resume from the newest checkpoint, if there is one",
                   p->why);
}

/* Schedules a restart of a process; if it held the only copy of some state, the job fails. */
static void start_anew(process_set *t, child_process *p)
{
    if (p->part->only_copy && has_begun(t)) {
        weft_job_log(t->j, "weft: %s, and with it %s", p->why, p->part->only_copy);
        fail(t, 1, false);
        return;
    }
    p->died = weft_job_seconds(t->j);
}

/* Handles a process that has failed. Its own error would recur, so the job fails. A process that
 * was killed may be restarted, and so may a server or learner that has lost its peers or was
 * removed by them. */
static void take_failure(process_set *t, child_process *p, int state)
{
    bool killed = WIFSIGNALED(state), waits = weft_is_status(p->what, WEFT_ERR_PEER);
    if (!killed && (!waits || p->part->role == WEFT_PART_COORDINATOR)) {
        weft_job_log(t->j, "weft: %s", p->said[0] ? p->said : p->why);
        fail(t, WEXITSTATUS(state), !waits);
        return;
    }
    start_anew(t, p);
}

void weft_child_process_end(process_set *t, child_process *p)
{
    weft_child_process_drain(t, p);
    int state = weft_child_end(&p->child);
    int code = WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
    bool learner = p->part->role == WEFT_PART_LEARNER;
    p->runs = false;
    weft_child_process_explain(t, p, state);
    if (t->closing) return;
    if (code == 0 && p->part->role == WEFT_PART_COORDINATOR && t->end_reported == 0 &&
        !t->stopping) {
        weft_job_log(t->j, "weft: the run has ended without the first learner");
        fail(t, 1, false);
    } else if (code == 0)
        p->done = true;
    else if (learner && WIFEXITED(state) && weft_is_status(p->what, WEFT_ERR_INTERRUPTED))
        take_stop(t, p, code);
    else if (t->stopping || t->end_reported > 0)
        take_end(t, p, state);
    else if (!learner && weft_is_status(p->what, WEFT_ERR_INTERRUPTED))
        start_anew(t, p); /* the process was told to end by another process */
    else
        take_failure(t, p, state);
}

/* Restarts a process. A start that fails, as without memory, is tried again while restarts are
 * left. */
static void restart(process_set *t, child_process *p)
{
    job *j = t->j;
    if (j->restarts <= 0) {
        weft_job_log(j, "weft: %s; no restart is left of %lld (--max-restarts)", p->why,
                     (long long)weft_job_most_restarts(j->options));
        fail(t, 1, false);
        return;
    }
    j->restarts--;
    weft_job_log(j, "weft: %s; it is started again (%lld restart%s left)", p->why,
                 (long long)j->restarts, weft_plural(j->restarts));
    if (weft_child_process_start(t, p) == WEFT_OK) return;
    weft_child_process_explain_start(p);
    p->died = weft_job_seconds(j);
}

/* --- watching --- */

void weft_process_set_signal(const process_set *t, int number)
{
    for (int i = 0; i < t->count; i++)
        if (t->all[i].runs) kill(t->all[i].child.pid, number);
}

void weft_process_set_suspend(const process_set *t)
{
    if (!weft_job_wants_pause()) return;
    weft_process_set_signal(t, SIGSTOP);
    (void)raise(SIGSTOP);
    weft_process_set_signal(t, SIGCONT);
}

/* Handles signals that ask this process to stop: the first one lets learners save and stop, the
 * next one kills all processes. */
static void pass_on(process_set *t)
{
    int now;
    weft_job_asked(&now);
    weft_process_set_suspend(t);
    if (now > 0 && t->passed == 0) stop_learners(t);
    if (now > 1 && now > t->passed) {
        t->failed = true;
        t->code = 128 + SIGINT;
    }
    t->passed = now;
}

/* Kills a process that has been stopped (SIGSTOP) for longer than the failure timeout: the other
 * members have removed it by then, and only the supervisor can see that a coordinator does not
 * respond. While the job stops such a process is continued, since signals and requests to save do
 * not reach it otherwise. */
void weft_child_process_end_suspended(process_set *t, child_process *p)
{
    double now = weft_job_seconds(t->j);
    bool stopped = p->runs && weft_process_state(p->child.pid) == 'T';
    if (stopped && t->stopping) (void)kill(p->child.pid, SIGCONT);
    if (!stopped || t->stopping) p->paused = 0;
    if (stopped && p->paused == 0) p->paused = now;
    if (!stopped || t->stopping || now - p->paused <= t->j->options->failure_timeout) return;
    p->hung = true;
    kill(p->child.pid, SIGKILL);
}

void weft_process_set_poll(process_set *t, struct pollfd *fds)
{
    char text[4096];
    for (int i = 0; i < t->count; i++)
        fds[i] =
            (struct pollfd){.fd = t->all[i].runs ? t->all[i].child.errors : -1, .events = POLLIN};
    if (poll(fds, (nfds_t)t->count, LOOK) <= 0) return;
    for (int i = 0; i < t->count; i++) {
        if (!(fds[i].revents & POLLIN)) continue;
        ssize_t got = read(fds[i].fd, text, sizeof(text));
        if (got > 0) weft_child_process_read(t, &t->all[i], text, (size_t)got);
    }
}

/* Whether learner 0 died while the job was stopping, or just before, more than GRACE seconds ago.
 * The job does not restart it, and saves nothing without it, but the others may wait for it. */
static bool is_first_lost(const process_set *t)
{
    for (int i = 0; i < t->count && t->stopping; i++) {
        const child_process *p = &t->all[i];
        if (p->part->role != WEFT_PART_LEARNER || p->part->slot > 0 || p->runs) continue;
        return p->died > 0 && weft_job_seconds(t->j) - p->died > GRACE;
    }
    return false;
}

/* Whether all learners have finished. Once the first one has, or is lost, the others are waited for
 * only a limited time: a restarted one may wait for servers that are gone. */
static bool is_over(const process_set *t)
{
    bool late = is_first_lost(t) ||
                (t->end_reported > 0 && weft_job_seconds(t->j) - t->end_reported > LATE);
    for (int i = 0; i < t->count; i++) {
        const child_process *p = &t->all[i];
        if (p->part->role != WEFT_PART_LEARNER || p->done) continue;
        if (late && p->part->slot > 0) continue;
        if (p->runs || !t->stopping) return false;
    }
    return true;
}

static void watch(process_set *t, struct pollfd *fds)
{
    while (!t->failed && !is_over(t)) {
        weft_process_set_poll(t, fds);
        pass_on(t);
        for (int i = 0; i < t->count && !t->failed; i++) {
            child_process *p = &t->all[i];
            weft_child_process_end_suspended(t, p);
            if (p->runs && weft_child_ended(&p->child)) weft_child_process_end(t, p);
        }
        double now = weft_job_seconds(t->j);
        for (int i = 0; i < t->count && !t->failed && !t->stopping; i++)
            if (t->all[i].died > 0 && now - t->all[i].died > PAUSE) restart(t, &t->all[i]);
    }
}

/* Ends all processes that still run, such as servers and the coordinator: by SIGKILL after a
 * failure, else by SIGTERM and, after GRACE seconds, SIGKILL. */
static void close_all(process_set *t)
{
    double began = weft_seconds();
    t->closing = true;
    weft_process_set_signal(t, t->failed ? SIGKILL : SIGTERM);
    weft_process_set_signal(t, SIGINT);  /* a second one, at which servers end at once */
    weft_process_set_signal(t, SIGCONT); /* a stopped process does not receive SIGTERM */
    for (bool some = true, killed = t->failed; some;) {
        some = false;
        for (int i = 0; i < t->count; i++) {
            child_process *p = &t->all[i];
            if (p->runs && weft_child_ended(&p->child)) weft_child_process_end(t, p);
            some = some || p->runs;
        }
        if (!some) break;
        if (!killed && weft_seconds() - began > GRACE) {
            weft_process_set_signal(t, SIGKILL);
            killed = true;
        }
        (void)poll(NULL, 0, LOOK / 5);
    }
}

/* Completes the message about a job that was stopped: adds the learner that received the signal,
 * and the saved step, which the first learner reports unless it had finished before. */
static void report_stop(const process_set *t)
{
    job *j = t->j;
    char last[sizeof(j->stopped)];
    const char *folder = j->options->checkpoint;
    if (!t->stopping) return;
    if (!j->stopped[0] && t->end_reported > 0)
        (void)snprintf(
            j->stopped, sizeof(j->stopped), "weft: the first learner had finished %s%.200s",
            folder ? "all steps, and saved them in " : "all steps", folder ? folder : "");
    if (!t->by[0] || !j->stopped[0]) return;
    memcpy(last, j->stopped, sizeof(last));
    (void)snprintf(j->stopped, sizeof(j->stopped), "weft: %s; %.400s", t->by,
                   last + strlen("weft: "));
}

static weft_status run(process_set *t, int *code)
{
    struct pollfd *fds;
    weft_status status = WEFT_NEW(&fds, t->count);
    for (int i = 0; i < t->count && status == WEFT_OK; i++)
        status = weft_child_process_start(t, &t->all[i]);
    if (status == WEFT_OK) watch(t, fds);
    t->failed = t->failed || status != WEFT_OK;
    close_all(t);
    report_stop(t);
    free(fds);
    *code = t->code;
    if (t->stopping && *code == 0) *code = 128 + SIGINT;
    return status;
}

weft_status weft_job_run_members(job *j, bool resume, int *code)
{
    const weft_job_options *o = j->options;
    process_set t = {.j = j, .resumes = resume, .count = o->part_count, .last = SIGKILL};
    WEFT_TRY(WEFT_NEW(&t.all, t.count));
    for (int i = 0; i < t.count; i++) t.all[i] = (child_process){.part = &o->parts[i]};
    weft_orphans_begin(&j->orphans, j->environment[0]);
    weft_status status = run(&t, code);
    weft_orphans_end(&j->orphans);
    j->explained = true;
    free(t.all);
    return status;
}
