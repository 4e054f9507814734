/* Forecasts the latency and throughput of a batching policy under a load: a discrete-event
 * simulation in virtual time that runs the batcher's own dispatch and policies. */
#include <math.h>

#include "serve/batch/simulated_requests.h"
#include "serve/batch/batch_internal.h"

static const double REFUSED = -1, LATE = -2;

typedef struct simulation {
    const weft_forecast_options *o;
    weft_dispatch dispatch;
    weft_batch_queue *queue;
    weft_workload workload;
    weft_random random, interference_random;
    /* true batch times; the queue learns its own curve from the simulated batches */
    const weft_curve *truth;
    weft_curve curve;
    weft_batch_job **batch; /* [executors]: batch in progress; NULL: idle */
    double *left; /* [executors]: seconds that the batch would still take if it ran alone */
    double now, due, busy_time, began;
    double deadline; /* the earliest one of a request that waits; infinite: none */
    /* factor by which other processes slow batches down now, and the time of its next change */
    double interference, interference_change;
    int64_t arrivals, first; /* requests so far; index of the first request that is counted */
    double *latency;         /* [requests]: latency of each counted request, or REFUSED or LATE */
    weft_forecast *out;
    int64_t batches, rows;
    bool stepped;
} simulation;

void weft_forecast_options_init_size(weft_forecast_options *options, size_t size)
{
    const weft_forecast_options ours = {.struct_size = sizeof(weft_forecast_options),
                                        .policy = "adaptive",
                                        .arrivals = "poisson",
                                        .rate = 100,
                                        .rows = 1,
                                        .executors = 1,
                                        .limit = 64,
                                        .waiting = 4096,
                                        .requests = 20000,
                                        .seed = 1};
    weft_give_struct(options, size, &ours, sizeof(ours));
}

static weft_status check(const weft_forecast_options *o)
{
    if (o->curve_sizes < 1 || !o->curve_rows || !o->curve_times)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "a forecast needs the time of a batch of one size at least");
    if (!o->arrivals || !*o->arrivals)
        return weft_fail(WEFT_ERR_ARGUMENT, "a forecast needs the name of an arrival process");
    if (o->rows < 1 || o->rows > o->limit || o->step < 0 || o->clients < 0)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "requests of %lld rows, a change at request %lld, and %d clients; there "
                         "are rows from 1 to the limit %lld, and the others from 0",
                         (long long)o->rows, (long long)o->step, o->clients, (long long)o->limit);
    if (!(o->step_rate >= 0) || !(o->interference_slowdown >= 0) || !(o->interference_seconds >= 0))
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "the changed rate is %g, and other processes slow batches by %g for %g s; "
                         "all must be 0 or more",
                         o->step_rate, o->interference_slowdown, o->interference_seconds);
    if (!(o->swing >= 0 && o->swing <= 1) || !(o->period >= 0) || isinf(o->period))
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "the rate swings by %g in %g s, must be from 0 to 1, and 0 or more",
                         o->swing, o->period);
    if (!(o->rate > 0) || !isfinite(o->rate) || (o->step > 0 && !(o->step_rate > 0)))
        return weft_fail(WEFT_ERR_ARGUMENT, "the rate is %g requests a second, must be above 0",
                         o->rate);
    if (o->executors < 1 || o->executors > 64 || o->requests < 1 || o->requests > 100000000)
        return weft_fail(
            WEFT_ERR_ARGUMENT,
            "a forecast of %d executors and %lld requests; there are 1 to 64, and 1 to 100000000",
            o->executors, (long long)o->requests);
    if (!(o->variation >= 0) || o->variation > 10)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "the variation of batch times is %g, must be from 0 to 10", o->variation);
    if (!(o->queue_timeout >= 0))
        return weft_fail(WEFT_ERR_ARGUMENT, "the queue timeout is %g s, must be 0 or more",
                         o->queue_timeout);
    if (!(o->timer_slack >= 0) || isinf(o->timer_slack))
        return weft_fail(WEFT_ERR_ARGUMENT, "the slack of timers is %g s, must be 0 or more",
                         o->timer_slack);
    if (!(o->interference_share >= 0) || o->interference_share >= 1 ||
        (o->interference_share > 0 &&
         (!(o->interference_slowdown >= 1) || !(o->interference_seconds > 0))))
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "other processes take %g of the time, %g s on the mean, and slow batches "
                         "by the factor %g; must be below 1, above 0, and at least 1",
                         o->interference_share, o->interference_seconds, o->interference_slowdown);
    return WEFT_OK;
}

/* A random factor of a batch's time: log-normal with mean 1 and the coefficient of variation of the
 * options (Box and Muller). */
static double factor(simulation *t)
{
    if (t->o->variation <= 0) return 1;
    double spread = log(1 + t->o->variation * t->o->variation);
    double u = 1 - weft_random_unit(&t->random), v = weft_random_unit(&t->random);
    double normal = sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
    return exp(sqrt(spread) * normal - spread / 2);
}

