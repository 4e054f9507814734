/* Diagnoses the failure of a job: from the output of the launcher, from the exit status of the
 * process, and from the status page, where each rank notes its step and its transfer. */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "job/supervisor.h"
#include "job/status_line.h"
#include "job/launcher_output.h"

void weft_job_log(const job *j, const char *format, ...)
{
    char *line = NULL;
    va_list arguments;
    va_start(arguments, format);
    int size = vasprintf(&line, format, arguments);
    va_end(arguments);
    if (j->tell) j->tell(j->user, size < 0 ? "weft: out of memory" : line);
    if (size >= 0) free(line);
}

static void pass(job *j, const char *line)
{
    if (weft_launcher_event_read(line).kind == WEFT_LAUNCHER_IGNORED) return;
    j->explained = true;
    if (!j->built) weft_hosts_mention(&j->hosts, line);
    weft_job_log(j, "%s", line);
}

/* Interprets a message of the launcher about a failure; the first failed rank counts. false: the
 * message is not about a failure. */
static bool read_message(job *j, const char *text)
{
    weft_launcher_event w = weft_launcher_event_read(text);
    if (w.kind == WEFT_LAUNCHER_UNKNOWN) return false;
    if (w.kind == WEFT_LAUNCHER_LOST_HOST) {
        j->no_host = true;
        if (j->ending == 0) j->ending = weft_job_seconds(j);
        if (!j->lost_host[0]) memcpy(j->lost_host, w.host, sizeof(j->lost_host));
    }
    if ((w.kind != WEFT_LAUNCHER_SIGNALED && w.kind != WEFT_LAUNCHER_EXITED) || j->dead >= 0)
        return true;
    if (w.rank < 0 || w.rank >= (int)j->ranks) return false; /* no rank of this job */
    if (w.kind == WEFT_LAUNCHER_SIGNALED)
        (void)snprintf(j->where, sizeof(j->where), "rank %d on %s died of signal %d (%s)", w.rank,
                       w.host, w.signal, strsignal(w.signal));
    else
        (void)snprintf(j->where, sizeof(j->where), "rank %d left the job", w.rank);
    j->left = w.kind == WEFT_LAUNCHER_EXITED;
    j->dead = w.rank;
    return true;
}

/* Handles a complete block of the launcher: a message about a failure is dropped, as the supervisor
 * prints one of its own; any other text is passed on. */
