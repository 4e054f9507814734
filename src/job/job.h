/* Jobs of several processes: the supervisor, and a process's line to it. */
#ifndef WEFT_JOB_JOB_H
#define WEFT_JOB_JOB_H

#include "base/base.h"
#include "weft/comm.h"
#include "weft/job.h"

/* --- the supervisor --- */

/* What it has to know of a run. Texts are as the options of that name are written, NULL where none
 * is given. */
typedef struct weft_job_options {
    bool mpi;      /* the ranks are processes of MPI, else threads of one */
    bool members;  /* or learners are processes that come and go; then see weft_job_part */
    bool workers;  /* or processes that all do the same until they are told to end; so here */
    int64_t ranks; /* 0: as many as somebody else has started */
    const char *hosts, *mesh, *place, *exchange;
    int64_t zero, virtual_workers;
    double timeout;         /* seconds */
    const char *checkpoint; /* the folder that a job which died goes on from */
    bool resume;            /* so does the first one */
    int64_t max_restarts;
    /* Of a job of members, whose first is the coordinator, or of workers. */
    struct weft_job_part *parts;
    int part_count;
    double failure_timeout; /* seconds after which a member that is not heard of is gone */
    /* Of a job of workers: seconds that the end leaves to them; and what is told once, when all
     * of them are ready. */
    double drain;
    void (*ready)(void *user);
} weft_job_options;

/* One of the processes of a job of members or workers: what it is called, and its command line
 * behind the program's name, to which --resume is added when it, or all of the job, is started
 * again. */
typedef enum weft_part_role {
    WEFT_PART_COORDINATOR,
    WEFT_PART_SERVER,
    WEFT_PART_LEARNER,
    WEFT_PART_WORKER
} weft_part_role;
typedef struct weft_job_part {
    weft_part_role role;
    int slot;
    char **words;          /* NULL at the end */
    const char *only_copy; /* what is lost with it once the run has begun, so that no other process
                              can take its place, as the end of a sentence; NULL: nothing is */
} weft_job_part;

/* See weft_job_needs_supervisor and weft_job_run. */
bool weft_job_needed(const weft_job_options *options);
weft_status weft_job_supervise(const weft_job_options *options, const char *program,
                               char *const *arguments, weft_job_fn tell, void *user,
                               int *code) WEFT_NODISCARD;

/* --- a process of the job --- */

/* What its supervisor calls the job; NULL: it has none on this machine. */
const char *weft_job_name(void);
/* Which of its role a member of a job is; below 0: it is none. */
int weft_job_slot(void);

typedef enum weft_stage { WEFT_STAGE_NONE, WEFT_STAGE_BUILT, WEFT_STAGE_FINISHED } weft_stage;

/* Numbers by which a run says where it began, from which checkpoint, and how long it is. */
enum { WEFT_BEGUN = 7 };

/* A process's line to its supervisor, see status_page.h. */
typedef struct weft_supervisor_channel {
    struct weft_status_page *page; /* NULL: there is none */
    bool deaf;                     /* no supervisor speaks on standard input */
    int first;                     /* of this process's ranks on the page */
} weft_supervisor_channel;

void weft_status_page_open(weft_supervisor_channel *line);
void weft_status_page_close(weft_supervisor_channel *line);
void weft_status_page_stage(const weft_supervisor_channel *line, int rank, int stage);
void weft_status_page_step(const weft_supervisor_channel *line, int rank, int64_t step);
/* The step of the rank that is furthest; 0: none has begun one. */
int64_t weft_status_page_furthest(const weft_supervisor_channel *line);
/* Whether the supervisor asks for the end; for the first rank, once a step. */
bool weft_status_page_listen(weft_supervisor_channel *line);
/* Where the run of a job of members began, for a coordinator that comes in the place of the one
 * that has found it out. False: it is not known yet. */
bool weft_status_page_begun(const weft_supervisor_channel *line, int64_t out[WEFT_BEGUN]);
void weft_status_page_begin(const weft_supervisor_channel *line, const int64_t begun[WEFT_BEGUN]);
/* Says which process a rank is, and lets it note its transfers. */
void weft_status_page_note(const weft_supervisor_channel *line, weft_comm *world);

#endif
