/* The inside of a job of members: a coordinator, servers and learners as processes; and of workers,
 * which are processes as well. */
#ifndef WEFT_JOB_PROCESS_SET_H
#define WEFT_JOB_PROCESS_SET_H

#include "job/child.h"
#include "job/supervisor.h"

/* One of its processes. */
typedef struct child_process {
    const weft_job_part *part;
    weft_child child;
    bool runs, done; /* done: it has come to its end, and nobody takes its place */
    bool before;     /* it has been started before */
    double died;     /* when, if it is to be started again; 0: it is not */
    double paused;   /* since when somebody has stopped it; 0: nobody has */
    bool hung;       /* it was ended for that */
    bool not_begun;  /* it was ended before its first step, since somebody stopped the job */
    bool ready;      /* it has said that it is built */
    /* Of workers: */
    bool has_served;            /* it has been ready once */
    double since, pause, again; /* since when it is ready; the last pause before it was started
                                   again, and when it is to be, 0: it is not */
    int deaths;                 /* before it was ready for the first time */
    char what[16];              /* the status that it ended with, if it has said so, */
    char said[1024];            /* and its words */
    char why[1400];             /* what is told of its end when it is started again */
    char line[4096];            /* what has come of a line */
    size_t line_size;
} child_process;

typedef struct process_set {
    job *j;
    child_process *all;
    int count;
    bool again; /* the job goes on from a checkpoint */
    bool stopping, failed, closing;
    double told; /* when the first learner had told what the run came to; 0: not yet */
    int code;    /* of the job, when it was stopped or has failed */
    int passed;  /* signals that were passed on */
    int last;    /* signal that its processes get if this one dies */
} process_set;

/* process_set.c: starts a process, or takes in how it has ended. */
weft_status weft_child_process_start(process_set *t, child_process *p) WEFT_NODISCARD;
void weft_child_process_end(process_set *t, child_process *p);
/* Takes in what players say, for at most 50 ms; fds: room for one each. */
struct pollfd;
void weft_process_set_poll(process_set *t, struct pollfd *fds);
void weft_process_set_signal(const process_set *t, int number);
/* Stops all with this process if somebody has asked for that (Ctrl-Z), until it goes on. */
void weft_process_set_suspend(const process_set *t);
/* Kills a process that somebody has stopped, after the silence that a job allows. */
void weft_child_process_end_suspended(process_set *t, child_process *p);

/* child_output.c: takes in what one says on standard error. */
void weft_child_process_read(process_set *t, child_process *p, const char *text, size_t size);
/* What is left in its pipe. */
void weft_child_process_drain(process_set *t, child_process *p);
/* "learner 2" and the like. */
const char *weft_child_process_name(const child_process *p, char *out, size_t size);
/* In which a learner is; 0: in none yet, or not known. */
int64_t weft_child_process_step(const process_set *t, const child_process *p);
/* How it has ended, as far as that is not its own to say, into its `why`. */
void weft_child_process_explain(const process_set *t, child_process *p, int state);

#endif
