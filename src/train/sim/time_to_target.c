/* Which of several simulated runs reaches a target first, by successive halving (Jamieson and
 * Talwalkar 2016) in virtual time. */
#include <math.h>

#include "base/registry.h"
#include "train/sim/sim_internal.h"
#include "train/sim/target_search.h"

void weft_target_options_init_size(weft_target_options *options, size_t size)
{
    const weft_target_options ours = {.struct_size = sizeof(ours), .seeds = 1};
    weft_give_struct(options, size, &ours, sizeof(ours));
}

/* --- what is asked for --- */

static weft_status check_metric(weft_search *s)
{
    const weft_entry *entry;
    const char *metric = s->asked.metric;
    s->trains = metric && strcmp(metric, WEFT_TRAIN_LOSS) == 0;
    if (!metric || s->trains) return WEFT_OK;
    WEFT_TRY(weft_registry_find(s->context, WEFT_KIND_METRIC, metric, strlen(metric), &entry));
    const weft_metric *m = entry->ops;
    s->rises = m->rises;
    s->evaluates = true;
    if (s->asked.value >= m->least && s->asked.value <= m->most) return WEFT_OK;
    if (isinf(m->most))
        return weft_fail(WEFT_ERR_ARGUMENT, "the target %s=%g cannot be reached; %s is at least %g",
                         metric, s->asked.value, metric, m->least);
    if (isinf(m->least))
        return weft_fail(WEFT_ERR_ARGUMENT, "the target %s=%g cannot be reached; %s is at most %g",
                         metric, s->asked.value, metric, m->most);
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "the target %s=%g is no value of %s, which goes from %g to %g; 97 %% is 0.97",
                     metric, s->asked.value, metric, m->least, m->most);
}

static weft_status check_asked(weft_search *s)
{
    const weft_target_options *o = &s->asked;
    if (o->seeds < 1 || o->seeds > WEFT_MOST_SEEDS)
        return weft_fail(WEFT_ERR_ARGUMENT, "seeds is %d, must be 1 to %d", o->seeds,
                         (int)WEFT_MOST_SEEDS);
    if ((unsigned)o->rule > WEFT_RATE_KEPT)
        return weft_fail(WEFT_ERR_ARGUMENT, "the rule of the learning rate is %d, which is none",
                         (int)o->rule);
    if (!isfinite(o->value) || !(o->budget >= 0) || !isfinite(o->budget))
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "the target is %g and the budget %g seconds; both must be finite numbers, "
                         "the budget at least 0 (none)",
                         o->value, o->budget);
    if (o->batch < 0)
        return weft_fail(WEFT_ERR_ARGUMENT, "batch is %lld, must be at least 0 (that of a learner)",
                         (long long)o->batch);
    if (!o->cluster)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "there is no file of a cluster; weft measure writes one");
    return check_metric(s);
}

/* --- rounds --- */

/* Lets a run go on to the same virtual time of each of its finalists, where it is evaluated. */
static weft_status advance_run(weft_search *s, int i, double until)
{
    const weft_search_entry *e = &s->entry[i];
    for (double now = 0, next = 0; isfinite(next); now = next) {
        next = INFINITY; /* time by the clock of the run */
        for (int k = i; k < s->count; k++) {
            const weft_search_entry *f = &s->entry[k];
            double own = until / weft_search_pace(s, f);
            if (f->source == i && f->runs && own > now) next = fmin(next, own);
        }
        for (int seed = 0; seed < s->asked.seeds && next > now && e->run[seed]; seed++)
            if (isfinite(next) || isinf(until))
                WEFT_TRY(weft_paused_run_go(e->run[seed], next * (1 + 1e-12)));
    }
    return WEFT_OK;
}

