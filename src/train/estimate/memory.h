/* Declares the prediction of the memory of a run's processes. Each number is that of the code which
 * allocates: programs that are planned and not run, batches, exchanges. */
#ifndef WEFT_TRAIN_ESTIMATE_MEMORY_H
#define WEFT_TRAIN_ESTIMATE_MEMORY_H

#include "train/estimate/site.h"

/* Moments in which a rank takes more while all else is there. The ranks of a process are in the
 * same one at the same time. */
enum { MOMENT_EVALUATION, MOMENT_CHECKPOINT, MOMENT_MEETING, MOMENT_END, MOMENTS };

/* The memory of the ranks of one learner; those of other learners take as much. */
typedef struct weft_memory_plan {
    int mesh;
    double (*part)[WEFT_MEMORY_PARTS]; /* [mesh] */
    double (*moment)[MOMENTS];         /* [mesh] of MOMENT_END: of ranks of the first learner */
    double *first; /* [mesh]: what the exchange takes in ranks of the first learner beside that */
    /* Bytes of a process beside its ranks: the program, its libraries, kernels and data. 0: they
     * are measured with the first rank. */
    double shared;
    bool measured; /* with the ranks of this plan */
    double mapped; /* resident bytes then that malloc has not given */
    double engine; /* what the engine takes in a process of ranks */
    double bare;   /* of a process without data and programs */
    double beside; /* bytes that have been allocated and are not of the run */
    /* [mesh]: what all servers of the shard of a rank take that are threads of learners; of all
     * servers that are processes; and the learner on whose machine a server is, NULL: the first. */
    double *hosted, server;
    int (*host)(int server, int learners);
} weft_memory_plan;

weft_status weft_memory_plan_open(const weft_trainer *t, weft_memory_plan *out) WEFT_NODISCARD;
void weft_memory_plan_close(weft_memory_plan *m);
/* Adds the ranks of a kind, of weft_trainer_plan_kinds, with a rank of the first learner whose
 * training program is planned on the store; nothing else has been allocated since `before`, which
 * is weft_allocated_memory before the store was made. Later ranks of a kind change nothing. */
weft_status weft_memory_plan_add(weft_memory_plan *m, weft_trainer *t, const weft_rank *r,
                                 weft_store *store, const weft_program *program, size_t before,
                                 const int *kind) WEFT_NODISCARD;
/* After it: bytes that stay allocated when the programs of the rank have gone. */
void weft_memory_plan_stays(weft_memory_plan *m, int rank, double bytes, const int *kind);
/* Sets the numbers of processes and of the machine that is the fullest beside its memory. Ranks
 * fill the machines of the cluster in the order of its file, equally many on each; NULL: one has
 * all. */
void weft_memory_plan_sum_up(const weft_memory_plan *m, const weft_trainer *t,
                             const weft_cluster *cluster, weft_memory_estimate *out);

/* The memory of a run whose ranks are planned one kind after the other. */
typedef struct weft_memory_run {
    const weft_site *site; /* without a cluster, one machine has all ranks */
    weft_trainer *t;
    weft_memory_plan plan;
    double bare, parameters;
} weft_memory_run;

/* Before the trainer is prepared. */
weft_status weft_memory_run_open(weft_context *context, const weft_site *site,
                                 weft_memory_run *out) WEFT_NODISCARD;
/* With the prepared trainer, before its ranks are planned by weft_trainer_plan_kinds. */
weft_status weft_memory_run_begin(weft_memory_run *run, weft_trainer *t) WEFT_NODISCARD;
/* Adds ranks whose programs are planned. */
weft_planned weft_memory_run_planned(weft_memory_run *run);
/* The text and the memory of weft_estimate_plan, of programs that are planned once for all. */
typedef struct weft_plan_told {
    int dump_rank;
    weft_plan_report *report;
    char *text;
    weft_memory_estimate *memory;
} weft_plan_told;
/* Sums up the processes, without the arrays of *out. */
weft_status weft_memory_run_sum_up(weft_memory_run *run, weft_memory_estimate *out) WEFT_NODISCARD;
/* Likewise, and gives *out the arrays of the run. */
weft_status weft_memory_run_take(weft_memory_run *run, weft_memory_estimate *out) WEFT_NODISCARD;
/* The numbers of weft_step_estimate. */
weft_status weft_memory_run_step(weft_memory_run *run, weft_step_estimate *out) WEFT_NODISCARD;
/* weft_estimate_plan without the step. */
weft_status weft_memory_run_tell(weft_context *context, const weft_train_options *options,
                                 const char *cluster, weft_plan_told *plan) WEFT_NODISCARD;
void weft_memory_run_close(weft_memory_run *run);

#endif
