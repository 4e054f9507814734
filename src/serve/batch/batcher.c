/* The batcher: runs the dispatch in real time. Callers add queues, and submit and cancel requests.
 * Each executor thread takes the next due batch and
 * computes it. A caller thread may compute batches in the place of an idle executor
 * (weft_batcher_run_due). One lock guards the dispatch; no batch is computed and no request is
 * answered under it. */
#include <errno.h>
#include <math.h>
#include <sys/prctl.h>
#include <time.h>

#include "serve/batch/batcher_internal.h"

void weft_batcher_options_init_size(weft_batcher_options *options, size_t size)
{
    const weft_batcher_options ours = {.struct_size = sizeof(weft_batcher_options), .executors = 1};
    weft_give_struct(options, size, &ours, sizeof(ours));
}

void weft_batch_queue_options_init_size(weft_batch_queue_options *options, size_t size)
{
    const weft_batch_queue_options ours = {.struct_size = sizeof(weft_batch_queue_options),
                                           .policy = "adaptive",
                                           .limit = 64,
                                           .max_waiting = 4096,
                                           .share = 1};
    weft_give_struct(options, size, &ours, sizeof(ours));
}

void weft_request_init_size(weft_request *request, size_t size)
{
    const weft_request ours = {.struct_size = sizeof(weft_request), .rows = 1};
    weft_give_struct(request, size, &ours, sizeof(ours));
}

void weft_batcher_wait(weft_batcher *b, pthread_cond_t *cond, double when)
{
    if (isinf(when)) {
        pthread_cond_wait(cond, &b->lock);
        return;
    }
    struct timespec at = {.tv_sec = (time_t)when, .tv_nsec = (long)((when - floor(when)) * 1e9)};
    pthread_cond_timedwait(cond, &b->lock, &at);
}

/* --- answers; called without the lock --- */

void weft_batcher_answer(weft_dequeued_request *dequeued, weft_status status, const char *message,
                         double queued, double computed, int64_t rows)
{
    bool failed = false;
    weft_request_result a = {.status = status,
                             .message = message,
                             .queue_seconds = queued,
                             .compute_seconds = computed,
                             .rows = rows,
                             .failed = status == WEFT_OK ? &failed : NULL};
    if (dequeued->request.done) dequeued->request.done(dequeued->request.user, &a);
    dequeued->failed = status != WEFT_OK || failed;
}

/* Runs each request of a failed batch alone, so that only requests that fail alone are answered
 * with a failure. */
static void compute_one_by_one(weft_batch_queue *queue, weft_batch_job *batch)
{
    batch->one_by_one = true;
    for (int i = 0; i < batch->count; i++) {
        weft_dequeued_request *t = &batch->requests[i];
        weft_error error = {0};
        t->status = queue->options.run(queue->options.user, batch->executor, &batch->users[i], 1,
                                       t->request.rows);
        t->ended = weft_seconds();
        weft_error_catch(&error, t->status);
        weft_batcher_answer(t, t->status, error.message, batch->began - t->arrived,
                            t->ended - batch->began, t->request.rows);
    }
}

static void compute(weft_batch_job *batch)
{
    weft_batch_queue *queue = batch->queue;
    weft_error error = {0};
    weft_status status = queue->options.run(queue->options.user, batch->executor, batch->users,
                                            batch->count, batch->rows);
    double ended = weft_seconds();
    if (status != WEFT_OK && batch->count > 1) {
        compute_one_by_one(queue, batch);
        return;
    }
    weft_error_catch(&error, status);
    for (int i = 0; i < batch->count; i++) {
        weft_dequeued_request *t = &batch->requests[i];
        t->status = status;
        t->ended = ended;
        weft_batcher_answer(t, status, error.message, batch->began - t->arrived,
                            ended - batch->began, batch->rows);
    }
}

/* --- the caller holds the lock --- */

void weft_batcher_wake(weft_batcher *b)
{
    for (int e = 0; e < b->dispatch.executors; e++) {
        if (b->executors[e].state != WEFT_EXECUTOR_IDLE) continue;
        pthread_cond_signal(&b->executors[e].wake);
        return;
    }
}

