/* Threads that compute what virtual time waits for. */
#ifndef WEFT_BASE_THREAD_POOL_H
#define WEFT_BASE_THREAD_POOL_H

#include "base/base.h"

typedef struct weft_thread_pool weft_thread_pool;
/* Does job number `job`, in thread number `worker`. */
typedef weft_status (*weft_thread_pool_fn)(void *user, int worker, int job);

weft_status weft_thread_pool_open(int workers, int jobs, weft_thread_pool_fn fn, void *user,
                                  weft_thread_pool **out) WEFT_NODISCARD;
/* Lets those that were begun come to their end. */
void weft_thread_pool_close(weft_thread_pool **pool);

/* Begins a job (0 to jobs - 1), when a thread has time for it. Those that are given wait in the
 * order in which they came; each has been waited for before it is given again. */
void weft_thread_pool_submit(weft_thread_pool *pool, int job);
/* Until it has ended, and as it has; OK where it was not given. */
weft_status weft_thread_pool_wait(weft_thread_pool *pool, int job) WEFT_NODISCARD;

#endif
