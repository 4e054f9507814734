/* Admission of requests with a deadline. The requests before a new one are computed in advance, in
 * virtual time and with the times of the batch curve, up to the batch of the new one. If that batch
 * begins after the deadline, the request is refused on arrival. The result is exact for a policy
 * that does not change and requests of one priority, if batches take the times of the curve and no
 * sender leaves; else it is too early rather than too late: nothing is waited for but an executor,
 * no other queue begins a batch, and a policy that adapts takes as many rows as it ever may. The
 * executors therefore compute what they would have computed anyway. */
#include <math.h>

#include "serve/batch/batch_internal.h"

enum { MOST_EXECUTORS = 64 };
/* Seconds by which a deadline must be missed, far above the rounding errors of the prediction. */
static const double SURELY = 1e-9;

typedef struct prediction {
    const weft_batch_queue *queue;
    double slowdown; /* factor by which batches are slower while all executors are busy */
    int64_t limit;   /* rows of a batch */
    bool single;     /* each batch is a single request */
    /* [executors]: seconds until each could begin one more batch */
    double free_in[MOST_EXECUTORS];
    int executor; /* the one that will compute the batch that is being filled */
    int64_t rows; /* rows of this batch; 0: it is empty */
} prediction;

static double begins_in(const prediction *p)
{
    return p->free_in[p->executor];
}

static void begin_batch(prediction *p)
{
    int executors = p->queue->dispatch->executors;
    p->executor = 0;
    p->rows = 0;
    for (int e = 1; e < executors; e++)
        if (p->free_in[e] < p->free_in[p->executor]) p->executor = e;
}

/* Begins another batch if one request more does not fit into this one. */
static void make_room(prediction *p, int64_t rows)
{
    if (p->rows == 0 || (!p->single && p->rows + rows <= p->limit)) return;
    p->free_in[p->executor] += weft_curve_time(&p->queue->curve, (double)p->rows) * p->slowdown;
    begin_batch(p);
}

/* The seconds that a batch in progress would still take if it ran alone. */
static double left_of(const weft_batch_job *batch, double now)
{
    const weft_batch_queue *queue = batch->queue;
    const weft_dispatch *d = queue->dispatch;
    double since = (now - d->changed) / queue->curve.slowdown[d->busy - 1];
    return WEFT_MAX(batch->charged - (queue->progress - batch->progress) - since, 0);
}

static void start(prediction *p, const weft_batch_queue *queue, double now)
{
    const weft_dispatch *d = queue->dispatch;
    const weft_policy *policy = queue->policy;
    bool adapts = policy->ops->apply != NULL;
    *p = (prediction){.queue = queue,
                      .slowdown = queue->curve.slowdown[d->executors - 1],
                      .limit = adapts ? queue->options.limit : policy->setting.max_rows,
                      .single = policy->setting.one_request && !adapts};
    for (int i = 0; i < d->count; i++)
        for (int e = 0; e < d->executors; e++)
            if (d->queues[i]->batches[e].running)
                p->free_in[e] = left_of(&d->queues[i]->batches[e], now) * p->slowdown;
    begin_batch(p);
}

/* The seconds until the batch of a new request begins, or any number above its timeout. */
static double predict(const weft_batch_queue *queue, const weft_request *r, double now)
{
    const weft_request_queue *q = &queue->requests;
    int kind = weft_request_queue_kind(q, r->batch_key);
    prediction p;
    start(&p, queue, now);
    for (int slot = kind < 0 ? -1 : q->kinds[kind].oldest; slot >= 0;
         slot = q->slots[slot].younger) {
        const weft_queued_request *w = &q->slots[slot];
        if (w->request.priority < r->priority) continue;
        make_room(&p, w->request.rows);
        if (begins_in(&p) > r->queue_timeout + SURELY) break;
        if (now + begins_in(&p) < w->deadline) p.rows += w->request.rows;
    }
    make_room(&p, r->rows);
    return begins_in(&p);
}

weft_status weft_admission_check(const weft_batch_queue *queue, const weft_request *r, double now)
{
    if (r->queue_timeout <= 0 || queue->curve.sizes == 0) return WEFT_OK;
    double begins = predict(queue, r, now);
    if (begins <= r->queue_timeout + SURELY) return WEFT_OK;
    return weft_fail(WEFT_ERR_LATE,
                     "its deadline is in %.3g ms, and the requests before it take at least %.3g "
                     "ms; try again later",
                     1e3 * r->queue_timeout, 1e3 * begins);
}
