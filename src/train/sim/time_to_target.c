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
    if (!metric || strcmp(metric, WEFT_TRAIN_LOSS) == 0) return WEFT_OK;
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

/* Lets every run that is left go on, to the same virtual time of each finalist. */
static weft_status advance(weft_search *s, double until)
{
    for (int i = 0; i < s->count; i++) {
        double own = 0; /* time by the clock of the run, which may have several finalists */
        weft_search_entry *e = &s->entry[i];
        for (int k = i; k < s->count; k++)
            if (s->entry[k].source == i && s->entry[k].runs)
                own = WEFT_MAX(own, until / weft_search_pace(s, &s->entry[k]));
        s->now = i;
        s->until = until;
        for (int seed = 0; seed < s->asked.seeds && own > 0 && e->run[seed]; seed++)
            WEFT_TRY(weft_paused_run_go(e->run[seed], own * (1 + 1e-12)));
        if (own <= 0) weft_search_end_runs(e);
    }
    return WEFT_OK;
}

static int running(const weft_search *s)
{
    int count = 0;
    for (int i = 0; i < s->count; i++) count += s->entry[i].runs;
    return count;
}

/* Whether finalist a is better than b at this time: by the time at which it has reached the target,
 * or else by its training loss. */
static bool is_better(const weft_search_seen *a, const weft_search_seen *b)
{
    if (a->reached != b->reached) return a->reached;
    if (a->reached) return a->seconds < b->seconds;
    return a->loss < b->loss;
}

/* The place of finalist i among those that run; of equal ones that with the lesser name is the
 * first, which is that with the lesser number. */
static int place_of(const weft_search *s, const weft_search_seen *seen, int i)
{
    int place = 0;
    for (int k = 0; k < s->count; k++) {
        if (!s->entry[k].runs || k == i) continue;
        place += is_better(&seen[k], &seen[i]) || (k < i && !is_better(&seen[i], &seen[k]));
    }
    return place;
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
    if (weft_search_ended(s, e))
        return weft_format(&e->why,
                           "its run had ended after %.4g s with a training loss of %.4g, and that "
                           "of %s was %.4g after %.4g s",
                           mine->seconds, mine->loss, s->entry[best].given->name, seen[best].loss,
                           until);
    return weft_format(&e->why, "its training loss was %.4g after %.4g s, and that of %s %.4g",
                       mine->loss, until, s->entry[best].given->name, seen[best].loss);
}

/* Leaves out those that are not among the better half; where the target has been reached, all that
 * have not reached it, too. *over: nothing is left to be found out. */
static weft_status halve(weft_search *s, double until, bool *over)
{
    weft_search_seen *seen;
    int *place, best = -1, reached = 0, keep = (running(s) + 1) / 2;
    WEFT_TRY(WEFT_NEW(&seen, s->count));
    weft_status status = WEFT_NEW(&place, s->count);
    for (int i = 0; i < s->count && status == WEFT_OK; i++)
        if (s->entry[i].runs) seen[i] = weft_search_look(s, &s->entry[i], until);
    for (int i = 0; i < s->count && status == WEFT_OK; i++) {
        if (!s->entry[i].runs) continue;
        place[i] = place_of(s, seen, i);
        if (place[i] == 0) best = i;
        reached += seen[i].reached;
    }
    *over = reached > 0;
    for (int i = 0; i < s->count && status == WEFT_OK; i++) {
        /* A run that has not taken a step yet is not judged. */
        bool begins = isinf(seen[i].loss) && !seen[i].failed;
        bool stays = reached > 0 ? seen[i].reached : place[i] < keep || begins;
        if (s->entry[i].runs && !stays) status = leave_out(s, i, until, seen, best);
    }
    free(place);
    free(seen);
    return status;
}

static bool all_ended(const weft_search *s)
{
    for (int i = 0; i < s->count; i++)
        if (s->entry[i].runs && !weft_search_ended(s, &s->entry[i])) return false;
    return true;
}

/* The virtual time of the first round: after as many doublings as there are halvings the budget is
 * spent, or the shortest run is over. */
static double first_budget(const weft_search *s)
{
    double shortest = INFINITY;
    for (int i = 0; i < s->count; i++)
        if (s->entry[i].runs) shortest = fmin(shortest, weft_search_length(s, &s->entry[i]));
    double all = s->asked.budget > 0 ? fmin(s->asked.budget, shortest) : shortest;
    return ldexp(all, -s->rounds);
}

static weft_status play(weft_search *s)
{
    bool over = false;
    while (1 << s->rounds < running(s)) s->rounds++;
    double until = first_budget(s);
    for (s->round = 1; running(s) > 1 && !over; s->round++, until *= 2) {
        WEFT_TRY(advance(s, until));
        bool ended = all_ended(s);
        WEFT_TRY(halve(s, until, &over));
        over = over || ended;
    }
    double end = s->asked.budget > 0 ? s->asked.budget : (double)INFINITY;
    if (!over || s->asked.budget > 0) WEFT_TRY(advance(s, end));
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
