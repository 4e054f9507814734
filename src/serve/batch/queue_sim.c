/* The fast simulation behind the search of the adaptive policy: simulates one setting on given
 * arrivals in virtual time, with one queue in order of arrival and executors that share cores. The
 * simulation leaves out the parts of the dispatch that do not affect the choice of a setting, and
 * is a hundred times as fast as forecast.c. */
#include <math.h>

#include "serve/batch/batch_internal.h"

enum { MOST_EXECUTORS = 64 };

typedef struct sim {
    const weft_queue_sim *r;
    const weft_curve *curve;
    const weft_batch_setting *setting;
    int head, tail; /* the requests [head, tail) are queued */
    int64_t waiting;
    double now;
    /* heap of the times at which clients that think send again */
    double next_requests[WEFT_MOST_CLOSED_CLIENTS];
    int thinking, think_times_used; /* number of clients in this heap; think times used so far */
    int busy, executors;
    /* the requests [first, end) are in each executor's batch; first equals end: the executor is
     * idle */
    int first[MOST_EXECUTORS], end[MOST_EXECUTORS];
    double left[MOST_EXECUTORS]; /* seconds that each batch would still take if it ran alone */
    int batches;                 /* begun so far */
} sim;

static double time_of(sim *s, int64_t rows)
{
    double time = weft_curve_time(s->curve, (double)rows);
    return s->r->variations > 0 ? time * s->r->variation[s->batches++ % s->r->variations] : time;
}

/* Advances the time. All batches progress at the speed that the number of busy executors allows. */
static void advance(sim *s, double to)
{
    if (s->busy > 0) {
        double done = (to - s->now) / s->curve->slowdown[s->busy - 1];
        for (int e = 0; e < s->executors; e++)
            if (s->first[e] != s->end[e]) s->left[e] -= done;
    }
    s->now = to;
}

/* The executor whose batch ends first; *when: the time of that end. -1: all executors are idle. */
static int next_end(const sim *s, double *when)
{
    int next = -1;
    for (int e = 0; s->busy > 0 && e < s->executors; e++)
        if (s->first[e] != s->end[e] && (next < 0 || s->left[e] < s->left[next])) next = e;
    *when =
        next < 0 ? INFINITY : s->now + WEFT_MAX(s->left[next], 0) * s->curve->slowdown[s->busy - 1];
    return next;
}

static void start_thinking(sim *s)
{
    double think_time = s->r->think_time[s->think_times_used++ % s->r->think_times];
    weft_time_heap_add(s->next_requests, &s->thinking, s->now + think_time);
}

/* The time of the next arrival; infinite: none, or none before an answer. */
static double next_arrival(const sim *s)
{
    if (s->tail == s->r->count) return INFINITY;
    if (s->r->clients == 0) return s->r->at[s->tail];
    return s->thinking > 0 ? s->next_requests[0] : INFINITY;
}

static void arrive(sim *s)
{
    if (s->r->clients > 0) {
        s->r->at[s->tail] = s->now;
        weft_time_heap_pop(s->next_requests, &s->thinking);
    }
    s->waiting += s->r->rows[s->tail++];
}

/* Whether as many requests are queued or running as closed-loop clients can have. */
static bool is_full(const sim *s)
{
    int64_t in_system = s->tail - s->head;
    for (int e = 0; e < s->executors; e++) in_system += s->end[e] - s->first[e];
    return in_system >= s->setting->max_in_system;
}

/* Starts all batches that are due on idle executors; returns the next time at which a batch may be
 * due. freed: an executor has just become free and looks at once. Otherwise a batch that is due by
 * max_delay starts when a timed wait ends, which is late by `timer_slack`. */
static double begin(sim *s, bool freed)
{
    const weft_batch_setting *b = s->setting;
    double late = freed || b->max_delay <= 0 ? 0 : s->r->timer_slack;
    while (s->head < s->tail && s->busy < s->executors) {
        double due = s->r->at[s->head] + b->max_delay;
        if (s->waiting < b->min_rows && due + late > s->now &&
            !(b->max_in_system > 0 && is_full(s)))
            return due + s->r->timer_slack;
        int e = 0;
        while (s->first[e] != s->end[e]) e++;
        int64_t limit =
            b->surge_rows > 0 && s->waiting >= b->surge_rows ? s->r->row_limit : b->max_rows;
        int64_t rows = s->r->rows[s->head];
        s->first[e] = s->head++;
        while (s->head < s->tail && rows + s->r->rows[s->head] <= limit)
            rows += s->r->rows[s->head++];
        s->end[e] = s->head;
        s->left[e] = time_of(s, rows);
        s->waiting -= rows;
        s->busy++;
    }
    return INFINITY;
}

static void finish(sim *s, int e)
{
    for (int i = s->first[e]; i < s->end[e]; i++) {
        s->r->latency[i] = s->now - s->r->at[i];
        if (s->r->clients > 0) start_thinking(s);
    }
    s->first[e] = s->end[e];
    s->busy--;
}

void weft_queue_sim_run(const weft_queue_sim *r, const weft_curve *curve,
                        const weft_batch_setting *setting)
{
    sim s = {.r = r, .curve = curve, .setting = setting};
    s.executors = WEFT_MIN(curve->executors, MOST_EXECUTORS);
    bool freed = false;
    for (int i = 0; i < r->clients; i++) start_thinking(&s);
    while (s.head < r->count || s.busy > 0) {
        double due = begin(&s, freed), ends;
        int e = next_end(&s, &ends);
        double comes = next_arrival(&s);
        /* After the last arrival, the queued requests start when max_delay is over. */
        double next = WEFT_MIN(WEFT_MIN(due, ends), comes);
        advance(&s, WEFT_MAX(next, s.now));
        freed = next == ends && e >= 0;
        if (freed) {
            finish(&s, e);
        } else if (next == comes) {
            arrive(&s);
        }
    }
}
