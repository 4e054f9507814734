/* Drives the dispatch in real time with executor threads, and with caller threads that take the
 * place of an idle executor. */
#include <errno.h>
#include <math.h>
#include <sys/prctl.h>
#include <time.h>

#include "serve/batch/batcher_internal.h"

void weft_batcher_options_init(weft_batcher_options *options)
{
    *options = (weft_batcher_options){.struct_size = sizeof(*options), .executors = 1};
}

void weft_line_options_init(weft_line_options *options)
{
    *options = (weft_line_options){.struct_size = sizeof(*options),
                                   .policy = "adaptive",
                                   .limit = 64,
                                   .waiting = 4096,
                                   .share = 1};
}

void weft_request_init(weft_request *request)
{
    *request = (weft_request){.struct_size = sizeof(*request), .rows = 1};
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

void weft_batcher_answer(const weft_taken *taken, weft_status status, const char *message,
                         double queued, double computed, int64_t rows)
{
    weft_answered a = {
        .status = status, .message = message, .queued = queued, .computed = computed, .rows = rows};
    if (taken->request.done) taken->request.done(taken->request.user, &a);
}

/* Runs each request of a failed batch alone, so that a bad request fails no other one. */
static void compute_apart(weft_line *line, weft_job *job)
{
    job->apart = true;
    for (int i = 0; i < job->count; i++) {
        weft_taken *t = &job->taken[i];
        weft_error error = {0};
        t->status = line->options.run(line->options.user, job->executor, &job->users[i], 1,
                                      t->request.rows);
        t->ended = weft_seconds();
        weft_error_catch(&error, t->status);
        weft_batcher_answer(t, t->status, error.message, job->began - t->came,
                            t->ended - job->began, t->request.rows);
    }
}

static void compute(weft_job *job)
{
    weft_line *line = job->line;
    weft_error error = {0};
    weft_status status =
        line->options.run(line->options.user, job->executor, job->users, job->count, job->rows);
    double ended = weft_seconds();
    if (status != WEFT_OK && job->count > 1) {
        compute_apart(line, job);
        return;
    }
    weft_error_catch(&error, status);
    for (int i = 0; i < job->count; i++) {
        weft_taken *t = &job->taken[i];
        t->status = status;
        t->ended = ended;
        weft_batcher_answer(t, status, error.message, job->began - t->came, ended - job->began,
                            job->rows);
    }
}

/* --- with the lock --- */

void weft_batcher_wake(weft_batcher *b)
{
    for (int e = 0; e < b->dispatch.executors; e++) {
        if (b->executors[e].state != WEFT_EXECUTOR_IDLE) continue;
        pthread_cond_signal(&b->executors[e].wake);
        return;
    }
}

/* Releases the lock while the batch is computed. */
static void do_job(weft_batcher *b, weft_job *job)
{
    weft_line *line = job->line;
    pthread_mutex_unlock(&b->lock);
    compute(job);
    double now = weft_seconds();
    pthread_mutex_lock(&b->lock);
    weft_dispatch_end(&b->dispatch, job, now);
    const weft_policy *p = line->policy;
    if (p->ops->wants && !b->mind.policy && p->ops->wants(line->policy, now))
        weft_keeper_mind(b, b->mind.rested);
    if (line->ending) pthread_cond_broadcast(&b->ended);
}

static void *execute(void *user)
{
    weft_executor *e = user;
    weft_batcher *b = e->batcher;
    (void)prctl(PR_SET_TIMERSLACK, 1UL, 0, 0, 0); /* so that timed waits end on time */
    if (b->options.begin) b->options.begin(b->options.user, e->index);
    pthread_mutex_lock(&b->lock);
    for (;;) {
        double when = INFINITY;
        weft_job *job = NULL;
        /* While expired requests are answered the lock is released, so a caller may take this
         * executor's place. */
        if (e->state == WEFT_EXECUTOR_IDLE) (void)weft_keeper_tell_late(b);
        if (e->state == WEFT_EXECUTOR_IDLE)
            job = weft_dispatch_next(&b->dispatch, e->index, weft_seconds(), false, &when);
        if (job) {
            e->state = WEFT_EXECUTOR_BUSY;
            /* Another executor takes the remaining requests. */
            if (weft_dispatch_waits(&b->dispatch)) weft_batcher_wake(b);
            do_job(b, job);
            e->state = WEFT_EXECUTOR_IDLE;
        } else if (b->ending) {
            break;
        } else {
            weft_batcher_wait(b, &e->wake, when);
            double now = weft_seconds();
            if (now > when) weft_dispatch_woke(&b->dispatch, when, now);
        }
    }
    pthread_mutex_unlock(&b->lock);
    if (b->options.end) b->options.end(b->options.user, e->index);
    return NULL;
}

/* Computes due batches in the place of an idle executor. */
static int compute_for(weft_batcher *b, weft_executor *place, double until)
{
    int computed = 0;
    place->state = WEFT_EXECUTOR_LENT;
    for (;; computed++) {
        double ignored, now = weft_seconds();
        if (now >= until) break;
        (void)weft_keeper_tell_late(b);
        weft_job *job = weft_dispatch_next(&b->dispatch, place->index, now, true, &ignored);
        if (!job) break;
        do_job(b, job);
    }
    place->state = WEFT_EXECUTOR_IDLE;
    return computed;
}

int weft_batcher_lend(weft_batcher *b, double seconds)
{
    int computed = 0;
    weft_executor *place = NULL;
    double until = weft_seconds() + seconds;
    pthread_mutex_lock(&b->lock);
    for (int e = 0; e < b->dispatch.executors && !place && seconds > 0; e++)
        if (b->executors[e].state == WEFT_EXECUTOR_IDLE) place = &b->executors[e];
    if (place) computed = compute_for(b, place, until);
    if (weft_dispatch_waits(&b->dispatch)) weft_batcher_wake(b);
    pthread_mutex_unlock(&b->lock);
    return computed;
}

/* --- creation and shutdown --- */

static weft_status start(weft_batcher *b)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&b->keep, &monotonic);
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
    return weft_keeper_start(b);
}

