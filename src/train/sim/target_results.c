/* Looks at the finalists of a search at a virtual time, and makes its results. */
#include <math.h>

#include "train/sim/target_search.h"

static const weft_search_entry *source_of(const weft_search *s, const weft_search_entry *e)
{
    return &s->entry[e->source];
}

double weft_search_pace(const weft_search *s, const weft_search_entry *e)
{
    const weft_search_entry *from = source_of(s, e);
    return from == e ? 1 : e->step / from->step;
}

double weft_search_length(const weft_search *s, const weft_search_entry *e)
{
    const weft_paused_state *p = weft_paused_run_state(source_of(s, e)->run[0]);
    return e->step * (double)p->total_steps;
}

/* The points of a run until a time, by the clock of an entry. */
static size_t points_until(const weft_paused_state *p, double pace, double until)
{
    size_t count = p->count;
    while (count > 0 && p->points[count - 1].seconds * pace > until * (1 + 1e-12)) count--;
    return count;
}

/* The mean training loss over the last quarter of the time; without a step in it the last one. */
static double loss_of(const weft_target_point *points, size_t count, double end)
{
    double sum = 0, last = INFINITY;
    int64_t found = 0;
    for (size_t i = count; i-- > 0;) {
        if (isnan(points[i].loss)) continue;
        if (isinf(last)) last = points[i].loss;
        if (points[i].seconds <= 0.75 * end) break;
        sum += points[i].loss;
        found++;
    }
    return found > 0 ? sum / (double)found : last;
}

/* The last evaluation until a time of the model with which the run would end; a run that has ended
 * or reached the target has that model. NULL: there is none. */
static const weft_judgement *judgement_at(const weft_paused_state *p, double pace, double until)
{
    for (size_t i = p->judged_count; i-- > 0;) {
        const weft_judgement *j = &p->judged[i];
        bool last = i + 1 == p->judged_count && (p->ended || p->reached);
        if ((j->whole || last) && j->seconds * pace <= until * (1 + 1e-12)) return j;
    }
    return NULL;
}

/* The best value of the metric until a time; NaN: there is none. */
static double best_until(const weft_paused_state *p, double pace, double until, bool rises)
{
    double best = NAN;
    for (size_t i = 0; i < p->judged_count; i++) {
        const weft_judgement *j = &p->judged[i];
        if (j->seconds * pace > until * (1 + 1e-12)) continue;
        best = rises ? fmax(best, j->metric) : fmin(best, j->metric);
    }
    return best;
}

static weft_search_seen look_at(const weft_paused_state *p, double pace, double until, bool rises)
{
    size_t count = points_until(p, pace, until);
    const weft_judgement *j = judgement_at(p, pace, until);
    weft_search_seen seen = {.metric = NAN, .held_out = NAN, .loss = INFINITY, .failed = p->failed};
    seen.met = p->met * pace <= until;
    seen.best = best_until(p, pace, until, rises);
    if (count == 0) return seen;
    const weft_target_point *last = &p->points[count - 1];
    seen.reached = p->reached && count == p->count;
    seen.ended = p->ended && !p->reached && count == p->count;
    seen.seconds = last->seconds * pace;
    seen.samples = last->samples;
    if (!seen.failed) seen.loss = loss_of(p->points, count, fmin(last->seconds, until / pace));
    for (size_t i = count; i-- > 0 && isnan(seen.metric);) seen.metric = p->points[i].metric;
    if (!j) return seen;
    seen.held_out = isnan(j->loss) ? INFINITY : j->loss;
    if (!seen.reached && !isnan(j->metric)) seen.metric = j->metric;
    return seen;
}

weft_search_seen weft_search_look(const weft_search *s, const weft_search_entry *e, double until)
{
    weft_search_seen all = {
        .reached = true, .ended = true, .met = true, .low = INFINITY, .high = -INFINITY};
    const int seeds = s->asked.seeds;
    for (int k = 0; k < seeds; k++) {
        const weft_paused_state *p = weft_paused_run_state(source_of(s, e)->run[k]);
        weft_search_seen one = look_at(p, weft_search_pace(s, e), until, s->rises);
        all.reached = all.reached && one.reached;
        all.failed = all.failed || one.failed;
        all.ended = all.ended && (one.ended || one.reached);
        all.met = all.met && one.met && e->meets <= until &&
                  (double)e->options.update.warmup * e->step <= until;
        all.seconds += one.seconds / seeds;
        all.samples += one.samples / seeds;
        all.loss += one.loss / seeds;
        all.held_out += one.held_out / seeds;
        all.metric += one.metric / seeds;
        all.best += one.best / seeds;
        all.low = fmin(all.low, one.seconds);
        all.high = fmax(all.high, one.seconds);
    }
    all.ended = all.ended && !all.reached;
    return all;
}

