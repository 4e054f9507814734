#include "train/sim/thread_pool.h"

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

static void *run_tasks(void *user)
{
    worker *w = user;
    weft_thread_pool *pool = w->pool;
    pthread_mutex_lock(&pool->lock);
    for (;;) {
        while (pool->count == 0 && !pool->closing) pthread_cond_wait(&pool->changed, &pool->lock);
        if (pool->closing) break;
        int number = pool->waiting[pool->first];
        pool->first = (pool->first + 1) % pool->job_count;
        pool->count--;
        pthread_mutex_unlock(&pool->lock);
        weft_error error = {0};
        weft_error_catch(&error, pool->fn(pool->user, w->number, number));
        pthread_mutex_lock(&pool->lock);
        pool->jobs[number].error = error;
        pool->jobs[number].ended = true;
        pthread_cond_broadcast(&pool->changed);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

void weft_thread_pool_submit(weft_thread_pool *pool, int job)
{
    pthread_mutex_lock(&pool->lock);
    pool->jobs[job].given = true;
    pool->jobs[job].ended = false;
    pool->waiting[(pool->first + pool->count++) % pool->job_count] = job;
    pthread_cond_broadcast(&pool->changed);
    pthread_mutex_unlock(&pool->lock);
}

weft_status weft_thread_pool_wait(weft_thread_pool *pool, int job)
{
    task *t = &pool->jobs[job];
    if (!t->given) return WEFT_OK;
    pthread_mutex_lock(&pool->lock);
    while (!t->ended) pthread_cond_wait(&pool->changed, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
    t->given = false;
    return weft_error_raise(&t->error);
}

void weft_thread_pool_close(weft_thread_pool **out)
{
    if (!out || !*out) return;
    weft_thread_pool *pool = *out;
    pthread_mutex_lock(&pool->lock);
    pool->closing = true;
    pthread_cond_broadcast(&pool->changed);
    pthread_mutex_unlock(&pool->lock);
    for (int i = 0; i < pool->worker_count; i++) pthread_join(pool->workers[i].thread, NULL);
    pthread_mutex_destroy(&pool->lock);
    pthread_cond_destroy(&pool->changed);
    free(pool->workers);
    free(pool->waiting);
    free(pool->jobs);
    free(pool);
    *out = NULL;
}

static weft_status start(weft_thread_pool *pool, int workers)
{
    WEFT_TRY(WEFT_NEW(&pool->jobs, pool->job_count));
    WEFT_TRY(WEFT_NEW(&pool->waiting, pool->job_count));
    WEFT_TRY(WEFT_NEW(&pool->workers, workers));
    for (; pool->worker_count < workers; pool->worker_count++) {
        worker *w = &pool->workers[pool->worker_count];
        *w = (worker){.pool = pool, .number = pool->worker_count};
        WEFT_TRY(weft_thread_start(&w->thread, run_tasks, w));
    }
    return WEFT_OK;
}

weft_status weft_thread_pool_open(int workers, int jobs, weft_thread_pool_fn fn, void *user,
                                  weft_thread_pool **out)
{
    weft_thread_pool *pool;
    WEFT_TRY(WEFT_NEW(&pool, 1));
    pool->fn = fn;
    pool->user = user;
    pool->job_count = jobs;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->changed, NULL);
    weft_status status = start(pool, workers);
    if (status == WEFT_OK)
        *out = pool;
    else
        weft_thread_pool_close(&pool);
    return status;
}
