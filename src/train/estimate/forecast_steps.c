/* Runs the timeline of a forecast: a step as estimated, or many that take longer at random. */
#include <math.h>

#include "base/sort.h"
#include "train/estimate/forecast.h"

static double last_end(const weft_forecast *f)
{
    double end = 0;
    for (int i = 0; i < f->tracks.line_ranks; i++)
        end = WEFT_MAX(end, weft_timeline_rank(f->tracks.line, i).end);
    return end;
}

/* Adds the last run of the timeline. slow NULL: ranks take as long as estimated. A rank that takes
 * less than the slowest of those that are one with it waits in the meantime. */
static void add_run(weft_forecast *f, double weight, const weft_slowness *slow,
                    weft_step_totals *sum)
{
    int ranks = f->t->size;
    double end = last_end(f), sent, busy, most = 0, busiest = 0;
    if (f->fn) weft_parts_add(&f->parts, &f->tracks, f->t, &f->hosts, slow, end, weight);
    sum->weight += weight;
    sum->seconds += weight * end;
    for (int r = 0; r < ranks; r++) {
        int id = f->tracks.rank_of[r];
        weft_rank_times times = weft_timeline_rank(f->tracks.line, id);
        double share = slow ? slow->rank[r] / slow->line[id] : 1;
        sum->computed += weight * times.computed * share / ranks;
        sum->transferred += weight * times.transferred / ranks;
        sum->waited +=
            weight * (times.waited + times.computed * (1 - share) + end - times.end) / ranks;
    }
    for (int m = 0; m < f->hosts.machines; m++) {
        weft_timeline_link(f->tracks.line, f->tracks.machine_of[m], &sent, &busy);
        sum->bytes += weight * sent;
        most = WEFT_MAX(most, sent);
        busiest = WEFT_MAX(busiest, busy);
    }
    sum->most_bytes += weight * most;
    sum->busy += weight * busiest;
}

double weft_forecast_meetings(const weft_forecast *f)
{
    int64_t steps = f->t->total_steps, period = f->period > 0 ? f->period : steps;
    if (!f->whole || !f->tracks.meets) return f->period > 0 ? 1 / (double)f->period : 0;
    int64_t meetings = (steps + period - 1) / period;
    return (double)meetings / (double)steps;
}

weft_status weft_forecast_step(weft_forecast *f, const weft_slowness *slow, weft_step_totals *sum,
                               double *seconds)
{
    const double *factors = slow ? slow->line : NULL;
    double share = weft_forecast_meetings(f), before = sum->seconds;
    if (share < 1) {
        WEFT_TRY(weft_timeline_run(f->tracks.line, false, factors));
        add_run(f, 1 - share, slow, sum);
    }
    if (share > 0) {
        WEFT_TRY(weft_timeline_run(f->tracks.line, true, factors));
        add_run(f, share, slow, sum);
    }
    *seconds = sum->seconds - before;
    return WEFT_OK;
}

/* Draws a random number so that d = 0 .. draws - 1 have one in each of as many equal intervals
 * (McKay, Beckman and Conover 1979), so that few draws have their share of slow steps. */
static double draw_evenly(int draws, int d, uint64_t key, weft_random *random)
{
    return ((double)weft_permute(key, draws, d) + weft_random_unit(random)) / draws;
}

/* Draws how many times as long each rank takes in step d. */
static void draw_slowness(const weft_forecast *f, int draws, int d, weft_random *random,
                          const weft_slowness *slow)
{
    uint64_t key = 2 * (uint64_t)f->t->size; /* beside those of draw_own */
    for (int i = 0; i < f->tracks.line_ranks; i++) slow->line[i] = 0;
    for (int r = 0; r < f->t->size; r++) {
        const weft_machine_group *g = f->hosts.group[f->hosts.machine[r]];
        double *line = &slow->line[f->tracks.rank_of[r]];
        double longer = draw_evenly(draws, d, key++, random);
        double lot = draw_evenly(draws, d, key++, random);
        slow->rank[r] = weft_cluster_slowness(g, longer, lot);
        *line = WEFT_MAX(*line, slow->rank[r]);
    }
}

/* --- learners between meetings --- */

enum { MOST_DRAWS = 400, LEAST_DRAWS = 40, ROUNDS = 2000 };

/* Learners that do not meet in each step wait for the last one at meetings alone. The clock of a
 * learner is a sum of steps that are drawn among those of its kind. */