/* Lets every run that is left go on. */
static weft_status advance(weft_search *s, double until)
{
    for (int i = 0; i < s->count; i++) {
        bool wanted = false;
        for (int k = i; k < s->count; k++) wanted |= s->entry[k].source == i && s->entry[k].runs;
        s->now = i;
        s->until = until;
        if (wanted)
            WEFT_TRY(advance_run(s, i, until));
        else
            weft_search_end_runs(&s->entry[i]);
    }
    return WEFT_OK;
}

static int running(const weft_search *s)
{
    int count = 0;
    for (int i = 0; i < s->count; i++) count += s->entry[i].runs;
    return count;
}

/* The place of finalist i among those that run; of equal ones that with the lesser name is the
 * first, which is that with the lesser number. */
static int place_of(const weft_search *s, const weft_search_seen *seen, int i)
{
    int place = 0;
    for (int k = 0; k < s->count; k++) {
        if (!s->entry[k].runs || k == i) continue;
        int order = weft_search_order(s, &seen[k], &seen[i]);
        place += order < 0 || (order == 0 && k < i);
    }
    return place;
}

/* The number by which finalists are compared, and its name: the first that both have. */
static const char *judged_by(const weft_search *s, const weft_search_seen *a,
                             const weft_search_seen *b, double out[2])
{
    bool metric = s->evaluates && !isnan(a->metric) && !isnan(b->metric) && a->metric != b->metric;
    bool held_out = !s->trains && !isnan(a->held_out) && !isnan(b->held_out);
    out[0] = metric ? a->metric : held_out ? a->held_out : a->loss;
    out[1] = metric ? b->metric : held_out ? b->held_out : b->loss;
    return metric ? s->asked.metric : held_out ? "held-out loss" : "training loss";
}

static weft_status leave_out(weft_search *s, int i, double until, const weft_search_seen *seen,
                             int best)
{
    weft_search_entry *e = &s->entry[i];
    const weft_search_seen *mine = &seen[i];
    e->runs = false;
    e->seen = *mine;
    e->round = s->round;
    if (mine->failed)
        return weft_format(&e->why, "its loss became NaN or infinite within %.4g s", until);
    if (seen[best].reached && mine->reached)
        return weft_format(&e->why, "it reached the target later than %s",
                           s->entry[best].given->name);
    if (seen[best].reached)
        return weft_format(&e->why, "it had not reached the target when %s had",
                           s->entry[best].given->name);
    if (isinf(mine->loss))
        return weft_format(&e->why, "it had taken no step within %.4g s, and %s had", until,
                           s->entry[best].given->name);
    double values[2];
    const char *name = judged_by(s, mine, &seen[best], values);
    return weft_format(&e->why, "its %s was %.4g after %.4g s, and that of %s %.4g", name,
                       values[0], until, s->entry[best].given->name, values[1]);
}

/* A run that has ended is no more left out: its figures are those of its end. */
static weft_status note_end(weft_search *s, int i, const weft_search_seen *seen)
{
    weft_search_entry *e = &s->entry[i];
    e->runs = false;
    e->seen = *seen;
    return weft_format(&e->why, "its run had ended after %.4g s", seen->seconds);
}

/* Samples a second as estimated: some learners begin faster than they go on; 0: not known. */
static double rate_of(const weft_search_entry *e)
{
    double samples = (double)e->options.length.batch * e->learners;
    return e->planned > 0 ? samples / e->planned : 0;
}

/* Whether a finalist that is not among the better half cannot be judged yet, since it has taken no
 * step, its learners have not met, its warm-up has not ended, or it has taken fewer samples than
 * the best one, and takes more in a second. */
static bool goes_on(const weft_search *s, const weft_search_seen *seen, int i, int best)
{
    if (seen[i].failed) return false;
    bool behind =
        seen[i].samples < seen[best].samples && rate_of(&s->entry[i]) > rate_of(&s->entry[best]);
    return isinf(seen[i].loss) || !seen[i].met || behind;
}

