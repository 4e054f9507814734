/* Shares executors between lines: chooses the line that is served next (weighted fair queueing by
 * executor time), forms the batch, and keeps the statistics. */
#include <math.h>

#include "serve/batch/batch_internal.h"

/* A longer delay is not attributed to the timer. */
static const double MOST_SLACK = 1e-3;
enum { SLOWLY = 16 };

static weft_status open_line(weft_line *line, weft_context *context, const weft_line_options *o,
                             weft_dispatch *d)
{
    int executors = d->executors;
    weft_policy_about about = {.limit = o->limit, .curve = &line->curve, .slack = &d->slack};
    WEFT_TRY(weft_curve_make(o->curve_rows, o->curve_times, o->curve_sizes, o->slower, executors,
                             &line->curve));
    WEFT_TRY(weft_policy_open(context, o->policy, &about, &line->policy));
    WEFT_TRY(WEFT_NEW(&line->jobs, executors));
    for (int e = 0; e < executors; e++) {
        line->jobs[e] = (weft_job){.line = line, .executor = e};
        WEFT_TRY(WEFT_NEW(&line->jobs[e].taken, o->limit));
        WEFT_TRY(WEFT_NEW(&line->jobs[e].users, o->limit));
    }
    return WEFT_OK;
}

static void free_line(weft_dispatch *d, weft_line **out)
{
    weft_line *line = *out;
    for (int e = 0; line->jobs && e < d->executors; e++) {
        free(line->jobs[e].taken);
        free(line->jobs[e].users);
    }
    free(line->jobs);
    weft_queue_free(&line->queue);
    weft_policy_close(&line->policy);
    weft_curve_free(&line->curve);
    free(line);
    *out = NULL;
}

static weft_status check(const weft_line_options *o)
{
    if (o->struct_size != sizeof(*o))
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "the options of a line have %zu bytes, not %zu; call "
                         "weft_line_options_init first",
                         o->struct_size, sizeof(*o));
    if (o->limit < 1 || o->limit > 1 << 20)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "the limit of a batch is %lld rows, must be from 1 to %d",
                         (long long)o->limit, 1 << 20);
    if (o->waiting < 1 || o->waiting > INT32_MAX)
        return weft_fail(WEFT_ERR_ARGUMENT, "%lld rows may wait, must be from 1 to %d",
                         (long long)o->waiting, INT32_MAX);
    if (!(o->share > 0) || !isfinite(o->share))
        return weft_fail(WEFT_ERR_ARGUMENT, "the share of a line is %g, must be above 0", o->share);
    return WEFT_OK;
}

weft_status weft_dispatch_add(weft_dispatch *d, weft_context *context,
                              const weft_line_options *options, weft_line **out)
{
    weft_line *line;
    WEFT_TRY(check(options));
    WEFT_TRY(WEFT_GROW(&d->lines, &d->capacity, d->count));
    WEFT_TRY(WEFT_NEW(&line, 1));
    line->options = *options;
    line->dispatch = d;
    weft_queue_start(&line->queue);
    weft_status status = open_line(line, context, options, d);
    if (status != WEFT_OK) {
        free_line(d, &line);
        return status;
    }
    d->lines[d->count++] = line;
    *out = line;
    return WEFT_OK;
}

void weft_dispatch_remove(weft_dispatch *d, weft_line **line)
{
    int i = 0;
    while (d->lines[i] != *line) i++;
    for (d->count--; i < d->count; i++) d->lines[i] = d->lines[i + 1];
    free_line(d, line);
}

/* Requests in the queue or in a batch in progress. */
static int64_t there(const weft_line *line)
{
    return line->queue.count + line->computed;
}

/* Waiting cannot pay: the line ends, has just refused a request, or holds all requests that its
 * clients can have. */
static bool hurries(const weft_line *line)
{
    int64_t all = line->policy->now.all;
    return line->ending || line->crowded || (all > 0 && there(line) >= all);
}

