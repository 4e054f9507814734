/* Threads that compute what virtual time waits for. */
#ifndef WEFT_BASE_THREAD_POOL_H
#define WEFT_BASE_THREAD_POOL_H

#include "base/base.h"

typedef struct weft_crew weft_crew;
/* Does job number `job`, in thread number `worker`. */
typedef weft_status (*weft_crew_fn)(void *user, int worker, int job);

weft_status weft_crew_open(int workers, int jobs, weft_crew_fn fn, void *user,
                           weft_crew **out) WEFT_NODISCARD;
/* Lets those that were begun come to their end. */
void weft_crew_close(weft_crew **crew);

/* Begins a job (0 to jobs - 1), when a thread has time for it. Those that are given wait in the
 * order in which they came; each has been waited for before it is given again. */
void weft_crew_give(weft_crew *crew, int job);
/* Until it has ended, and as it has; OK where it was not given. */
weft_status weft_crew_wait(weft_crew *crew, int job) WEFT_NODISCARD;

#endif
