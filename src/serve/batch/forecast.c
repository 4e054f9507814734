/* Simulates the batcher's own dispatch in virtual time, and reports latency and throughput of a
 * policy under a load. */
#include <math.h>

#include "serve/batch/workload.h"
#include "serve/batch/batch_internal.h"

typedef struct theatre {
    const weft_forecast_options *o;
    weft_dispatch dispatch;
    weft_line *line;
    weft_demand demand;
    weft_random random, disturbance;
    const weft_curve *truth; /* true batch times, whatever the line has learned */
    weft_curve curve;
    weft_job **job; /* [executors]; NULL: idle */
    double *left;   /* seconds left of each executor's batch, at full speed */
    double now, due, busy_time, began;
    double others, turn; /* slowdown by other processes now, and when it changes */
    int64_t came, first; /* requests; first request that is counted */
    double *latency;     /* of the counted requests; below 0: refused */
    weft_forecast *out;
    int64_t batches, rows;
    bool stepped;
} theatre;

void weft_forecast_options_init(weft_forecast_options *options)
{
    *options = (weft_forecast_options){.struct_size = sizeof(*options),
                                       .policy = "adaptive",
                                       .arrivals = "poisson",
                                       .rate = 100,
                                       .rows = 1,
                                       .executors = 1,
                                       .limit = 64,
                                       .waiting = 4096,
                                       .requests = 20000,
                                       .seed = 1};
}

static weft_status check(const weft_forecast_options *o)
{
    if (o->struct_size != sizeof(*o) || o->curve_sizes < 1)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "a forecast needs the time of a batch of one size at least");
    if (!(o->rate > 0) || !isfinite(o->rate) || (o->step > 0 && !(o->then > 0)))
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
    if (!(o->slack >= 0) || isinf(o->slack))
        return weft_fail(WEFT_ERR_ARGUMENT, "the slack of timers is %g s, must be 0 or more",
                         o->slack);
    if (!(o->disturbed >= 0) || o->disturbed >= 1 ||
        (o->disturbed > 0 && (!(o->disturbance >= 1) || !(o->disturbs > 0))))
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "others disturb for %g of the time, %g s on the mean, by the factor %g; "
                         "must be below 1, above 0, and at least 1",
                         o->disturbed, o->disturbs, o->disturbance);
    return WEFT_OK;
}

/* A log-normal factor of mean 1 with the options' coefficient of variation (Box and Muller). */
static double factor(theatre *t)
{
    if (t->o->variation <= 0) return 1;
    double spread = log(1 + t->o->variation * t->o->variation);
    double u = 1 - weft_random_unit(&t->random), v = weft_random_unit(&t->random);
    double normal = sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
    return exp(sqrt(spread) * normal - spread / 2);
}

/* Other processes start or stop using the cores. */
static void turn(theatre *t)
{
    const weft_forecast_options *o = t->o;
    bool begin = o->disturbed > 0 && t->others <= 1;
    double mean = begin ? o->disturbs : o->disturbs * (1 - o->disturbed) / o->disturbed;
    t->others = begin ? o->disturbance : 1;
    t->turn =
        o->disturbed > 0 ? t->now - mean * log(1 - weft_random_unit(&t->disturbance)) : INFINITY;
}

/* The slowdown of all batches, against one that has the machine alone. */
static double slowness(const theatre *t)
{
    return t->truth->slower[t->dispatch.busy - 1] * t->others;
}

static void advance(theatre *t, double to)
{
    int busy = t->dispatch.busy;
    if (busy > 0) {
        double done = (to - t->now) / slowness(t);
        for (int e = 0; e < t->o->executors; e++)
            if (t->job[e]) t->left[e] -= done;
        t->busy_time += busy * (to - t->now);
    }
    t->now = to;
}

static int next_end(const theatre *t, double *when)
{
    int next = -1;
    for (int e = 0; e < t->o->executors; e++)
        if (t->job[e] && (next < 0 || t->left[e] < t->left[next])) next = e;
    *when = next < 0 ? INFINITY : t->now + WEFT_MAX(t->left[next], 0) * slowness(t);
    return next;
}

/* Starts a due batch on each idle executor, and sets `due` to the next time at which one becomes
 * due. */
static void begin_batches(theatre *t)
{
    for (int e = 0; e < t->o->executors; e++) {
        if (t->job[e]) continue;
        weft_job *job = weft_dispatch_next(&t->dispatch, e, t->now, false, &t->due);
        if (!job) return;
        t->job[e] = job;
        t->left[e] = weft_curve_time(t->truth, (double)job->rows) * factor(t);
        t->batches++;
        t->rows += job->rows;
    }
    t->due = INFINITY; /* all executors are busy */
}

static void finish(theatre *t, int e)
{
    weft_job *job = t->job[e];
    for (int i = 0; i < job->count; i++) {
        job->taken[i].ended = t->now;
        int64_t number = (int64_t)(intptr_t)job->users[i] - t->first;
        if (number >= 0) t->latency[number] = t->now - job->taken[i].came;
        weft_demand_answered(&t->demand, t->now, t->stepped);
    }
    weft_dispatch_end(&t->dispatch, job, t->now);
    t->job[e] = NULL;
}

