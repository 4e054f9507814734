/* Internals of jobs of members (coordinator, servers and learners as processes) and of workers. */
#ifndef WEFT_JOB_PROCESS_SET_H
#define WEFT_JOB_PROCESS_SET_H

#include "job/child.h"
#include "job/supervisor.h"

/* A supervised process. */
typedef struct child_process {
    const weft_job_part *part;
    weft_child child;
    bool runs, done; /* done: it has finished, and is not restarted */
    bool before;     /* it was started at least once */
    double died;     /* time of its death, if a restart is due; 0: none is */
    double paused;   /* time since when it is stopped (SIGSTOP); 0: it is not */
    bool hung;       /* the supervisor killed it, since it was stopped for too long */
    bool not_begun;  /* it was killed before its first step, since the job is stopping */
    bool ready;      /* it has reported that it is built */
    /* Workers only: */
    bool has_served; /* it was ready before */
    /* Time since when it is ready; seconds of the last pause before a restart; time of the next
     * restart, 0: none is planned. */
    double since, pause, restart_at;
    int deaths;      /* deaths before it was ready for the first time */
    char what[16];   /* name of the status that it reported at its end */
    char said[1024]; /* error message that it reported at its end */
    char why[1400];  /* how it ended, for the message about its restart */
    char line[4096]; /* incomplete line of its output */
    size_t line_size;
} child_process;

typedef struct process_set {
    job *j;
    child_process *all;
    int count;
    bool resumes; /* the job resumes from a checkpoint */
    /* The job was told to stop; the job has failed; all processes are being ended. */
    bool stopping, failed, closing;
    double end_reported; /* time when learner 0 reported its end; 0: not yet */
    int code;            /* exit code of the job, when it was stopped or has failed */
    int passed;          /* signals to stop that were handled */
    char by[96]; /* learner that a signal from elsewhere has stopped, and the signal; "": none */
    int last;    /* signal that the processes get if this one dies */
} process_set;

/* process_set.c: starts a process, or handles its end. */
weft_status weft_child_process_start(process_set *t, child_process *p) WEFT_NODISCARD;
void weft_child_process_end(process_set *t, child_process *p);
/* Waits at most 50 ms for output of the processes, and handles it; fds: room for one entry for each
 * process. */
struct pollfd;
void weft_process_set_poll(process_set *t, struct pollfd *fds);
void weft_process_set_signal(const process_set *t, int number);
/* After Ctrl-Z, stops all processes and this one, until this one is continued. */
void weft_process_set_suspend(const process_set *t);
/* Kills a process that has been stopped for longer than the failure timeout. */
void weft_child_process_end_suspended(process_set *t, child_process *p);

/* child_output.c: handles a piece of a process's standard error. */
void weft_child_process_read(process_set *t, child_process *p, const char *text, size_t size);
/* Handles the output that a process has left in its pipe at its end. */
void weft_child_process_drain(process_set *t, child_process *p);
/* Writes the name of a process, such as "learner 2", into `out`, and returns `out`. */
const char *weft_child_process_name(const child_process *p, char *out, size_t size);
/* The step that a learner is in; 0: none yet, or unknown. */
int64_t weft_child_process_step(const process_set *t, const child_process *p);
/* Writes into p->why that the process could not be started, with the last message. */
void weft_child_process_explain_start(child_process *p);
/* Writes into p->why how the process ended; state: its status from waitpid. */
void weft_child_process_explain(const process_set *t, child_process *p, int state);

#endif
