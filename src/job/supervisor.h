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
    char mesh[128]; /* mesh after a restart with fewer ranks; "": the user's mesh */
    bool alone;     /* the data axis of that mesh has one rank left */
    char *model;    /* after a restart: the YAML file saved with the checkpoint; NULL: the user's */
    weft_status_page *page;
    weft_hosts hosts; /* remaining hosts; none: this machine */
    bool afar;  /* ranks are on other machines: of --hosts, or those that mpirun found itself */
    bool begun; /* the ranks were built in this start or an earlier one */
    weft_wait_clock clock; /* see weft_job_seconds */
    /* State of the current start: */
    bool built; /* all ranks are built */
    /* Times of the first failure and of the first rank's end; 0: not yet. */
    double ending, finished;
    double bereft; /* time when a rank was found dead; 0: none was */
    uint64_t work; /* sum of weft_work_of over the ranks, when last read */
    /* Times when `work` last changed, and when it was last read. */
    double worked, looked;
    bool cut_short;         /* the supervisor has killed the job, which did not end by itself */
    int on[WEFT_MAX_RANKS]; /* index of the host that a rank has reported; -1: none */
    bool missing[WEFT_MAX_RANKS]; /* unresponsive ranks, as reported by others */
    bool started[WEFT_MAX_RANKS]; /* ranks whose process has reported that it has started */
    char started_on[256];         /* their hosts, separated by commas; as many as have room */
    char stopped[512];            /* message of a rank that was asked to stop */
    int lost_at;                  /* index of the lost host; -1: none */
    int dead;                     /* first rank that died, or -1 */
    char where[512];              /* how rank `dead` died, as the beginning of a sentence */
    bool together; /* all ranks died with mpirun, or with the process of which they are threads */
    bool left;     /* rank `dead` exited by itself, so it may have given a reason */
    bool no_host;  /* the launcher could not reach a host */
    char lost_host[128];        /* name of that host; "": the launcher has not given it */
    bool explained;             /* the reason of the failure has been printed */
    int own;                    /* exit code of a rank that failed by its own error; 0: none */
    uint64_t own_words;         /* hash of that rank's message, for finding duplicates */
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

/* launched.c: whether this process is a task of srun. */
bool weft_job_is_step(void);

/* mpirun.c */
weft_status weft_job_find_mpirun(job *j) WEFT_NODISCARD;
/* Builds the command line of the job; again: the job resumes from the newest checkpoint. */
weft_status weft_job_command(const job *j, bool resume, weft_command *w) WEFT_NODISCARD;
/* Called before a restart: takes the model's YAML file from the checkpoint, since the user's file
 * may have changed. */
weft_status weft_job_find_model(job *j) WEFT_NODISCARD;
void weft_command_free(weft_command *w);

/* monitor.c: the time in seconds of a clock that starts above 0 and excludes the time for which
 * this process was stopped (SIGSTOP); it must be read continuously while a job runs. */
double weft_job_seconds(job *j);
/* Ends a launcher, which is started with SIGINT and SIGTERM blocked, and with it the ranks. */
enum { WEFT_ENDS_LAUNCHER = SIGHUP };
/* Installs and removes handlers for the signals that stop or pause the job. In between SIGCHLD is
 * not ignored, since a process that ignores it does not get the exit codes of its children. */
enum { WEFT_ASKING = 4, WEFT_CAUGHT };
void weft_job_catch(struct sigaction before[WEFT_CAUGHT]);
/* Whether SIGHUP has come since the last call, if hangups reload: otherwise one asks to stop. */
bool weft_job_wants_reload(void);
void weft_job_let_hangups_reload(bool reload);
void weft_job_release(const struct sigaction before[WEFT_CAUGHT]);
/* Returns the first signal that asked to stop since weft_job_catch, 0: none; *how_often: their
 * number. */
int weft_job_asked(int *how_often);
/* Whether Ctrl-Z was pressed since the last call. */
bool weft_job_wants_pause(void);
/* Watches the job until it closes standard error: forwards output and signals, and kills a job that
 * hangs. */
struct weft_child;
void weft_job_watch(job *j, const struct weft_child *child);

/* failure.c */
void weft_job_log(const job *j, const char *format, ...) WEFT_PRINTF(2, 3);
/* _hear handles output of ranks and launcher, in arbitrary pieces; _end_output handles the end of
 * the output. */
void weft_job_hear(job *j, const char *text, size_t size);
void weft_job_end_output(job *j);
/* Writes " (on HOST, ...)" with the hosts of the ranks for which `of` is true; "": hosts were not
 * given. */
void weft_job_where(const job *j, bool (*of)(const job *j, int rank), char *out, size_t size);
/* Called when the started process has failed, with its status from waitpid: finds the lost host or,
 * if no one has explained the failure, describes it. */
void weft_job_ended(job *j, int state);
/* Reports the failed rank with its host, step and transfer, or the lost host. */
void weft_job_report_death(const job *j);
/* Reports that the last steps of a stopped job are not saved, if so, and the death that is the
 * reason; see weft_job_unsaved. */
void weft_job_report_unsaved(const job *j, int code, int times);

/* process_set.c: runs a job of members, which are restarted one by one while restarts are left;
 * again: from the newest checkpoint. */
weft_status weft_job_run_members(job *j, bool resume, int *code) WEFT_NODISCARD;

/* workers.c: runs a job of workers, each of which is restarted whenever it dies. */
weft_status weft_job_run_workers(job *j, int *code) WEFT_NODISCARD;

/* restart.c: the number of restarts that the options allow; the default is higher for jobs of
 * members. */
int64_t weft_job_most_restarts(const weft_job_options *options);
/* Whether a job that ended with this exit code was stopped and has not failed: by the signal
 * `asked` of this process (0: none), or by one that its ranks got. */
bool weft_job_stopped(const job *j, int code, int asked);
/* Whether a job that was asked to stop, `times` times, died before any rank said that it has
 * stopped, so that the last steps are not saved. */
bool weft_job_unsaved(const job *j, int code, int times);
/* Whether the job can be restarted: it has a checkpoint folder. If that is empty the job starts
 * from scratch. */
bool weft_job_can_restart(const job *j, int code);
/* Whether the folder holds a checkpoint by now. With other machines, whose folder this process
 * cannot see, always true. */
bool weft_job_has_checkpoint(const job *j);
/* Writes the number of ranks, or of learners, such as "3 learners", into `out`, and returns
 * `out`. */
const char *weft_job_size(const job *j, char *out, size_t size);
/* Excludes the lost ranks or host from the next start. */
void weft_job_shrink(job *j);

#endif
