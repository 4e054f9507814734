/* What ranks of a supervised job say to their supervisor. */
#ifndef WEFT_JOB_RANK_STATUS_H
#define WEFT_JOB_RANK_STATUS_H

#include <stdbool.h>

#include "weft/comm.h"

typedef struct weft_said {
    int rank;
    char host[128];
    char what[16]; /* a status by its name, or WEFT_SAID_BUILT, WEFT_SAID_FINISHED */
    const char *message;
} weft_said;

#define WEFT_SAID_BUILT "built"
#define WEFT_SAID_FINISHED "finished"

/* False: the line is none of weft_job_words. */
bool weft_said_read(const char *line, weft_said *out);
/* Marks the ranks that a message says to have waited for in vain; see mpi_describe. */
void weft_said_missing(const char *message, bool missing[WEFT_MAX_RANKS]);

#endif
