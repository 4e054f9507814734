/* The event loop of the load generator. In an open loop it sends requests when they are due,
 * whatever the earlier responses; in a closed loop it sends the next request after each
 * response. */
#include "load/engine_internal.h"

#include <errno.h>
#include <math.h>
#include <sys/epoll.h>
#include <unistd.h>

/* EVENTS: handled at a time. AT_ONCE: requests sent between two polls. BUFFER: bytes read at a
 * time. */
enum { EVENTS = 128, AT_ONCE = 64, BUFFER = 65536 };
/* TICK: seconds between two calls of the user's tick function. AFTER_FAILURE: seconds that a closed
 * loop waits after a failed request. STOP_SECONDS: from Ctrl-C until outstanding requests are
 * abandoned. */
static const double TICK = 0.1, AFTER_FAILURE = 0.01, STOP_SECONDS = 1;

typedef struct run {
    weft_engine *engine;
    weft_load_stage *stage;
    int number; /* number of the stage, for the tick function */
    weft_arrivals *arrivals;
    bool wait;
    double next; /* time at which the next request of an open loop is due */
    double give_up;
} run;

/* --- requests --- */

static void write_trace(weft_engine *e, weft_scheduled_request scheduled, double latency,
                        int status, const char *what)
{
    const weft_load_rate *plan = &scheduled.stage->plan;
    weft_status written =
        weft_output_print(e->trace, "%.6f,%.6f,%d,%s,%g,%lld\n", scheduled.when - e->begin, latency,
                          status, what, plan->rate, (long long)plan->closed);
    weft_error_catch(&e->error, written);
}

static void enqueue(weft_engine *e, weft_connection_pool *pool, weft_scheduled_request scheduled)
{
    if (pool->tail - pool->head == pool->capacity) {
        size_t more = pool->capacity ? 2 * pool->capacity : 1024;
        weft_scheduled_request *larger;
        weft_status status = WEFT_NEW(&larger, more);
        if (status != WEFT_OK) {
            weft_error_catch(&e->error, status);
            weft_engine_ended(e, pool, scheduled, 0, "stopped", weft_last_message());
            return;
        }
        for (size_t i = pool->head; i < pool->tail; i++)
            larger[i & (more - 1)] = pool->waiting[i & (pool->capacity - 1)];
        free(pool->waiting);
        pool->waiting = larger;
        pool->capacity = more;
    }
    pool->waiting[pool->tail++ & (pool->capacity - 1)] = scheduled;
}

static weft_scheduled_request *first_waiting(const weft_connection_pool *pool)
{
    return pool->head == pool->tail ? NULL : &pool->waiting[pool->head & (pool->capacity - 1)];
}

static void schedule(weft_engine *e, weft_connection_pool *pool, double when)
{
    weft_scheduled_request scheduled = {when, e->stage};
    e->number++;
    e->outstanding++;
    e->stage->result.sent++;
    if (!first_waiting(pool) && weft_connection_pool_send(e, pool, scheduled)) return;
    e->stage->result.waited++;
    enqueue(e, pool, scheduled);
}

/* Whether the stage may send another request, due at `when`: its time and its number of requests
 * are not used up. */
static bool may_schedule(const weft_engine *e, double when)
{
    int64_t most = e->stage->warmup ? 0 : e->options->requests;
    return e->sending && when < e->stage->end && (most == 0 || e->stage->result.sent < most);
}

void weft_engine_ended(weft_engine *e, weft_connection_pool *pool, weft_scheduled_request scheduled,
                       int status, const char *what, const char *example)
{
    double now = weft_seconds(), latency = now - scheduled.when;
    weft_load_result *f = &scheduled.stage->result;
    e->outstanding--;
    f->seconds = fmax(f->seconds, now - scheduled.stage->begin);
    if (status == 200) {
        f->ok++;
        weft_load_histogram_add(&f->latency, latency);
    } else {
        weft_load_result_add_failure(f, status, what, example);
    }
    if (e->trace && !scheduled.stage->warmup) write_trace(e, scheduled, latency, status, what);
    if (scheduled.stage->plan.closed == 0) return;
    /* An ended request of a closed loop allows the next one. After a failure the next one is
     * delayed, so that a dead server is not sent requests as fast as it refuses them. */
    pool->closed_due++;
    pool->closed_due_at = status == 200 ? pool->closed_due_at : now + AFTER_FAILURE;
}

