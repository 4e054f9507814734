/* The child process of a supervisor: the program itself, or a launcher of its ranks. */
#ifndef WEFT_JOB_CHILD_H
#define WEFT_JOB_CHILD_H

#include <sys/types.h>

#include "base/base.h"

typedef struct weft_child {
    pid_t pid;
    int errors;     /* read end of its standard error */
    int control[2]; /* pipe to its standard input: a byte asks the ranks to stop */
} weft_child;

/* Starts a program, found as a shell finds it, in its own process group, so that signals of the
 * terminal reach only the supervisor, which forwards them. If this process dies, the program gets
 * the signal `last`. A launcher is started with SIGINT and SIGTERM blocked (`shielded`): if all
 * processes of a job get one, it would kill the ranks while they save. `environment` is added to
 * that of this process: NAME=VALUE, NULL at the end. IO: it cannot be started. */
weft_status weft_child_start(char *const *words, const char *const *environment, int last,
                             bool shielded, weft_child *out) WEFT_NODISCARD;
/* Asks the ranks to save and stop. */
void weft_child_ask(const weft_child *child);
/* Whether the child has ended. */
bool weft_child_ended(const weft_child *child);
/* Waits for the child's end, closes the pipes, and returns the status of waitpid: that of exit code
 * 1 if there is none, since the child was reaped elsewhere. */
int weft_child_end(weft_child *child);

#endif
