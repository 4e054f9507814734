/* The event loop of the load: sends requests when they are due (open loop), independent of earlier
 * responses, or after each response (closed loop). */
#include "load/engine_internal.h"

#include <errno.h>
#include <math.h>
#include <sys/epoll.h>
#include <unistd.h>

/* Events handled at a time, and requests sent between two polls. Seconds between two ticks, before
 * a closed loop continues after a failure, and after Ctrl-C until outstanding requests are
 * abandoned. */
enum { EVENTS = 128, AT_ONCE = 64, BUFFER = 65536 };
static const double TICK = 0.1, AFTER_FAILURE = 0.01, LAST_CHANCE = 1;

typedef struct turn {
    weft_engine *engine;
    weft_row *row;
    int number; /* number of the row */
    weft_arrivals *arrivals;
    bool wait;
    double next; /* when the next request is due */
    double give_up;
} turn;

/* --- requests --- */

static void write_trace(weft_engine *e, weft_due due, double latency, int status, const char *what)
{
    const weft_rate *plan = &due.row->plan;
    weft_status written =
        weft_output_print(e->trace, "%.6f,%.6f,%d,%s,%g,%lld\n", due.when - e->begin, latency,
                          status, what, plan->rate, (long long)plan->closed);
    weft_error_catch(&e->error, written);
}

static void put_waiting(weft_engine *e, weft_lane *lane, weft_due due)
{
    if (lane->tail - lane->head == lane->capacity) {
        size_t more = lane->capacity ? 2 * lane->capacity : 1024;
        weft_due *larger;
        weft_status status = WEFT_NEW(&larger, more);
        if (status != WEFT_OK) {
            weft_error_catch(&e->error, status);
            weft_engine_ended(e, lane, due, 0, "stopped", weft_last_message());
            return;
        }
        for (size_t i = lane->head; i < lane->tail; i++)
            larger[i & (more - 1)] = lane->waiting[i & (lane->capacity - 1)];
        free(lane->waiting);
        lane->waiting = larger;
        lane->capacity = more;
    }
    lane->waiting[lane->tail++ & (lane->capacity - 1)] = due;
}

static weft_due *first_waiting(const weft_lane *lane)
{
    return lane->head == lane->tail ? NULL : &lane->waiting[lane->head & (lane->capacity - 1)];
}

static void make(weft_engine *e, weft_lane *lane, double when)
{
    weft_due due = {when, e->row};
    e->number++;
    e->under_way++;
    e->row->figures.sent++;
    if (!first_waiting(lane) && weft_lane_ask(e, lane, due)) return;
    e->row->figures.waited++;
    put_waiting(e, lane, due);
}

/* Whether the row may have another request. */
static bool goes_on(const weft_engine *e, double when)
{
    int64_t most = e->options->requests;
    return e->making && when < e->row->end && (most == 0 || e->row->figures.sent < most);
}

void weft_engine_ended(weft_engine *e, weft_lane *lane, weft_due due, int status, const char *what,
                       const char *example)
{
    double now = weft_seconds(), latency = now - due.when;
    weft_load_figures *f = &due.row->figures;
    e->under_way--;
    f->seconds = fmax(f->seconds, now - due.row->begin);
    if (status == 200) {
        f->ok++;
        weft_cells_add(&f->latency, latency);
    } else {
        weft_figures_fail(f, status, what, example);
    }
    if (e->trace) write_trace(e, due, latency, status, what);
    if (due.row->plan.closed == 0) return;
    /* The next request of a closed loop; after a failure it is delayed, so that a dead server is
     * not asked at the speed of its refusals. */
    lane->owed++;
    lane->owed_at = status == 200 ? lane->owed_at : now + AFTER_FAILURE;
}

/* Sends waiting requests over connections that have become free. */
static void serve(weft_engine *e, weft_lane *lane)
{
    double now = 0;
    for (weft_due *due; (due = first_waiting(lane)) && weft_lane_ask(e, lane, *due);) lane->head++;
    if (lane->owed > 0) now = weft_seconds();
    while (lane->owed > 0 && now >= lane->owed_at) {
        lane->owed--;
        if (goes_on(e, now)) make(e, lane, now);
    }
}

/* --- time --- */

static void expire(weft_engine *e, weft_lane *lane, double now)
{
    double born = now - e->options->timeout;
    while (lane->busy.first && lane->busy.first->now.when <= born)
        weft_lane_give_up(e, lane->busy.first, "timeout", "no answer in time");
    for (weft_due *due; (due = first_waiting(lane)) && due->when <= born;) {
        weft_due late = *due;
        lane->head++;
        weft_engine_ended(e, lane, late, 0, "no connection",
                          "no connection became free in time; --connections allows more");
    }
}

static void give_all_up(weft_engine *e)
{
    for (int i = 0; i < e->lane_count; i++) {
        weft_lane *lane = &e->lanes[i];
        while (lane->busy.first)
            weft_lane_give_up(e, lane->busy.first, "stopped", "it was stopped");
        for (weft_due *due; (due = first_waiting(lane));) {
            weft_due late = *due;
            lane->head++;
            weft_engine_ended(e, lane, late, 0, "stopped", "it was stopped");
        }
    }
}

static double next_deadline(const weft_engine *e, double from)
{
    double at = from;
    for (int i = 0; i < e->lane_count; i++) {
        const weft_lane *lane = &e->lanes[i];
        const weft_due *due = first_waiting(lane);
        if (due) at = fmin(at, due->when + e->options->timeout);
        if (lane->busy.first) at = fmin(at, lane->busy.first->now.when + e->options->timeout);
        if (lane->owed > 0) at = fmin(at, lane->owed_at);
    }
    return at;
}