static weft_status arrive(theatre *t, bool *look)
{
    weft_request request;
    weft_request_init(&request);
    request.rows = t->o->rows;
    request.user = (void *)(intptr_t)t->came;
    if (t->came == t->first) {
        t->began = t->now;
        t->busy_time = 0;
        t->batches = t->rows = 0;
    }
    t->stepped = t->o->step > 0 && t->came >= t->first + t->o->step;
    weft_demand_came(&t->demand, t->stepped);
    weft_status status = weft_dispatch_put(t->line, &request, t->now, look, NULL);
    if (status == WEFT_ERR_BUSY) {
        if (t->came >= t->first) t->latency[t->came - t->first] = -1;
        weft_demand_answered(&t->demand, t->now, t->stepped);
        status = WEFT_OK;
    }
    t->came++;
    return status;
}

static bool think(theatre *t)
{
    weft_policy *p = t->line->policy;
    if (!p->ops->wants || !p->ops->wants(p, t->now)) return false;
    p->ops->take(p, t->now);
    p->ops->think(p);
    p->ops->use(p);
    return true;
}

/* Processes the next event. look: set if an idle executor would be woken to look for a due
 * batch. */
static weft_status happen(theatre *t, double comes, bool *look)
{
    double ends, timer = t->due + t->o->slack;
    int e = next_end(t, &ends);
    double next = WEFT_MIN(WEFT_MIN(ends, timer), WEFT_MIN(comes, t->turn));
    advance(t, WEFT_MAX(next, t->now));
    if (e >= 0 && next == ends) {
        finish(t, e);
        *look = true;
    } else if (next == comes) {
        return arrive(t, look);
    } else if (next == timer) {
        weft_dispatch_woke(&t->dispatch, t->due, t->now);
        *look = true;
    } else {
        turn(t);
    }
    return WEFT_OK;
}

static weft_status play(theatre *t)
{
    int64_t all = t->first + t->o->requests;
    t->due = INFINITY;
    t->others = 2; /* ends at once */
    turn(t);
    while (t->came < all || t->line->queue.count > 0 || t->dispatch.busy > 0) {
        bool look = false;
        if (t->came >= all && !t->line->ending) {
            t->line->ending = look =
                true; /* no further request arrives, so none is worth waiting for */
        } else {
            WEFT_TRY(happen(t, t->came < all ? weft_demand_next(&t->demand) : INFINITY, &look));
        }
        if (think(t) || look) begin_batches(t);
    }
    return WEFT_OK;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void summarise(theatre *t)
{
    weft_forecast *f = t->out;
    int64_t n = 0;
    for (int64_t i = 0; i < t->o->requests; i++)
        if (t->latency[i] >= 0) t->latency[n++] = t->latency[i];
    f->refused = t->o->requests - n;
    f->requests = n;
    f->batches = t->batches;
    f->rows = t->batches ? (double)t->rows / (double)t->batches : 0;
    f->utilisation = t->now > t->began ? t->busy_time / (t->now - t->began) / t->o->executors : 0;
    f->wait = t->line->policy->now.wait;
    f->need = t->line->policy->now.need;
    if (n == 0) return;
    qsort(t->latency, (size_t)n, sizeof(double), compare);
    for (int64_t i = 0; i < n; i++) f->mean += t->latency[i] / (double)n;
    const struct {
        double *to, quantile;
    } quantiles[] = {{&f->p50, 0.5}, {&f->p95, 0.95}, {&f->p99, 0.99}, {&f->p999, 0.999}};
    for (size_t i = 0; i < WEFT_COUNT(quantiles); i++)
        *quantiles[i].to = t->latency[(int64_t)(quantiles[i].quantile * (double)(n - 1))];
}

static weft_status set_stage(weft_context *context, theatre *t)
{
    const weft_forecast_options *o = t->o;
    weft_line_options line;
    weft_line_options_init(&line);
    line.policy = o->policy;
    line.limit = o->limit;
    line.waiting = o->waiting;
    line.curve_rows = o->curve_rows;
    line.curve_times = o->curve_times;
    line.curve_sizes = o->curve_sizes;
    line.slower = o->slower;
    t->dispatch.executors = o->executors;
    t->first = o->requests / 10;
    weft_random_start(&t->random, o->seed, 3);
    weft_random_start(&t->disturbance, o->seed, 4);
    WEFT_TRY(weft_curve_make(o->curve_rows, o->curve_times, o->curve_sizes, o->slower, o->executors,
                             &t->curve));
    t->truth = &t->curve;
    WEFT_TRY(WEFT_NEW(&t->job, o->executors));
    WEFT_TRY(WEFT_NEW(&t->left, o->executors));
    WEFT_TRY(WEFT_NEW(&t->latency, o->requests));
    WEFT_TRY(weft_demand_open(context, o, &t->demand));
    return weft_dispatch_add(&t->dispatch, context, &line, &t->line);
}

weft_status weft_forecast_run(weft_context *context, const weft_forecast_options *options,
                              void (*each)(void *user, double latency), void *user,
                              weft_forecast *out)
{
    weft_forecast made = {0};
    theatre t = {.o = options, .out = &made};
    WEFT_TRY(check(options));
    weft_status status = set_stage(context, &t);
    if (status == WEFT_OK) status = play(&t);
    for (int64_t i = 0; status == WEFT_OK && each && i < options->requests; i++)
        each(user, t.latency[i]);
    if (status == WEFT_OK) {
        summarise(&t);
        *out = made;
    }
    if (t.line) weft_dispatch_remove(&t.dispatch, &t.line);
    weft_demand_close(&t.demand);
    weft_curve_free(&t.curve);
    free(t.dispatch.lines);
    free(t.job);
    free(t.left);
    free(t.latency);
    return status;
}
