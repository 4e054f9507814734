/* The dispatch: shares executors between batch queues. Chooses the queue to serve next by weighted
 * fair queueing of executor time, forms the batch as the queue's policy says, and keeps the
 * statistics. */
#include <math.h>

#include "serve/batch/batch_internal.h"

/* The most seconds by which one timed wait counts as late; a longer delay has other causes. */
static const double MOST_SLACK = 1e-3;
/* Longest batch that a thread which submits requests computes itself. */
static const double MOST_CALLER_SECONDS = 2e-3;
enum { SLOWLY = 16 };

static weft_status open_queue(weft_batch_queue *queue, weft_context *context,
                              const weft_batch_queue_options *o, weft_dispatch *d)
{
    int executors = d->executors;
    weft_policy_input input = {
        .limit = o->limit, .curve = &queue->curve, .timer_slack = &d->timer_slack};
    WEFT_TRY(weft_curve_make(o->curve_rows, o->curve_times, o->curve_sizes, o->slowdown, executors,
                             &queue->curve));
    WEFT_TRY(weft_policy_open(context, o->policy, &input, &queue->policy));
    WEFT_TRY(WEFT_NEW(&queue->batches, executors));
    for (int e = 0; e < executors; e++) {
        queue->batches[e] = (weft_batch_job){.queue = queue, .executor = e};
        WEFT_TRY(WEFT_NEW(&queue->batches[e].requests, o->limit));
        WEFT_TRY(WEFT_NEW(&queue->batches[e].users, o->limit));
    }
    return WEFT_OK;
}

static void free_queue(weft_dispatch *d, weft_batch_queue **out)
{
    weft_batch_queue *queue = *out;
    for (int e = 0; queue->batches && e < d->executors; e++) {
        free(queue->batches[e].requests);
        free(queue->batches[e].users);
    }
    free(queue->batches);
    weft_request_queue_free(&queue->requests);
    weft_policy_close(&queue->policy);
    weft_curve_free(&queue->curve);
    free(queue);
    *out = NULL;
}

static weft_status check(const weft_batch_queue_options *o)
{
    if (!o->policy || !*o->policy)
        return weft_fail(WEFT_ERR_ARGUMENT, "the policy of a queue is %s, must be a name",
                         o->policy ? "empty" : "NULL");
    if (o->curve_sizes < 0 || (o->curve_sizes > 0 && (!o->curve_rows || !o->curve_times)))
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "%d measured batch times and their lists are %s; a count from 0, and "
                         "lists of as many, are right",
                         o->curve_sizes, o->curve_rows && o->curve_times ? "given" : "NULL");
    if (o->limit < 1 || o->limit > 1 << 20)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "the limit of a batch is %lld rows, must be from 1 to %d",
                         (long long)o->limit, 1 << 20);
    if (o->max_waiting < 1 || o->max_waiting > INT32_MAX)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "the limit of queued rows is %lld; it must be from 1 to %d",
                         (long long)o->max_waiting, INT32_MAX);
    if (!(o->share > 0) || !isfinite(o->share))
        return weft_fail(WEFT_ERR_ARGUMENT, "the share of a queue is %g, must be above 0",
                         o->share);
    return WEFT_OK;
}

weft_status weft_dispatch_add(weft_dispatch *d, weft_context *context,
                              const weft_batch_queue_options *options, weft_batch_queue **out)
{
    weft_batch_queue *queue;
    WEFT_TRY(check(options));
    WEFT_TRY(WEFT_GROW(&d->queues, &d->capacity, d->count));
    WEFT_TRY(WEFT_NEW(&queue, 1));
    queue->options = *options;
    queue->dispatch = d;
    weft_request_queue_init(&queue->requests);
    weft_status status = open_queue(queue, context, options, d);
    if (status != WEFT_OK) {
        free_queue(d, &queue);
        return status;
    }
    d->queues[d->count++] = queue;
    *out = queue;
    return WEFT_OK;
}

