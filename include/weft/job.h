/*
 * Jobs of several processes: what one of them is, and what it says to its supervisor. weft_job_run
 * in weft/train.h starts a job.
 */
#ifndef WEFT_JOB_H
#define WEFT_JOB_H

#include <stdbool.h>
#include <stddef.h>

#include "weft/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Whether this process was started by mpirun or srun: its rank, or -1. */
WEFT_API int weft_job_rank(void);

/* Whether this process is a rank of a job that weft_job_run started, or all of its ranks. */
WEFT_API bool weft_job_supervised(void);

/* What a process that trains writes to standard error when it fails, as one line without its end:
 * `what` is weft_status_name() of the failure. In a supervised job also, with an empty message,
 * "built" by every process that has created its trainer, and "finished" by rank 0 at
 * WEFT_EVENT_SUMMARY: so the supervisor knows how far the job is, and where its ranks run. */
WEFT_API void weft_job_status_line(const char *what, const char *message, char *out, size_t size);

/* Whether this thread's last failure, of this status, is only that another rank has ended the job:
 * that one says why. */
WEFT_API bool weft_job_failed_elsewhere(weft_status status);

/* Receives what the supervisor has to say, a line at a time. */
typedef void (*weft_job_fn)(void *user, const char *line);

#ifdef __cplusplus
}
#endif
#endif
