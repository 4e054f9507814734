/* The maintenance thread of the batcher: answers requests whose deadline passes while all executors
 * are busy, and starts and ends the policies' searches for a better setting, which the search
 * thread runs. */
#include <math.h>
#include <sched.h>
#include <time.h>

#include "serve/batch/batcher_internal.h"

/* After a search, no search starts for REST_FACTOR times its CPU time. A search in progress is
 * checked for its end every POLL_SECONDS. */
static const double REST_FACTOR = 50, POLL_SECONDS = 5e-3;

/* --- the search thread: nothing here takes the lock --- */

static double thread_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void *run_search(void *user)
{
    weft_search_thread *m = user;
    struct sched_param lowest = {0};
    (void)pthread_setschedparam(pthread_self(), SCHED_IDLE, &lowest);
    for (;;) {
        while (sem_wait(&m->requested) != 0) continue;
        if (__atomic_load_n(&m->ending, __ATOMIC_ACQUIRE)) return NULL;
        double before = thread_seconds();
        m->policy->ops->search(m->policy);
        m->cpu_seconds = thread_seconds() - before;
        __atomic_store_n(&m->done, true, __ATOMIC_RELEASE);
    }
}

static weft_batch_queue *find_search(weft_batcher *b, double now)
{
    for (int i = 0; i < b->dispatch.count; i++) {
        weft_batch_queue *queue = b->dispatch.queues[i];
        weft_policy *p = queue->policy;
        if (!queue->ending && p->ops->wants_search && p->ops->wants_search(p, now)) return queue;
    }
    return NULL;
}

static void begin_search(weft_batcher *b, weft_batch_queue *queue, double now)
{
    weft_search_thread *m = &b->search;
    queue->policy->ops->copy_input(queue->policy, now);
    m->policy = queue->policy;
    m->queue = queue;
    __atomic_store_n(&m->done, false, __ATOMIC_RELAXED);
    sem_post(&m->requested);
}

static void end_search(weft_batcher *b, double now)
{
    weft_search_thread *m = &b->search;
    if (m->queue) {
        m->policy->ops->apply(m->policy);
        weft_batcher_wake(b); /* a batch may be due now */
    } else {
        weft_policy_close(&m->policy);
    }
    m->policy = NULL;
    m->queue = NULL;
    m->next_at = now + REST_FACTOR * m->cpu_seconds;
}

/* Ends a search that is done, or starts one that a policy wants. Returns the time of the next
 * check; infinite: not before a policy wants a search. */
static double poll_search(weft_batcher *b, double now)
{
    weft_search_thread *m = &b->search;
    if (m->policy && __atomic_load_n(&m->done, __ATOMIC_ACQUIRE)) end_search(b, now);
    if (m->policy) return now + POLL_SECONDS;
    if (now < m->next_at) return m->next_at;
    weft_batch_queue *queue = find_search(b, now);
    if (!queue) return INFINITY;
    begin_search(b, queue, now);
    return now + POLL_SECONDS;
}

/* --- the maintenance thread --- */

double weft_maintenance_expire(weft_batcher *b)
{
    weft_dequeued_request dequeued;
    weft_batch_queue *queue;
    double when, now = weft_seconds();
    for (; weft_dispatch_expire(&b->dispatch, now, &dequeued, &queue, &when);
         now = weft_seconds()) {
        queue->expiring++; /* the queue stays until this answer is given */
        pthread_mutex_unlock(&b->lock);
        weft_batcher_answer(&dequeued, WEFT_ERR_LATE, "its deadline passed before it was computed",
                            now - dequeued.arrived, 0, 0);
        pthread_mutex_lock(&b->lock);
        queue->expiring--;
        if (queue->ending) pthread_cond_broadcast(&b->ended);
    }
    return when;
}

void weft_maintenance_wake_at(weft_batcher *b, double when)
{
    if (when >= b->next_maintenance) return;
    b->next_maintenance = when;
    pthread_cond_signal(&b->maintenance_wake);
}

static void *maintain(void *user)
{
    weft_batcher *b = user;
    pthread_mutex_lock(&b->lock);
    while (!b->ending) {
        /* weft_maintenance_expire releases the lock. A deadline that is added meanwhile lowers
         * next_maintenance again. */
        b->next_maintenance = INFINITY;
        double deadline = weft_maintenance_expire(b), search = poll_search(b, weft_seconds());
        b->next_maintenance = WEFT_MIN(b->next_maintenance, WEFT_MIN(deadline, search));
        if (!b->ending && b->next_maintenance > weft_seconds())
            weft_batcher_wait(b, &b->maintenance_wake, b->next_maintenance);
    }
    pthread_mutex_unlock(&b->lock);
    return NULL;
}

weft_status weft_maintenance_start(weft_batcher *b)
{
    weft_search_thread *m = &b->search;
    WEFT_TRY(weft_thread_start(&m->thread, run_search, m));
    m->started = true;
    WEFT_TRY(weft_thread_start(&b->maintenance, maintain, b));
    b->maintenance_started = true;
    return WEFT_OK;
}

void weft_maintenance_detach(weft_batcher *b, weft_batch_queue *queue)
{
    if (b->search.queue != queue) return;
    b->search.queue = NULL;
    queue->policy = NULL;
}

void weft_maintenance_stop(weft_batcher *b)
{
    weft_search_thread *m = &b->search;
    pthread_mutex_lock(&b->lock);
    pthread_cond_signal(&b->maintenance_wake);
    pthread_mutex_unlock(&b->lock);
    if (b->maintenance_started) pthread_join(b->maintenance, NULL);
    if (m->started) {
        __atomic_store_n(&m->ending, true, __ATOMIC_RELEASE);
        sem_post(&m->requested);
        pthread_join(m->thread, NULL);
    }
    sem_destroy(&m->requested);
    weft_policy_close(&m->policy); /* of a queue that was removed during its search */
}
