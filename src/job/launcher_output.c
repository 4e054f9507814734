#include "job/launcher_output.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool weft_launcher_event_is_rule(const char *line)
{
    while (*line == ' ') line++;
    return strncmp(line, "--------------------", 20) == 0;
}

/* Replaces each run of white space by one space, so that line breaks do not matter. */
static void unwrap(const char *text, char *out)
{
    size_t size = 0;
    for (; *text; text++) {
        bool blank = isspace((unsigned char)*text) != 0;
        if (blank && (size == 0 || out[size - 1] == ' ')) continue;
        out[size++] = blank ? ' ' : *text;
    }
    while (size > 0 && out[size - 1] == ' ') size--;
    out[size] = '\0';
}

/* Whether a message says nothing about the reason of a failure. Such messages follow every failure,
 * or come without one: on a single machine Open MPI 5 finds no network between ranks and says so
 * for each pair. */
static bool noise(const char *text)
{
    static const char *const known[] = {
        "Primary job terminated",
        "a non-zero exit code",
        "Per user-direction",
        "Read -1, expected",
        ": Forwarding signal",
        "Abort is in progress",
        "hit ctrl-c again to forcibly",
        "Unable to find reachable pairing between",
        "plm:ssh: Warning: setpgid",
        "does not know how to route a message", /* to a host that was not reached */
        /* MPICH's daemons, after the message with the reason. */
        "unable to send signal downstream",
        "callback returned error status",
        "error waiting for event",
        "process manager error waiting",
    };
    if (!*text) return true;
    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
        if (strstr(text, known[i])) return true;
    return false;
}

/* Reads the end of a rank: "process rank 1 with PID 36 on node alpha exited on signal 9 (Killed).",
 * and without a signal "... has exited due to process rank 1 with PID 87 on node alpha exiting
 * improperly." */
static bool read_end(const char *text, weft_launcher_event *w)
{
    int pid, used = 0;
    const char *at = strstr(text, "process rank ");
    if (!at || sscanf(at, "process rank %d with PID %d on node %127s%n", &w->rank, &pid, w->host,
                      &used) != 3)
        return false;
    if (sscanf(at + used, " exited on signal %d", &w->signal) == 1)
        w->kind = WEFT_LAUNCHER_SIGNALED;
    else if (strstr(text, "calling \"abort\"")) /* the rank has given a reason, and MPI_Abort prints
                                                   a block of its own */
        w->kind = WEFT_LAUNCHER_IGNORED;
    else
        w->kind = WEFT_LAUNCHER_EXITED;
    return true;
}

/* Reads the rank that has exited, after the last comma of "Process name: [[27833,1],1] " or
 * "[prterun-alpha-66@1,1] ". */
static bool read_name(const char *text, weft_launcher_event *w)
{
    char name[160];
    const char *at = strstr(text, "Process name: [");
    if (!at || sscanf(at, "Process name: %159s", name) != 1) return false;
    const char *comma = strrchr(name, ',');
    if (!comma || sscanf(comma, ",%d]", &w->rank) != 1) return false;
    w->kind = WEFT_LAUNCHER_EXITED;
    return true;
}

static bool read_host(const char *text, weft_launcher_event *w)
{
    static const char *const known[] = {
        "has lost communication with a remote daemon",
        "unable to reliably start one or more daemons",
        "daemon has unexpectedly failed",
        "Launch proxy failed",           /* MPICH 4.2 */
        "unable to write data to proxy", /* MPICH 4.0 */
        "write error (Bad file descriptor)",
    };
    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
        if (!strstr(text, known[i])) continue;
        const char *at = strstr(text, "Remote daemon: ");
        if (at) (void)sscanf(at, "Remote daemon: %*s on node %127s", w->host);
        w->kind = WEFT_LAUNCHER_LOST_HOST;
        return true;
    }
    return false;
}

weft_launcher_event weft_launcher_event_read(const char *text)
{
    weft_launcher_event w = {.kind = WEFT_LAUNCHER_UNKNOWN, .rank = -1};
    char *flat = malloc(strlen(text) + 1);
    if (!flat) return w;
    unwrap(text, flat);
    if (!read_end(flat, &w) && !read_name(flat, &w) && !read_host(flat, &w) && noise(flat))
        w.kind = WEFT_LAUNCHER_IGNORED;
    free(flat);
    return w;
}
