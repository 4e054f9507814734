/* What a supervisor finds out about a death: from what the launcher prints, from how the process
 * ended, and from the board, where every rank notes its step and its transfer. */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "train/job.h"

void weft_job_say(const job *j, const char *format, ...)
{
    char line[8192]; /* as long as what is said in a block */
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    if (j->tell) j->tell(j->user, line);
}

/* Open MPI's accounts of a death: by a signal, by leaving without MPI_Finalize, by an exit code.
 * What else it prints about it says the same at length. */
static bool read_death(job *j, const char *line)
{
    int rank, pid, number;
    char node[128];
    const char *at = strstr(line, "process rank ");
    bool first = j->dead < 0;
    if (at && sscanf(at, "process rank %d with PID %d on node %127s exited on signal %d", &rank,
                     &pid, node, &number) == 4) {
        if (first)
            (void)snprintf(j->where, sizeof(j->where), "rank %d on %s died of signal %d (%s)", rank,
                           node, number, strsignal(number));
    } else if ((at && strstr(line, "has exited due to process rank") &&
                sscanf(at, "process rank %d with PID %d on", &rank, &pid) == 2) ||
               sscanf(line, "  Process name: [[%d,%d],%d]", &pid, &number, &rank) == 3) {
        if (first) (void)snprintf(j->where, sizeof(j->where), "rank %d left the job", rank);
        j->left = j->left || first;
    } else {
        return false;
    }
    if (first) j->dead = rank;
    return true;
}

/* Said at every end, whatever its reason. */
static bool noise(const char *line)
{
    static const char *const known[] = {"Primary job  terminated", "a non-zero exit code",
                                        "Per user-direction", "Read -1, expected",
                                        "mpirun: Forwarding signal"};
    for (size_t i = 0; i < WEFT_COUNT(known); i++)
        if (strstr(line, known[i])) return true;
    return line[0] == '\0';
}

static void pass(job *j, const char *line)
{
    if (noise(line)) return;
    j->explained = true;
    weft_job_say(j, "%s", line);
}

/* At the end of what the launcher says between two rules: an account of a death is told in our own
 * words, anything else as it is. */
static void end_block(job *j)
{
    bool death = false;
    char *save = NULL, all[sizeof(j->block)];
    memcpy(all, j->block, sizeof(all));
    if (strstr(all, "unable to reliably start one or more daemons")) death = j->no_host = true;
    for (char *line = strtok_r(all, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
        death = read_death(j, line) || death;
    for (char *line = strtok_r(j->block, "\n", &save); line && !death;
         line = strtok_r(NULL, "\n", &save))
        pass(j, line);
    j->block[0] = '\0';
}

void weft_job_line(job *j, const char *line)
{
    bool rule = strncmp(line, "--------------------", 20) == 0,
         own = strncmp(line, "weft: ", 6) == 0;
    if (!j->mpi || own || (!rule && !j->in_block)) {
        pass(j, line);
    } else if (rule) {
        if (j->in_block) end_block(j);
        j->in_block = !j->in_block;
    } else {
        size_t size = strlen(j->block);
        (void)snprintf(j->block + size, sizeof(j->block) - size, "%s\n", line);
    }
}

void weft_job_ended(job *j, int state)
{
    char host[128] = "", how[128];
    if (j->no_host)
        weft_job_say(
            j,
            "weft: the job cannot be started on --hosts %s: every host must answer to 'ssh "
            "HOST true' without a password, and have the same weft and MPI in the same place",
            j->options->hosts ? j->options->hosts : "(none given)");
    if (j->dead >= 0 || j->explained || j->no_host) return;
    (void)gethostname(host, sizeof(host) - 1);
    if (WIFSIGNALED(state))
        (void)snprintf(how, sizeof(how), "died of signal %d (%s)", WTERMSIG(state),
                       strsignal(WTERMSIG(state)));
    else
        (void)snprintf(how, sizeof(how), "ended with code %d", WEXITSTATUS(state));
    j->dead = 0;
    j->together = j->ranks > 1;
    (void)snprintf(j->where, sizeof(j->where), "the process of %lld ranks on %s %s",
                   (long long)j->ranks, host, how);
}

void weft_job_tell_death(const job *j)
{
    enum { MOST = 8 };
    char line[MOST * (WEFT_NOTE_SIZE + 16)] = "";
    if (j->dead < 0 || (j->left && j->explained)) return;
    int first = j->together ? 0 : j->dead;
    int end = j->together ? (int)WEFT_MIN(j->ranks, (int64_t)MOST) : first + 1;
    for (int r = first; r < end; r++) {
        size_t size = strlen(line);
        if (!j->board->note[r][0]) continue;
        if (j->together)
            (void)snprintf(line + size, sizeof(line) - size, "%s rank %d %.*s", size ? "," : ";", r,
                           WEFT_NOTE_SIZE, j->board->note[r]);
        else
            (void)snprintf(line, sizeof(line), ", %.*s", WEFT_NOTE_SIZE, j->board->note[r]);
    }
    int64_t step = atomic_load(&j->board->step[first]);
    if (step > 0)
        weft_job_say(j, "weft: %s in step %lld%s", j->where, (long long)step, line);
    else
        weft_job_say(j, "weft: %s before its first step%s", j->where, line);
}