weft_status weft_dispatch_put(weft_line *line, const weft_request *r, double now, bool *look,
                              uint64_t *ticket)
{
    const weft_line_options *o = &line->options;
    if (r->struct_size != sizeof(*r) || r->rows < 1 || r->rows > o->limit)
        return weft_fail(WEFT_ERR_ARGUMENT, "a request has %lld rows, must be from 1 to %lld",
                         (long long)r->rows, (long long)o->limit);
    if (line->ending || line->queue.rows + r->rows > o->waiting) {
        line->stats.refused++;
        line->crowded = true;
        *look = line->queue.count > 0;
        return line->ending ? weft_fail(WEFT_ERR_BUSY, "the model is being taken out of service")
                            : weft_fail(WEFT_ERR_BUSY,
                                        "%lld rows are waiting, and %lld may; try again later",
                                        (long long)line->queue.rows, (long long)o->waiting);
    }
    /* An idle line accumulates no credit. */
    if (line->queue.count == 0 && line->running == 0)
        line->used = WEFT_MAX(line->used, line->dispatch->spent);
    WEFT_TRY(weft_queue_put(&line->queue, r, now, ticket));
    weft_policy *p = line->policy;
    if (p->ops->arrived) p->ops->arrived(p, now, r->rows, there(line));
    *look = line->queue.count == 1 || line->queue.rows >= p->now.need || hurries(line);
    return WEFT_OK;
}

bool weft_dispatch_waits(const weft_dispatch *d)
{
    for (int i = 0; i < d->count; i++)
        if (d->lines[i]->queue.count > 0) return true;
    return false;
}

void weft_dispatch_woke(weft_dispatch *d, double when, double now)
{
    d->slack += (WEFT_MIN(WEFT_MAX(now - when, 0), MOST_SLACK) - d->slack) / SLOWLY;
}

/* A kind of request with a due batch, or -1. */
static int due(weft_line *line, double now, double *when)
{
    const weft_batching *b = &line->policy->now;
    double wait = hurries(line) ? 0 : b->wait;
    return weft_queue_due(&line->queue, b->need, wait, now, when);
}

/* Executors share cores, so the progress of each batch slows down with the number of busy ones. */
static void change_busy(weft_dispatch *d, int by, double now)
{
    for (int i = 0; i < d->count && d->busy > 0; i++)
        d->lines[i]->progress += (now - d->changed) / d->lines[i]->curve.slower[d->busy - 1];
    d->changed = now;
    d->changes++;
    d->busy += by;
}

/* Moves requests of a kind from the queue into the batch, in their order, while they fit. A request
 * with more rows than the policy's limit becomes a batch of its own. */
static void fill(weft_job *job, weft_queue *q, const weft_batching *b, int64_t most, int kind)
{
    bool brims = b->brim > 0 && q->kinds[kind].rows >= b->brim;
    int64_t limit = brims ? most : b->limit;
    job->count = 0;
    job->rows = 0;
    for (int slot = weft_queue_head(q, kind); slot >= 0; slot = weft_queue_head(q, kind)) {
        const weft_waiting *w = &q->slots[slot];
        if (job->count > 0 && (b->single || job->rows + w->request.rows > limit)) break;
        job->users[job->count] = w->request.user;
        job->taken[job->count++] = (weft_taken){.request = w->request, .came = w->came};
        job->rows += w->request.rows;
        weft_queue_drop(q, slot);
    }
}

static weft_job *take(weft_line *line, int kind, int executor, double now)
{
    weft_job *job = &line->jobs[executor];
    fill(job, &line->queue, &line->policy->now, line->options.limit, kind);
    line->crowded = false;
    job->began = now;
    job->apart = false;
    change_busy(line->dispatch, 1, now);
    job->busy = line->dispatch->busy;
    job->progress = line->progress;
    job->changes = line->dispatch->changes;
    /* The estimated time is charged at once, so that one line does not get all free executors. */
    job->charged = weft_curve_time(&line->curve, (double)job->rows);
    line->used += job->charged / line->options.share;
    line->running++;
    line->computed += job->count;
    return job;
}