static weft_status judge(weft_search *s, double until, weft_search_seen *seen, int *place)
{
    int best = -1, keep, over = 0; /* over: their messages alone are under way */
    bool reached = false;
    for (int i = 0; i < s->count; i++) {
        if (!s->entry[i].runs) continue;
        seen[i] = weft_search_look(s, &s->entry[i], until);
        reached = reached || seen[i].reached;
        if (seen[i].ended && !seen[i].failed) WEFT_TRY(note_end(s, i, &seen[i]));
    }
    for (int i = 0; i < s->count; i++)
        over += s->entry[i].runs && weft_search_length(s, &s->entry[i]) <= until;
    /* Two go on until one has reached the target: the faster start need not win. */
    keep = over + WEFT_MAX((running(s) - over + 1) / 2, 2);
    for (int i = 0; i < s->count; i++) {
        if (s->entry[i].runs) place[i] = place_of(s, seen, i);
        if (s->entry[i].runs && place[i] == 0) best = i;
    }
    for (int i = 0; i < s->count; i++)
        if (s->entry[i].runs &&
            !(reached ? seen[i].reached : place[i] < keep || goes_on(s, seen, i, best)))
            WEFT_TRY(leave_out(s, i, until, seen, best));
    s->over = reached;
    return WEFT_OK;
}

/* Leaves out those that are not among the better half. */
static weft_status halve(weft_search *s, double until)
{
    weft_search_seen *seen;
    int *place;
    WEFT_TRY(WEFT_NEW(&seen, s->count));
    weft_status status = WEFT_NEW(&place, s->count);
    if (status == WEFT_OK) status = judge(s, until, seen, place);
    free(place);
    free(seen);
    return status;
}

/* The virtual time of the first round: after as many doublings as there are halvings the budget is
 * spent, or the shortest run is over; but all learners that meet within their runs have met. */
static double first_budget(const weft_search *s)
{
    double shortest = INFINITY, met = 0;
    for (int i = 0; i < s->count; i++) {
        const weft_search_entry *e = &s->entry[i];
        if (!e->runs) continue;
        shortest = fmin(shortest, weft_search_length(s, e));
        if (isfinite(e->meets)) met = fmax(met, e->meets);
    }
    double all = s->asked.budget > 0 ? fmin(s->asked.budget, shortest) : shortest;
    return fmax(ldexp(all, -s->rounds), met);
}

static weft_status play(weft_search *s)
{
    while (1 << s->rounds < running(s)) s->rounds++;
    double end = s->asked.budget > 0 ? s->asked.budget : (double)INFINITY;
    double until = first_budget(s);
    for (s->round = 1; running(s) > 1 && !s->over && until < end; s->round++, until *= 2) {
        WEFT_TRY(advance(s, until));
        WEFT_TRY(halve(s, until));
    }
    if (!s->over || s->asked.budget > 0) WEFT_TRY(advance(s, end));
    for (int i = 0; i < s->count; i++)
        if (s->entry[i].runs) s->entry[i].seen = weft_search_look(s, &s->entry[i], end);
    return WEFT_OK;
}

weft_status weft_time_to_target(weft_context *context, const weft_target_options *options,
                                const weft_finalist *finalists, int count, const weft_stop *stop,
                                weft_target_fn fn, void *user, weft_target_result **out)
{
    WEFT_NEED(context, options, finalists, out);
    weft_search s = {.context = context, .stop = stop, .fn = fn, .user = user};
    weft_target_options_init(&s.asked);
    WEFT_TAKE(weft_target_options, options, batch, &s.asked);
    WEFT_CHECK_ROOM("weft_target_options", options);
    *out = NULL;
    if (count < 1 || count > WEFT_MOST_FINALISTS)
        return weft_fail(WEFT_ERR_ARGUMENT, "there are %d finalists; give 1 to %d", count,
                         (int)WEFT_MOST_FINALISTS);
    WEFT_TRY(check_asked(&s));
    weft_status status = weft_search_open(&s, finalists, count);
    if (status == WEFT_OK) status = play(&s);
    if (status == WEFT_OK) status = weft_search_results(&s, out);
    weft_search_close(&s);
    return status;
}
