/* A job as its supervisor sees it. */
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
    int64_t restarts; /* that are left */
    int64_t ranks;
    char mesh[128]; /* after a restart with fewer ranks; "": the user's */
    bool alone;     /* its data axis has one rank left */
    char *model; /* after a restart: the YAML file that the checkpoint has kept; NULL: the user's */
    weft_status_page *page;
    weft_hosts hosts;    /* that are left; none: this machine */
    bool begun;          /* all ranks have been built once */
    weft_patience clock; /* see weft_job_seconds */
    /* Of the present start: */
    bool built;              /* all ranks are */
    double ending, finished; /* when one has failed; when the first had come to the end; 0: not */
    double bereft;           /* when a rank was seen to have died; 0: none was */
    uint64_t work;           /* that ranks had done by the last look, and when it was less */
    double worked, looked;
    bool cut_short;               /* this process had the launcher end it */
    int on[WEFT_MAX_RANKS];       /* host of a rank, -1: it has not said */
    bool missing[WEFT_MAX_RANKS]; /* others waited for it in vain */
    char stopped[512];            /* what a rank says that was asked to stop */
    int lost;                     /* host, or -1 */
    int dead;                     /* rank that died first, or -1 */
    char where[512];              /* what is known of its death */
    bool together;                /* all ranks at once, with a process that is none of them */
    bool left;                    /* it ended by itself, so it may have said why */
    bool no_host;                 /* the launcher did not come through to a host */
    char lost_host[128];          /* its name, where the launcher gives it */
    bool explained;               /* somebody has said what went wrong */
    int own; /* exit code of a rank that failed by itself, not for another one; 0: none has */
    uint64_t own_words;         /* hash of what it said: others may say the same */
    const char *environment[5]; /* what the job's processes have besides this one's; the first is
                                   its mark, see orphans.c */
    weft_orphans orphans;
    char line[4096]; /* what has come of a line */
    size_t line_size;
    bool in_block;    /* between two rules of dashes the launcher speaks */
    char block[8192]; /* what it has said there */
} job;

/* A command line. */
typedef struct weft_command {
    const char **word; /* NULL at the end */
    int count;
    char numbers[2][32];
    char *hosts;
} weft_command;

/* start.c */
weft_status weft_job_find_mpirun(job *j) WEFT_NODISCARD;
weft_status weft_job_command(const job *j, bool again, weft_command *w) WEFT_NODISCARD;
/* Before a restart: the user's YAML file may be another one by now. */
weft_status weft_job_keep_model(job *j) WEFT_NODISCARD;
void weft_command_free(weft_command *w);

/* watch.c: a clock that begins above 0 and does not go on while this process is stopped; looked at
 * all the time while a job runs. */
double weft_job_seconds(job *j);
/* Signals that ask for the end, or for a pause, come here while a job runs. */
enum { WEFT_ASKING = 4 };
void weft_job_catch(struct sigaction before[WEFT_ASKING]);
void weft_job_release(const struct sigaction before[WEFT_ASKING]);
/* The first signal that came since, 0: none; and how many. */
int weft_job_asked(int *how_often);
/* Whether somebody has asked for a pause since this was last asked. */
bool weft_job_wants_pause(void);
/* Passes on what the ranks say on stderr until the job closes it. */
struct weft_child;
void weft_job_watch(job *j, const struct weft_child *child);

/* death.c */
void weft_job_say(const job *j, const char *format, ...) WEFT_PRINTF(2, 3);
/* What ranks and their launcher say, in pieces as they come, and that there is no more. */
void weft_job_hear(job *j, const char *text, size_t size);
void weft_job_heard_all(job *j);
/* What waitpid says of the process that was started. */
void weft_job_ended(job *j, int state);
/* Who died where, in which step and transfer, or which host is lost. */
void weft_job_tell_death(const job *j);

/* members.c: a job whose processes are started again one by one, as long as restarts are left;
 * `again`: from the newest checkpoint. */
weft_status weft_job_run_members(job *j, bool again, int *code) WEFT_NODISCARD;

/* workers.c: a job whose processes are started again whenever one has died. */
weft_status weft_job_run_workers(job *j, int *code) WEFT_NODISCARD;

/* restart.c: how often a job, or one of its members, is started again: as often as the options say,
 * members more often unless those do. */
int64_t weft_job_most_restarts(const weft_job_options *options);
/* Whether a job that ended with this code was stopped, by the signal `asked` (0: none)
 * of this process or by one that its ranks got, rather than died. */
bool weft_job_stopped(const job *j, int code, int asked);
/* Whether it can go on: there is a folder for checkpoints. If it is empty the job begins anew. */
bool weft_job_can_restart(const job *j, int code);
/* Whether that folder holds one by now. Ranks on other machines may see another folder, where it
 * cannot be told, and counts as so. */
bool weft_job_has_checkpoint(const job *j);
/* How many ranks the job has; learners, where it has those: "3 learners". */
const char *weft_job_size(const job *j, char *out, size_t size);
/* Leaves out what was lost. */
void weft_job_shrink(job *j);

#endif