weft_status weft_batcher_create(weft_context *context, const weft_batcher_options *options,
                                weft_batcher **out)
{
    weft_batcher *b;
    if (options->struct_size != sizeof(*options) || options->executors < 1 ||
        options->executors > 64)
        return weft_fail(WEFT_ERR_ARGUMENT, "a batcher of %d executors, must be from 1 to 64",
                         options->executors);
    WEFT_TRY(WEFT_NEW(&b, 1));
    weft_status status = WEFT_NEW(&b->executors, options->executors);
    if (status != WEFT_OK) {
        free(b);
        return status;
    }
    b->context = context;
    b->options = *options;
    b->dispatch.executors = options->executors;
    pthread_mutex_init(&b->lock, NULL);
    sem_init(&b->mind.asked, 0, 0);
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
        weft_line *line = b->dispatch.lines[0];
        weft_line_remove(&line, false);
    }
    pthread_mutex_lock(&b->lock);
    b->ending = true;
    for (int e = 0; e < b->dispatch.executors; e++) pthread_cond_broadcast(&b->executors[e].wake);
    pthread_mutex_unlock(&b->lock);
    for (int e = 0; e < b->dispatch.executors; e++) {
        if (b->executors[e].started) pthread_join(b->executors[e].thread, NULL);
        pthread_cond_destroy(&b->executors[e].wake);
    }
    weft_keeper_end(b);
    pthread_cond_destroy(&b->keep);
    pthread_cond_destroy(&b->ended);
    pthread_mutex_destroy(&b->lock);
    free(b->dispatch.lines);
    free(b->executors);
    free(b);
    *batcher = NULL;
}

