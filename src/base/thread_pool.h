/* Thread pool that computes the steps of simulated learners. */
#ifndef WEFT_BASE_THREAD_POOL_H
#define WEFT_BASE_THREAD_POOL_H

#include "base/base.h"

typedef struct weft_thread_pool weft_thread_pool;
/* Runs job number `job` in thread number `worker`. */
typedef weft_status (*weft_thread_pool_fn)(void *user, int worker, int job);

weft_status weft_thread_pool_open(int workers, int jobs, weft_thread_pool_fn fn, void *user,
                                  weft_thread_pool **out) WEFT_NODISCARD;
/* Waits for the jobs in progress. */
void weft_thread_pool_close(weft_thread_pool **out);

/* Queues a job (0 to jobs - 1); jobs run in the order of their calls. A job must have been waited
 * for before it is queued again. */
void weft_thread_pool_submit(weft_thread_pool *pool, int job);
/* Waits for a job and returns its status; OK if it was not queued. */
weft_status weft_thread_pool_wait(weft_thread_pool *pool, int job) WEFT_NODISCARD;

#endif