/* Computes a batch and ends it in the dispatch. Releases the lock meanwhile. */
static void run_batch(weft_batcher *b, weft_batch_job *batch)
{
    weft_batch_queue *queue = batch->queue;
    pthread_mutex_unlock(&b->lock);
    compute(batch);
    double now = weft_seconds();
    pthread_mutex_lock(&b->lock);
    weft_dispatch_end(&b->dispatch, batch, now);
    const weft_policy *p = queue->policy;
    if (p->ops->wants_search && !b->search.policy && p->ops->wants_search(queue->policy, now))
        weft_maintenance_wake_at(b, b->search.next_at);
    if (queue->ending) pthread_cond_broadcast(&b->ended);
}

static void *execute(void *user)
{
    weft_executor *e = user;
    weft_batcher *b = e->batcher;
    (void)prctl(PR_SET_TIMERSLACK, 1UL, 0, 0, 0); /* so that timed waits end within microseconds */
    if (b->options.begin) b->options.begin(b->options.user, e->index);
    pthread_mutex_lock(&b->lock);
    for (;;) {
        double when = INFINITY;
        weft_batch_job *batch = NULL;
        /* Answering late requests releases the lock, and a caller thread may take this executor's
         * place meanwhile. So the state is checked again. */
        if (e->state == WEFT_EXECUTOR_IDLE) (void)weft_maintenance_expire(b);
        if (e->state == WEFT_EXECUTOR_IDLE)
            batch = weft_dispatch_next(&b->dispatch, e->index, weft_seconds(), false, &when);
        if (batch) {
            e->state = WEFT_EXECUTOR_BUSY;
            /* Wakes another executor for the requests that are still queued. */
            if (weft_dispatch_has_requests(&b->dispatch)) weft_batcher_wake(b);
            run_batch(b, batch);
            e->state = WEFT_EXECUTOR_IDLE;
        } else if (b->ending) {
            break;
        } else {
            weft_batcher_wait(b, &e->wake, when);
            double now = weft_seconds();
            if (now > when) weft_dispatch_timer_fired(&b->dispatch, when, now);
        }
    }
    pthread_mutex_unlock(&b->lock);
    if (b->options.end) b->options.end(b->options.user, e->index);
    return NULL;
}

/* Computes due batches in the calling thread, in the place of an idle executor, until none is due
 * or the time `until` is reached. Returns their number. */
static int compute_for(weft_batcher *b, weft_executor *executor, double until)
{
    int computed = 0;
    executor->state = WEFT_EXECUTOR_IN_CALLER;
    for (;; computed++) {
        double ignored, now = weft_seconds();
        if (now >= until) break;
        (void)weft_maintenance_expire(b);
        weft_batch_job *batch =
            weft_dispatch_next(&b->dispatch, executor->index, now, true, &ignored);
        if (!batch) break;
        /* Wakes another executor for the requests that this thread does not take. */
        if (weft_dispatch_has_requests(&b->dispatch)) weft_batcher_wake(b);
        run_batch(b, batch);
    }
    executor->state = WEFT_EXECUTOR_IDLE;
    return computed;
}

int weft_batcher_run_due(weft_batcher *b, double seconds)
{
    WEFT_NEED_ELSE_AS(0, "batcher", b);
    int computed = 0;
    weft_executor *executor = NULL;
    double until = weft_seconds() + seconds;
    pthread_mutex_lock(&b->lock);
    for (int e = 0; e < b->dispatch.executors && !executor && seconds > 0; e++)
        if (b->executors[e].state == WEFT_EXECUTOR_IDLE) executor = &b->executors[e];
    if (executor) computed = compute_for(b, executor, until);
    if (weft_dispatch_has_requests(&b->dispatch)) weft_batcher_wake(b);
    pthread_mutex_unlock(&b->lock);
    return computed;
}

/* --- creation and shutdown --- */