typedef struct clocks {
    int draws, kinds;
    int *kind;         /* [learners]: those of one kind are the same ranks of the timeline */
    int *first;        /* [kinds] its first learner */
    double *steps;     /* [kinds][draws] seconds of a step that ends without a meeting */
    double *mean;      /* [kinds] of these */
    double *meets;     /* [draws] seconds that a meeting adds to its step */
    double *periods;   /* [ROUNDS] seconds of a step from one meeting to the next */
    weft_slowness own; /* of learners that wait for nobody */
} clocks;

static weft_status open_clocks(const weft_forecast *f, int draws, clocks *c)
{
    int learners = f->t->learners, lines = f->tracks.line_ranks, *seen;
    c->draws = draws;
    WEFT_TRY(WEFT_NEW(&c->kind, learners));
    WEFT_TRY(WEFT_NEW(&c->first, learners));
    WEFT_TRY(WEFT_NEW(&c->meets, draws));
    WEFT_TRY(WEFT_NEW(&c->periods, ROUNDS));
    WEFT_TRY(WEFT_NEW(&c->own.rank, f->t->size));
    WEFT_TRY(WEFT_NEW(&c->own.line, lines));
    WEFT_TRY(WEFT_NEW(&seen, lines)); /* the kind of a learner's first rank, from 1 */
    for (int l = 0; l < learners; l++) {
        int *kind = &seen[f->tracks.rank_of[l * f->t->mesh]];
        if (*kind == 0) {
            c->first[c->kinds] = l;
            *kind = ++c->kinds;
        }
        c->kind[l] = *kind - 1;
    }
    free(seen);
    WEFT_TRY(WEFT_NEW(&c->mean, c->kinds));
    return WEFT_NEW(&c->steps, (size_t)c->kinds * (size_t)draws);
}

static void close_clocks(clocks *c)
{
    free(c->kind);
    free(c->first);
    free(c->steps);
    free(c->mean);
    free(c->meets);
    free(c->periods);
    free(c->own.rank);
    free(c->own.line);
}

/* Learners of a kind have equal machines, so the steps of one are those of all. */
static void draw_own(const weft_forecast *f, clocks *c, int d, weft_random *random)
{
    int mesh = f->t->mesh;
    for (int i = 0; i < f->tracks.line_ranks; i++) c->own.line[i] = 0;
    for (int k = 0; k < c->kinds; k++)
        for (int r = c->first[k] * mesh; r < (c->first[k] + 1) * mesh; r++) {
            double longer = draw_evenly(c->draws, d, 2 * (uint64_t)r, random);
            double lot = draw_evenly(c->draws, d, 2 * (uint64_t)r + 1, random);
            double *line = &c->own.line[f->tracks.rank_of[r]];
            c->own.rank[r] =
                weft_cluster_slowness(f->hosts.group[f->hosts.machine[r]], longer, lot);
            *line = WEFT_MAX(*line, c->own.rank[r]);
        }
    for (int r = 0; r < f->t->size; r++)
        c->own.rank[r] = c->own.rank[c->first[c->kind[r / mesh]] * mesh + r % mesh];
}

/* Runs draw d: a step of learners apart, and one with a meeting. */
static weft_status draw_apart(weft_forecast *f, clocks *c, const weft_slowness *slow, int d,
                              weft_step_totals *sum)
{
    int mesh = f->t->mesh;
    double share = weft_forecast_meetings(f);
    WEFT_TRY(weft_timeline_run(f->tracks.line, false, c->own.line));
    add_run(f, 1 - share, &c->own, sum);
    for (int k = 0; k < c->kinds; k++) {
        double end = 0;
        for (int r = c->first[k] * mesh; r < (c->first[k] + 1) * mesh; r++)
            end = WEFT_MAX(end, weft_timeline_rank(f->tracks.line, f->tracks.rank_of[r]).end);
        c->steps[k * c->draws + d] = end;
        c->mean[k] += end / c->draws;
    }
    if (share == 0) return WEFT_OK;
    WEFT_TRY(weft_timeline_run(f->tracks.line, false, slow->line));
    double before = last_end(f);
    WEFT_TRY(weft_timeline_run(f->tracks.line, true, slow->line));
    c->meets[d] = last_end(f) - before;
    add_run(f, share, slow, sum);
    return WEFT_OK;
}

/* The time of a learner after `period` steps, of which `some` are drawn: their deviation from the
 * mean grows with the root of their number. */
static double draw_clock(const clocks *c, int kind, double period, int some, weft_random *random)
{
    const double *steps = &c->steps[kind * c->draws];
    double over = -c->mean[kind] * some;
    for (int i = 0; i < some; i++) over += steps[(int)(weft_random_unit(random) * c->draws)];
    return period * c->mean[kind] + over * sqrt(period / some);
}

