/* The finalists of a search: checks them, finds those that have the same numbers, and starts their
 * runs. */
#include <math.h>

#include "train/estimate/learner_time.h"
#include "train/sim/sim_internal.h"
#include "train/sim/target_search.h"

/* --- finalists --- */

static int by_ranks(const void *first, const void *second)
{
    const weft_search_entry *a = first, *b = second;
    int64_t x = a->given->options->job.ranks, y = b->given->options->job.ranks;
    return x != y ? (x > y) - (x < y) : strcmp(a->given->name, b->given->name);
}

static weft_status take_list(weft_search *s, const weft_finalist *finalists, int count)
{
    WEFT_TRY(WEFT_NEW(&s->entry, count));
    s->count = count;
    for (int i = 0; i < count; i++)
        s->entry[i] = (weft_search_entry){.given = &finalists[i], .number = i};
    for (int i = 0; i < count; i++) {
        if (!finalists[i].name || !finalists[i].options)
            return weft_fail(WEFT_ERR_ARGUMENT, "finalist %d has no %s", i,
                             finalists[i].name ? "options" : "name");
        WEFT_TRY(weft_train_options_check(s->context, finalists[i].options));
    }
    qsort(s->entry, (size_t)count, sizeof(*s->entry), by_ranks);
    for (int i = 0; i < count; i++)
        for (int k = 0; k < i; k++)
            if (strcmp(s->entry[i].given->name, s->entry[k].given->name) == 0)
                return weft_fail(WEFT_ERR_ARGUMENT, "two finalists are named '%s'",
                                 s->entry[i].given->name);
    return WEFT_OK;
}

/* Evaluations report the metric of the target, or the run is refused as one with --metric is. */
static weft_status name_metric(const weft_search *s, weft_train_options *o)
{
    char *names;
    const char *metric = s->asked.metric, *given = o->output.metric;
    if (!s->evaluates || weft_is_listed(given ? given : "", metric)) return WEFT_OK;
    WEFT_TRY(weft_format(&names, "%s%s%s", given ? given : "", given ? "," : "", metric));
    free(o->output.metric);
    o->output.metric = names;
    return WEFT_OK;
}

static weft_status take_options(weft_search *s, weft_search_entry *e)
{
    int64_t mesh;
    weft_train_options *o = &e->options;
    WEFT_TRY(weft_train_options_copy(s->context, e->given->options, o));
    e->has_options = true;
    if (o->output.resume)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "runs that are compared all begin anew; leave --resume out");
    WEFT_TRY(name_metric(s, o));
    WEFT_TRY(weft_learners_wait(s->context, o->parallel.exchange, &e->waits));
    WEFT_TRY(weft_simulate_ranks(s->asked.cluster, o));
    e->learners = 1;
    if (o->parallel.exchange)
        WEFT_TRY(weft_train_learners(o, WEFT_MAX(o->job.ranks, (int64_t)1), &mesh, &e->learners));
    return weft_batch_rule(s->context, e->given, e->learners, (double)s->asked.batch, s->asked.rule,
                           &e->batch, o);
}

static weft_status find_meeting(const weft_search *s, weft_search_entry *e)
{
    weft_meetings m = {.period = 1};
    if (e->learners > 1)
        WEFT_TRY(weft_exchange_meetings(s->context, e->options.parallel.exchange, &m));
    e->meets = m.period > 0 ? (double)m.period * e->step : (double)INFINITY;
    return WEFT_OK;
}

/* The estimated step of a program that fits, which is that of a run whose ranks wait for each
 * other; learners that do not may have none. */
static weft_status estimate(weft_search *s, weft_search_entry *e)
{
    weft_step_estimate step;
    weft_status status =
        weft_estimate_run(s->context, &e->options, s->asked.cluster, s->stop, &step);
    bool none = status == WEFT_ERR_ARGUMENT || status == WEFT_ERR_UNSUPPORTED;
    if (!e->waits && none) return WEFT_OK;
    WEFT_TRY(status);
    e->planned = step.seconds;
    if (e->waits) e->step = step.seconds;
    if (e->waits) WEFT_TRY(find_meeting(s, e));
    if (step.memory_limit <= 0 || step.memory <= step.memory_limit) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "its processes take %.1f MB on the fullest machine, which has %.1f MB",
                     step.memory / 1e6, step.memory_limit / 1e6);
}

/* --- runs that are the same --- */

/* Options that share out a step of a learner, and change no number of it but for its rounding. */
static const char sharing[] =
    "mesh,shares,zero,schedule,profile,recompute,shard,place,ranks,threads,no-bind";

static weft_status have_same_numbers(const weft_search *s, const weft_search_entry *a,
                                     const weft_search_entry *b, bool *same)
{
    *same = a->waits && b->waits && a->learners == b->learners;
    const weft_option *table = weft_train_table(s->context);
    for (const weft_option *o = table; *same && o->name; o++) {
        char *x, *y = NULL;
        if (weft_is_listed(sharing, o->name)) continue;
        WEFT_TRY(weft_options_get(table, &a->options, o->name, &x));
        weft_status status = weft_options_get(table, &b->options, o->name, &y);
        *same = x && y ? strcmp(x, y) == 0 : x == y;
        weft_free(x);
        weft_free(y);
        WEFT_TRY(status);
    }
    return WEFT_OK;
}

