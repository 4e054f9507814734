/* Runs the timeline of a forecast: a step as estimated, or many that take longer at random. */
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

/* Draws how many times as long each rank takes in a step. */
static void draw_slowness(const weft_forecast *f, weft_random *random, const weft_slowness *slow)
{
    for (int i = 0; i < f->tracks.line_ranks; i++) slow->line[i] = 0;
    for (int r = 0; r < f->t->size; r++) {
        const weft_machine_group *g = weft_cluster_group_of(&f->cluster, f->hosts.machine[r]);
        double longer = weft_random_unit(random), lot = weft_random_unit(random);
        double *line = &slow->line[f->tracks.rank_of[r]];
        slow->rank[r] = (1 + g->jitter * longer) * (lot < g->slow ? g->slowdown : 1);
        *line = WEFT_MAX(*line, slow->rank[r]);
    }
}

weft_status weft_forecast_draw(weft_forecast *f, weft_step_totals *sum, weft_step_estimate *out)
{
    enum { MOST_DRAWS = 400, LEAST_DRAWS = 40 };
    static const double events = 2e7; /* of all draws together */
    weft_random random;
    weft_slowness slow = {NULL, NULL};
    double steps[MOST_DRAWS], most = events / (weft_timeline_events(f->tracks.line) + 1);
    int draws = (int)WEFT_MIN(WEFT_MAX(most, LEAST_DRAWS), MOST_DRAWS);
    weft_status status = WEFT_NEW(&slow.rank, f->t->size);
    if (status == WEFT_OK) status = WEFT_NEW(&slow.line, f->tracks.line_ranks);
    weft_random_start(&random, (uint64_t)f->t->options.task.seed, 2000);
    for (int d = 0; d < draws && status == WEFT_OK; d++) {
        draw_slowness(f, &random, &slow);
        status = weft_estimate_go_on(f->end);
        if (status == WEFT_OK) status = weft_forecast_step(f, &slow, sum, &steps[d]);
    }
    free(slow.rank);
    free(slow.line);
    if (status != WEFT_OK) return status;
    weft_sort_doubles(steps, (size_t)draws);
    out->low = steps[draws / 20];
    out->high = steps[draws - 1 - draws / 20];
    return WEFT_OK;
}
