/* Starts a child process with pipes to its standard input and from its standard error, and waits
 * for its end. */
#include "job/child.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* The status of a child that was reaped elsewhere: a failure, with exit code 1. */
enum { UNKNOWN = 1 << 8 };

/* Runs in the new process, where only async-signal-safe functions may be called. */
static void become(char *const *words, char *const *environment, int last, pid_t parent,
                   const int errors[2], const weft_child *c, bool shielded, int trouble)
{
    sigset_t ends;
    (void)setpgid(0, 0);
    (void)prctl(PR_SET_PDEATHSIG, last);
    (void)sigemptyset(&ends);
    (void)sigaddset(&ends, SIGINT);
    (void)sigaddset(&ends, SIGTERM);
    if (shielded) (void)sigprocmask(SIG_BLOCK, &ends, NULL);
    if (getppid() == parent && dup2(c->control[0], STDIN_FILENO) >= 0 &&
        dup2(errors[1], STDERR_FILENO) >= 0)
        (void)execvpe(words[0], words, environment);
    int why = errno;
    (void)!write(trouble, &why, sizeof(why));
    _exit(127);
}

static void close_both(int ends[2])
{
    for (int i = 0; i < 2; i++) {
        if (ends[i] >= 0) close(ends[i]);
        ends[i] = -1;
    }
}

/* A pipe whose ends are not 0, 1 or 2: the child replaces those. */
static bool make_pipe(int ends[2])
{
    int low[2];
    if (pipe2(low, O_CLOEXEC) != 0) return false;
    for (int i = 0; i < 2; i++) ends[i] = fcntl(low[i], F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    close_both(low);
    return ends[0] >= 0 && ends[1] >= 0;
}

static bool same_name(const char *a, const char *b)
{
    size_t size = strcspn(a, "=") + 1;
    return strncmp(a, b, size) == 0;
}

static weft_status join_environment(const char *const *added, const char ***out)
{
    int own = 0, more = 0, count;
    while (environ[own]) own++;
    while (added[more]) more++;
    WEFT_TRY(WEFT_NEW(out, own + more + 1));
    for (count = 0; count < more; count++) (*out)[count] = added[count];
    for (int i = 0; i < own; i++) {
        bool replaced = false;
        for (int k = 0; k < more && !replaced; k++) replaced = same_name(added[k], environ[i]);
        if (!replaced) (*out)[count++] = environ[i];
    }
    return WEFT_OK;
}

weft_status weft_child_start(char *const *words, const char *const *environment, int last,
                             bool shielded, weft_child *out)
{
    int errors[2] = {-1, -1}, trouble[2] = {-1, -1}, why = 0;
    *out = (weft_child){.pid = -1, .errors = -1, .control = {-1, -1}};
    const char **all;
    pid_t parent = getpid();
    cpu_set_t cores;
    bool bound = sched_getaffinity(0, sizeof(cores), &cores) == 0;
    WEFT_TRY(join_environment(environment, &all));
    if (make_pipe(errors) && make_pipe(trouble) && make_pipe(out->control)) out->pid = fork();
    /* The child gets the cores of this thread, since LLVM's OpenMP runtime would give it those of
     * the process. */
    if (out->pid == 0 && bound) (void)sched_setaffinity(0, sizeof(cores), &cores);
    if (out->pid == 0)
        become(words, (char *const *)(uintptr_t)all, last, parent, errors, out, shielded,
               trouble[1]);
    if (out->pid < 0) {
        why = errno;
    } else {
        (void)setpgid(out->pid, out->pid); /* parent and child both call this, to avoid a race */
        close(trouble[1]);
        trouble[1] = -1;
        while (read(trouble[0], &why, sizeof(why)) < 0 && errno == EINTR) {
        }
    }
    free(all);
    out->errors = errors[0];
    errors[0] = -1;
    close_both(errors);
    close_both(trouble);
    if (!why) return WEFT_OK;
    (void)weft_child_end(out);
    return weft_fail(WEFT_ERR_IO, "%s cannot be started: %s", words[0], strerror(why));
}

/* This process keeps the read end open as well, so the write never raises SIGPIPE. */
void weft_child_ask(const weft_child *c)
{
    while (write(c->control[1], "s", 1) < 0 && errno == EINTR) {
    }
}

bool weft_child_ended(const weft_child *c)
{
    siginfo_t info = {0};
    return waitid(P_PID, (id_t)c->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0
               ? info.si_pid == c->pid
               : errno == ECHILD;
}

int weft_child_end(weft_child *c)
{
    int state = 0, got = 0;
    while (c->pid > 0 && (got = waitpid(c->pid, &state, 0)) < 0 && errno == EINTR) {
    }
    if (got < 0) state = UNKNOWN;
    if (c->errors >= 0) close(c->errors);
    c->errors = -1;
    close_both(c->control);
    c->pid = -1;
    return state;
}
