/* What a supervisor does while its job runs: it hands on what is said and asked, and ends what does
 * not end by itself. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "job/child.h"
#include "job/supervisor.h"

enum { GRACE = 5, LOOK = 100 }; /* seconds; milliseconds */
#define LAST_WORDS 0.15         /* seconds */

double weft_job_seconds(job *j)
{
    return 1 + weft_patience_look(&j->clock, 1);
}

/* On this machine ranks note on the page how far they are.
 *
 * MPI starts and ends by calls that wait for everybody without a limit, so the limit is kept here:
 * all ranks must be built within the time of a collective, and end within that of the first one.
 * One that is alone waits for nobody once it has come, however long its data take. */
static bool stuck(job *j, double since, double *first_end)
{
    int built = 0, finished = 0, late = -1;
    for (int r = 0; r < (int)j->ranks; r++) {
        int stage = atomic_load(&j->page->stage[r]);
        built += stage >= WEFT_STAGE_BUILT || (j->ranks == 1 && atomic_load(&j->page->pid[r]) > 0);
        finished += stage == WEFT_STAGE_FINISHED;
    }
    double now = weft_job_seconds(j), limit = j->options->timeout + GRACE;
    if (finished > 0 && *first_end == 0) *first_end = now;
    bool starting = built < j->ranks && now - since > limit;
    bool ending = finished > 0 && finished < j->ranks && now - *first_end > limit;
    if (!starting && !ending) return false;
    for (int r = 0; r < (int)j->ranks && late < 0; r++)
        if (atomic_load(&j->page->stage[r]) < (starting ? WEFT_STAGE_BUILT : WEFT_STAGE_FINISHED))
            late = r;
    weft_job_say(
        j,
        "weft: the job has not %s after %.0f s: rank %d has not come (of %lld ranks %d are there); "
        "a longer --timeout would wait for it",
        starting ? "started" : "ended", limit, late, (long long)j->ranks,
        starting ? built : finished);
    return true;
}

/* Of ranks on other machines it is known what rank 0 says. */
static bool stuck_afar(job *j, double since)
{
    double now = weft_job_seconds(j), limit = j->options->timeout + GRACE;
    bool starting = !j->built && now - since > limit;
    bool ending = j->finished > 0 && now - j->finished > limit;
    if (starting || ending)
        weft_job_say(
            j,
            "weft: the job has not %s after %.0f s on --hosts %s; a longer --timeout would "
            "wait for it",
            starting ? "started" : "ended", limit, j->options->hosts);
    return starting || ending;
}

/* Ranks that wait for another one keep a limit themselves, but not where all of them stand still.
 * How long a step, a file or a checkpoint takes is no matter: whoever computes, reads or writes
 * does not stand still. */
static bool stands_still(job *j, const weft_child *c)
{
    uint64_t done = 0;
    /* Over a cut line ranks speak late, and know more of it. */
    double grace = j->hosts.count > 0 ? 4 * GRACE : GRACE;
    double now = weft_job_seconds(j), limit = j->options->timeout + grace;
    int64_t step = 0;
    if (now - j->looked < 1) return false;
    j->looked = now;
    for (int r = 0; r < (int)j->ranks; r++) {
        int pid = j->mpi ? atomic_load(&j->page->pid[r]) : (int)c->pid;
        if (pid == 0) return false; /* it has not come, or is on another machine */
        if (j->mpi || r == 0) done += weft_work_of(pid);
        step = WEFT_MAX(step, atomic_load(&j->page->step[r]));
    }
    if (done != j->work || j->worked == 0) j->worked = now;
    j->work = done;
    if (now - j->worked <= limit) return false;
    char when[40] = "before its first step";
    if (step > 0) (void)snprintf(when, sizeof(when), "in step %lld", (long long)step);
    weft_job_say(j,
                 "weft: the job stands still %s: for %.0f s no rank has computed, read or written "
                 "anything; a longer --timeout would wait for it",
                 when, limit);
    return true;
}

static bool hangs(job *j, const weft_child *c, double since)
{
    if (j->ending > 0 && weft_job_seconds(j) - j->ending > GRACE) return true;
    if (j->mpi && (j->hosts.count > 0 ? stuck_afar(j, since) : stuck(j, since, &j->finished)))
        return true;
    return stands_still(j, c);
}

/* Ends a job that does not end by itself: once a rank has failed all others do so soon, but a
 * launcher waits for ever for a host that it cannot reach, and a process that is stopped for
 * everything. */
