/* Runs parallel loops with OpenMP. oneDNN's kernels use the
 * same OpenMP runtime, so both share one pool of threads, and no second pool spins against it. */
#include <omp.h>

#include "base/base.h"

/* The threads of OpenMP that this thread has started, itself included. */
static _Thread_local int team = 1;

static void start_team(void *user)
{
    const int *threads = user;
#pragma omp parallel num_threads(*threads)
    {
#pragma omp barrier
    }
}

/* OpenMP exits if the system gives no thread, so it is asked before. The runtime of GCC ends
 * threads that a smaller region leaves idle and starts others later, which may overlap: hence twice
 * the number. */
static weft_status find_team(int threads)
{
    if (threads <= team) return WEFT_OK;
    WEFT_TRY(weft_threads_start("computations", 2 * (threads - team), start_team, &threads));
    team = threads;
    return WEFT_OK;
}

void weft_parallel(int threads, int64_t count, int64_t grain,
                   void (*fn)(void *user, int64_t begin, int64_t end), void *user)
{
    int64_t parts = WEFT_MIN((int64_t)threads, count / WEFT_MAX(grain, (int64_t)1));
    if (parts < 2 || find_team((int)parts) != WEFT_OK) {
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

int weft_parallel_current(void)
{
    return omp_get_max_threads();
}

weft_status weft_parallel_threads(int threads)
{
    WEFT_TRY(find_team(threads));
    if (omp_get_max_threads() != threads) omp_set_num_threads(threads);
    return WEFT_OK;
}
