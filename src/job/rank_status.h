/* What ranks of a supervised job say to their supervisor. */
#ifndef WEFT_JOB_RANK_STATUS_H
#define WEFT_JOB_RANK_STATUS_H

#include <stdbool.h>

#include "weft/comm.h"

typedef struct weft_rank_status {
    int rank;
    char host[128];
    char what[16]; /* a status by its name, or WEFT_RANK_STATUS_BUILT, WEFT_RANK_STATUS_FINISHED */
    const char *message;
} weft_rank_status;

#define WEFT_RANK_STATUS_BUILT "built"
#define WEFT_RANK_STATUS_FINISHED "finished"

/* False: the line is none of weft_job_status_line. */
bool weft_rank_status_read(const char *line, weft_rank_status *out);
/* Marks the ranks that a message says to have waited for in vain; see mpi_describe. */
void weft_rank_status_missing(const char *message, bool missing[WEFT_MAX_RANKS]);

#endif
