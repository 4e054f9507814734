/*
 * Jobs of several processes: the role of this process, and the status lines through which it
 * informs its supervisor. weft_job_run (weft/train.h) and weft_server_supervise (weft/server.h)
 * start jobs.
 */
#ifndef WEFT_JOB_H
#define WEFT_JOB_H

#include <stdbool.h>
#include <stddef.h>

#include "weft/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The rank of this process, if mpirun or srun has started it; else -1. */
WEFT_API int weft_job_rank(void);

/* The number of this process among those of the command that a launcher has started, with ranks of
 * MPI or without (tasks of srun); 0: it is the first, or alone. */
WEFT_API int weft_job_task(void);

/* For commands whose processes do not share their work. ARGUMENT: a launcher has started several
 * processes of this command, of which each would do all of it and write the same files. */
WEFT_API WEFT_NODISCARD weft_status weft_job_check_alone(void);

/* The signal that asked the last job of weft_job_run in this process to stop; 0: none has. */
WEFT_API int weft_job_stopped_by(void);
/* Whether a supervisor (weft_job_run, weft_server_supervise) started this process. The process is
 * one rank, has all ranks of the job as threads, or is a member or a worker. */
WEFT_API bool weft_job_supervised(void);

/* Formats the line, without its line feed, that a process of training writes to standard error when
 * it fails. `what` is weft_status_name() of the failure. In a supervised job the line names rank
 * and host. There three more lines have an empty message: "started", from every process of MPI
 * before it creates its trainer, which waits for the others; "built", from every process that has
 * created its trainer; and "finished", from rank 0 at WEFT_EVENT_SUMMARY. From these lines the
 * supervisor learns how far the job is and on which hosts its ranks run. */
WEFT_API void weft_job_status_line(const char *what, const char *message, char *out, size_t size);

/* Whether this thread's last failure, which had this status, only follows from the failure of
 * another rank, which that rank reports. */
WEFT_API bool weft_job_failed_elsewhere(weft_status status);

/* Receives the messages of a supervisor, one line for each call. */
typedef void (*weft_job_fn)(void *user, const char *line);

#ifdef __cplusplus
}
#endif
#endif
