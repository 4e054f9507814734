/* What a supervisor and its ranks tell each other. The page is a page of shared memory that the
 * supervisor makes and the ranks on its machine write to, so that after a death it is known what
 * the dead one was doing; it has no name in any folder, so nothing is left of it. The other way, a
 * byte on the standard input of rank 0, which launchers hand on between machines, asks the job to
 * stop. */
#ifndef WEFT_JOB_STATUS_PAGE_H
#define WEFT_JOB_STATUS_PAGE_H

#include <stdatomic.h>
#include <sys/types.h>

#include "base/base.h"
#include "job/job.h"
#include "weft/comm.h"

#define WEFT_STATUS_PAGE_VARIABLE "WEFT_STATUS_PAGE"
#define WEFT_SUPERVISED_VARIABLE "WEFT_SUPERVISED"
#define WEFT_SLOT_VARIABLE "WEFT_SLOT"

typedef struct weft_status_page {
    _Atomic int64_t step[WEFT_MAX_RANKS]; /* that the rank is in; 0: not begun */
    _Atomic int stage[WEFT_MAX_RANKS];    /* weft_stage */
    _Atomic int pid[WEFT_MAX_RANKS];      /* its process; 0: it has not come yet */
    _Atomic int64_t begun[WEFT_BEGUN];    /* see weft_status_page_begun */
    atomic_bool has_begun;
    char job[64];                              /* what MPI calls it, by rank 0 */
    char note[WEFT_MAX_RANKS][WEFT_NOTE_SIZE]; /* its transfer, see weft_comm_set_note */
} weft_status_page;

/* `where` is what ranks find it by, as long as *file is open. */
weft_status weft_status_page_make(char *where, size_t size, weft_status_page **out,
                                  int *file) WEFT_NODISCARD;
weft_status_page *weft_status_page_map(const char *where); /* NULL: it is of another machine */
void weft_status_page_unmap(weft_status_page *page);

/* orphans.c: between begin and end, processes that children of this one leave behind become its own
 * children; end ends those that belong to the job. */
enum { MOST_CHILDREN = 4096 };
typedef struct weft_orphans {
    const char
        *mark;   /* NAME=VALUE in the environment of every process of the job, kept by caller */
    pid_t group; /* of the job's first process; -1: it was not started */
    int adopted; /* whether this process adopts orphans anyway */
    pid_t known[MOST_CHILDREN]; /* of the job */
    int count;
    pid_t now[MOST_CHILDREN]; /* children, in the look that goes on */
} weft_orphans;
void weft_orphans_begin(weft_orphans *orphans, const char *mark);
void weft_orphans_end(weft_orphans *orphans);
/* Ends a process if it is one of the job. */
void weft_orphans_kill(const weft_orphans *orphans, pid_t pid);
/* openmpi_cleanup.c: what a launcher that was killed has left of a job that has ended. */
void weft_openmpi_cleanup(pid_t launcher, const char *job);
/* Whether somebody has stopped a process. */
bool weft_is_stopped(pid_t pid);
/* A number that changes whenever a process computes, reads or writes; 0: it has ended. */
uint64_t weft_work_of(pid_t pid);
/* Children of all threads of a process; how many. */
int weft_list_children(pid_t parent, pid_t *out, int room);

#endif