void weft_dispatch_remove(weft_dispatch *d, weft_batch_queue **queue)
{
    int i = 0;
    while (d->queues[i] != *queue) i++;
    for (d->count--; i < d->count; i++) d->queues[i] = d->queues[i + 1];
    free_queue(d, queue);
}

/* The number of requests that are queued or in a batch in progress. */
static int64_t in_system(const weft_batch_queue *queue)
{
    return queue->requests.count + queue->in_service;
}

/* Whether a batch is due without further waiting, because no more rows would come: the queue is
 * being removed, has just refused a request since it is full, or has as many requests queued or
 * running as closed-loop clients can have. */
static bool must_not_wait(const weft_batch_queue *queue)
{
    int64_t all = queue->policy->setting.max_in_system;
    return queue->ending || queue->refused_recently || (all > 0 && in_system(queue) >= all);
}

weft_status weft_dispatch_put(weft_batch_queue *queue, const weft_request *r, double now,
                              bool *look, uint64_t *ticket)
{
    const weft_batch_queue_options *o = &queue->options;
    if (!(r->queue_timeout >= 0))
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "the queue timeout of a request is %g s, must be 0 or more",
                         r->queue_timeout);
    if (r->rows < 1 || r->rows > o->limit)
        return weft_fail(WEFT_ERR_ARGUMENT, "a request has %lld rows, must be from 1 to %lld",
                         (long long)r->rows, (long long)o->limit);
    if (r->rows > o->max_waiting)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "a request has %lld rows, and at most %lld may wait (--waiting); send "
                         "them in parts",
                         (long long)r->rows, (long long)o->max_waiting);
    if (queue->ending || queue->requests.rows + r->rows > o->max_waiting) {
        queue->stats.refused++;
        queue->refused_recently = true;
        *look = queue->requests.count > 0;
        return queue->ending
                   ? weft_fail(WEFT_ERR_BUSY, "the model is being taken out of service")
                   : weft_fail(WEFT_ERR_BUSY,
                               "the queue has %lld rows and may have %lld; try again later",
                               (long long)queue->requests.rows, (long long)o->max_waiting);
    }
    weft_status status = weft_admission_check(queue, r, now);
    if (status != WEFT_OK) {
        queue->stats.expired++;
        return status;
    }
    /* A queue gets no credit for time in which it was idle. */
    if (queue->requests.count == 0 && queue->running == 0)
        queue->usage = WEFT_MAX(queue->usage, queue->dispatch->virtual_time);
    WEFT_TRY(weft_request_queue_add(&queue->requests, r, now, ticket));
    weft_policy *p = queue->policy;
    if (p->ops->arrived) p->ops->arrived(p, now, r->rows, in_system(queue));
    *look = queue->requests.count == 1 || queue->requests.rows >= p->setting.min_rows ||
            must_not_wait(queue);
    return WEFT_OK;
}

bool weft_dispatch_has_requests(const weft_dispatch *d)
{
    for (int i = 0; i < d->count; i++)
        if (d->queues[i]->requests.count > 0) return true;
    return false;
}

void weft_dispatch_timer_fired(weft_dispatch *d, double when, double now)
{
    d->timer_slack += (WEFT_MIN(WEFT_MAX(now - when, 0), MOST_SLACK) - d->timer_slack) / SLOWLY;
}

/* The kind of request that is due in a queue now; -1: none, and *when is the next time. */
static int due(weft_batch_queue *queue, double now, double *when)
{
    const weft_batch_setting *b = &queue->policy->setting;
    double wait = must_not_wait(queue) ? 0 : b->max_delay;
    return weft_request_queue_due(&queue->requests, b->min_rows, wait, now, when);
}

/* Changes the number of busy executors. Before that, advances the progress of all queues, since
 * executors share cores and a batch is slower the more of them are busy. */