/* Orders numbers, the least first and those that are none last. */
static int ascend(double x, double y)
{
    if (isnan(x) || isnan(y)) return isnan(x) - isnan(y);
    return (x > y) - (x < y);
}

int weft_search_order(const weft_search *s, const weft_search_seen *a, const weft_search_seen *b)
{
    if (a->reached != b->reached) return b->reached - a->reached;
    if (a->reached) return ascend(a->seconds, b->seconds);
    int order = 0;
    if (s->evaluates)
        order = s->rises ? ascend(-a->metric, -b->metric) : ascend(a->metric, b->metric);
    if (order == 0 && !s->trains) order = ascend(a->held_out, b->held_out);
    return order ? order : ascend(a->loss, b->loss);
}

/* --- results --- */

/* Whether a is to stand before b: among runs that have not reached the target those that went on
 * to the end come first, then the last to be left out. */
static bool stands_before(const weft_search *s, const weft_search_entry *a,
                          const weft_search_entry *b)
{
    if (a->refused != b->refused) return b->refused;
    int round_a = a->round ? a->round : INT_MAX, round_b = b->round ? b->round : INT_MAX;
    if (!a->seen.reached && !b->seen.reached && round_a != round_b) return round_a > round_b;
    int order = a->refused ? 0 : weft_search_order(s, &a->seen, &b->seen);
    return order ? order < 0 : strcmp(a->given->name, b->given->name) < 0;
}

static void put_in_order(const weft_search *s, weft_search_entry **order)
{
    for (int i = 0; i < s->count; i++) {
        int at = i;
        for (; at > 0 && stands_before(s, &s->entry[i], order[at - 1]); at--)
            order[at] = order[at - 1];
        order[at] = &s->entry[i];
    }
}

static weft_status copy_points(const weft_search *s, const weft_search_entry *e,
                               weft_target_result *out)
{
    const weft_paused_state *p = weft_paused_run_state(source_of(s, e)->run[0]);
    double pace = weft_search_pace(s, e);
    size_t count = points_until(p, pace, e->seen.high);
    WEFT_TRY(WEFT_NEW(&out->points, count + 1));
    for (; out->point_count < (int64_t)count; out->point_count++) {
        out->points[out->point_count] = p->points[out->point_count];
        out->points[out->point_count].seconds *= pace;
    }
    return WEFT_OK;
}

static weft_status fill(const weft_search *s, weft_search_entry *e, weft_target_result *out)
{
    const weft_search_seen *seen = &e->seen;
    *out = (weft_target_result){.finalist = e->number,
                                .lr = e->options.update.lr,
                                .warmup = e->options.update.warmup,
                                .batch = e->batch,
                                .step_seconds = e->planned > 0 ? e->planned : e->step,
                                .same_as = source_of(s, e)->number,
                                .reached = seen->reached,
                                .seconds = seen->seconds,
                                .low = seen->low,
                                .high = seen->high,
                                .samples = seen->samples,
                                .loss = isinf(seen->loss) ? NAN : seen->loss,
                                .held_out = isinf(seen->held_out) ? NAN : seen->held_out,
                                .metric = seen->metric,
                                .best = s->trains ? seen->loss : seen->best,
                                .round = e->round,
                                .why = e->why,
                                .refused = e->refused};
    e->why = NULL;
    if (e->refused) out->loss = out->held_out = out->metric = out->best = NAN;
    return e->refused ? WEFT_OK : copy_points(s, e, out);
}

weft_status weft_search_results(weft_search *s, weft_target_result **out)
{
    weft_search_entry **order = NULL;
    weft_target_result *results;
    WEFT_TRY(WEFT_NEW(&results, s->count));
    weft_status status = WEFT_NEW(&order, s->count);
    if (status == WEFT_OK) put_in_order(s, order);
    for (int i = 0; i < s->count && status == WEFT_OK; i++) status = fill(s, order[i], &results[i]);
    if (status == WEFT_OK)
        *out = results;
    else
        weft_target_results_free(&results, s->count);
    free((void *)order);
    return status;
}

void weft_target_results_free(weft_target_result **results, int count)
{
    for (int i = 0; results && *results && i < count; i++) {
        free((*results)[i].why);
        free((*results)[i].points);
    }
    if (results) free(*results);
    if (results) *results = NULL;
}
