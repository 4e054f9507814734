/* Watches a running job: forwards output and signals, notices ranks on this machine that have died
 * and ends the others, and kills a job that hangs. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "job/child.h"
#include "job/supervisor.h"

enum { GRACE = 5, LOOK = 100 }; /* seconds; milliseconds */
#define LAST_WORDS 0.15         /* seconds that a dead rank's error message may take */

double weft_job_seconds(job *j)
{
    return 1 + weft_wait_clock_read(&j->clock, 1);
}

static bool is_absent(const job *j, int rank)
{
    return !j->started[rank] && atomic_load(&j->page->pid[rank]) == 0;
}

/* The machines among which a launcher chooses by itself, as the scheduler has written them to the
 * environment; "": not known. */
static const char *allocation(char *out, size_t size)
{
    static const char *const names[] = {"SLURM_JOB_NODELIST", "PBS_NODEFILE", "LSB_HOSTS",
                                        "PE_HOSTFILE"};
    out[0] = '\0';
    for (size_t i = 0; i < WEFT_COUNT(names) && !out[0]; i++)
        if (getenv(names[i])) (void)snprintf(out, size, " (%s=%s)", names[i], getenv(names[i]));
    return out;
}

/* Lists the first ranks that have not started, " 2 3", and returns how many there are. */
static int list_absent(const job *j, char *out, size_t size)
{
    enum { SHOWN = 12 };
    int count = 0;
    size_t used = 0;
    out[0] = '\0';
    for (int r = 0; r < (int)j->ranks; r++) {
        if (!is_absent(j, r)) continue;
        if (count < SHOWN) used += (size_t)snprintf(out + used, size - used, " %d", r);
        if (count++ == SHOWN) used += (size_t)snprintf(out + used, size - used, " ...");
    }
    return count;
}

/* Reports a job that has not started in time: which ranks have not, and what to try. If all have,
 * they do not reach each other in MPI_Init, or are not built. */
static void report_not_started(const job *j, double limit)
{
    char ranks[80], where[512], on[300] = "", machines[300], what[900];
    int absent = list_absent(j, ranks, sizeof(ranks));
    bool connected = false;
    for (int r = 0; r < (int)j->ranks; r++)
        connected = connected || atomic_load(&j->page->pid[r]) > 0;
    weft_job_where(j, is_absent, where, sizeof(where));
    if (j->started_on[0]) (void)snprintf(on, sizeof(on), ", on %s", j->started_on);
    if (absent > 0 && j->options->hosts)
        (void)snprintf(what, sizeof(what),
                       "each of --hosts %s must answer to 'ssh HOST true' without a password",
                       j->options->hosts);
    else if (absent > 0)
        (void)snprintf(what, sizeof(what),
                       "'mpirun -n %lld hostname' must print a line for each rank, since mpirun "
                       "finds the machines of an allocation by itself%s",
                       (long long)j->ranks, allocation(machines, sizeof(machines)));
    else
        (void)snprintf(what, sizeof(what), "%s",
                       connected
                           ? "they still read the data, build the model, or wait for each other"
                           : "they do not reach each other in MPI_Init; look for a firewall "
                             "between the machines, and for networks that only some have");
    if (absent > 0)
        weft_job_log(j,
                     "weft: the job has not started after %.0f s: rank%s%s%s ha%s not (of %lld "
                     "ranks, %lld ha%s%s); %s, and the same weft and MPI must be in the same place "
                     "on each machine; a longer --timeout would wait for them",
                     limit, weft_plural(absent), ranks, where, absent == 1 ? "s" : "ve",
                     (long long)j->ranks, (long long)j->ranks - absent,
                     j->ranks - absent == 1 ? "s" : "ve", on, what);
    else
        weft_job_log(j,
                     "weft: the job has not started after %.0f s: all %lld ranks have%s, but %s; a "
                     "longer --timeout would wait for them",
                     limit, (long long)j->ranks, on, what);
}

/* Detects ranks that are stuck at the start or the end, by the status page, for ranks on this
 * machine.
 *
 * MPI_Init and MPI_Finalize wait for all ranks without a timeout, so this function has one: all
 * ranks must leave MPI_Init within the time of a collective, and end within that time after the
 * first rank has ended. After MPI_Init a rank gives its process to the page and reads its data,
 * however long that takes: later waits have limits of their own. */
