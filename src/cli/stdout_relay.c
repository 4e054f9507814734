/* Passes the standard output of a job's ranks through a pipe and a thread of the supervisor, which
 * reports failed writes. Launchers such as mpirun ignore them. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

/* Milliseconds of a wait for output, and the number of such waits after the end of the job. */
enum { WAIT = 200, GRACE = 10 };

struct relay {
    int from, to; /* read end of the pipe; the user's standard output */
    int failure;  /* errno of the first failed write; 0: none */
    atomic_bool ended;
    pthread_t thread;
    char text[65536];
};

static void pass(relay *r, const char *next, ssize_t size)
{
    while (size > 0 && !r->failure) {
        ssize_t done = write(r->to, next, (size_t)size);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) {
            r->failure = errno ? errno : EIO;
            break;
        }
        next += done;
        size -= done;
    }
}

/* The thread: copies output until all writers have closed the pipe. If the job has left a process
 * behind that keeps the pipe open, the thread ends after GRACE waits without output. */
static void *copy_output(void *user)
{
    relay *r = user;
    for (int late = 0; late < GRACE;) {
        struct pollfd waiting = {.fd = r->from, .events = POLLIN};
        int ready = poll(&waiting, 1, WAIT);
        if (ready == 0 && atomic_load(&r->ended)) late++;
        if (ready <= 0) continue;
        ssize_t got = read(r->from, r->text, sizeof(r->text));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        pass(r, r->text, got);
    }
    return NULL;
}

/* Starts the thread with all signals blocked, so that the supervising thread handles them. */
static bool start(relay *r)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = pthread_create(&r->thread, NULL, copy_output, r) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

relay *relay_begin(void)
{
    int ends[2];
    relay *r = calloc(1, sizeof(*r));
    flush_stdout();
    if (r && pipe2(ends, O_CLOEXEC) == 0) {
        r->from = ends[0];
        r->to = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
        bool ready = r->to >= 0 && start(r);
        if (ready) (void)dup2(ends[1], STDOUT_FILENO);
        close(ends[1]);
        if (ready) return r;
        close(ends[0]);
        if (r->to >= 0) close(r->to);
    }
    free(r);
    return NULL;
}

int relay_end(relay *r, int code)
{
    if (!r) return code;
    (void)dup2(r->to, STDOUT_FILENO); /* closes this process's write end of the pipe */
    atomic_store(&r->ended, true);
    pthread_join(r->thread, NULL);
    if (r->failure)
        fprintf(stderr, "weft: standard output: cannot write: %s\n", strerror(r->failure));
    if (r->failure && code == 0) code = 1;
    close(r->from);
    close(r->to);
    free(r);
    return code;
}