static weft_status start(weft_batcher *b)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&b->maintenance_wake, &monotonic);
    pthread_cond_init(&b->ended, &monotonic);
    for (int e = 0; e < b->dispatch.executors; e++) {
        b->executors[e] = (weft_executor){.batcher = b, .index = e};
        pthread_cond_init(&b->executors[e].wake, &monotonic);
    }
    pthread_condattr_destroy(&monotonic);
    for (int e = 0; e < b->dispatch.executors; e++) {
        WEFT_TRY(weft_thread_start(&b->executors[e].thread, execute, &b->executors[e]));
        b->executors[e].started = true;
    }
    return weft_maintenance_start(b);
}

weft_status weft_batcher_create(weft_context *context, const weft_batcher_options *options,
                                weft_batcher **out)
{
    WEFT_NEED(context, options, out);
    weft_batcher *b;
    weft_batcher_options own;
    weft_batcher_options_init(&own);
    WEFT_TAKE(weft_batcher_options, options, executors, &own);
    if (own.executors < 1 || own.executors > 64)
        return weft_fail(WEFT_ERR_ARGUMENT, "a batcher of %d executors, must be from 1 to 64",
                         own.executors);
    WEFT_TRY(WEFT_NEW(&b, 1));
    weft_status status = WEFT_NEW(&b->executors, own.executors);
    if (status != WEFT_OK) {
        free(b);
        return status;
    }
    b->context = context;
    b->options = own;
    b->dispatch.executors = own.executors;
    pthread_mutex_init(&b->lock, NULL);
    sem_init(&b->search.requested, 0, 0);
    status = start(b);
    if (status != WEFT_OK) weft_batcher_destroy(&b);
    *out = b;
    return status;
}

void weft_batcher_destroy(weft_batcher **batcher)
{
    if (!batcher || !*batcher) return;
    weft_batcher *b = *batcher;
    while (b->dispatch.count > 0) {
        weft_batch_queue *queue = b->dispatch.queues[0];
        weft_batch_queue_remove(&queue, false);
    }
    pthread_mutex_lock(&b->lock);
    b->ending = true;
    for (int e = 0; e < b->dispatch.executors; e++) pthread_cond_broadcast(&b->executors[e].wake);
    pthread_mutex_unlock(&b->lock);
    for (int e = 0; e < b->dispatch.executors; e++) {
        if (b->executors[e].started) pthread_join(b->executors[e].thread, NULL);
        pthread_cond_destroy(&b->executors[e].wake);
    }
    weft_maintenance_stop(b);
    pthread_cond_destroy(&b->maintenance_wake);
    pthread_cond_destroy(&b->ended);
    pthread_mutex_destroy(&b->lock);
    free(b->dispatch.queues);
    free(b->executors);
    free(b);
    *batcher = NULL;
}

weft_status weft_batch_queue_add(weft_batcher *b, const weft_batch_queue_options *options,
                                 weft_batch_queue **out)
{
    WEFT_NEED_AS("batcher, options, out", b, options, out);
    weft_batch_queue_options own;
    weft_batch_queue_options_init(&own);
    WEFT_TAKE(weft_batch_queue_options, options, run, &own);
    if (!own.run)
        return weft_fail(WEFT_ERR_ARGUMENT, "a queue has no function that computes its batches");
    pthread_mutex_lock(&b->lock);
    weft_status status = weft_dispatch_add(&b->dispatch, b->context, &own, out);
    if (status == WEFT_OK) (*out)->batcher = b;
    pthread_mutex_unlock(&b->lock);
    return status;
}

/* Refuses all requests in the queue with BUSY; releases the lock for each answer. */
static void refuse(weft_batcher *b, weft_batch_queue *queue)
{
    while (queue->requests.count > 0) {
        int slot = weft_request_queue_first(&queue->requests);
        const weft_queued_request *w = &queue->requests.slots[slot];
        weft_dequeued_request dequeued = {.request = w->request, .arrived = w->arrived};
        weft_request_queue_remove(&queue->requests, slot);
        queue->stats.refused++;
        pthread_mutex_unlock(&b->lock);
        weft_batcher_answer(&dequeued, WEFT_ERR_BUSY, "the model has been taken out of service",
                            weft_seconds() - dequeued.arrived, 0, 0);
        pthread_mutex_lock(&b->lock);
    }
}

