/* What launchers say about the end of a job. Open MPI speaks in blocks between two rules of dashes,
 * whose lines are wrapped as it likes; MPICH in lines. Their words as they were recorded are in
 * tests/words/. */
#ifndef WEFT_JOB_LAUNCHER_OUTPUT_H
#define WEFT_JOB_LAUNCHER_OUTPUT_H

#include <stdbool.h>

typedef enum weft_launcher_event_kind {
    WEFT_LAUNCHER_UNKNOWN,   /* none of these: somebody should read it */
    WEFT_LAUNCHER_IGNORED,   /* said at every end, whatever its reason */
    WEFT_LAUNCHER_SIGNALED,  /* rank died of a signal, on host */
    WEFT_LAUNCHER_EXITED,    /* rank ended by itself, with a code or without MPI_Finalize */
    WEFT_LAUNCHER_LOST_HOST, /* the launcher's daemon on host is gone, or never came; "": not said
                             which */
} weft_launcher_event_kind;

typedef struct weft_launcher_event {
    weft_launcher_event_kind kind;
    int rank, signal;
    char host[128];
} weft_launcher_event;

/* Whether a line is a rule of dashes: a block begins or ends. */
bool weft_launcher_event_is_rule(const char *line);
/* Reads one line, or all lines of a block, with newlines between them or without. */
weft_launcher_event weft_launcher_event_read(const char *text);

#endif
