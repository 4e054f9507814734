/* Detects closed-loop clients, which send the next request only after an answer, so that a bounded
 * number of requests is queued or running. The largest number observed counts as the bound if no
 * request has arrived in all the time in which so many were queued or running, although open-loop
 * clients at the measured rate would have sent several. */
#include "serve/batch/adaptive_internal.h"

enum { WINDOW_ARRIVALS = 128, VISITS = 4, LEAST = 64 };
/* The largest number seen is taken as the bound only if open-loop clients would have sent more than
 * this many requests while so many were queued or running. */
static const double SURE_ARRIVALS = 12;

static weft_closed_loop_window *current_window(weft_closed_loop *c)
{
    return &c->window[c->windows % WEFT_CLOSED_LOOP_WINDOWS];
}

static void set_in_system(weft_closed_loop *c, double now, int64_t in_system)
{
    weft_closed_loop_window *p = current_window(c);
    if (c->in_system == p->max_in_system && p->max_in_system > 0)
        p->seconds_at_max += now - c->since;
    c->since = now;
    c->in_system = in_system;
    if (in_system > p->max_in_system) {
        p->max_in_system = in_system;
        p->seconds_at_max = 0;
        p->visits = 0;
    }
}

static int64_t max_in_system(const weft_closed_loop *c)
{
    int64_t max = 0;
    for (int i = 0; i < WEFT_CLOSED_LOOP_WINDOWS; i++)
        max = WEFT_MAX(max, c->window[i].max_in_system);
    return max;
}

/* Estimates a think time from an arrival. The client that sent the request is unknown, so arrivals
 * are matched to answers in order, as if the client that was answered first sent first. Only the
 * mean of the think times matters, which is the same for any matching. */
static void note_think_time(weft_closed_loop *c, double now, int64_t in_system)
{
    int64_t away = max_in_system(c) - in_system + 1;
    if (away < 1 || away > WEFT_MIN(c->answers, WEFT_MOST_CLOSED_CLIENTS)) return;
    c->think_time[c->think_times++ % WEFT_MOST_CLOSED_CLIENTS] =
        WEFT_MAX(now - c->answered_at[(c->answers - away) % WEFT_MOST_CLOSED_CLIENTS], 0);
}

bool weft_closed_loop_arrived(weft_closed_loop *c, double now, int64_t in_system)
{
    bool more = in_system > max_in_system(c);
    if (more) c->think_times = 0; /* these think times were of fewer clients */
    set_in_system(c, now, in_system);
    note_think_time(c, now, in_system);
    weft_closed_loop_window *p = current_window(c);
    if (in_system == p->max_in_system) p->visits++;
    if (++p->arrivals < WINDOW_ARRIVALS) return more;
    c->windows++;
    *current_window(c) = (weft_closed_loop_window){.max_in_system = in_system};
    return more;
}

void weft_closed_loop_answered(weft_closed_loop *c, double now, int64_t in_system)
{
    set_in_system(c, now, in_system);
    c->answered_at[c->answers++ % WEFT_MOST_CLOSED_CLIENTS] = now;
}

int64_t weft_closed_loop_bound(const weft_closed_loop *c, double rate, double burstiness)
{
    int64_t max = max_in_system(c), visits = 0, arrivals = 0;
    double seconds_at_max = 0;
    for (int i = 0; i < WEFT_CLOSED_LOOP_WINDOWS; i++) {
        const weft_closed_loop_window *p = &c->window[i];
        arrivals += p->arrivals;
        if (p->max_in_system < max) continue;
        seconds_at_max += p->seconds_at_max;
        visits += p->visits;
    }
    bool sure = arrivals >= LEAST && visits >= VISITS && c->think_times >= LEAST &&
                rate * seconds_at_max > SURE_ARRIVALS * WEFT_MAX(burstiness, 1);
    return sure && max <= WEFT_MOST_CLOSED_CLIENTS ? max : 0;
}