/* Steps from one meeting to the next; without meetings, those of the run. */
static double period_of(const weft_forecast *f)
{
    double all = (double)WEFT_MAX(f->t->total_steps, (int64_t)1);
    if (f->period == 0) return all;
    return f->whole ? WEFT_MIN((double)f->period, all) : (double)f->period;
}

/* Sets periods[*rounds], each of which ends with the last learner. */
static weft_status play_clocks(const weft_forecast *f, const clocks *c, weft_random *random,
                               int *rounds)
{
    enum { LEAST = 16, FEWEST = 20 };
    static const double steps = 4e6; /* that all clocks draw together */
    double period = period_of(f), share = weft_forecast_meetings(f), learners = f->t->learners;
    *rounds = (int)WEFT_MIN(WEFT_MAX(steps / LEAST / learners, FEWEST), ROUNDS);
    int some = (int)WEFT_MIN(WEFT_MAX(steps / *rounds / learners, LEAST), period);
    for (int i = 0; i < *rounds; i++) {
        double last = 0;
        WEFT_TRY(weft_estimate_go_on(f->end));
        for (int l = 0; l < f->t->learners; l++) {
            double clock = draw_clock(c, c->kind[l], period, some, random);
            last = WEFT_MAX(last, clock);
        }
        c->periods[i] = last / period + share * c->meets[i % c->draws];
    }
    return WEFT_OK;
}

/* Puts learners that wait at meetings alone in the place of those that wait in each step. Nine of
 * ten steps are those of the slowest kind, or of periods. */
static weft_status sum_up_clocks(weft_forecast *f, clocks *c, weft_random *random,
                                 weft_step_totals *sum, weft_step_estimate *out)
{
    double *periods = c->periods, seconds = 0;
    int rounds, slowest = 0, draws = c->draws;
    WEFT_TRY(play_clocks(f, c, random, &rounds));
    for (int i = 0; i < rounds; i++) seconds += periods[i] / rounds;
    for (int k = 1; k < c->kinds; k++)
        if (c->mean[k] > c->mean[slowest]) slowest = k;
    double *own = &c->steps[slowest * draws], more = seconds * sum->weight - sum->seconds;
    weft_sort_doubles(periods, (size_t)rounds);
    weft_sort_doubles(own, (size_t)draws);
    out->low = WEFT_MIN(own[draws / 20], periods[rounds / 20]);
    out->high = WEFT_MAX(own[draws - 1 - draws / 20], periods[rounds - 1 - rounds / 20]);
    sum->seconds += more;
    sum->waited = WEFT_MAX(sum->waited + more, 0.0);
    f->parts.last += more;
    return WEFT_OK;
}

/* --- steps at random --- */

static weft_status draw_steps(weft_forecast *f, int draws, const weft_slowness *slow, clocks *c,
                              weft_step_totals *sum, weft_step_estimate *out)
{
    weft_random random;
    double steps[MOST_DRAWS];
    bool apart = f->t->learners > 1 && weft_forecast_meetings(f) < 1;
    if (apart) WEFT_TRY(open_clocks(f, draws, c));
    weft_random_start(&random, (uint64_t)f->t->options.task.seed, 2000);
    for (int d = 0; d < draws; d++) {
        draw_slowness(f, draws, d, &random, slow);
        if (apart) draw_own(f, c, d, &random);
        WEFT_TRY(weft_estimate_go_on(f->end));
        WEFT_TRY(apart ? draw_apart(f, c, slow, d, sum)
                       : weft_forecast_step(f, slow, sum, &steps[d]));
    }
    if (apart) return sum_up_clocks(f, c, &random, sum, out);
    weft_sort_doubles(steps, (size_t)draws);
    out->low = steps[draws / 20];
    out->high = steps[draws - 1 - draws / 20];
    return WEFT_OK;
}

weft_status weft_forecast_draw(weft_forecast *f, weft_step_totals *sum, weft_step_estimate *out)
{
    static const double events = 2e7; /* of all draws together */
    weft_slowness slow = {NULL, NULL};
    clocks c = {.draws = 0};
    double most = events / (weft_timeline_events(f->tracks.line) + 1);
    int draws = (int)WEFT_MIN(WEFT_MAX(most, LEAST_DRAWS), MOST_DRAWS);
    weft_status status = WEFT_NEW(&slow.rank, f->t->size);
    if (status == WEFT_OK) status = WEFT_NEW(&slow.line, f->tracks.line_ranks);
    if (status == WEFT_OK) status = draw_steps(f, draws, &slow, &c, sum, out);
    close_clocks(&c);
    free(slow.rank);
    free(slow.line);
    return status;
}
