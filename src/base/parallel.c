/* Runs parallel loops with OpenMP, and counts the cores of the process. oneDNN's kernels use the
 * same OpenMP runtime, so both share one pool of threads, and no second pool spins against it. */
#include <math.h>
#include <omp.h>
#include <pthread.h>
#include <sched.h>

#include "base/base.h"

void weft_parallel(int threads, int64_t count, int64_t grain,
                   void (*fn)(void *user, int64_t begin, int64_t end), void *user)
{
    int64_t parts = WEFT_MIN((int64_t)threads, count / WEFT_MAX(grain, (int64_t)1));
    if (parts < 2) {
        if (count > 0) fn(user, 0, count);
        return;
    }
#pragma omp parallel num_threads((int)parts)
    {
        int64_t part = omp_get_thread_num(), all = omp_get_num_threads();
        int64_t begin = count * part / all, end = count * (part + 1) / all;
        if (begin < end) fn(user, begin, end);
    }
}

void weft_parallel_threads(int threads)
{
    if (omp_get_max_threads() != threads) omp_set_num_threads(threads);
}

/* The number of cores is asked from the OpenMP runtime, since a thread that OpenMP has bound sees
 * only its own core in its affinity mask. It is asked once, since the calling thread may be bound
 * later. */
static pthread_once_t asked = PTHREAD_ONCE_INIT;
static int cores;
static cpu_set_t all_cores;

static void ask(void)
{
    double quota = weft_cpu_quota("");
    cores = omp_get_num_procs();
    if (quota > 0 && quota < cores) cores = WEFT_MAX((int)ceil(quota), 1);
    if (sched_getaffinity(0, sizeof(all_cores), &all_cores) != 0) CPU_ZERO(&all_cores);
}

int weft_cores(void)
{
    (void)pthread_once(&asked, ask);
    return cores;
}

void weft_cores_roam(void)
{
    (void)pthread_once(&asked, ask);
    if (CPU_COUNT(&all_cores) > 0) (void)sched_setaffinity(0, sizeof(all_cores), &all_cores);
}
