/* Interface of jobs of several processes: the supervisor, which starts and restarts them, and the
 * channel between a process and its supervisor. */
#ifndef WEFT_JOB_JOB_H
#define WEFT_JOB_JOB_H

#include <stdatomic.h>

#include "base/base.h"
#include "weft/comm.h"
#include "weft/job.h"

/* --- the supervisor --- */

/* The options that a supervisor needs. Texts have the syntax of the options of the same name, NULL
 * where none is given. */
typedef struct weft_job_options {
    bool mpi;      /* ranks are MPI processes, else threads of one process */
    bool members;  /* coordinator, servers and learners are processes, see weft_job_part */
    bool workers;  /* processes are identical workers, see weft_job_part */
    int64_t ranks; /* number of ranks to start; 0: one */
    const char *hosts, *mesh, *place, *exchange;
    int64_t zero, virtual_workers;
    double timeout;         /* --timeout: seconds that a rank waits for the other ranks */
    const char *checkpoint; /* folder from which a failed job resumes */
    bool resume;            /* the first start resumes as well */
    int64_t max_restarts;
    /* The processes of a job of members, of which the first is the coordinator, or of workers. */
    struct weft_job_part *parts;
    int part_count;
    double failure_timeout; /* failure timeout in seconds for members */
    /* For workers: `drain` is the seconds that they may take to stop when they are told to, and
     * `ready` is called when all workers are ready for the first time. */
    double drain;
    void (*ready)(void *user);
} weft_job_options;

/* A process of a job of members or workers: its role, and its arguments after the program's name.
 * The supervisor adds --resume for a learner that is restarted and, when the whole job is
 * restarted, for all members except servers. */
typedef enum weft_part_role {
    WEFT_PART_COORDINATOR,
    WEFT_PART_SERVER,
    WEFT_PART_LEARNER,
    WEFT_PART_WORKER
} weft_part_role;
typedef struct weft_job_part {
    weft_part_role role;
    int slot;
    char **words; /* NULL-terminated */
    /* Not NULL: once the run has begun the process holds the only copy of some state, so it cannot
     * be restarted; the text says what is lost with it, as the end of a sentence. */
    const char *only_copy;
} weft_job_part;

/* See weft_job_needs_supervisor and weft_job_run, which call these functions. */
bool weft_job_needed(const weft_job_options *options);
/* launched.c: how a process that no supervisor has started was started. ARGUMENT: as one of several
 * tasks of a batch system without a rank of MPI; or as a rank, with options that a supervisor would
 * carry out. */
weft_status weft_job_check_launched(const weft_job_options *options) WEFT_NODISCARD;
/* ARGUMENT: a launcher has started several processes, but the world of MPI has one (`size`). */
weft_status weft_job_check_world(int size) WEFT_NODISCARD;
WEFT_PRIVATE_API weft_status weft_job_supervise(const weft_job_options *options,
                                                const char *program, char *const *arguments,
                                                weft_job_fn tell, void *user,
                                                int *code) WEFT_NODISCARD;

/* --- a process of the job --- */

/* The name of the job; NULL: there is no supervisor on this machine. */
const char *weft_job_name(void);
/* The slot of a member within its role; below 0: the process is no member. */
int weft_job_slot(void);

typedef enum weft_stage { WEFT_STAGE_NONE, WEFT_STAGE_BUILT, WEFT_STAGE_FINISHED } weft_stage;

/* Count of the numbers that describe the beginning of a run: step, epoch, batch and samples there,
 * the run's steps in all, checksum and step of the checkpoint, and five for the place in the
 * schedule of the learning rate. */
enum { WEFT_BEGUN = 12 };

/* The channel between a process and its supervisor, see status_page.h. */
typedef struct weft_supervisor_channel {
    struct weft_status_page *page; /* NULL: no supervisor on this machine */
    bool deaf;               /* standard input is no control channel: no stop request can come */
    int first;               /* index of this process's first rank on the page */
    _Atomic int64_t samples; /* where there is no page: see weft_status_page_samples */
} weft_supervisor_channel;

void weft_status_page_open(weft_supervisor_channel *line);
void weft_status_page_close(weft_supervisor_channel *line);
void weft_status_page_stage(const weft_supervisor_channel *line, int rank, int stage);
void weft_status_page_step(const weft_supervisor_channel *line, int rank, int64_t step);
/* `_count` adds samples of training that a learner has processed. `_samples` is the sum over the
 * learners of the job on this machine; without a page, over those of this process. */
void weft_status_page_count(weft_supervisor_channel *line, int64_t samples);
int64_t weft_status_page_samples(const weft_supervisor_channel *line);
/* The highest step that any rank has begun; 0: none has begun one. */
int64_t weft_status_page_furthest(const weft_supervisor_channel *line);
/* Processes that the supervisor of a job of members has started for a part so far. 0: none, or
 * there is no page. */
int64_t weft_status_page_starts(const weft_supervisor_channel *line, weft_part_role role, int slot);
/* Whether the supervisor has asked the job to stop; not for two threads at once. */
bool weft_status_page_listen(weft_supervisor_channel *line);
/* `_begin` writes where a run of members began to the page, and `_begun` reads it for a restarted
 * coordinator; false: not written yet. */
bool weft_status_page_begun(const weft_supervisor_channel *line, int64_t out[WEFT_BEGUN]);
void weft_status_page_begin(const weft_supervisor_channel *line, const int64_t begun[WEFT_BEGUN]);
/* Writes the process id of a rank to the page, and lets the rank note its transfers there. */
void weft_status_page_note(const weft_supervisor_channel *line, weft_comm *world);

#endif
