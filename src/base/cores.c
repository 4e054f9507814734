/* Counts the cores that this process may use, and the threads that suit them: by its affinity mask,
 * the quota of its control groups, the allocation of a batch system, and OMP_NUM_THREADS. */
#include <math.h>
#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/base.h"

/* The number of cores is asked from the OpenMP runtime, since a thread that OpenMP has bound sees
 * only its own core in its affinity mask. It is asked once, since the calling thread may be bound
 * later. */
static pthread_once_t asked = PTHREAD_ONCE_INIT;
static int cores;
static const char *limited_by; /* what limits the cores; NULL: nothing */
static cpu_set_t all_cores;

/* A positive number at the beginning of an environment variable; 0: there is none. */
static int number_in(const char *variable)
{
    const char *text = getenv(variable);
    char *end;
    long number = text ? strtol(text, &end, 10) : 0;
    bool whole = number > 0 && number <= 1024 && (*end == '\0' || *end == ',');
    return whole ? (int)number : 0;
}

static void limit(int most, const char *by)
{
    if (most <= 0 || most >= cores) return;
    cores = most;
    limited_by = by;
}

static void read_cores(void)
{
    double quota = weft_cpu_quota("");
    cores = (int)fmax(1, (double)sysconf(_SC_NPROCESSORS_ONLN));
    limit(omp_get_num_procs(), "the affinity mask");
    if (quota > 0)
        limit((int)fmin(fmax(ceil(quota), 1), 1024), "the CPU quota of the control group");
    limit(number_in("SLURM_CPUS_ON_NODE"), "SLURM_CPUS_ON_NODE");
    if (sched_getaffinity(0, sizeof(all_cores), &all_cores) != 0) CPU_ZERO(&all_cores);
}

int weft_cores(void)
{
    (void)pthread_once(&asked, read_cores);
    return cores;
}

int weft_default_threads(int ranks, const char **why)
{
    const char *by = NULL, *omp = "OMP_NUM_THREADS", *slurm = "SLURM_CPUS_PER_TASK";
    int threads = WEFT_MAX(weft_cores() / WEFT_MAX(ranks, 1), 1), chosen = number_in(omp);
    int task = number_in(slurm), most = WEFT_MIN(omp_get_thread_limit(), 1024);
    by = limited_by;
    if (task > 0 && task < threads) {
        threads = task;
        by = slurm;
    }
    if (chosen > 0) {
        threads = chosen;
        by = omp;
    }
    if (most < threads) {
        threads = WEFT_MAX(most, 1);
        by = "OMP_THREAD_LIMIT";
    }
    if (why) *why = by;
    return threads;
}

void weft_cores_roam(void)
{
    (void)pthread_once(&asked, read_cores);
    if (CPU_COUNT(&all_cores) > 0) (void)sched_setaffinity(0, sizeof(all_cores), &all_cores);
}
