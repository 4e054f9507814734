/* Simulates a setting on given arrivals in virtual time: one queue in order of arrival, and
 * executors that share cores. It leaves out all of the dispatch that does not affect the choice,
 * and is a hundred times as fast. */
#include <math.h>

#include "serve/batch/batch_internal.h"

enum { MOST_EXECUTORS = 64 };

typedef struct stage {
    const weft_rehearsal *r;
    const weft_curve *curve;
    const weft_batching *setting;
    int head, tail; /* queued requests: [head, tail) */
    int64_t waiting;
    double now;
    double soon[WEFT_CROWD]; /* heap of the clients' next requests */
    int thinking, paused;    /* clients in it; pauses used so far */
    int busy, executors;
    int first[MOST_EXECUTORS],
        end[MOST_EXECUTORS];     /* requests of each executor's batch; idle: first is end */
    double left[MOST_EXECUTORS]; /* seconds left of the batch, at full speed */
} stage;

/* Advances the time; batches progress at the speed that so many busy executors allow. */
static void advance(stage *s, double to)
{
    if (s->busy > 0) {
        double done = (to - s->now) / s->curve->slower[s->busy - 1];
        for (int e = 0; e < s->executors; e++)
            if (s->first[e] != s->end[e]) s->left[e] -= done;
    }
    s->now = to;
}

/* The executor whose batch ends first, and when; -1: all are idle. */
static int next_end(const stage *s, double *when)
{
    int next = -1;
    for (int e = 0; s->busy > 0 && e < s->executors; e++)
        if (s->first[e] != s->end[e] && (next < 0 || s->left[e] < s->left[next])) next = e;
    *when =
        next < 0 ? INFINITY : s->now + WEFT_MAX(s->left[next], 0) * s->curve->slower[s->busy - 1];
    return next;
}

static void pause_one(stage *s)
{
    double pause = s->r->pause[s->paused++ % s->r->pauses];
    weft_times_put(s->soon, &s->thinking, s->now + pause);
}

/* Time of the next arrival. */
static double next_one(const stage *s)
{
    if (s->tail == s->r->count) return INFINITY;
    if (s->r->clients == 0) return s->r->at[s->tail];
    return s->thinking > 0 ? s->soon[0] : INFINITY;
}

static void arrive(stage *s)
{
    if (s->r->clients > 0) {
        s->r->at[s->tail] = s->now;
        weft_times_drop(s->soon, &s->thinking);
    }
    s->waiting += s->r->rows[s->tail++];
}

/* Whether the line holds all requests that it can have. */
static bool are_all(const stage *s)
{
    int64_t there = s->tail - s->head;
    for (int e = 0; e < s->executors; e++) there += s->end[e] - s->first[e];
    return there >= s->setting->all;
}

/* Starts batches while they are due; returns the next time at which one may be. A batch that is due
 * by its wait starts when an executor looks: one that has just become free, or one whose timed wait
 * ends, late by `slack`. */
static double begin(stage *s, bool freed)
{
    const weft_batching *b = s->setting;
    double late = freed || b->wait <= 0 ? 0 : s->r->slack;
    while (s->head < s->tail && s->busy < s->executors) {
        double due = s->r->at[s->head] + b->wait;
        if (s->waiting < b->need && due + late > s->now && !(b->all > 0 && are_all(s)))
            return due + s->r->slack;
        int e = 0;
        while (s->first[e] != s->end[e]) e++;
        int64_t limit = b->brim > 0 && s->waiting >= b->brim ? s->r->most : b->limit;
        int64_t rows = s->r->rows[s->head];
        s->first[e] = s->head++;
        while (s->head < s->tail && rows + s->r->rows[s->head] <= limit)
            rows += s->r->rows[s->head++];
        s->end[e] = s->head;
        s->left[e] = weft_curve_time(s->curve, (double)rows);
        s->waiting -= rows;
        s->busy++;
    }
    return INFINITY;
}

static void finish(stage *s, int e)
{
    for (int i = s->first[e]; i < s->end[e]; i++) {
        s->r->latency[i] = s->now - s->r->at[i];
        if (s->r->clients > 0) pause_one(s);
    }
    s->first[e] = s->end[e];
    s->busy--;
}

void weft_rehearse(const weft_rehearsal *r, const weft_curve *curve, const weft_batching *setting)
{
    stage s = {.r = r, .curve = curve, .setting = setting};
    s.executors = WEFT_MIN(curve->executors, MOST_EXECUTORS);
    bool freed = false;
    for (int i = 0; i < r->clients; i++) pause_one(&s);
    while (s.head < r->count || s.busy > 0) {
        double due = begin(&s, freed), ends;
        int e = next_end(&s, &ends);
        double comes = next_one(&s);
        /* After the last arrival the rest of the queue starts when its wait is over. */
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
