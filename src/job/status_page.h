/* Communication between a supervisor and its ranks. The status page is a page of shared memory
 * (memfd) that the supervisor creates and the ranks on its machine write to, so that after a
 * failure it shows what the failed rank was doing; the page has no name in any folder, so it cannot
 * be left behind. In the other direction the supervisor asks the job to stop by a byte on the
 * standard input of rank 0, which launchers forward between machines. */
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
    _Atomic int64_t step[WEFT_MAX_RANKS]; /* step of each rank; 0: not begun */
    _Atomic int stage[WEFT_MAX_RANKS];    /* weft_stage of each rank */
    _Atomic int pid[WEFT_MAX_RANKS];      /* process of each rank; 0: not started yet */
    /* Members: processes that were started for each part; see weft_status_page_starts. */
    _Atomic int64_t starts[WEFT_PART_WORKER][WEFT_MAX_RANKS];
    _Atomic int64_t samples;           /* see weft_status_page_samples */
    _Atomic int64_t begun[WEFT_BEGUN]; /* see weft_status_page_begun */
    atomic_bool has_begun;
    char job[64];                              /* MPI's name of the job, set by rank 0 */
    char note[WEFT_MAX_RANKS][WEFT_NOTE_SIZE]; /* current transfer, see weft_comm_set_note */
} weft_status_page;

/* Creates a status page. `where` identifies it to the ranks while *file is open. */
weft_status weft_status_page_make(char *where, size_t size, weft_status_page **out,
                                  int *file) WEFT_NODISCARD;
weft_status_page *weft_status_page_map(const char *where); /* NULL: it is on another machine */
void weft_status_page_unmap(weft_status_page *page);

/* orphans.c: between begin and end this process is a subreaper, so it adopts orphaned descendants
 * of its children; end kills those that belong to the job. */
enum { MOST_CHILDREN = 4096 };
typedef struct weft_orphans {
    const char
        *mark; /* NAME=VALUE in the environment of every process of the job; owned by the caller */
    pid_t group; /* process group of the job's first process; -1: it was not started */
    int adopted; /* whether this process was a subreaper before */
    pid_t known[MOST_CHILDREN]; /* processes of the job, found so far */
    int count;
    pid_t now[MOST_CHILDREN]; /* children found in the current pass */
} weft_orphans;
void weft_orphans_begin(weft_orphans *orphans, const char *mark);
void weft_orphans_end(weft_orphans *orphans);
/* Sends a signal to a process if it belongs to the job. */
void weft_orphans_signal(const weft_orphans *orphans, pid_t pid, int number);
/* openmpi_cleanup.c: removes files and shared memory that a killed launcher has left behind. */
void weft_openmpi_cleanup(pid_t launcher, const char *job);
/* A number that changes whenever a process computes, reads or writes; 0: the process has ended. */
uint64_t weft_work_of(pid_t pid);
/* Lists the children of all threads of a process; returns their number. */
int weft_list_children(pid_t parent, pid_t *out, int room);

#endif
