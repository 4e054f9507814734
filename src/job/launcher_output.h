/* Parses the messages of launchers about the end of a job. Open MPI prints blocks between two
 * rules of dashes, with arbitrary line breaks; MPICH prints lines. Recorded messages are in
 * tests/job/launcher_words/. */
#ifndef WEFT_JOB_LAUNCHER_OUTPUT_H
#define WEFT_JOB_LAUNCHER_OUTPUT_H

#include <stdbool.h>

typedef enum weft_launcher_event_kind {
    WEFT_LAUNCHER_UNKNOWN,   /* none of the kinds below: passed on to the user */
    WEFT_LAUNCHER_IGNORED,   /* follows every end of a job, whatever its reason, and is dropped */
    WEFT_LAUNCHER_SIGNALED,  /* rank died of a signal, on host */
    WEFT_LAUNCHER_EXITED,    /* rank exited by itself, with a code or without MPI_Finalize */
    WEFT_LAUNCHER_LOST_HOST, /* the launcher's daemon on host is gone, or never started; "": host
                             unknown */
} weft_launcher_event_kind;

typedef struct weft_launcher_event {
    weft_launcher_event_kind kind;
    int rank, signal;
    char host[128];
} weft_launcher_event;

/* Whether a line is a rule of dashes, which begins or ends a block. */
bool weft_launcher_event_is_rule(const char *line);
/* Parses one line, or all lines of a block, with or without line breaks. */
weft_launcher_event weft_launcher_event_read(const char *text);

#endif