static void end_what_hangs(job *j, const weft_child *c, double since, double *cut)
{
    double now = weft_job_seconds(j);
    if (*cut == 0 && hangs(j, c, since)) {
        *cut = now;
        j->cut_short = true;
        kill(c->pid, j->mpi ? SIGTERM : SIGKILL); /* mpirun then ends its ranks, stopped ones too */
    } else if (*cut > 0 && now - *cut > GRACE) {
        *cut = now;
        kill(c->pid, SIGKILL);
    }
}

/* The peers of a rank that has died can only wait for it, and a launcher takes its time to end them
 * (Open MPI a second for each signal): those of this machine end at once. One that left by itself
 * has said why, which may yet be on its way. */
static void end_peers(job *j)
{
    bool died = false;
    for (int r = 0; r < (int)j->ranks && j->mpi; r++) {
        int pid = atomic_load(&j->page->pid[r]);
        bool finished = atomic_load(&j->page->stage[r]) == WEFT_STAGE_FINISHED;
        died = died || (pid > 0 && !finished && kill(pid, 0) != 0 && errno == ESRCH);
    }
    if (died && j->bereft == 0) j->bereft = weft_job_seconds(j);
    if (j->bereft == 0 || weft_job_seconds(j) - j->bereft < LAST_WORDS) return;
    for (int r = 0; r < (int)j->ranks; r++)
        weft_orphans_kill(&j->orphans, atomic_load(&j->page->pid[r]));
}

static volatile sig_atomic_t asked; /* the signal that asked for the end */
static volatile sig_atomic_t times; /* how often it did */

static void on_signal(int number)
{
    if (!asked) asked = number;
    times = times + 1;
}

static volatile sig_atomic_t paused; /* Ctrl-Z */

static void on_pause(int number)
{
    paused = number;
}

/* Signals that ask for the end, and the one that asks for a pause. What is ignored (SIGHUP under
 * nohup, SIGTSTP where there is no job control) stays so. */
static const int asking[WEFT_ASKING] = {SIGINT, SIGTERM, SIGHUP, SIGTSTP};

void weft_job_catch(struct sigaction before[WEFT_ASKING])
{
    asked = times = paused = 0;
    for (int i = 0; i < WEFT_ASKING; i++) {
        bool end = asking[i] == SIGINT || asking[i] == SIGTERM;
        struct sigaction action = {.sa_handler = asking[i] == SIGTSTP ? on_pause : on_signal,
                                   .sa_flags = SA_RESTART}; /* poll returns even so */
        sigaction(asking[i], NULL, &before[i]);
        if (end || before[i].sa_handler != SIG_IGN) sigaction(asking[i], &action, NULL);
    }
}

void weft_job_release(const struct sigaction before[WEFT_ASKING])
{
    for (int i = 0; i < WEFT_ASKING; i++) sigaction(asking[i], &before[i], NULL);
}

int weft_job_asked(int *how_often)
{
    *how_often = times;
    return asked;
}

bool weft_job_wants_pause(void)
{
    bool wanted = paused != 0;
    paused = 0;
    return wanted;
}

/* The ranks stop, then this process, and when it goes on so do they. */
static void pause_all(const weft_child *c)
{
    kill(c->pid, SIGTSTP); /* which mpirun hands on */
    (void)raise(SIGSTOP);
    kill(c->pid, SIGCONT);
}

/* The first signal lets the ranks save and stop, the next ends them, which mpirun does to its own,
 * and one more does not ask. */
static void pass_on(const job *j, const weft_child *c, int *done)
{
    int now = times;
    if (weft_job_wants_pause()) pause_all(c);
    if (now > 0 && *done == 0) weft_child_ask(c);
    if (now > 1 && now > *done) kill(c->pid, j->mpi && now == 2 ? SIGTERM : SIGKILL);
    *done = now;
}

/* Passes on what the ranks say on stderr until the job closes it. */
void weft_job_watch(job *j, const weft_child *c)
{
    char text[4096];
    double since = weft_job_seconds(j), cut = 0;
    for (int passed = 0;;) {
        struct pollfd waiting = {.fd = c->errors, .events = POLLIN};
        int ready = poll(&waiting, 1, LOOK);
        bool broken = ready < 0 && errno != EINTR;
        pass_on(j, c, &passed);
        end_what_hangs(j, c, since, &cut);
        end_peers(j);
        if (j->hosts.count > 0 && !j->no_host) weft_hosts_look(&j->hosts, c->pid, j->program);
        if (broken) break;
        if (ready == 0 && weft_child_ended(c)) break; /* what it left may hold the pipe */
        if (ready <= 0) continue;
        ssize_t got = read(c->errors, text, sizeof(text));
        if (got <= 0) break;
        weft_job_hear(j, text, (size_t)got);
    }
    weft_job_heard_all(j);
}