/* Sends requests that wait for a connection over connections that have become free, and the next
 * requests of a closed loop. */
static void send_waiting(weft_engine *e, weft_connection_pool *pool)
{
    double now = 0;
    for (weft_scheduled_request *scheduled;
         (scheduled = first_waiting(pool)) && weft_connection_pool_send(e, pool, *scheduled);)
        pool->head++;
    if (pool->closed_due > 0) now = weft_seconds();
    while (pool->closed_due > 0 && now >= pool->closed_due_at) {
        pool->closed_due--;
        if (may_schedule(e, now)) schedule(e, pool, now);
    }
}

/* --- time --- */

static void expire(weft_engine *e, weft_connection_pool *pool, double now)
{
    double born = now - e->options->timeout;
    while (pool->busy.first && pool->busy.first->scheduled.when <= born)
        weft_connection_pool_abandon(e, pool->busy.first, "timeout", "no answer in time");
    for (weft_scheduled_request *scheduled;
         (scheduled = first_waiting(pool)) && scheduled->when <= born;) {
        weft_scheduled_request expired = *scheduled;
        pool->head++;
        weft_engine_ended(e, pool, expired, 0, "no connection",
                          "no connection became free in time; --connections allows more");
    }
}

static void abandon_all(weft_engine *e)
{
    for (int i = 0; i < e->pool_count; i++) {
        weft_connection_pool *pool = &e->pools[i];
        while (pool->busy.first)
            weft_connection_pool_abandon(e, pool->busy.first, "stopped", "it was stopped");
        for (weft_scheduled_request *scheduled; (scheduled = first_waiting(pool));) {
            weft_scheduled_request expired = *scheduled;
            pool->head++;
            weft_engine_ended(e, pool, expired, 0, "stopped", "it was stopped");
        }
    }
}

static double next_deadline(const weft_engine *e, double from)
{
    double at = from;
    for (int i = 0; i < e->pool_count; i++) {
        const weft_connection_pool *pool = &e->pools[i];
        const weft_scheduled_request *scheduled = first_waiting(pool);
        if (scheduled) at = fmin(at, scheduled->when + e->options->timeout);
        if (pool->busy.first) at = fmin(at, pool->busy.first->scheduled.when + e->options->timeout);
        if (pool->closed_due > 0) at = fmin(at, pool->closed_due_at);
    }
    return at;
}

static int wait_for(const weft_engine *e, struct epoll_event *events, double seconds)
{
    double whole = floor(fmax(seconds, 0));
    const struct timespec span = {.tv_sec = (time_t)whole,
                                  .tv_nsec = (long)((fmax(seconds, 0) - whole) * 1e9)};
    int n = epoll_pwait2(e->epoll, events, EVENTS, &span, NULL);
    if (n < 0 && errno == ENOSYS) /* the kernel is older than Linux 5.11 */
        n = epoll_wait(e->epoll, events, EVENTS, (int)ceil(seconds * 1000));
    return n;
}

static void poll_events(weft_engine *e, double until)
{
    struct epoll_event events[EVENTS];
    double now = weft_seconds();
    int n = wait_for(e, events, until - now);
    if (until > now) e->idle_seconds += weft_seconds() - now;
    for (int i = 0; i < n; i++) {
        weft_load_connection *c = events[i].data.ptr;
        weft_connection_pool_event(e, c, events[i].events);
        send_waiting(e, c->pool);
    }
}

/* --- a stage --- */

/* Sends, or queues for a connection, the requests of an open loop that are due, at most AT_ONCE of
 * them; true: more may be due. */
static bool schedule_due(run *t)
{
    weft_engine *e = t->engine;
    for (int i = 0; i < AT_ONCE; i++) {
        double now = weft_seconds();
        if (t->next > now || !may_schedule(e, t->next)) return false;
        weft_load_histogram_add(&t->stage->result.send_delay, now - t->next);
        schedule(e, &e->pools[e->number % (uint64_t)e->pool_count], t->next);
        t->next += weft_arrivals_next(t->arrivals, t->stage->plan.rate);
    }
    return true;
}

