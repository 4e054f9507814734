/* Declares a thread pool, in which the simulator computes the training steps of its learners. */
#ifndef WEFT_TRAIN_SIM_THREAD_POOL_H
#define WEFT_TRAIN_SIM_THREAD_POOL_H

#include "base/base.h"

typedef struct weft_thread_pool weft_thread_pool;
/* Runs job number `job` in thread number `worker`. */
typedef weft_status (*weft_thread_pool_fn)(void *user, int worker, int job);

/* Starts `workers` threads for jobs that are numbered from 0 to jobs - 1. */
weft_status weft_thread_pool_open(int workers, int jobs, weft_thread_pool_fn fn, void *user,
                                  weft_thread_pool **out) WEFT_NODISCARD;
/* Waits for the jobs in progress, drops the queued ones, and frees the pool. */
void weft_thread_pool_close(weft_thread_pool **out);

/* Queues a job. Jobs begin in the order in which they were queued. The caller must wait for a job
 * before it queues that job again. */
void weft_thread_pool_submit(weft_thread_pool *pool, int job);
/* Waits for a job and returns its status; OK if it was not queued. */
weft_status weft_thread_pool_wait(weft_thread_pool *pool, int job) WEFT_NODISCARD;

#endif
