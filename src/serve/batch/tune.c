/* The search of the adaptive policy: simulates a coarse grid of candidate settings on given
 * arrivals, then refines around the best one. */
#include <math.h>

#include "serve/batch/adaptive_internal.h"

/* The relative gain over greedy that a setting must have: WORTH_IT plus OF_NOISE times the
 * coefficient of variation of the batch times, since the model of the machine may be wrong. */
static const double WORTH_IT = 0.005, OF_NOISE = 0.3;
/* A setting that does not wait but takes fewer rows than are queued, although a row of a larger
 * batch takes less time, gives up capacity: if the times are wrong, the queue grows. So it must
 * gain more: TO_LEAVE_SOME times the squared coefficient of variation of the batch times. A load
 * above MOST_LOAD of its capacity rules it out. */
static const double TO_LEAVE_SOME = 2.5, MOST_LOAD = 0.96;

typedef struct search {
    const weft_queue_sim *r;
    const weft_curve *curve;
    const weft_goal *goal;
    int64_t limit;
    double rate;   /* rows that arrive in a second */
    double unsure; /* coefficient of variation of the times of batches of one size */
    weft_batch_setting best;
    double least;
} search;

static double cost_of(const weft_queue_sim *r, const search *s, const weft_batch_setting *b)
{
    weft_queue_sim_run(r, s->curve, b);
    return weft_goal_of(s->goal, r->latency + r->skip, r->count - r->skip);
}

static bool gives_up_capacity(const search *s, const weft_batch_setting *b)
{
    double most = (double)b->max_rows, all = (double)s->limit;
    return b->max_delay <= 0 && b->max_rows < s->limit &&
           weft_curve_time(s->curve, most) / most > weft_curve_time(s->curve, all) / all;
}

/* Whether so much capacity is given up that an open loop is close to it: the times and the rate are
 * not known well enough for that. */
static bool is_overloaded(const search *s, const weft_batch_setting *b)
{
    int executors = s->curve->executors;
    double each = weft_curve_time(s->curve, (double)b->max_rows) / (double)b->max_rows;
    return s->r->clients == 0 && gives_up_capacity(s, b) &&
           s->rate * each * s->curve->slowdown[executors - 1] / executors > MOST_LOAD;
}

static double evaluate(search *s, int64_t need, double wait, int64_t limit)
{
    /* A wait is limited to three batch times, because closed-loop clients send nothing while they
     * wait for answers, whatever their rate was. */
    double batch = weft_curve_time(s->curve, (double)WEFT_MIN(need, s->limit));
    wait = WEFT_MIN(wait, 3 * batch * s->curve->slowdown[s->curve->executors - 1]);
    weft_batch_setting b = {.min_rows = WEFT_MIN(need, s->limit),
                            .max_rows = WEFT_MIN(limit, s->limit),
                            .max_in_system = s->r->clients,
                            .max_delay = wait};
    /* A row limit that suits the current load is lifted when the queue grows. */
    if (b.max_rows < s->limit) b.surge_rows = s->limit + b.max_rows;
    if (is_overloaded(s, &b)) return INFINITY;
    double cost = cost_of(s->r, s, &b);
    if (gives_up_capacity(s, &b)) cost *= 1 + s->unsure * s->unsure * TO_LEAVE_SOME;
    if (cost < s->least) {
        s->least = cost;
        s->best = b;
    }
    return cost;
}

/* The mean seconds in which so many rows arrive. */
static double until(const search *s, double rows)
{
    return rows / s->rate;
}

/* The next candidate for min_rows: one more, and above 5 a third more. */
static int64_t next_need(int64_t need)
{
    return need + WEFT_MAX(need / 3, 1);
}

/* Simulates candidates for min_rows, each with a max_delay that hardly ever ends the wait first and
 * with one that often does. */
static void by_number(search *s)
{
    bool exactly = s->curve->executors > 1 || s->r->clients > 0;
    for (int64_t need = 2; need <= s->limit; need = next_need(need)) {
        /* Waiting for rows for much longer than their computation takes does not pay. */
        double slowest = s->curve->slowdown[s->curve->executors - 1];
        double time = weft_curve_time(s->curve, (double)need) * slowest;
        if (s->r->clients == 0 && until(s, (double)need) > 4 * time + s->least) break;
        evaluate(s, need, until(s, 20.0 * (double)need), s->limit);
        evaluate(s, need, until(s, 2.0 * (double)need), exactly ? need : s->limit);
    }
}

/* Simulates candidates for max_delay alone: min_rows is the largest batch. */
static void by_time(search *s, int64_t limit)
{
    double single = weft_curve_time(s->curve, 1);
    double wait = single / 4;
    while (wait < 20 * single && wait <= 4 * s->least) {
        evaluate(s, limit, wait, limit);
        wait *= 1.6;
    }
}

static void coarse_search(search *s)
{
    by_number(s);
    by_time(s, s->limit);
    for (int64_t limit = s->limit / 2; limit >= 1; limit /= 2) {
        evaluate(s, 1, 0, limit);
        if (s->curve->executors > 1) by_time(s, limit);
    }
}

/* Improves the best setting by steps in max_delay, min_rows and max_rows. The step is halved when
 * no step gains half a percent. */
static void refine(search *s)
{
    double by = 0.5;
    for (int round = 0; round < 6 && s->best.max_delay > 0; round++) {
        double before = s->least;
        weft_batch_setting at = s->best;
        int64_t off = WEFT_MAX((int64_t)((double)at.min_rows * by), 1);
        evaluate(s, at.min_rows, at.max_delay * (1 + by), at.max_rows);
        evaluate(s, at.min_rows, at.max_delay / (1 + by), at.max_rows);
        at = s->best;
        evaluate(s, at.min_rows + off, at.max_delay, WEFT_MAX(at.max_rows, at.min_rows + off));
        if (at.min_rows > off) evaluate(s, at.min_rows - off, at.max_delay, at.max_rows);
        at = s->best;
        if (at.max_rows > at.min_rows)
            evaluate(s, at.min_rows, at.max_delay, WEFT_MAX(at.max_rows - off, at.min_rows));
        evaluate(s, at.min_rows, at.max_delay, at.max_rows + off);
        if (s->least > 0.995 * before) by /= 2;
    }
}

void weft_tune(const weft_queue_sim *r, const weft_queue_sim *other, double rate,
               const weft_curve *curve, int64_t limit, const weft_goal *goal, weft_tuned *out)
{
    search s = {.r = r,
                .curve = curve,
                .goal = goal,
                .limit = limit,
                .rate = rate,
                .unsure = sqrt(curve->noise),
                .least = INFINITY};
    double gain = WORTH_IT + OF_NOISE * s.unsure;
    double first = evaluate(&s, 1, 0, limit);
    weft_batch_setting greedy = s.best;
    coarse_search(&s);
    refine(&s);
    *out = (weft_tuned){.best = greedy, .greedy = cost_of(other, &s, &greedy)};
    out->promise = out->greedy;
    if (gives_up_capacity(&s, &s.best)) gain += s.unsure * s.unsure * TO_LEAVE_SOME;
    double confirmed = cost_of(other, &s, &s.best);
    if (sqrt(s.least / first * confirmed / out->greedy) >= 1 - gain) return;
    out->best = s.best;
    out->promise = confirmed;
}