/* The first entry with the same numbers, which has the fewest ranks, computes them for all. */
static weft_status find_sources(weft_search *s)
{
    for (int i = 0; i < s->count; i++) {
        bool same = false;
        weft_search_entry *e = &s->entry[i];
        e->source = i;
        for (int k = 0; k < i && e->runs && !same; k++) {
            const weft_search_entry *other = &s->entry[k];
            if (!other->runs || other->source != k) continue;
            WEFT_TRY(have_same_numbers(s, e, other, &same));
            if (same) e->source = k;
        }
    }
    return WEFT_OK;
}

/* --- runs --- */

static void tell(void *user, double seconds, double share)
{
    weft_search *s = user;
    weft_target_progress p = {.round = s->round,
                              .rounds = s->rounds,
                              .name = s->entry[s->now].given->name,
                              .seconds = seconds,
                              .until = s->until,
                              .share = share};
    for (int i = 0; i < s->count; i++) p.running += s->entry[i].runs;
    if (s->fn) s->fn(s->user, &p);
}

/* Opens the runs of a source, and brings them before their first step. */
static weft_status open_runs(weft_search *s, weft_search_entry *e)
{
    const int64_t seed = e->options.task.seed;
    s->now = (int)(e - s->entry);
    for (int k = 0; k < s->asked.seeds; k++) {
        const weft_paused_options options = {.context = s->context,
                                             .train = &e->options,
                                             .cluster = s->asked.cluster,
                                             .metric = s->asked.metric,
                                             .value = s->asked.value,
                                             .rises = s->rises,
                                             .stop = s->stop,
                                             .tell = tell,
                                             .user = s};
        e->options.task.seed = seed + k;
        weft_status status = weft_paused_run_open(&options, &e->run[k]);
        e->options.task.seed = seed;
        WEFT_TRY(status);
        WEFT_TRY(weft_paused_run_go(e->run[k], 0));
    }
    if (e->step <= 0) e->step = e->planned;
    if (e->meets > weft_search_length(s, e) * (1 + 1e-12)) e->meets = INFINITY;
    /* Nothing is known of the steps of some exchanges before the first one has ended. */
    const weft_paused_state *first = weft_paused_run_state(e->run[0]);
    for (double t = 1e-6; e->step <= 0 && !first->ended; t *= 2) {
        WEFT_TRY(weft_paused_run_go(e->run[0], t));
        e->step = first->step;
    }
    return WEFT_OK;
}

/* A failure that is the options' fault is what becomes of the finalist; any other ends the search.
 */
static weft_status refuse(weft_search_entry *e, weft_status status)
{
    bool misfit = status == WEFT_ERR_ARGUMENT || status == WEFT_ERR_UNSUPPORTED;
    if (!misfit) return status;
    e->refused = true;
    e->runs = false;
    free(e->why);
    return weft_strdup(weft_last_message(), &e->why);
}

/* The message of the first of the caller's list is that of the call, if none can run. */
static weft_status check_some(const weft_search *s)
{
    const weft_search_entry *first = NULL;
    for (int i = 0; i < s->count; i++) {
        if (s->entry[i].runs) return WEFT_OK;
        if (!first || s->entry[i].number < first->number) first = &s->entry[i];
    }
    return weft_fail(WEFT_ERR_ARGUMENT, "none of the finalists can run; %s: %s", first->given->name,
                     first->why);
}

weft_status weft_search_open(weft_search *s, const weft_finalist *finalists, int count)
{
    WEFT_TRY(weft_dataset_keep(s->context)); /* all runs read it once */
    WEFT_TRY(take_list(s, finalists, count));
    for (int i = 0; i < count; i++) {
        weft_search_entry *e = &s->entry[i];
        weft_status status = take_options(s, e);
        if (status == WEFT_OK) status = estimate(s, e);
        e->runs = status == WEFT_OK;
        if (status != WEFT_OK) WEFT_TRY(refuse(e, status));
    }
    WEFT_TRY(find_sources(s));
    for (int i = 0; i < count; i++) {
        weft_search_entry *e = &s->entry[i];
        if (!e->runs || e->source != i) continue;
        weft_status status = open_runs(s, e);
        if (status == WEFT_OK) continue;
        for (int k = i; k < count; k++)
            if (s->entry[k].source == i && s->entry[k].runs) WEFT_TRY(refuse(&s->entry[k], status));
        weft_search_end_runs(e);
    }
    return check_some(s);
}

void weft_search_end_runs(weft_search_entry *e)
{
    for (int k = 0; k < WEFT_MOST_SEEDS; k++)
        if (e->run[k]) weft_paused_run_end(e->run[k]);
}

void weft_search_close(weft_search *s)
{
    const weft_option *table = weft_train_table(s->context);
    for (int i = 0; s->entry && i < s->count; i++) {
        weft_search_entry *e = &s->entry[i];
        for (int k = 0; k < WEFT_MOST_SEEDS; k++) weft_paused_run_close(&e->run[k]);
        if (e->has_options) weft_options_free(table, &e->options);
        free(e->why);
    }
    free(s->entry);
}
