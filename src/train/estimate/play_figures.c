/* The figures of played actors in the steady state. */
#include "base/sort.h"
#include "train/estimate/play_internal.h"

/* --- marks --- */

static void count_staleness(const play *p, play_mark *m)
{
    const weft_sim_exchange_ops *ops = p->exchange->ops;
    weft_series s;
    for (int i = 0; ops->figure && ops->figure(p->exchange, i, &s); i++) {
        if (strcmp(s.name, "staleness") != 0) continue;
        m->counts = true;
        for (int k = 0; k < s.count; k++) {
            m->updates += s.numbers[k];
            m->aged += k * s.numbers[k];
        }
    }
}

static void set_mark(play *p, int which, double now)
{
    play_mark *m = &p->marks[which];
    if (m->there) return;
    m->there = true;
    m->at = now;
    for (int i = 0; i < p->exchange->actors; i++)
        m->uses[i] = weft_sim_used(p->sim, (weft_actor_id)i);
    count_staleness(p, m);
}

/* MESSAGES: that many end a run that has no number of steps, if the exchange has repeated itself; a
 * third of them ends the warm-up after LEAST steps. */
enum { MESSAGES = 200000, LEAST = 3 };

/* Whether as many messages as that have been sent, at the end of a period of the learner. */
static bool has_played(const play *p, const play_course *c, uint64_t messages)
{
    return p->o->steps == 0 && c->done % p->period == 0 &&
           weft_sim_stats(p->sim).messages >= messages;
}

static bool begins(const play *p, const play_course *c)
{
    if (p->marks[PLAY_BEGIN].there) return false;
    return c->done == p->warm || (c->done >= LEAST && has_played(p, c, MESSAGES / 3));
}

static bool ends(const play *p, int learner)
{
    const play_course *c = &p->courses[learner];
    if (c->done == p->steps) return true;
    return p->marks[PLAY_BEGIN].there && learner == p->pacer && has_played(p, c, MESSAGES);
}

/* Whether the mean of the steady state is certain to be above the limit: if all learners together
 * took the steps that are left, and those they are in, as fast as a bound says they can. */
static bool is_slower(const play *p, double now)
{
    const weft_estimate_end *end = p->o->end;
    if (!end || end->most <= 0 || !p->marks[PLAY_BEGIN].there) return false;
    double left = (double)(p->steps * p->learners - p->done);
    double steps = (double)(p->done - p->begun + p->learners) + left;
    double time = now - p->marks[PLAY_BEGIN].at + left * end->least / p->learners;
    return time * p->learners / steps > end->most;
}

weft_status weft_play_count(play *p, int learner, double now)
{
    play_course *c = &p->courses[learner];
    if (c->done == p->steps)
        return weft_fail(WEFT_ERR_INTERNAL, "learner %d takes more than %lld steps", learner,
                         (long long)p->steps);
    c->ends[c->done++] = now;
    p->done++;
    p->ended = now;
    if (begins(p, c)) {
        set_mark(p, PLAY_BEGIN, now);
        p->pacer = learner;
        p->begun = p->done;
    }
    if (!p->marks[PLAY_END].there && is_slower(p, now))
        p->over = p->slower = p->o->end->slower = true;
    if (p->done % p->learners == 0 && p->marks[PLAY_BEGIN].there && !p->marks[PLAY_END].there)
        p->rounds[p->round_count++] = now;
    if (p->marks[PLAY_BEGIN].at < now && ends(p, learner)) {
        set_mark(p, PLAY_END, now);
        p->over = p->over || c->done < p->steps;
    }
    return WEFT_OK;
}

/* --- figures --- */

/* The steps that a learner has taken by a time; of the running one the share of its time. */
static double taken(const play_course *c, double at)
{
    int64_t k = 0;
    while (k < c->done && c->ends[k] <= at) k++;
    double begin = k > 0 ? c->ends[k - 1] : 0;
    if (k < c->done) return (double)k + (at - begin) / (c->ends[k] - begin);
    /* A run that is over before the end of this step: it takes as long as the last one, or longer.
     */
    double before = k > 1 ? c->ends[k - 2] : 0, last = begin - before;
    return (double)k + (last > 0 && k < c->of ? WEFT_MIN((at - begin) / last, 1.0) : 0);
}

/* Windows of the rounds after which the exchange repeats itself. */
static void find_interval(const play *p, weft_played *out)
{
    double *windows = p->rounds;
    size_t count = 0, width = (size_t)p->period;
    out->low = out->high = out->seconds;
    for (size_t i = 0; i + width < p->round_count; i += width)
        windows[count++] = (p->rounds[i + width] - p->rounds[i]) / (double)width;
    if (count == 0) return;
    weft_sort_doubles(windows, count);
    /* Few windows may all but one be shorter than the mean. */
    out->low = WEFT_MIN(windows[count / 20], out->seconds);
    out->high = WEFT_MAX(windows[count - 1 - count / 20], out->seconds);
}

static void find_use(const play *p, double time, double steps, weft_played *out)
{
    const play_mark *a = &p->marks[PLAY_BEGIN], *b = &p->marks[PLAY_END];
    weft_actor_id first = p->exchange->first_learner;
    for (int i = 0; i < p->exchange->actors; i++) {
        const weft_sim_use *x = &a->uses[i], *y = &b->uses[i];
        double worked = y->worked - x->worked;
        bool learner = i >= (int)first && i < (int)first + p->learners;
        if (learner)
            out->worked += worked / steps;
        else
            out->server = WEFT_MAX(out->server, worked / time);
        if (p->node[i] != (weft_actor_id)i) continue;
        double sent = (y->sent_bytes - x->sent_bytes) / steps * p->learners;
        out->bytes += sent;
        out->most_bytes = WEFT_MAX(out->most_bytes, sent);
        out->link = WEFT_MAX(out->link, (y->sending - x->sending) / time);
        if (p->o->machine && p->o->sending) /* nodes are those of learners */
            p->o->sending[p->o->machine[i - (int)first]] +=
                (y->sending - x->sending) / steps * p->learners;
        /* A message is received when it has arrived; one may have begun before the mark. */
        out->link = WEFT_MAX(out->link, WEFT_MIN((y->receiving - x->receiving) / time, 1.0));
    }
}

void weft_play_sum_up(const play *p, weft_played *out)
{
    const play_mark *a = &p->marks[PLAY_BEGIN], *b = &p->marks[PLAY_END];
    double time = b->at - a->at, steps = 0;
    for (int l = 0; l < p->learners; l++)
        steps += taken(&p->courses[l], b->at) - taken(&p->courses[l], a->at);
    out->scale = p->scale;
    out->whole = weft_sim_stats(p->sim);
    out->ended = p->ended;
    out->staleness = -1;
    if (b->counts && b->updates > a->updates)
        out->staleness = (b->aged - a->aged) / (b->updates - a->updates);
    if (!(time > 0)) return;
    out->seconds = time * p->learners / steps;
    find_interval(p, out);
    find_use(p, time, steps, out);
}
