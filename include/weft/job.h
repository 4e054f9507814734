/*
 * Jobs of several processes: the role of this process, and its messages to the supervisor.
 * weft_job_run in weft/train.h starts a job.
 */
#ifndef WEFT_JOB_H
#define WEFT_JOB_H

#include <stdbool.h>
#include <stddef.h>

#include "weft/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The rank of this process if mpirun or srun started it, or -1. */
WEFT_API int weft_job_rank(void);

/* Whether weft_job_run started this process, as a rank of a job or with all of its ranks. */
WEFT_API bool weft_job_supervised(void);

/* Formats the status line that a training process writes to standard error when it fails, without a
 * line feed: `what` is weft_status_name() of the failure. In a supervised job also, with an empty
 * message, "built" by every process that has created its trainer, and "finished" by rank 0 at
 * WEFT_EVENT_SUMMARY: from these the supervisor learns the progress of the job and the hosts of its
 * ranks. */
WEFT_API void weft_job_status_line(const char *what, const char *message, char *out, size_t size);

/* Whether this thread's last failure, with this status, is only a consequence of another rank's
 * failure, which that rank reports. */
WEFT_API bool weft_job_failed_elsewhere(weft_status status);

/* Receives the supervisor's messages, a line at a time. */
typedef void (*weft_job_fn)(void *user, const char *line);

#ifdef __cplusplus
}
#endif
#endif