static int wait_for(const weft_engine *e, struct epoll_event *events, double seconds)
{
    double whole = floor(fmax(seconds, 0));
    const struct timespec span = {.tv_sec = (time_t)whole,
                                  .tv_nsec = (long)((fmax(seconds, 0) - whole) * 1e9)};
    int n = epoll_pwait2(e->epoll, events, EVENTS, &span, NULL);
    if (n < 0 && errno == ENOSYS) /* before Linux 5.11 */
        n = epoll_wait(e->epoll, events, EVENTS, (int)ceil(seconds * 1000));
    return n;
}

static void hear(weft_engine *e, double until)
{
    struct epoll_event events[EVENTS];
    double now = weft_seconds();
    int n = wait_for(e, events, until - now);
    if (until > now) e->slept += weft_seconds() - now;
    for (int i = 0; i < n; i++) {
        weft_wire *c = events[i].data.ptr;
        weft_lane_event(e, c, events[i].events);
        serve(e, c->lane);
    }
}

/* --- a row --- */

/* Makes the requests that are due, up to AT_ONCE; true: more are due. */
static bool make_due(turn *t)
{
    weft_engine *e = t->engine;
    for (int i = 0; i < AT_ONCE; i++) {
        double now = weft_seconds();
        if (t->next > now || !goes_on(e, t->next)) return false;
        weft_cells_add(&t->row->figures.late, now - t->next);
        make(e, &e->lanes[e->number % (uint64_t)e->lane_count], t->next);
        t->next += weft_arrivals_next(t->arrivals, t->row->plan.rate);
    }
    return true;
}

/* A closed loop starts with all its requests, spread over the targets in turn. */
static void make_first(turn *t)
{
    weft_engine *e = t->engine;
    double now = weft_seconds();
    for (int i = 0; i < e->lane_count; i++) e->lanes[i].owed = 0;
    for (int64_t i = 0; i < t->row->plan.closed && goes_on(e, now); i++)
        make(e, &e->lanes[i % e->lane_count], now);
}

static void tell(turn *t, double now)
{
    weft_engine *e = t->engine;
    if (!e->tick || now < e->ticked + TICK) return;
    e->ticked = now;
    e->tick(e->user, t->number, fmax(now - t->row->begin, 0));
}

static void stop(turn *t, double now)
{
    weft_engine *e = t->engine;
    if (t->give_up == 0) t->give_up = now + LAST_CHANCE;
    e->making = false;
    t->wait = true;
    if (now >= t->give_up) give_all_up(e);
}

static bool is_over(const turn *t, double now)
{
    const weft_engine *e = t->engine;
    bool closed = t->row->plan.closed > 0;
    bool more = closed ? goes_on(e, now) : goes_on(e, t->next);
    if (more) return false;
    return t->wait ? e->under_way == 0 : !e->making || now >= t->row->end;
}

weft_status weft_engine_row(weft_engine *e, weft_row *row, int number, double begin, bool wait,
                            weft_arrivals *arrivals)
{
    turn t = {.engine = e, .row = row, .number = number, .wait = wait, .arrivals = arrivals};
    double now = weft_seconds();
    e->row = row;
    e->slept = 0;
    e->making = true;
    row->begin = begin;
    row->end = begin + row->plan.seconds;
    if (row->plan.closed)
        make_first(&t);
    else
        t.next = begin + weft_arrivals_next(arrivals, row->plan.rate);
    while (!is_over(&t, now)) {
        bool more = row->plan.closed == 0 && make_due(&t);
        bool stopped = e->stop && e->stop->wanted;
        now = weft_seconds();
        if (stopped || e->error.status != WEFT_OK) stop(&t, now);
        for (int i = 0; i < e->lane_count; i++) {
            expire(e, &e->lanes[i], now);
            serve(e, &e->lanes[i]);
        }
        double until = next_deadline(e, now + TICK);
        if (row->plan.closed == 0 && goes_on(e, t.next)) until = fmin(until, t.next);
        if (goes_on(e, now) || !t.wait) until = fmin(until, fmax(row->end, now));
        if (e->under_way > 0 || !is_over(&t, now)) hear(e, more ? now : until);
        now = weft_seconds();
        tell(&t, now);
    }
    e->making = false;
    row->figures.over = true;
    row->figures.busy = 1 - fmin(e->slept / fmax(now - begin, 1e-9), 1);
    if (e->options->requests == 0 && !(e->stop && e->stop->wanted))
        row->figures.seconds = fmax(row->figures.seconds, row->plan.seconds);
    return weft_error_raise(&e->error);
}

weft_status weft_engine_open(weft_engine *e, weft_asking *askings, int count, int64_t connections)
{
    e->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (e->epoll < 0)
        return weft_fail(WEFT_ERR_IO, "cannot watch connections: %s", strerror(errno));
    WEFT_TRY(WEFT_NEW(&e->buffer, BUFFER));
    WEFT_TRY(WEFT_NEW(&e->lanes, count));
    for (int i = 0; i < count; i++) {
        int64_t share =
            weft_part_start(connections, i + 1, count) - weft_part_start(connections, i, count);
        e->lane_count++;
        WEFT_TRY(weft_lane_open(&e->lanes[i], &askings[i], (int)WEFT_MAX(share, 1)));
    }
    return WEFT_OK;
}

void weft_engine_close(weft_engine *e)
{
    for (int i = 0; i < e->lane_count; i++) weft_lane_close(&e->lanes[i]);
    free(e->lanes);
    free(e->buffer);
    if (e->epoll >= 0) close(e->epoll);
}
