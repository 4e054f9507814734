/* The batcher's timed events: requests that pass their deadline while all executors are busy, and
 * policies that want to search for a better setting. */
#include <math.h>
#include <sched.h>
#include <time.h>

#include "serve/batch/batcher_internal.h"

/* A search is followed by a rest of so many times its CPU time; one in progress is polled at this
 * interval, in seconds. */
static const double RESTS = 50, ASKS = 5e-3;

/* --- the search thread: nothing here takes the lock --- */

static double thread_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void *think(void *user)
{
    weft_mind *m = user;
    struct sched_param lowest = {0};
    (void)pthread_setschedparam(pthread_self(), SCHED_IDLE, &lowest);
    for (;;) {
        while (sem_wait(&m->asked) != 0) continue;
        if (__atomic_load_n(&m->ending, __ATOMIC_ACQUIRE)) return NULL;
        double before = thread_seconds();
        m->policy->ops->think(m->policy);
        m->took = thread_seconds() - before;
        __atomic_store_n(&m->done, true, __ATOMIC_RELEASE);
    }
}

static weft_line *who_wants(weft_batcher *b, double now)
{
    for (int i = 0; i < b->dispatch.count; i++) {
        weft_line *line = b->dispatch.lines[i];
        weft_policy *p = line->policy;
        if (!line->ending && p->ops->wants && p->ops->wants(p, now)) return line;
    }
    return NULL;
}

static void begin_to_think(weft_batcher *b, weft_line *line, double now)
{
    weft_mind *m = &b->mind;
    line->policy->ops->take(line->policy, now);
    m->policy = line->policy;
    m->line = line;
    __atomic_store_n(&m->done, false, __ATOMIC_RELAXED);
    sem_post(&m->asked);
}

static void end_to_think(weft_batcher *b, double now)
{
    weft_mind *m = &b->mind;
    if (m->line) {
        m->policy->ops->use(m->policy);
        weft_batcher_wake(b); /* a batch may be due under the new setting */
    } else {
        weft_policy_close(&m->policy);
    }
    m->policy = NULL;
    m->line = NULL;
    m->rested = now + RESTS * m->took;
}

/* Starts or ends a search; returns the time of the next look. */
static double see_to_thoughts(weft_batcher *b, double now)
{
    weft_mind *m = &b->mind;
    if (m->policy && __atomic_load_n(&m->done, __ATOMIC_ACQUIRE)) end_to_think(b, now);
    if (m->policy) return now + ASKS;
    if (now < m->rested) return m->rested;
    weft_line *line = who_wants(b, now);
    if (!line) return INFINITY;
    begin_to_think(b, line, now);
    return now + ASKS;
}

/* --- the keeper --- */

double weft_keeper_tell_late(weft_batcher *b)
{
    weft_taken taken;
    weft_line *line;
    double when, now = weft_seconds();
    for (; weft_dispatch_late(&b->dispatch, now, &taken, &line, &when); now = weft_seconds()) {
        line->telling++; /* keeps the line alive until the answer has been given */
        pthread_mutex_unlock(&b->lock);
        weft_batcher_answer(&taken, WEFT_ERR_LATE, "its time was over before it could be computed",
                            now - taken.came, 0, 0);
        pthread_mutex_lock(&b->lock);
        line->telling--;
        if (line->ending) pthread_cond_broadcast(&b->ended);
    }
    return when;
}

void weft_keeper_mind(weft_batcher *b, double when)
{
    if (when >= b->keeper_looks) return;
    b->keeper_looks = when;
    pthread_cond_signal(&b->keep);
}

static void *keep(void *user)
{
    weft_batcher *b = user;
    pthread_mutex_lock(&b->lock);
    while (!b->ending) {
        /* Deadlines that are added while the lock is released lower keeper_looks again. */
        b->keeper_looks = INFINITY;
        double late = weft_keeper_tell_late(b), thoughts = see_to_thoughts(b, weft_seconds());
        b->keeper_looks = WEFT_MIN(b->keeper_looks, WEFT_MIN(late, thoughts));
        if (!b->ending && b->keeper_looks > weft_seconds())
            weft_batcher_wait(b, &b->keep, b->keeper_looks);
    }
    pthread_mutex_unlock(&b->lock);
    return NULL;
}

weft_status weft_keeper_start(weft_batcher *b)
{
    weft_mind *m = &b->mind;
    WEFT_TRY(weft_thread_start(&m->thread, think, m));
    m->started = true;
    WEFT_TRY(weft_thread_start(&b->keeper, keep, b));
    b->keeps = true;
    return WEFT_OK;
}

void weft_keeper_leave(weft_batcher *b, weft_line *line)
{
    if (b->mind.line != line) return;
    b->mind.line = NULL;
    line->policy = NULL;
}

void weft_keeper_end(weft_batcher *b)
{
    weft_mind *m = &b->mind;
    pthread_mutex_lock(&b->lock);
    pthread_cond_signal(&b->keep);
    pthread_mutex_unlock(&b->lock);
    if (b->keeps) pthread_join(b->keeper, NULL);
    if (m->started) {
        __atomic_store_n(&m->ending, true, __ATOMIC_RELEASE);
        sem_post(&m->asked);
        pthread_join(m->thread, NULL);
    }
    sem_destroy(&m->asked);
    weft_policy_close(&m->policy); /* remains if its line was removed during a search */
}
