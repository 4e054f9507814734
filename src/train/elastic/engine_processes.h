/* The processes that a supervisor starts for --engine processes, with their command lines. */
#ifndef WEFT_TRAIN_ENGINE_PROCESSES_H
#define WEFT_TRAIN_ENGINE_PROCESSES_H

#include <dirent.h>

#include "job/job.h"
#include "train/train.h"

typedef struct weft_process_plan {
    const weft_train_options *options;
    int64_t mesh;           /* ranks of a learner */
    double failure_timeout; /* after so many seconds without a heartbeat a member is removed */
    char folder[128];       /* of the sockets of all processes, which only this user may enter */
    DIR *held;              /* that folder, open and locked while this process lives; may be NULL */
    char address[160];      /* of the coordinator */
    weft_job_part *parts;
    int count;
} weft_process_plan;

/* Plans the processes and makes the folder of their sockets. ARGUMENT: the options do not fit the
 * engine. *out must be freed even after a failure; the options must outlive it. */
weft_status weft_process_plan_make(const weft_context *context, const weft_train_options *options,
                                   weft_process_plan *out) WEFT_NODISCARD;
void weft_process_plan_free(weft_process_plan *processes);

#endif