static void change_busy(weft_dispatch *d, int by, double now)
{
    for (int i = 0; i < d->count && d->busy > 0; i++)
        d->queues[i]->progress += (now - d->changed) / d->queues[i]->curve.slowdown[d->busy - 1];
    d->changed = now;
    d->changes++;
    d->busy += by;
}

/* Moves requests of a kind from the queue into the batch, by priority and arrival, while they fit.
 * A first request with more rows than the policy's limit is a batch of its own. */
static void fill(weft_batch_job *batch, weft_request_queue *q, const weft_batch_setting *b,
                 int64_t most, int kind)
{
    bool is_surge = b->surge_rows > 0 && q->kinds[kind].rows >= b->surge_rows;
    int64_t limit = is_surge ? most : b->max_rows;
    batch->count = 0;
    batch->rows = 0;
    for (int slot = weft_request_queue_head(q, kind); slot >= 0;
         slot = weft_request_queue_head(q, kind)) {
        const weft_queued_request *w = &q->slots[slot];
        if (batch->count > 0 && (b->one_request || batch->rows + w->request.rows > limit)) break;
        batch->users[batch->count] = w->request.user;
        batch->requests[batch->count++] =
            (weft_dequeued_request){.request = w->request, .arrived = w->arrived};
        batch->rows += w->request.rows;
        weft_request_queue_remove(q, slot);
    }
}

/* Why the batch of a kind that is due begins. */
static weft_batch_reason reason_of(const weft_batch_queue *queue, int kind)
{
    const weft_batch_setting *b = &queue->policy->setting;
    int64_t rows = queue->requests.kinds[kind].rows;
    if (rows >= b->max_rows && !b->one_request) return WEFT_BATCH_FULL;
    if (rows >= b->min_rows) return WEFT_BATCH_ENOUGH;
    return must_not_wait(queue) ? WEFT_BATCH_NO_MORE : WEFT_BATCH_WAITED;
}

static weft_batch_job *take_batch(weft_batch_queue *queue, int kind, int executor, double now)
{
    weft_batch_job *batch = &queue->batches[executor];
    batch->reason = reason_of(queue, kind);
    fill(batch, &queue->requests, &queue->policy->setting, queue->options.limit, kind);
    queue->refused_recently = false;
    batch->began = now;
    batch->running = true;
    batch->one_by_one = false;
    change_busy(queue->dispatch, 1, now);
    batch->busy = queue->dispatch->busy;
    batch->progress = queue->progress;
    batch->changes = queue->dispatch->changes;
    /* The estimated time counts as used from the start, so that one queue does not get all free
     * executors at once. */
    batch->charged = weft_curve_time(&queue->curve, (double)batch->rows);
    queue->usage += batch->charged / queue->options.share;
    queue->running++;
    queue->in_service += batch->count;
    return batch;
}

/* Whether the next batch of a queue with run_in_caller is estimated to be short. */
static bool is_short(const weft_batch_queue *queue)
{
    int64_t rows = WEFT_MIN(queue->requests.rows, queue->options.limit);
    return queue->options.run_in_caller &&
           weft_curve_time(&queue->curve, (double)rows) <= MOST_CALLER_SECONDS;
}

weft_batch_job *weft_dispatch_next(weft_dispatch *d, int executor, double now, bool only_short,
                                   double *when)
{
    weft_batch_queue *best = NULL;
    int kind = -1;
    *when = INFINITY;
    for (int i = 0; i < d->count; i++) {
        weft_batch_queue *queue = d->queues[i];
        double later;
        if (only_short && !is_short(queue)) continue;
        int ready = due(queue, now, &later);
        *when = WEFT_MIN(*when, later);
        if (ready < 0 || (best && queue->usage >= best->usage)) continue;
        best = queue;
        kind = ready;
    }
    if (!best) return NULL;
    d->virtual_time = WEFT_MAX(d->virtual_time, best->usage);
    return take_batch(best, kind, executor, now);
}

