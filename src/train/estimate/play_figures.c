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

/* The warm-up of all learners ends after as many steps as that of the first one. */
static bool begins(play *p, const play_course *c)
{
    if (p->marks[PLAY_BEGIN].there) return false;
    if (c->done >= LEAST && c->done < p->warm && has_played(p, c, MESSAGES / 3)) p->warm = c->done;
    return c->done == p->warm;
}

/* The steady state ends when a learner of each kind has taken its steps. */
static bool ends(const play *p, int learner)
{
    const play_course *c = &p->courses[learner];
    if (c->done < p->steps)
        return learner == p->pacer && p->ready == p->learners && has_played(p, c, MESSAGES);
    for (int l = 0; l < p->learners; l++) {
        int of = 0;
        while (p->courses[of].done < p->steps || p->kind[of] != p->kind[l])
            if (++of == p->learners) return false;
    }
    return true;
}

/* --- pace --- */

/* The seconds of a step of a learner after its warm-up, over whole periods. */
static double pace_of(const play *p, const play_course *c, double now)
{
    int64_t steps = c->done - p->warm;
    (void)now;
    if (steps > p->period) steps -= steps % p->period;
    return steps > 0 ? (c->ends[p->warm + steps - 1] - c->ends[p->warm - 1]) / (double)steps : 0;
}

/* A bound from below on the pace of all steps: the running one ends now, and the others take as
 * little time as steps may take. */
static double least_pace(const play *p, const play_course *c, double now)
{
    int64_t done = WEFT_MAX(c->done, p->warm), left = WEFT_MAX(p->steps - done - 1, (int64_t)0);
    double from = c->done < p->warm ? now : c->ends[p->warm - 1];
    double to = c->done == p->steps ? c->ends[p->steps - 1] : now;
    return (to - from + (double)left * p->o->end->least) / (double)(p->steps - p->warm);
}

/* A run gives all learners as many steps, and ends with the last one, so the slowest machines set
 * its pace: the mean over the learners of one kind, since they differ by chance. */
static double slowest_pace(const play *p, double (*of)(const play *, const play_course *, double),
                           double now, int *slowest)
{
    double most = 0;
    *slowest = 0;
    for (int kind = 0; kind < PLAY_KINDS * p->o->cluster->group_count; kind++) {
        double sum = 0, count = 0;
        for (int l = 0; l < p->learners; l++) {
            if (p->kind[l] != kind) continue;
            sum += of(p, &p->courses[l], now);
            count++;
        }
        if (count == 0 || sum / count <= most) continue;
        most = sum / count;
        *slowest = kind;
    }
    return most;
}

/* Whether steps are certain to take longer than is of interest. */
static bool is_slower(const play *p, double now)
{
    const weft_estimate_end *end = p->o->end;
    int kind;
    return end && end->most > 0 && p->marks[PLAY_BEGIN].there &&
           slowest_pace(p, least_pace, now, &kind) > end->most;
}

/* Where the processes of learners have all actors, the messages of all count, and else a learner's
 * own: as metrics count them. The messages of a learner repeat themselves with its period. */
static void count_posted(const play *p, play_course *c, int learner)
{
    weft_actor_id id = p->exchange->first_learner + (weft_actor_id)learner;
    bool all = p->o->job->engine && p->o->job->engine->hosted;
    int64_t steps = c->done - p->warm;
    if (steps < 0 || steps % p->period != 0) return;
    c->posted[steps > 0] =
        all ? weft_sim_stats(p->sim).posted / p->learners : weft_sim_used(p->sim, id).posted;
    c->counted = steps;
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
    }
    if (p->marks[PLAY_BEGIN].there) count_posted(p, c, learner);
    if (c->done == p->warm + p->period) p->ready++;
    if (p->marks[PLAY_END].there) return WEFT_OK;
    if (p->done % p->learners == 0 && is_slower(p, now))
        p->over = p->slower = p->o->end->slower = true;
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