weft_job *weft_dispatch_next(weft_dispatch *d, int executor, double now, bool only_short,
                             double *when)
{
    weft_line *best = NULL;
    int kind = -1;
    *when = INFINITY;
    for (int i = 0; i < d->count; i++) {
        weft_line *line = d->lines[i];
        double later;
        if (only_short && !line->options.short_runs) continue;
        int ready = due(line, now, &later);
        *when = WEFT_MIN(*when, later);
        if (ready < 0 || (best && line->used >= best->used)) continue;
        best = line;
        kind = ready;
    }
    if (!best) return NULL;
    d->spent = WEFT_MAX(d->spent, best->used);
    return take(best, kind, executor, now);
}

bool weft_dispatch_late(weft_dispatch *d, double now, weft_taken *out, weft_line **line,
                        double *when)
{
    *when = INFINITY;
    for (int i = 0; i < d->count; i++) {
        weft_queue *q = &d->lines[i]->queue;
        int slot = weft_queue_latest(q);
        if (slot < 0) continue;
        *when = WEFT_MIN(*when, q->slots[slot].until);
        if (q->slots[slot].until > now) continue;
        *line = d->lines[i];
        *out = (weft_taken){.request = q->slots[slot].request, .came = q->slots[slot].came};
        weft_queue_drop(q, slot);
        (*line)->stats.late++;
        return true;
    }
    return false;
}

static void count_answered(weft_line *line, const weft_job *job, const weft_taken *t, double now)
{
    weft_line_stats *s = &line->stats;
    weft_policy *p = line->policy;
    if (t->status != WEFT_OK) {
        s->failed++;
        return;
    }
    s->requests++;
    s->rows += t->request.rows;
    s->queued += job->began - t->came;
    s->computed += t->ended - job->began;
    weft_latency_count(s->latency, t->ended - t->came);
    if (p->ops->answered) p->ops->answered(p, now, t->ended - t->came, there(line));
}

void weft_dispatch_end(weft_dispatch *d, weft_job *job, double now)
{
    weft_line *line = job->line;
    weft_line_stats *s = &line->stats;
    double seconds = now - job->began;
    bool steady = job->changes == d->changes;
    change_busy(d, -1, now);
    line->running--;
    line->computed -= job->count;
    line->used += (seconds - job->charged) / line->options.share;
    s->batches++;
    s->batch[job->rows <= 1
                 ? 0
                 : WEFT_MIN(64 - __builtin_clzll((uint64_t)job->rows - 1), WEFT_BATCH_CELLS - 1)]++;
    /* The time of a batch that failed, or was retried request by request, is not representative. */
    if (!job->apart && job->taken[0].status == WEFT_OK)
        weft_curve_learn(&line->curve, line->options.limit, job->rows, steady ? job->busy : 0,
                         steady ? seconds : line->progress - job->progress);
    for (int i = 0; i < job->count; i++) count_answered(line, job, &job->taken[i], now);
}

/* Cells of the histogram grow by 2^(1/4), from one microsecond on. */
void weft_latency_count(int64_t *cells, double seconds)
{
    double cell = seconds > 1e-6 ? ceil(4 * log2(seconds * 1e6)) : 0;
    cells[(int)WEFT_MIN(cell, WEFT_LATENCY_CELLS - 1)]++;
}

double weft_latency_quantile(const int64_t *cells, double quantile)
{
    int64_t all = 0, seen = 0;
    for (int i = 0; i < WEFT_LATENCY_CELLS; i++) all += cells[i];
    if (all == 0) return 0;
    double wanted = quantile * (double)all;
    int i = 0;
    for (; i < WEFT_LATENCY_CELLS - 1 && (double)(seen + cells[i]) < wanted; i++) seen += cells[i];
    /* Interpolates linearly within the cell. */
    double high = 1e-6 * exp2(i / 4.0), low = i ? high / exp2(0.25) : 0;
    double share = cells[i] ? (wanted - (double)seen) / (double)cells[i] : 1;
    return low + (high - low) * WEFT_MIN(WEFT_MAX(share, 0), 1);
}