bool weft_dispatch_expire(weft_dispatch *d, double now, weft_dequeued_request *out,
                          weft_batch_queue **queue, double *when)
{
    *when = INFINITY;
    for (int i = 0; i < d->count; i++) {
        weft_request_queue *q = &d->queues[i]->requests;
        int slot = weft_request_queue_next_deadline(q);
        if (slot < 0) continue;
        *when = WEFT_MIN(*when, q->slots[slot].deadline);
        if (q->slots[slot].deadline > now) continue;
        *queue = d->queues[i];
        *out = (weft_dequeued_request){.request = q->slots[slot].request,
                                       .arrived = q->slots[slot].arrived};
        weft_request_queue_remove(q, slot);
        (*queue)->stats.expired++;
        return true;
    }
    return false;
}

static void count_answered(weft_batch_queue *queue, const weft_batch_job *batch,
                           const weft_dequeued_request *t, double now)
{
    weft_batch_queue_stats *s = &queue->stats;
    weft_policy *p = queue->policy;
    if (t->failed) {
        s->failed++;
        return;
    }
    s->requests++;
    s->rows += t->request.rows;
    s->queue_seconds += batch->began - t->arrived;
    s->compute_seconds += t->ended - batch->began;
    weft_latency_count(s->latency, t->ended - t->arrived);
    if (p->ops->answered) p->ops->answered(p, now, t->ended - t->arrived, in_system(queue));
}

void weft_dispatch_end(weft_dispatch *d, weft_batch_job *batch, double now)
{
    weft_batch_queue *queue = batch->queue;
    weft_batch_queue_stats *s = &queue->stats;
    double seconds = now - batch->began;
    bool steady = batch->changes == d->changes;
    change_busy(d, -1, now);
    batch->running = false;
    queue->running--;
    queue->in_service -= batch->count;
    queue->usage += (seconds - batch->charged) / queue->options.share;
    s->batches++;
    s->reasons[batch->reason]++;
    s->batch[batch->rows <= 1 ? 0
                              : WEFT_MIN(64 - __builtin_clzll((uint64_t)batch->rows - 1),
                                         WEFT_BATCH_CELLS - 1)]++;
    /* The curve does not learn from a batch that failed or was run again request by request, since
     * its time is not typical. */
    if (!batch->one_by_one && batch->requests[0].status == WEFT_OK)
        weft_curve_learn(&queue->curve, queue->options.limit, batch->rows, steady ? batch->busy : 0,
                         steady ? seconds : queue->progress - batch->progress);
    for (int i = 0; i < batch->count; i++) count_answered(queue, batch, &batch->requests[i], now);
}

/* Cell i of the histogram counts latencies up to 2^(i/4) microseconds. */
void weft_latency_count(int64_t *cells, double seconds)
{
    double cell = seconds > 1e-6 ? ceil(4 * log2(seconds * 1e6)) : 0;
    cells[(int)WEFT_MIN(cell, WEFT_LATENCY_CELLS - 1)]++;
}

double weft_latency_quantile(const int64_t *cells, double quantile)
{
    WEFT_NEED_ELSE(0, cells);
    if (!(quantile >= 0 && quantile <= 1)) return 0;
    int64_t all = 0, seen = 0;
    for (int i = 0; i < WEFT_LATENCY_CELLS; i++) all += cells[i];
    if (all == 0) return 0;
    double wanted = quantile * (double)all;
    int i = 0;
    for (; i < WEFT_LATENCY_CELLS - 1 && (double)(seen + cells[i]) < wanted; i++) seen += cells[i];
    /* The quantile is interpolated linearly within its cell. */
    double high = 1e-6 * exp2(i / 4.0), low = i ? high / exp2(0.25) : 0;
    double share = cells[i] ? (wanted - (double)seen) / (double)cells[i] : 1;
    return low + (high - low) * WEFT_MIN(WEFT_MAX(share, 0), 1);
}
