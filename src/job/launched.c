/* Checks how this process was started: whether a batch system has started several of them without
 * ranks of MPI, and whether options need a supervisor that a launched rank does not have. */
#include <stdio.h>
#include <stdlib.h>

#include "job/supervisor.h"

/* Environment variables in which launchers say how many processes they have started. Slurm sets
 * its own for each task of srun, with MPI or without; in a batch file it is not set. */
static const char SLURM_TASKS[] = "SLURM_STEP_NUM_TASKS";
static const char *const size_variables[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"};

static int64_t number_in(const char *variable)
{
    int64_t number;
    const char *text = getenv(variable);
    return text && weft_parse_int(text, &number) ? number : 0;
}

bool weft_job_is_step(void)
{
    return number_in(SLURM_TASKS) > 0;
}

static weft_status refuse_without_ranks(int64_t tasks)
{
    return weft_fail(
        WEFT_ERR_ARGUMENT,
        "srun has started %lld tasks of this command, but gives them no ranks of MPI, so each "
        "would do all of the work and write the same files; for training give srun --mpi=pmix "
        "(with MPICH --mpi=pmi2; srun --mpi=list shows what there is), otherwise srun -n1. For "
        "commands that are independent of each other, take SLURM_STEP_NUM_TASKS out of the "
        "environment",
        (long long)tasks);
}

static int64_t ranks_started(void)
{
    int64_t started = number_in(SLURM_TASKS);
    for (size_t i = 0; i < WEFT_COUNT(size_variables); i++)
        started = WEFT_MAX(started, number_in(size_variables[i]));
    return started;
}

int weft_job_task(void)
{
    int rank = weft_job_rank();
    if (rank >= 0) return rank;
    return number_in(SLURM_TASKS) > 1 ? (int)number_in("SLURM_PROCID") : 0;
}

weft_status weft_job_check_alone(void)
{
    int64_t started = ranks_started();
    if (getenv(WEFT_SUPERVISED_VARIABLE) || started < 2) return WEFT_OK;
    if (weft_job_rank() < 0) return refuse_without_ranks(number_in(SLURM_TASKS));
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "the launcher (mpirun, srun) has started %lld processes of this command, "
                     "which do not share its work, so each would do all of it and write the same "
                     "files; start one process, without the launcher",
                     (long long)started);
}

static weft_status refuse_option(const char *option, const char *value, const char *why)
{
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "%s is %s, but a launcher (mpirun, srun) has started this rank, so %s", option,
                     value, why);
}

weft_status weft_job_check_launched(const weft_job_options *o)
{
    char value[32];
    if (getenv(WEFT_SUPERVISED_VARIABLE)) return WEFT_OK;
    if (weft_job_rank() < 0) {
        int64_t tasks = number_in(SLURM_TASKS);
        return tasks > 1 ? refuse_without_ranks(tasks) : WEFT_OK;
    }
    (void)snprintf(value, sizeof(value), "%lld", (long long)o->max_restarts);
    if (o->max_restarts > 0)
        return refuse_option("max-restarts", value,
                             "no supervisor can restart it; leave it out, and let the batch system "
                             "begin the job again (sbatch --requeue, with --resume), or start weft "
                             "train --engine mpi without a launcher");
    if (o->hosts)
        return refuse_option("hosts", o->hosts,
                             "the launcher has chosen the hosts; give them to the launcher");
    if (o->members)
        return refuse_option("engine", "processes",
                             "there is no supervisor that starts the processes; start one command "
                             "without a launcher (srun -n1 --mpi=none)");
    return WEFT_OK;
}

weft_status weft_job_check_world(int size)
{
    int64_t started = ranks_started();
    if (size > 1 || started < 2 || getenv(WEFT_SUPERVISED_VARIABLE)) return WEFT_OK;
    return weft_fail(
        WEFT_ERR_ARGUMENT,
        "the launcher has started %lld processes, but MPI connects this one to no other; "
        "launcher and MPI must fit: mpirun of the same MPI, srun --mpi=pmix with Open "
        "MPI, srun --mpi=pmi2 with MPICH",
        (long long)started);
}