void weft_batch_queue_remove(weft_batch_queue **queue, bool finish)
{
    if (!queue || !*queue) return;
    weft_batcher *b = (*queue)->batcher;
    pthread_mutex_lock(&b->lock);
    (*queue)->ending = true;
    if (!finish) refuse(b, *queue);
    weft_batcher_wake(b);
    while ((*queue)->requests.count > 0 || (*queue)->running > 0 || (*queue)->expiring > 0)
        pthread_cond_wait(&b->ended, &b->lock);
    weft_maintenance_detach(b, *queue);
    weft_dispatch_remove(&b->dispatch, queue);
    pthread_mutex_unlock(&b->lock);
}

weft_status weft_batch_queue_submit(weft_batch_queue *queue, const weft_request *request,
                                    uint64_t *ticket)
{
    WEFT_NEED(queue, request);
    weft_batcher *b = queue->batcher;
    weft_request own;
    weft_request_init(&own);
    WEFT_TAKE(weft_request, request, done, &own);
    if (!own.done) return weft_fail(WEFT_ERR_ARGUMENT, "a request needs a function `done`");
    pthread_mutex_lock(&b->lock);
    bool look = false;
    double now = weft_seconds();
    weft_status status = weft_dispatch_put(queue, &own, now, &look, ticket);
    /* An executor in a timed wait must learn that a batch may be due earlier. A sender with no_wake
     * looks for due batches itself (weft_batcher_run_due). */
    if (look && !own.no_wake) weft_batcher_wake(b);
    if (status == WEFT_OK && own.queue_timeout > 0)
        weft_maintenance_wake_at(b, now + own.queue_timeout);
    pthread_mutex_unlock(&b->lock);
    return status;
}

bool weft_batch_queue_cancel(weft_batch_queue *queue, uint64_t ticket)
{
    void *user;
    return weft_batch_queue_withdraw(queue, ticket, &user);
}

bool weft_batch_queue_withdraw(weft_batch_queue *queue, uint64_t ticket, void **user)
{
    WEFT_NEED_ELSE(false, queue);
    pthread_mutex_lock(&queue->batcher->lock);
    int slot = weft_request_queue_find(&queue->requests, ticket);
    if (slot >= 0) {
        *user = queue->requests.slots[slot].request.user;
        weft_request_queue_remove(&queue->requests, slot);
        queue->stats.cancelled++;
        if (queue->ending) pthread_cond_broadcast(&queue->batcher->ended);
    }
    pthread_mutex_unlock(&queue->batcher->lock);
    return slot >= 0;
}

void weft_batch_queue_count(weft_batch_queue *queue, bool refused)
{
    WEFT_NEED_VOID(queue);
    pthread_mutex_lock(&queue->batcher->lock);
    queue->stats.refused += refused;
    queue->stats.cancelled += !refused;
    pthread_mutex_unlock(&queue->batcher->lock);
}

void weft_batch_queue_describe(weft_batch_queue *queue, weft_batch_queue_stats *out)
{
    WEFT_NEED_VOID(queue, out);
    pthread_mutex_lock(&queue->batcher->lock);
    const weft_policy *p = queue->policy;
    *out = queue->stats;
    out->waiting = queue->requests.count;
    out->waiting_rows = queue->requests.rows;
    out->running = queue->running;
    out->max_delay = p->setting.max_delay;
    out->min_rows = p->setting.min_rows;
    out->max_rows = p->setting.max_rows;
    if (p->ops->describe) p->ops->describe(p, out);
    pthread_mutex_unlock(&queue->batcher->lock);
}

double weft_batch_queue_batch_time(weft_batch_queue *queue, int64_t rows, int busy)
{
    WEFT_NEED_ELSE(0, queue);
    if (rows < 1 || busy < 1) return 0;
    pthread_mutex_lock(&queue->batcher->lock);
    const weft_curve *c = &queue->curve;
    double time = weft_curve_time(c, (double)rows);
    if (busy > 1) time *= c->slowdown[WEFT_MIN(busy, c->executors) - 1];
    pthread_mutex_unlock(&queue->batcher->lock);
    return time;
}