/* Starts or stops the interference of other processes, and draws the time of the next change. */
static void change_interference(simulation *t)
{
    const weft_forecast_options *o = t->o;
    bool begin = o->interference_share > 0 && t->interference <= 1;
    double mean =
        begin ? o->interference_seconds
              : o->interference_seconds * (1 - o->interference_share) / o->interference_share;
    t->interference = begin ? o->interference_slowdown : 1;
    t->interference_change =
        o->interference_share > 0
            ? t->now - mean * log(1 - weft_random_unit(&t->interference_random))
            : INFINITY;
}

/* The factor by which every batch is slower now than a batch that has the machine alone. */
static double slowdown(const simulation *t)
{
    return t->truth->slowdown[t->dispatch.busy - 1] * t->interference;
}

static void advance(simulation *t, double to)
{
    int busy = t->dispatch.busy;
    if (busy > 0) {
        double done = (to - t->now) / slowdown(t);
        for (int e = 0; e < t->o->executors; e++)
            if (t->batch[e]) t->left[e] -= done;
        t->busy_time += busy * (to - t->now);
    }
    t->now = to;
}

static int next_end(const simulation *t, double *when)
{
    int next = -1;
    for (int e = 0; e < t->o->executors; e++)
        if (t->batch[e] && (next < 0 || t->left[e] < t->left[next])) next = e;
    *when = next < 0 ? INFINITY : t->now + WEFT_MAX(t->left[next], 0) * slowdown(t);
    return next;
}

/* Starts a due batch on each idle executor. Sets `due` to the next time at which a batch becomes
 * due for an idle executor. */
static void begin_batches(simulation *t)
{
    for (int e = 0; e < t->o->executors; e++) {
        if (t->batch[e]) continue;
        weft_batch_job *batch = weft_dispatch_next(&t->dispatch, e, t->now, false, &t->due);
        if (!batch) return;
        t->batch[e] = batch;
        t->left[e] = weft_curve_time(t->truth, (double)batch->rows) * factor(t);
        t->batches++;
        t->rows += batch->rows;
    }
    t->due = INFINITY; /* no executor is idle */
}

static void finish(simulation *t, int e)
{
    weft_batch_job *batch = t->batch[e];
    for (int i = 0; i < batch->count; i++) {
        batch->requests[i].ended = t->now;
        int64_t number = (int64_t)(intptr_t)batch->users[i] - t->first;
        if (number >= 0) t->latency[number] = t->now - batch->requests[i].arrived;
        weft_workload_answered(&t->workload, t->now, t->stepped);
    }
    weft_dispatch_end(&t->dispatch, batch, t->now);
    t->batch[e] = NULL;
}

static weft_status arrive(simulation *t, bool *look)
{
    weft_request request;
    weft_request_init(&request);
    request.rows = t->o->rows;
    request.queue_timeout = t->o->queue_timeout;
    request.user = (void *)(intptr_t)t->arrivals;
    if (t->arrivals == t->first) {
        t->began = t->now;
        t->busy_time = 0;
        t->batches = t->rows = 0;
    }
    t->stepped = t->o->step > 0 && t->arrivals >= t->first + t->o->step;
    weft_workload_take(&t->workload, t->stepped);
    weft_status status = weft_dispatch_put(t->queue, &request, t->now, look, NULL);
    if (status == WEFT_ERR_BUSY || status == WEFT_ERR_LATE) {
        if (t->arrivals >= t->first)
            t->latency[t->arrivals - t->first] = status == WEFT_ERR_BUSY ? REFUSED : LATE;
        weft_workload_answered(&t->workload, t->now, t->stepped);
        status = WEFT_OK;
    }
    t->arrivals++;
    return status;
}

/* Takes the requests out of the queue whose deadline has passed. */
static void expire(simulation *t)
{
    weft_dequeued_request late;
    weft_batch_queue *queue;
    while (weft_dispatch_expire(&t->dispatch, t->now, &late, &queue, &t->deadline)) {
        int64_t number = (int64_t)(intptr_t)late.request.user - t->first;
        if (number >= 0) t->latency[number] = LATE;
        weft_workload_answered(&t->workload, t->now, t->stepped);
    }
}

static bool search(simulation *t)
{
    weft_policy *p = t->queue->policy;
    if (!p->ops->wants_search || !p->ops->wants_search(p, t->now)) return false;
    p->ops->copy_input(p, t->now);
    p->ops->search(p);
    p->ops->apply(p);
    return true;
}

/* Processes the next event: a batch ends, a request arrives or is late, a timed wait ends, or
 * interference changes. *look: an idle executor of the real batcher would look for a due batch now.
 */
