/* The engines of training. An engine says what the ranks of a run are, and starts those that are
 * processes. A new engine is a file and a line of the table in engine.c; how its ranks communicate
 * says weft_comm_open, by the engine's name. */
#ifndef WEFT_TRAIN_ENGINE_ENGINE_H
#define WEFT_TRAIN_ENGINE_ENGINE_H

#include "job/job.h"
#include "train/train.h"

typedef struct weft_train_engine {
    const char *name;
    const char *processes; /* its ranks, as "processes of MPI"; NULL: threads of one process */
    const char *alone; /* the communicator of a single rank (weft_comm_open); NULL: of its name */
    bool launched;     /* a launcher (mpirun, srun) starts the ranks, on one host or several */
    bool members;   /* learners and servers are processes; one that dies is started again alone */
    bool hosted;    /* servers are threads of the learners' processes */
    bool simulated; /* a run in virtual time, which always begins anew */
    /* Checks that the engine can have the options of a run; starts nothing. NULL: it can. */
    weft_status (*check)(const weft_context *context, const weft_train_options *options);
    /* Adds the processes of the run to the options of its supervisor. NULL: every process has the
     * command line of the job. `done` frees *plan, which it gets even after a failure. */
    weft_status (*plan)(const weft_context *context, const weft_train_options *options,
                        weft_job_options *job, void **plan);
    void (*done)(void *plan);
} weft_train_engine;

extern const weft_train_engine weft_train_engine_threads, weft_train_engine_mpi,
    weft_train_engine_processes, weft_train_engine_simulated;

/* The engine of that name. A name that only weft_comm_open knows, as that of a plug-in, is an
 * engine whose ranks are those that the communicator opens in this process. */
const weft_train_engine *weft_train_engine_of(const char *name);
/* Changes the checked options of a run into those of a look at it: its ranks are threads of this
 * process, and its checkpoints are neither read nor written. Options that a run would refuse stay,
 * to be refused. */
weft_status weft_train_engine_look(const weft_context *context,
                                   weft_train_options *options) WEFT_NODISCARD;

#endif