weft_status weft_line_add(weft_batcher *b, const weft_line_options *options, weft_line **out)
{
    if (!options->run)
        return weft_fail(WEFT_ERR_ARGUMENT, "a line has no function that computes its batches");
    pthread_mutex_lock(&b->lock);
    weft_status status = weft_dispatch_add(&b->dispatch, b->context, options, out);
    if (status == WEFT_OK) (*out)->batcher = b;
    pthread_mutex_unlock(&b->lock);
    return status;
}

/* Refuses all requests in the queue; releases the lock for each answer. */
static void refuse(weft_batcher *b, weft_line *line)
{
    while (line->queue.count > 0) {
        int slot = weft_queue_any(&line->queue);
        const weft_waiting *w = &line->queue.slots[slot];
        weft_taken taken = {.request = w->request, .came = w->came};
        weft_queue_drop(&line->queue, slot);
        line->stats.refused++;
        pthread_mutex_unlock(&b->lock);
        weft_batcher_answer(&taken, WEFT_ERR_BUSY, "the model has been taken out of service",
                            weft_seconds() - taken.came, 0, 0);
        pthread_mutex_lock(&b->lock);
    }
}

void weft_line_remove(weft_line **line, bool finish)
{
    if (!line || !*line) return;
    weft_batcher *b = (*line)->batcher;
    pthread_mutex_lock(&b->lock);
    (*line)->ending = true;
    if (!finish) refuse(b, *line);
    weft_batcher_wake(b);
    while ((*line)->queue.count > 0 || (*line)->running > 0 || (*line)->telling > 0)
        pthread_cond_wait(&b->ended, &b->lock);
    weft_keeper_leave(b, *line);
    weft_dispatch_remove(&b->dispatch, line);
    pthread_mutex_unlock(&b->lock);
}

weft_status weft_line_submit(weft_line *line, const weft_request *request, uint64_t *ticket)
{
    weft_batcher *b = line->batcher;
    pthread_mutex_lock(&b->lock);
    bool look = false;
    double now = weft_seconds();
    weft_status status = weft_dispatch_put(line, request, now, &look, ticket);
    /* A thread in a timed wait must learn of an earlier deadline; the sender of a quiet request
     * looks for itself. */
    if (look && !request->quiet) weft_batcher_wake(b);
    if (status == WEFT_OK && request->patience > 0) weft_keeper_mind(b, now + request->patience);
    pthread_mutex_unlock(&b->lock);
    return status;
}

bool weft_line_cancel(weft_line *line, uint64_t ticket)
{
    pthread_mutex_lock(&line->batcher->lock);
    int slot = weft_queue_find(&line->queue, ticket);
    if (slot >= 0) {
        weft_queue_drop(&line->queue, slot);
        line->stats.cancelled++;
        if (line->ending) pthread_cond_broadcast(&line->batcher->ended);
    }
    pthread_mutex_unlock(&line->batcher->lock);
    return slot >= 0;
}

void weft_line_describe(weft_line *line, weft_line_stats *out)
{
    pthread_mutex_lock(&line->batcher->lock);
    const weft_policy *p = line->policy;
    *out = line->stats;
    out->waiting = line->queue.count;
    out->waiting_rows = line->queue.rows;
    out->running = line->running;
    out->wait = p->now.wait;
    out->need = p->now.need;
    out->limit = p->now.limit;
    if (p->ops->describe) p->ops->describe(p, out);
    pthread_mutex_unlock(&line->batcher->lock);
}

double weft_line_time(weft_line *line, int64_t rows, int busy)
{
    pthread_mutex_lock(&line->batcher->lock);
    const weft_curve *c = &line->curve;
    double time = weft_curve_time(c, (double)rows);
    if (busy > 1) time *= c->slower[WEFT_MIN(busy, c->executors) - 1];
    pthread_mutex_unlock(&line->batcher->lock);
    return time;
}