static bool stuck(job *j, double since, double *first_end)
{
    int started = 0, finished = 0, late = -1;
    for (int r = 0; r < (int)j->ranks; r++) {
        started += atomic_load(&j->page->pid[r]) > 0;
        finished += atomic_load(&j->page->stage[r]) == WEFT_STAGE_FINISHED;
    }
    double now = weft_job_seconds(j), limit = j->options->timeout + GRACE;
    if (finished > 0 && *first_end == 0) *first_end = now;
    bool starting = started < j->ranks && now - since > limit;
    bool ending = finished > 0 && finished < j->ranks && now - *first_end > limit;
    if (!starting && !ending) return false;
    for (int r = 0; r < (int)j->ranks && late < 0; r++)
        if (atomic_load(&j->page->stage[r]) < WEFT_STAGE_FINISHED) late = r;
    if (starting)
        report_not_started(j, limit);
    else
        weft_job_log(j,
                     "weft: the job has not ended after %.0f s: rank %d has not (of %lld ranks, %d "
                     "have); a longer --timeout would wait for it",
                     limit, late, (long long)j->ranks, finished);
    return true;
}

/* Detects ranks that are stuck at the start or the end, like stuck(), for ranks on other machines:
 * by the status lines that ranks print when they are built and when rank 0 has finished. */
static bool stuck_afar(const job *j, double now, double since)
{
    double limit = j->options->timeout + GRACE;
    bool starting = !j->built && now - since > limit;
    bool ending = j->finished > 0 && now - j->finished > limit;
    if (starting)
        report_not_started(j, limit);
    else if (ending)
        weft_job_log(j,
                     "weft: the job has not ended after %.0f s on %s%s; a longer --timeout would "
                     "wait for it",
                     limit, j->options->hosts ? "--hosts " : "its machines",
                     j->options->hosts ? j->options->hosts : "");
    return starting || ending;
}

/* Detects a deadlock, in which all ranks stand still; a rank that waits for a dead or slow rank
 * fails by its own timeout. A long step, file or checkpoint does not count, since a rank that
 * computes, reads or writes makes progress. */
static bool stands_still(job *j, const weft_child *c)
{
    uint64_t done = 0;
    /* With other hosts the limit is longer: ranks detect a broken connection later, and describe it
     * better. */
    double grace = j->afar ? 4 * GRACE : GRACE;
    double now = weft_job_seconds(j), limit = j->options->timeout + grace;
    int64_t step = 0;
    if (now - j->looked < 1) return false;
    j->looked = now;
    for (int r = 0; r < (int)j->ranks; r++) {
        int pid = j->mpi ? atomic_load(&j->page->pid[r]) : (int)c->pid;
        if (pid == 0) return false; /* the rank has not started, or is on another machine */
        if (j->mpi || r == 0) done += weft_work_of(pid);
        step = WEFT_MAX(step, atomic_load(&j->page->step[r]));
    }
    if (done != j->work || j->worked == 0) j->worked = now;
    j->work = done;
    if (now - j->worked <= limit) return false;
    char when[40] = "before its first step";
    if (step > 0) (void)snprintf(when, sizeof(when), "in step %lld", (long long)step);
    weft_job_log(j,
                 "weft: the job stands still %s: for %.0f s no rank has computed, read or written "
                 "anything; a longer --timeout would wait for it",
                 when, limit);
    return true;
}

static bool hangs(job *j, const weft_child *c, double since)
{
    double now = weft_job_seconds(j);
    if (j->ending > 0 && now - j->ending > GRACE) return true;
    if (j->mpi && (j->afar ? stuck_afar(j, now, since) : stuck(j, since, &j->finished)))
        return true;
    return stands_still(j, c);
}

/* Kills a job that does not end by itself. After a failure the other ranks end soon, but a launcher
 * waits for ever for a host that it cannot reach, and a stopped process does not end at all. */
static void end_what_hangs(job *j, const weft_child *c, double since, double *cut)
{
    double now = weft_job_seconds(j);
    if (*cut == 0 && hangs(j, c, since)) {
        *cut = now;
        j->cut_short = true;
        kill(c->pid, j->mpi ? WEFT_ENDS_LAUNCHER : SIGKILL); /* mpirun then kills its ranks */
    } else if (*cut > 0 && now - *cut > GRACE) {
        *cut = now;
        kill(c->pid, SIGKILL);
    }
}

/* Kills the ranks on this machine when one of them has died: they can only wait for the dead rank,
 * and a launcher is slow to kill them (Open MPI takes a second for each signal). The kill comes
 * LAST_WORDS seconds later, since the error message of the dead rank may still be on its way. */
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
        weft_orphans_signal(&j->orphans, atomic_load(&j->page->pid[r]), SIGKILL);
}

