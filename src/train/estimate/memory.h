/* Declares the prediction of the memory of a run's processes. Each number is that of the code which
 * allocates: programs that are planned and not run, batches, exchanges. */
#ifndef WEFT_TRAIN_ESTIMATE_MEMORY_H
#define WEFT_TRAIN_ESTIMATE_MEMORY_H

#include "cost/cluster.h"
#include "train/trainer.h"
#include "weft/estimate.h"

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
    double bare;   /* of a process without data and programs */
    double beside; /* bytes that have been allocated and are not of the run */
    double server; /* of all servers that are processes */
} weft_memory_plan;

weft_status weft_memory_plan_open(const weft_trainer *t, weft_memory_plan *out) WEFT_NODISCARD;
void weft_memory_plan_close(weft_memory_plan *m);
/* Adds the ranks of a kind, of weft_trainer_each_kind, with a rank of the first learner whose
 * training program is planned on the store; nothing else has been allocated since `before`, which
 * is weft_allocated_memory before the store was made. Later ranks of a kind change nothing. */
weft_status weft_memory_plan_add(weft_memory_plan *m, weft_trainer *t, const weft_rank *r,
                                 weft_store *store, const weft_program *program, size_t before,
                                 const int *kind) WEFT_NODISCARD;
/* Sets the numbers of processes and of the machine that is the fullest beside its memory. Ranks
 * fill the machines of the cluster in the order of its file, equally many on each; NULL: one has
 * all. */
void weft_memory_plan_sum_up(const weft_memory_plan *m, const weft_trainer *t,
                             const weft_cluster *cluster, weft_memory_estimate *out);

#endif
