/* Makes a batch queue whose batches wait at a gate until the test lets them go on. */
#ifndef WEFT_TESTS_BATCH_GATE_H
#define WEFT_TESTS_BATCH_GATE_H

#include <pthread.h>
#include <time.h>

#include "base/base.h"
#include "one_context.h"
#include "support.h"

static inline void nap(double seconds)
{
    struct timespec t = {.tv_nsec = (long)(seconds * 1e9)};
    nanosleep(&t, NULL);
}

typedef struct gate {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int begun, let; /* batches that have begun; batches that may end */
    int64_t rows[64];
    int first[64]; /* number of the first request of each batch */
} gate;

typedef struct asked {
    int number, answered;
    weft_status status;
    bool bad;
    double slowly; /* seconds that its callback takes */
} asked;

static inline weft_status pass(void *user, int executor, void *const *requests, int n, int64_t rows)
{
    gate *g = user;
    (void)executor;
    pthread_mutex_lock(&g->lock);
    int batch = g->begun++;
    g->rows[batch % 64] = rows;
    g->first[batch % 64] = ((asked *)requests[0])->number;
    pthread_cond_broadcast(&g->changed);
    while (g->let <= batch) pthread_cond_wait(&g->changed, &g->lock);
    pthread_mutex_unlock(&g->lock);
    for (int i = 0; i < n; i++)
        if (((asked *)requests[i])->bad) return weft_fail(WEFT_ERR_NUMERIC, "this one is bad");
    return WEFT_OK;
}

static inline void let(gate *g, int batches)
{
    pthread_mutex_lock(&g->lock);
    g->let = batches;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->lock);
}

static inline void until_begun(gate *g, int batches)
{
    pthread_mutex_lock(&g->lock);
    while (g->begun < batches) pthread_cond_wait(&g->changed, &g->lock);
    pthread_mutex_unlock(&g->lock);
}

static inline void told(void *user, const weft_request_result *a)
{
    asked *r = user;
    r->status = a->status;
    if (r->slowly > 0) nap(r->slowly);
    __atomic_add_fetch(&r->answered, 1, __ATOMIC_SEQ_CST);
}

static inline void until_answered(const asked *r)
{
    while (__atomic_load_n(&r->answered, __ATOMIC_SEQ_CST) == 0) nap(1e-4);
}

static inline void open_gate(gate *g, const char *policy, int64_t limit, weft_batcher **batcher,
                             weft_batch_queue **queue)
{
    weft_batcher_options bo;
    weft_batch_queue_options lo;
    *g = (gate){.begun = 0};
    pthread_mutex_init(&g->lock, NULL);
    pthread_cond_init(&g->changed, NULL);
    weft_batcher_options_init(&bo);
    assert_ok(weft_batcher_create(context, &bo, batcher));
    weft_batch_queue_options_init(&lo);
    lo.run = pass;
    lo.user = g;
    lo.policy = policy;
    lo.limit = limit;
    lo.run_in_caller = true;
    assert_ok(weft_batch_queue_add(*batcher, &lo, queue));
}

static inline void close_gate(gate *g, weft_batcher **batcher)
{
    weft_batcher_destroy(batcher);
    pthread_cond_destroy(&g->changed);
    pthread_mutex_destroy(&g->lock);
}

static inline void submit(weft_batch_queue *queue, asked *r, int priority, uint64_t like,
                          double patience)
{
    weft_request request;
    weft_request_init(&request);
    request.priority = priority;
    request.batch_key = like;
    request.queue_timeout = patience;
    request.user = r;
    request.done = told;
    assert_ok(weft_batch_queue_submit(queue, &request, NULL));
}

#endif