static weft_status handle_next(simulation *t, double comes, bool *look)
{
    double ends, timer = t->due + t->o->timer_slack;
    int e = next_end(t, &ends);
    double next = WEFT_MIN(WEFT_MIN(ends, timer), WEFT_MIN(comes, t->interference_change));
    next = WEFT_MIN(next, t->deadline);
    advance(t, WEFT_MAX(next, t->now));
    if (next == t->deadline) return WEFT_OK; /* the caller takes the late requests out */
    if (e >= 0 && next == ends) {
        finish(t, e);
        *look = true;
    } else if (next == comes) {
        return arrive(t, look);
    } else if (next == timer) {
        weft_dispatch_timer_fired(&t->dispatch, t->due, t->now);
        *look = true;
    } else {
        change_interference(t);
    }
    return WEFT_OK;
}

static weft_status simulate(simulation *t)
{
    int64_t all = t->first + t->o->requests;
    t->due = t->deadline = INFINITY;
    t->interference = 2; /* so that the next call stops it */
    change_interference(t);
    while (t->arrivals < all || t->queue->requests.count > 0 || t->dispatch.busy > 0) {
        bool look = false;
        if (t->arrivals >= all && !t->queue->ending) {
            t->queue->ending = look =
                true; /* no further request will arrive, so a batch waits for none */
        } else {
            WEFT_TRY(handle_next(t, t->arrivals < all ? weft_workload_next(&t->workload) : INFINITY,
                                 &look));
        }
        expire(t);
        if (search(t) || look) begin_batches(t);
    }
    return WEFT_OK;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void summarise(simulation *t)
{
    weft_forecast *f = t->out;
    int64_t n = 0;
    for (int64_t i = 0; i < t->o->requests; i++) {
        f->refused += t->latency[i] == REFUSED;
        f->late += t->latency[i] == LATE;
        if (t->latency[i] >= 0) t->latency[n++] = t->latency[i];
    }
    f->requests = n;
    f->batches = t->batches;
    f->rows = t->batches ? (double)t->rows / (double)t->batches : 0;
    f->utilisation = t->now > t->began ? t->busy_time / (t->now - t->began) / t->o->executors : 0;
    f->max_delay = t->queue->policy->setting.max_delay;
    f->min_rows = t->queue->policy->setting.min_rows;
    if (n == 0) return;
    qsort(t->latency, (size_t)n, sizeof(double), compare);
    for (int64_t i = 0; i < n; i++) f->mean += t->latency[i] / (double)n;
    const struct {
        double *to, quantile;
    } quantiles[] = {{&f->p50, 0.5}, {&f->p95, 0.95}, {&f->p99, 0.99}, {&f->p999, 0.999}};
    for (size_t i = 0; i < WEFT_COUNT(quantiles); i++)
        *quantiles[i].to = t->latency[(int64_t)(quantiles[i].quantile * (double)(n - 1))];
}

static weft_status prepare(weft_context *context, simulation *t)
{
    const weft_forecast_options *o = t->o;
    weft_batch_queue_options queue;
    weft_batch_queue_options_init(&queue);
    queue.policy = o->policy;
    queue.limit = o->limit;
    queue.max_waiting = o->waiting;
    queue.curve_rows = o->curve_rows;
    queue.curve_times = o->curve_times;
    queue.curve_sizes = o->curve_sizes;
    queue.slowdown = o->slowdown;
    t->dispatch.executors = o->executors;
    t->first = o->requests / 10;
    weft_random_start(&t->random, o->seed, 3);
    weft_random_start(&t->interference_random, o->seed, 4);
    WEFT_TRY(weft_curve_make(o->curve_rows, o->curve_times, o->curve_sizes, o->slowdown,
                             o->executors, &t->curve));
    t->truth = &t->curve;
    WEFT_TRY(WEFT_NEW(&t->batch, o->executors));
    WEFT_TRY(WEFT_NEW(&t->left, o->executors));
    WEFT_TRY(WEFT_NEW(&t->latency, o->requests));
    WEFT_TRY(weft_workload_open(context, o, &t->workload));
    return weft_dispatch_add(&t->dispatch, context, &queue, &t->queue);
}

weft_status weft_forecast_run(weft_context *context, const weft_forecast_options *options,
                              void (*each)(void *user, double latency), void *user,
                              weft_forecast *out)
{
    WEFT_NEED(context, options, out);
    weft_forecast made = {0};
    weft_forecast_options own;
    weft_forecast_options_init(&own);
    WEFT_TAKE(weft_forecast_options, options, curve_sizes, &own);
    simulation t = {.o = &own, .out = &made};
    WEFT_TRY(check(&own));
    weft_status status = prepare(context, &t);
    if (status == WEFT_OK) status = simulate(&t);
    for (int64_t i = 0; status == WEFT_OK && each && i < own.requests; i++)
        each(user, t.latency[i]);
    if (status == WEFT_OK) {
        summarise(&t);
        *out = made;
    }
    if (t.queue) weft_dispatch_remove(&t.dispatch, &t.queue);
    weft_workload_close(&t.workload);
    weft_curve_free(&t.curve);
    free(t.dispatch.queues);
    free(t.batch);
    free(t.left);
    free(t.latency);
    return status;
}