/* The mean over the learners of a kind of the periods after their warm-up, one after the other. */
static void find_interval(const play *p, int kind, weft_played *out)
{
    double *windows = p->windows;
    size_t count = 0;
    out->low = out->high = out->seconds;
    for (int64_t k = p->warm; k + p->period <= p->steps; k += p->period) {
        double sum = 0, members = 0;
        for (int l = 0; l < p->learners; l++) {
            const play_course *c = &p->courses[l];
            if (p->kind[l] != kind || c->done < k + p->period) continue;
            sum += c->ends[k + p->period - 1] - c->ends[k - 1];
            members++;
        }
        if (members > 0) windows[count++] = sum / members / (double)p->period;
    }
    if (count == 0) return;
    weft_sort_doubles(windows, count);
    /* Few windows may all but one be shorter than the mean. */
    out->low = WEFT_MIN(windows[count / 20], out->seconds);
    out->high = WEFT_MAX(windows[count - 1 - count / 20], out->seconds);
}

/* The steps that a learner takes between the marks. */
static double steps_of(const play *p, int learner)
{
    const play_course *c = &p->courses[learner];
    return taken(c, p->marks[PLAY_END].at) - taken(c, p->marks[PLAY_BEGIN].at);
}

/* Bytes and times of links are those of the seconds of a step, so no link carries more than it can
 * in a step; learners of a kind have worked in their own steps. */
static void find_use(const play *p, int kind, weft_played *out)
{
    const play_mark *a = &p->marks[PLAY_BEGIN], *b = &p->marks[PLAY_END];
    weft_actor_id first = p->exchange->first_learner;
    double time = b->at - a->at, a_step = out->seconds / time, steps = 0;
    for (int l = 0; l < p->learners; l++) steps += p->kind[l] == kind ? steps_of(p, l) : 0;
    for (int i = 0; i < p->exchange->actors; i++) {
        const weft_sim_use *x = &a->uses[i], *y = &b->uses[i];
        double worked = y->worked - x->worked;
        bool learner = i >= (int)first && i < (int)first + p->learners;
        if (learner && steps > 0 && p->kind[i - (int)first] == kind) out->worked += worked / steps;
        if (!learner) out->server = WEFT_MAX(out->server, worked / time);
        if (p->node[i] != (weft_actor_id)i) continue;
        double sent = (y->sent_bytes - x->sent_bytes) * a_step;
        out->bytes += sent;
        out->most_bytes = WEFT_MAX(out->most_bytes, sent);
        out->link = WEFT_MAX(out->link, (y->sending - x->sending) / time);
        if (p->o->machine && p->o->sending) /* nodes are those of learners */
            p->o->sending[p->o->machine[i - (int)first]] += (y->sending - x->sending) * a_step;
        /* A message is received when it has arrived; one may have begun before the mark. */
        out->link = WEFT_MAX(out->link, WEFT_MIN((y->receiving - x->receiving) / time, 1.0));
    }
}

/* The mean over the learners. */
static double posted_bytes(const play *p)
{
    double sum = 0;
    int learners = 0;
    for (int l = 0; l < p->learners; l++) {
        const play_course *c = &p->courses[l];
        if (c->counted == 0) continue;
        sum += (c->posted[1] - c->posted[0]) / (double)c->counted;
        learners++;
    }
    return learners > 0 ? sum / learners : 0;
}

void weft_play_sum_up(const play *p, weft_played *out)
{
    const play_mark *a = &p->marks[PLAY_BEGIN], *b = &p->marks[PLAY_END];
    out->scale = p->scale;
    out->whole = weft_sim_stats(p->sim);
    out->ended = p->ended;
    out->staleness = -1;
    if (b->counts && b->updates > a->updates)
        out->staleness = (b->aged - a->aged) / (b->updates - a->updates);
    if (!(b->at > a->at)) return;
    int kind;
    out->seconds = slowest_pace(p, pace_of, b->at, &kind);
    find_interval(p, kind, out);
    find_use(p, kind, out);
    out->posted = posted_bytes(p);
}