static volatile sig_atomic_t asked; /* the first signal that asked to stop */
static volatile sig_atomic_t times; /* number of such signals */

static volatile sig_atomic_t hangups_reload; /* SIGHUP does not ask to stop */
static volatile sig_atomic_t hung_up;        /* it has come */

static void on_signal(int number)
{
    if (number == SIGHUP && hangups_reload) {
        hung_up = 1;
        return;
    }
    if (!asked) asked = number;
    times = times + 1;
}

static volatile sig_atomic_t paused; /* Ctrl-Z was pressed */

static void on_pause(int number)
{
    paused = number;
}

/* Signals that stop the job, and the one that pauses it. Ignored signals (SIGHUP under nohup,
 * SIGTSTP without job control) stay ignored. */
static const int caught[WEFT_CAUGHT] = {SIGINT, SIGTERM, SIGHUP, SIGTSTP, SIGCHLD};

void weft_job_catch(struct sigaction before[WEFT_CAUGHT])
{
    asked = times = paused = hangups_reload = hung_up = 0;
    for (int i = 0; i < WEFT_ASKING; i++) {
        bool end = caught[i] == SIGINT || caught[i] == SIGTERM;
        struct sigaction action = {.sa_handler = caught[i] == SIGTSTP ? on_pause : on_signal,
                                   .sa_flags = SA_RESTART}; /* poll is interrupted all the same */
        sigaction(caught[i], NULL, &before[i]);
        if (end || before[i].sa_handler != SIG_IGN) sigaction(caught[i], &action, NULL);
    }
    struct sigaction *child = &before[WEFT_ASKING], usual = {.sa_handler = SIG_DFL};
    sigaction(SIGCHLD, NULL, child);
    if (child->sa_handler == SIG_IGN || (child->sa_flags & SA_NOCLDWAIT))
        sigaction(SIGCHLD, &usual, NULL);
}

void weft_job_release(const struct sigaction before[WEFT_CAUGHT])
{
    for (int i = 0; i < WEFT_CAUGHT; i++) sigaction(caught[i], &before[i], NULL);
}

void weft_job_let_hangups_reload(bool reload)
{
    hangups_reload = reload;
}

bool weft_job_wants_reload(void)
{
    bool wanted = hung_up != 0;
    hung_up = 0;
    return wanted;
}

int weft_job_asked(int *how_often)
{
    *how_often = times;
    return asked;
}

int weft_job_stopped_by(void)
{
    return asked;
}

bool weft_job_wants_pause(void)
{
    bool wanted = paused != 0;
    paused = 0;
    return wanted;
}

/* Pauses the ranks, then this process; when this process is continued, it continues the ranks. */
static void pause_all(const weft_child *c)
{
    kill(c->pid, SIGTSTP); /* mpirun forwards it */
    (void)raise(SIGSTOP);
    kill(c->pid, SIGCONT);
}

/* Continues the launcher, and the ranks on this machine, that are stopped (SIGSTOP): a request to
 * save does not reach them otherwise. */
static void continue_all(const job *j, const weft_child *c)
{
    if (weft_process_state(c->pid) == 'T') kill(c->pid, SIGCONT);
    for (int r = 0; r < (int)j->ranks && j->mpi; r++) {
        pid_t pid = atomic_load(&j->page->pid[r]);
        if (pid > 0 && weft_process_state(pid) == 'T')
            weft_orphans_signal(&j->orphans, pid, SIGCONT);
    }
}

/* Handles signals that ask this process to stop: the first one lets the ranks save and stop, the
 * second kills them (through mpirun), and the third kills mpirun as well. */
static void pass_on(const job *j, const weft_child *c, int *done)
{
    int now = times;
    if (weft_job_wants_pause()) pause_all(c);
    if (now > 0) continue_all(j, c);
    if (now > 0 && *done == 0) weft_child_ask(c);
    if (now > 1 && now > *done) kill(c->pid, j->mpi && now == 2 ? WEFT_ENDS_LAUNCHER : SIGKILL);
    *done = now;
}

/* Watches the job until it closes standard error, which is forwarded. */
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
        if (ready == 0 && weft_child_ended(c)) break; /* orphans may hold the pipe */
        if (ready <= 0) continue;
        ssize_t got = read(c->errors, text, sizeof(text));
        if (got <= 0) break;
        weft_job_hear(j, text, (size_t)got);
    }
    weft_job_end_output(j);
}
