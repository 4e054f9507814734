/* Detects closed-loop clients, which wait for an answer before they send again, so that the
 * number of requests in the line is bounded. The observed maximum is taken as the bound if no
 * request arrived while the line was that full, although many would have at the rate of
 * open-loop arrivals. */
#include "serve/batch/adaptive_internal.h"

enum { PART = 128, VISITS = 4, LEAST = 64 };
/* The arrivals that open-loop clients would have sent meanwhile. */
static const double SURE = 12;

static weft_crowd_part *now_part(weft_crowd *c)
{
    return &c->part[c->parts % WEFT_CROWD_PARTS];
}

static void level(weft_crowd *c, double now, int64_t there)
{
    weft_crowd_part *p = now_part(c);
    if (c->there == p->most && p->most > 0) p->full += now - c->since;
    c->since = now;
    c->there = there;
    if (there > p->most) {
        p->most = there;
        p->full = 0;
        p->visits = 0;
    }
}

static int64_t most_of(const weft_crowd *c)
{
    int64_t most = 0;
    for (int i = 0; i < WEFT_CROWD_PARTS; i++) most = WEFT_MAX(most, c->part[i].most);
    return most;
}

/* Which client sent this request is unknown. The arrivals are matched to the answers in order, as
 * if the client that has been away longest came first: only the mean of the pauses matters, and
 * that is the same for any matching. */
static void note_pause(weft_crowd *c, double now, int64_t there)
{
    int64_t away = most_of(c) - there + 1;
    if (away < 1 || away > WEFT_MIN(c->answers, WEFT_CROWD)) return;
    c->pause[c->pauses++ % WEFT_CROWD] =
        WEFT_MAX(now - c->answered[(c->answers - away) % WEFT_CROWD], 0);
}

void weft_crowd_came(weft_crowd *c, double now, int64_t there)
{
    if (there > most_of(c)) c->pauses = 0; /* the pauses belong to fewer clients */
    level(c, now, there);
    note_pause(c, now, there);
    weft_crowd_part *p = now_part(c);
    if (there == p->most) p->visits++;
    if (++p->came < PART) return;
    c->parts++;
    *now_part(c) = (weft_crowd_part){.most = there};
}

void weft_crowd_left(weft_crowd *c, double now, int64_t there)
{
    level(c, now, there);
    c->answered[c->answers++ % WEFT_CROWD] = now;
}

int64_t weft_crowd_all(const weft_crowd *c, double rate, double burstiness)
{
    int64_t most = most_of(c), visits = 0, came = 0;
    double full = 0;
    for (int i = 0; i < WEFT_CROWD_PARTS; i++) {
        const weft_crowd_part *p = &c->part[i];
        came += p->came;
        if (p->most < most) continue;
        full += p->full;
        visits += p->visits;
    }
    bool sure = came >= LEAST && visits >= VISITS && c->pauses >= LEAST &&
                rate * full > SURE * WEFT_MAX(burstiness, 1);
    return sure && most <= WEFT_CROWD ? most : 0;
}
