/* Status lines that ranks of a supervised job write to standard error. */
#ifndef WEFT_JOB_STATUS_LINE_H
#define WEFT_JOB_STATUS_LINE_H

#include <stdbool.h>

#include "weft/comm.h"

typedef struct weft_status_line {
    int rank;
    char host[128];
    char what[16]; /* name of a status, or one of WEFT_RANK_STATUS_... */
    const char *message;
} weft_status_line;

#define WEFT_RANK_STATUS_STARTED "started"
#define WEFT_RANK_STATUS_BUILT "built"
#define WEFT_RANK_STATUS_FINISHED "finished"

/* false: the line is no status line (see weft_job_status_line). */
bool weft_status_line_read(const char *line, weft_status_line *out);
/* Marks the ranks that a message names as unresponsive; see mpi_describe. */
void weft_status_line_missing(const char *message, bool missing[WEFT_MAX_RANKS]);

#endif
