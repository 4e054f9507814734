/* Internals of the supervisor: the state of a job. */
#ifndef WEFT_JOB_SUPERVISOR_H
#define WEFT_JOB_SUPERVISOR_H

#include <signal.h>

#include "job/status_page.h"
#include "job/hosts.h"
#include "job/job.h"

typedef struct job {
    const weft_job_options *options;
    const char *program;
    char *const *arguments;
    weft_job_fn tell;
    void *user;
    bool mpi, open_mpi;
    int64_t restarts; /* restarts that are left */
    int64_t ranks;
    char mesh[128]; /* after a restart with fewer ranks; "": the user's */
    bool alone;     /* one rank is left on its data axis */
    char *model;    /* after a restart: the YAML file saved with the checkpoint; NULL: the user's */
    weft_status_page *page;
    weft_hosts hosts;      /* remaining hosts; none: this machine */
    bool begun;            /* all ranks were built once */
    weft_wait_clock clock; /* see weft_job_seconds */
    /* State of the current start: */
    bool built;              /* all ranks are built */
    double ending, finished; /* of the first failure, of the first rank's end; 0: not yet */
    double bereft;           /* time when a rank was found dead; 0: none was */
    uint64_t work; /* work of the ranks at the last look; time of the last change; time of the last
                      look */
    double worked, looked;
    bool cut_short;               /* this process has killed the launcher */
    int on[WEFT_MAX_RANKS];       /* host that a rank has reported, or -1 */
    bool missing[WEFT_MAX_RANKS]; /* unresponsive ranks, as reported by others */
    char stopped[512];            /* message of a rank that was asked to stop */
    int lost_at;                  /* host, or -1 */
    int dead;                     /* first rank that died, or -1 */
    char where[512];              /* description of its death */
    bool together;                /* all ranks died with the process that runs them */
    bool left;                    /* it exited by itself, so it may have given a reason */
    bool no_host;                 /* the launcher could not reach a host */
    char lost_host[128];          /* its name, if the launcher gives it */
    bool explained;               /* the reason of the failure has been printed */
    int own;                      /* exit code of a rank that failed by its own error; 0: none */
    uint64_t own_words;           /* hash of its message, for finding duplicates */
    const char *environment[5]; /* added to the environment of the job's processes; the first entry
                                   is the mark, see orphans.c */
    weft_orphans orphans;
    char line[4096]; /* incomplete line of output */
    size_t line_size;
    bool in_block;    /* inside a block of the launcher, between two rules of dashes */
    char block[8192]; /* text of the block */
} job;

/* A command line. */
typedef struct weft_command {
    const char **word; /* NULL-terminated */
    int count;
    char numbers[2][32];
    char *hosts;
} weft_command;

/* mpirun.c */
weft_status weft_job_find_mpirun(job *j) WEFT_NODISCARD;
weft_status weft_job_command(const job *j, bool again, weft_command *w) WEFT_NODISCARD;
/* Before a restart: takes the YAML file from the checkpoint, since the user's may have changed. */
weft_status weft_job_find_model(job *j) WEFT_NODISCARD;
void weft_command_free(weft_command *w);

/* monitor.c: a clock that starts above 0 and excludes the time for which this process was stopped;
 * it must be read continuously while a job runs. */
double weft_job_seconds(job *j);
/* Installs and removes handlers for the signals that stop or pause the job. */
enum { WEFT_ASKING = 4 };
void weft_job_catch(struct sigaction before[WEFT_ASKING]);
void weft_job_release(const struct sigaction before[WEFT_ASKING]);
/* The first such signal since then, 0: none; and their number. */
int weft_job_asked(int *how_often);
/* Whether a pause was requested since the last call. */
bool weft_job_wants_pause(void);
/* Forwards standard error of the ranks until the job closes it. */
struct weft_child;
void weft_job_watch(job *j, const struct weft_child *child);

/* failure.c */
void weft_job_say(const job *j, const char *format, ...) WEFT_PRINTF(2, 3);
/* Handles output of ranks and launcher, in arbitrary pieces; and its end. */
void weft_job_hear(job *j, const char *text, size_t size);
void weft_job_end_output(job *j);
/* Handles the status of waitpid of the started process. */
void weft_job_ended(job *j, int state);
/* Reports the failed rank with its host, step and transfer, or the lost host. */
void weft_job_tell_death(const job *j);

/* process_set.c: runs a job of members, which are restarted one by one while restarts are left;
 * again: from the newest checkpoint. */
weft_status weft_job_run_members(job *j, bool again, int *code) WEFT_NODISCARD;

/* workers.c: runs a job of workers, each of which is restarted whenever it dies. */
weft_status weft_job_run_workers(job *j, int *code) WEFT_NODISCARD;

/* restart.c: the number of restarts by the options; the default is higher for jobs of members. */
int64_t weft_job_most_restarts(const weft_job_options *options);
/* Whether a job that ended with this code was stopped, by the signal `asked` (0: none) of this
 * process or one that its ranks got, rather than failed. */
bool weft_job_stopped(const job *j, int code, int asked);
/* Whether the job can be restarted: it has a checkpoint folder. If that is empty the job starts
 * from scratch. */
bool weft_job_can_restart(const job *j, int code);
/* Whether the folder holds a checkpoint by now. With other machines, whose folder this process
 * cannot see, always true. */
bool weft_job_has_checkpoint(const job *j);
/* The number of ranks, or of learners: "3 learners". */
const char *weft_job_size(const job *j, char *out, size_t size);
/* Excludes the lost ranks or host from the next start. */
void weft_job_shrink(job *j);

#endif
