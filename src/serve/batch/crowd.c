/* Whether those who ask are clients that wait for their answers, so that there cannot be more of
 * them than there are. Where nobody comes while the most that have been seen are in the line,
 * though many should have at the rate of the others, these are all. */
#include "serve/batch/adaptive.h"

enum { PART = 128, VISITS = 4, LEAST = 64 };
/* As many should have come meanwhile, were it chance. */
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

/* Who comes has been answered as long ago as the others that are not there, and longer: what
 * matters is how long all of them take on the mean, and that is the same whoever it is. */
static void note_pause(weft_crowd *c, double now, int64_t there)
{
    int64_t away = most_of(c) - there + 1;
    if (away < 1 || away > WEFT_MIN(c->answers, WEFT_CROWD)) return;
    c->pause[c->pauses++ % WEFT_CROWD] =
        WEFT_MAX(now - c->answered[(c->answers - away) % WEFT_CROWD], 0);
}

void weft_crowd_came(weft_crowd *c, double now, int64_t there)
{
    if (there > most_of(c)) c->pauses = 0; /* they were of fewer */
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