static void end_block(job *j)
{
    char *save = NULL;
    if (!read_message(j, j->block))
        for (char *line = strtok_r(j->block, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
            pass(j, line);
    j->block[0] = '\0';
}

/* Index of a rank's host: as the rank has reported it, else by the order of ranks, since launchers
 * fill one host after the other. */
static int host_of(const job *j, int rank)
{
    return j->on[rank] >= 0 ? j->on[rank] : weft_hosts_of_rank(&j->hosts, rank);
}

static bool is_missing(const job *j, int rank)
{
    return j->missing[rank];
}

void weft_job_where(const job *j, bool (*of)(const job *j, int rank), char *out, size_t size)
{
    size_t used = 0;
    out[0] = '\0';
    for (int i = 0; i < j->hosts.count; i++) {
        bool some = false;
        for (int r = 0; r < (int)j->ranks && !some; r++) some = of(j, r) && host_of(j, r) == i;
        if (some && used < size)
            used += (size_t)snprintf(out + used, size - used, "%s%s", used ? ", " : " (on ",
                                     j->hosts.host[i].name);
    }
    if (used > 0 && used < size) (void)snprintf(out + used, size - used, ")");
}

/* Handles the error message of a rank. Ranks that waited for another rank report much the same, so
 * only the first of these messages is printed. Any other error (a full disk, damaged data, no
 * memory, a loss that is NaN) is the rank's own and would recur after a restart; the same message
 * of several ranks is printed once. */
static void hear_failure(job *j, const weft_status_line *said)
{
    bool waited = weft_is_status(said->what, WEFT_ERR_PEER);
    bool common = weft_is_status(said->what, WEFT_ERR_ARGUMENT);
    bool first = j->ending == 0;
    uint64_t words = weft_hash_text(said->message);
    char where[512] = "";
    if (first) j->ending = weft_job_seconds(j);
    if (waited ? !first : j->own && j->own_words == words) return;
    if (waited) {
        weft_status_line_missing(said->message, j->missing);
        weft_job_where(j, is_missing, where, sizeof(where));
    } else {
        if (!j->own) j->own = common ? 2 : 1;
        j->own_words = words;
        if (j->hosts.count > 0 && !common)
            (void)snprintf(where, sizeof(where), " (rank %d on %s)", said->rank, said->host);
    }
    j->explained = true;
    weft_job_log(j, "weft: %s%s", said->message, where);
}

static bool is_here(const char *host)
{
    char here[128] = "";
    return gethostname(here, sizeof(here) - 1) == 0 && strcmp(host, here) == 0;
}

/* Records that the process of a rank has started, and its host. */
static void note_start(job *j, const weft_status_line *said)
{
    size_t used = strlen(j->started_on), room = sizeof(j->started_on) - used;
    if (!weft_is_listed(j->started_on, said->host) && strlen(said->host) + 2 < room)
        (void)snprintf(j->started_on + used, room, "%s%s", used ? "," : "", said->host);
    j->started[said->rank] = true;
    j->on[said->rank] = weft_hosts_find(&j->hosts, said->host);
}

static void hear(job *j, const weft_status_line *said)
{
    if (strcmp(said->what, WEFT_RANK_STATUS_STARTED) == 0) {
        j->afar = j->afar || (j->mpi && !is_here(said->host));
        note_start(j, said);
    } else if (strcmp(said->what, WEFT_RANK_STATUS_BUILT) == 0) {
        if (!j->built) weft_hosts_forget(&j->hosts); /* all hosts were reached */
        if (j->ending == 0) j->explained = false;    /* messages so far explain no failure */
        j->built = j->begun = true;
        j->afar = j->afar || (j->mpi && !is_here(said->host));
        j->on[said->rank] = weft_hosts_find(&j->hosts, said->host);
    } else if (strcmp(said->what, WEFT_RANK_STATUS_FINISHED) == 0) {
        if (j->finished == 0) j->finished = weft_job_seconds(j);
    } else if (weft_is_status(said->what, WEFT_ERR_INTERRUPTED)) {
        (void)snprintf(j->stopped, sizeof(j->stopped), "weft: %s", said->message);
    } else {
        hear_failure(j, said);
    }
}

static void end_line(job *j)
{
    const char *line = j->line;
    weft_status_line said;
    if (j->line_size > 0 && line[j->line_size - 1] == '\r') /* as of ssh */
        j->line[j->line_size - 1] = '\0';
    j->line_size = 0;
    if (weft_status_line_read(line, &said)) {
        hear(j, &said);
        return;
    }
    bool rule = weft_launcher_event_is_rule(line), own = strncmp(line, "weft: ", 6) == 0;
    if (j->cut_short && !own) return; /* a launcher that is being killed complains */
    if (j->mpi && rule) {
        if (j->in_block) end_block(j);
        j->in_block = !j->in_block;
    } else if (j->mpi && j->in_block && !own) {
        size_t size = strlen(j->block);
        (void)snprintf(j->block + size, sizeof(j->block) - size, "%s\n", line);
    } else if (!j->mpi || strncmp(line, "[mpiexec@", 9) != 0 || !read_message(j, line)) {
        pass(j, line); /* of all launchers only MPICH's daemons print outside of blocks */
    }
}

/* Zero bytes become spaces, since Open MPI 5 ends some blocks with one. A line longer than the
 * buffer is handled in pieces. */
void weft_job_hear(job *j, const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        bool end = text[i] == '\n';
        if (!end) j->line[j->line_size++] = text[i] ? text[i] : ' ';
        j->line[j->line_size] = '\0';
        if (end || j->line_size == sizeof(j->line) - 1) end_line(j);
    }
}

void weft_job_end_output(job *j)
{
    if (j->line_size > 0) end_line(j);
    if (j->in_block) end_block(j); /* the block was cut off */
    j->in_block = false;
}

/* Determines the lost host: by the launcher's message, by the agent that has ended, or because all
 * of its ranks were unresponsive. */
static int find_lost_host(const job *j)
{
    int host = -1;
    if (j->lost_host[0]) return weft_hosts_find(&j->hosts, j->lost_host);
    if (j->no_host) return weft_hosts_gone(&j->hosts);
    for (int i = 0; i < j->hosts.count && host < 0 && j->hosts.count > 1; i++) {
        bool all = true, any = false;
        for (int r = 0; r < (int)j->ranks; r++)
            if (host_of(j, r) == i) {
                any = true;
                all = all && j->missing[r];
            }
        if (all && any) host = i;
    }
    return host;
}

static void report_lost_host(const job *j)
{
    const char *name = j->lost_at >= 0 ? j->hosts.host[j->lost_at].name : "HOST";
    int64_t step = 0;
    if (!j->built) {
        weft_job_log(j,
                     "weft: the job cannot be started on %s%s--hosts %s: every host must answer to "
                     "'ssh %s true' without a password, and have the same weft and MPI in the same "
                     "place",
                     j->lost_at >= 0 ? name : "", j->lost_at >= 0 ? " of " : "",
                     j->options->hosts ? j->options->hosts : "(none given)", name);
        return;
    }
    for (int r = 0; r < (int)j->ranks; r++) step = WEFT_MAX(step, atomic_load(&j->page->step[r]));
    char when[40] = "";
    if (step > 0) (void)snprintf(when, sizeof(when), " in step %lld", (long long)step);
    if (j->lost_at >= 0)
        weft_job_log(j, "weft: host %s is lost%s", name, when);
    else
        weft_job_log(j, "weft: one of --hosts %s is lost%s", j->options->hosts, when);
}

void weft_job_ended(job *j, int state)
{
    char host[128] = "", how[128];
    j->lost_at = find_lost_host(j);
    bool said = j->explained && !WIFSIGNALED(state); /* no process reports that it is killed */
    if (j->dead >= 0 || said || j->no_host || j->cut_short) return;
    (void)gethostname(host, sizeof(host) - 1);
    if (WIFSIGNALED(state))
        (void)snprintf(how, sizeof(how), "died of signal %d (%s)", WTERMSIG(state),
                       strsignal(WTERMSIG(state)));
    else
        (void)snprintf(how, sizeof(how), "ended with code %d", WEXITSTATUS(state));
    j->dead = 0;
    j->together = j->ranks > 1;
    (void)snprintf(j->where, sizeof(j->where),
                   j->mpi ? "mpirun (%lld rank%s) on %s %s" : "the process of %lld rank%s on %s %s",
                   (long long)j->ranks, weft_plural(j->ranks), host, how);
}

void weft_job_report_death(const job *j)
{
    enum { MOST = 8 };
    char line[MOST * (WEFT_NOTE_SIZE + 16)] = "";
    if (j->no_host || (j->lost_at >= 0 && j->lost_at < j->hosts.count)) {
        report_lost_host(j);
        return;
    }
    if (j->dead < 0 || (j->left && j->explained)) return;
    int first = j->together ? 0 : j->dead;
    int end = j->together ? (int)WEFT_MIN(j->ranks, (int64_t)MOST) : first + 1;
    for (int r = first; r < end; r++) {
        size_t size = strlen(line);
        if (!j->page->note[r][0]) continue;
        if (j->together)
            (void)snprintf(line + size, sizeof(line) - size, "%s rank %d %.*s", size ? "," : ";", r,
                           WEFT_NOTE_SIZE, j->page->note[r]);
        else
            (void)snprintf(line, sizeof(line), ", %.*s", WEFT_NOTE_SIZE, j->page->note[r]);
    }
    int64_t step = atomic_load(&j->page->step[first]);
    if (step > 0)
        weft_job_log(j, "weft: %s in step %lld%s", j->where, (long long)step, line);
    else
        weft_job_log(j, "weft: %s before its first step%s", j->where, line);
}

void weft_job_report_unsaved(const job *j, int code, int times)
{
    if (!weft_job_unsaved(j, code, times)) return;
    weft_job_report_death(j);
    weft_job_log(j, "weft: stopped, and the last steps are not saved%s",
                 j->options->checkpoint ? "; continue with --resume from the newest checkpoint, if "
                                          "there is one"
                                        : "");
}
