/* The process that a supervisor starts: the program itself, or a launcher of its ranks. */
#ifndef WEFT_JOB_CHILD_H
#define WEFT_JOB_CHILD_H

#include <sys/types.h>

#include "base/base.h"

typedef struct weft_child {
    pid_t pid;
    int errors;     /* what it writes to standard error, to read from */
    int control[2]; /* a pipe, its standard input: a byte asks the ranks to stop */
} weft_child;

/* Starts a program, found as a shell finds it, in a process group of its own: what a terminal sends
 * comes to the supervisor alone, which passes on what it means. If this process dies, the program
 * gets the signal `last`. `environment` is added to that of this process: NAME=VALUE, NULL at the
 * end. IO: it cannot be started. */
weft_status weft_child_start(char *const *words, const char *const *environment, int last,
                             weft_child *out) WEFT_NODISCARD;
/* Asks the ranks to save and to stop. */
void weft_child_ask(const weft_child *child);
/* Whether it has ended. */
bool weft_child_ended(const weft_child *child);
/* Waits for its end; what waitpid says of it. Closes the pipes. */
int weft_child_end(weft_child *child);

#endif
