#include "base/thread_pool.h"

#include <pthread.h>

typedef struct task {
    bool given, ended;
    weft_error error;
} task;

typedef struct worker {
    weft_thread_pool *pool;
    int number;
    pthread_t thread;
} worker;

struct weft_thread_pool {
    weft_thread_pool_fn fn;
    void *user;
    task *jobs;
    int job_count;
    int *waiting; /* ring buffer of jobs that no thread has begun */
    int first, count;
    worker *workers;
    int worker_count;
    bool closing;
    pthread_mutex_t lock;
    pthread_cond_t changed;
};

static void *work(void *user)
{
    worker *w = user;
    weft_thread_pool *c = w->pool;
    pthread_mutex_lock(&c->lock);
    for (;;) {
        while (c->count == 0 && !c->closing) pthread_cond_wait(&c->changed, &c->lock);
        if (c->closing) break;
        int number = c->waiting[c->first];
        c->first = (c->first + 1) % c->job_count;
        c->count--;
        pthread_mutex_unlock(&c->lock);
        weft_error error = {0};
        weft_error_catch(&error, c->fn(c->user, w->number, number));
        pthread_mutex_lock(&c->lock);
        c->jobs[number].error = error;
        c->jobs[number].ended = true;
        pthread_cond_broadcast(&c->changed);
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

void weft_thread_pool_submit(weft_thread_pool *c, int job)
{
    pthread_mutex_lock(&c->lock);
    c->jobs[job].given = true;
    c->jobs[job].ended = false;
    c->waiting[(c->first + c->count++) % c->job_count] = job;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
}

weft_status weft_thread_pool_wait(weft_thread_pool *c, int job)
{
    task *t = &c->jobs[job];
    if (!t->given) return WEFT_OK;
    pthread_mutex_lock(&c->lock);
    while (!t->ended) pthread_cond_wait(&c->changed, &c->lock);
    pthread_mutex_unlock(&c->lock);
    t->given = false;
    return weft_error_raise(&t->error);
}

void weft_thread_pool_close(weft_thread_pool **pool)
{
    if (!pool || !*pool) return;
    weft_thread_pool *c = *pool;
    pthread_mutex_lock(&c->lock);
    c->closing = true;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
    for (int i = 0; i < c->worker_count; i++) pthread_join(c->workers[i].thread, NULL);
    pthread_mutex_destroy(&c->lock);
    pthread_cond_destroy(&c->changed);
    free(c->workers);
    free(c->waiting);
    free(c->jobs);
    free(c);
    *pool = NULL;
}

static weft_status start(weft_thread_pool *c, int workers)
{
    WEFT_TRY(WEFT_NEW(&c->jobs, c->job_count));
    WEFT_TRY(WEFT_NEW(&c->waiting, c->job_count));
    WEFT_TRY(WEFT_NEW(&c->workers, workers));
    for (; c->worker_count < workers; c->worker_count++) {
        worker *w = &c->workers[c->worker_count];
        *w = (worker){.pool = c, .number = c->worker_count};
        WEFT_TRY(weft_thread_start(&w->thread, work, w));
    }
    return WEFT_OK;
}

weft_status weft_thread_pool_open(int workers, int jobs, weft_thread_pool_fn fn, void *user,
                                  weft_thread_pool **out)
{
    weft_thread_pool *c;
    WEFT_TRY(WEFT_NEW(&c, 1));
    c->fn = fn;
    c->user = user;
    c->job_count = jobs;
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->changed, NULL);
    weft_status status = start(c, workers);
    if (status == WEFT_OK)
        *out = c;
    else
        weft_thread_pool_close(&c);
    return status;
}