/* A closed loop starts with all its requests, spread over the targets in turn. */
static void schedule_first(run *t)
{
    weft_engine *e = t->engine;
    double now = weft_seconds();
    for (int i = 0; i < e->pool_count; i++) e->pools[i].closed_due = 0;
    for (int64_t i = 0; i < t->stage->plan.closed && may_schedule(e, now); i++)
        schedule(e, &e->pools[i % e->pool_count], now);
}

static void report_tick(run *t, double now)
{
    weft_engine *e = t->engine;
    if (!e->tick || now < e->last_tick + TICK) return;
    e->last_tick = now;
    e->tick(e->user, t->number, fmax(now - t->stage->begin, 0));
}

static void stop(run *t, double now)
{
    weft_engine *e = t->engine;
    if (t->give_up == 0) t->give_up = now + STOP_SECONDS;
    e->sending = false;
    t->wait = true;
    if (now >= t->give_up) abandon_all(e);
}

static bool is_over(const run *t, double now)
{
    const weft_engine *e = t->engine;
    bool closed = t->stage->plan.closed > 0;
    bool more = closed ? may_schedule(e, now) : may_schedule(e, t->next);
    if (more) return false;
    return t->wait ? e->outstanding == 0 : !e->sending || now >= t->stage->end;
}

weft_status weft_engine_run_stage(weft_engine *e, weft_load_stage *stage, int number, double begin,
                                  bool wait, weft_arrivals *arrivals)
{
    run t = {.engine = e, .stage = stage, .number = number, .wait = wait, .arrivals = arrivals};
    double now = weft_seconds();
    e->stage = stage;
    e->idle_seconds = 0;
    e->sending = true;
    stage->begin = begin;
    stage->end = begin + stage->plan.seconds;
    if (stage->plan.closed)
        schedule_first(&t);
    else
        t.next = begin + weft_arrivals_next(arrivals, stage->plan.rate);
    while (!is_over(&t, now)) {
        bool more = stage->plan.closed == 0 && schedule_due(&t);
        bool stopped = e->stop && e->stop->wanted;
        now = weft_seconds();
        if (stopped || e->error.status != WEFT_OK) stop(&t, now);
        for (int i = 0; i < e->pool_count; i++) {
            expire(e, &e->pools[i], now);
            send_waiting(e, &e->pools[i]);
        }
        double until = next_deadline(e, now + TICK);
        if (stage->plan.closed == 0 && may_schedule(e, t.next)) until = fmin(until, t.next);
        if (may_schedule(e, now) || !t.wait) until = fmin(until, fmax(stage->end, now));
        if (e->outstanding > 0 || !is_over(&t, now)) poll_events(e, more ? now : until);
        now = weft_seconds();
        report_tick(&t, now);
    }
    e->sending = false;
    stage->result.finished = true;
    stage->result.busy = 1 - fmin(e->idle_seconds / fmax(now - begin, 1e-9), 1);
    if (e->options->requests == 0 && !(e->stop && e->stop->wanted))
        stage->result.seconds = fmax(stage->result.seconds, stage->plan.seconds);
    return weft_error_raise(&e->error);
}

weft_status weft_engine_open(weft_engine *e, weft_request_set *sets, int count, int64_t connections)
{
    e->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (e->epoll < 0)
        return weft_fail(WEFT_ERR_IO, "cannot watch connections: %s", strerror(errno));
    WEFT_TRY(WEFT_NEW(&e->buffer, BUFFER));
    WEFT_TRY(WEFT_NEW(&e->pools, count));
    for (int i = 0; i < count; i++) {
        int64_t share =
            weft_part_start(connections, i + 1, count) - weft_part_start(connections, i, count);
        e->pool_count++;
        WEFT_TRY(weft_connection_pool_open(&e->pools[i], &sets[i], (int)WEFT_MAX(share, 1)));
    }
    return WEFT_OK;
}

void weft_engine_close(weft_engine *e)
{
    for (int i = 0; i < e->pool_count; i++) weft_connection_pool_close(&e->pools[i]);
    free(e->pools);
    free(e->buffer);
    if (e->epoll >= 0) close(e->epoll);
}
