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
    return p->step * weft_search_pace(s, e) * (double)p->total_steps;
}

bool weft_search_ended(const weft_search *s, const weft_search_entry *e)
{
    const weft_search_entry *from = source_of(s, e);
    for (int k = 0; k < s->asked.seeds; k++)
        if (!weft_paused_run_state(from->run[k])->ended) return false;
    return true;
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

static weft_search_seen look_at(const weft_paused_state *p, double pace, double until)
{
    size_t count = points_until(p, pace, until);
    weft_search_seen seen = {.metric = NAN, .loss = INFINITY, .failed = p->failed};
    if (count == 0) return seen;
    const weft_target_point *last = &p->points[count - 1];
    seen.reached = p->reached && count == p->count;
    seen.seconds = last->seconds * pace;
    seen.samples = last->samples;
    if (!seen.failed) seen.loss = loss_of(p->points, count, fmin(last->seconds, until / pace));
    for (size_t i = count; i-- > 0 && isnan(seen.metric);) seen.metric = p->points[i].metric;
    return seen;
}

weft_search_seen weft_search_look(const weft_search *s, const weft_search_entry *e, double until)
{
    weft_search_seen all = {.reached = true, .low = INFINITY, .high = -INFINITY};
    const int seeds = s->asked.seeds;
    for (int k = 0; k < seeds; k++) {
        const weft_paused_state *p = weft_paused_run_state(source_of(s, e)->run[k]);
        weft_search_seen one = look_at(p, weft_search_pace(s, e), until);
        all.reached = all.reached && one.reached;
        all.failed = all.failed || one.failed;
        all.seconds += one.seconds / seeds;
        all.samples += one.samples / seeds;
        all.loss += one.loss / seeds;
        all.metric += one.metric / seeds;
        all.low = fmin(all.low, one.seconds);
        all.high = fmax(all.high, one.seconds);
    }
    return all;
}

/* --- results --- */

static int by_rank(const void *first, const void *second)
{
    const weft_search_entry *a = *(const weft_search_entry *const *)first,
                            *b = *(const weft_search_entry *const *)second;
    if (a->refused != b->refused) return a->refused - b->refused;
    if (a->seen.reached != b->seen.reached) return b->seen.reached - a->seen.reached;
    double x = a->seen.reached ? a->seen.seconds : a->seen.loss;
    double y = b->seen.reached ? b->seen.seconds : b->seen.loss;
    int round_a = a->round ? a->round : INT_MAX, round_b = b->round ? b->round : INT_MAX;
    if (!a->seen.reached && round_a != round_b) return round_a < round_b ? 1 : -1;
    if (x != y) return x < y ? -1 : 1;
    return strcmp(a->given->name, b->given->name);
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
                                .batch = e->batch,
                                .step_seconds = e->planned > 0 ? e->planned : e->step,
                                .same_as = source_of(s, e)->number,
                                .reached = seen->reached,
                                .seconds = seen->seconds,
                                .low = seen->low,
                                .high = seen->high,
                                .samples = seen->samples,
                                .loss = isinf(seen->loss) ? NAN : seen->loss,
                                .metric = seen->metric,
                                .round = e->round,
                                .why = e->why,
                                .refused = e->refused};
    e->why = NULL;
    if (e->refused) out->loss = out->metric = NAN;
    return e->refused ? WEFT_OK : copy_points(s, e, out);
}

weft_status weft_search_results(weft_search *s, weft_target_result **out)
{
    weft_search_entry **order = NULL;
    weft_target_result *results;
    WEFT_TRY(WEFT_NEW(&results, s->count));
    weft_status status = WEFT_NEW(&order, s->count);
    for (int i = 0; i < s->count && status == WEFT_OK; i++) order[i] = &s->entry[i];
    if (status == WEFT_OK) qsort((void *)order, (size_t)s->count, sizeof(*order), by_rank);
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
