/* Searches for the fastest strategies by branch and bound: heads, which have a bound, are estimated
 * in the order of their bounds, first those of each with the least work, then the others, as long
 * as their bounds are above what has been found. */
#include <math.h>

#include "train/strategies/search.h"

void weft_search_options_init_size(weft_search_options *options, size_t size)
{
    const weft_search_options usual = {.struct_size = size, .top = 10};
    WEFT_NEED_VOID(options);
    memset(options, 0, size);
    memcpy(options, &usual, WEFT_MIN(size, sizeof(usual)));
}

bool strategy_fits(const weft_step_estimate *step)
{
    return step->memory_limit <= 0 || step->memory <= step->memory_limit;
}

/* --- estimates --- */

weft_status strategy_estimate(strategy_search *s, const strategy_candidate *c,
                              weft_estimate_end *end, weft_step_estimate *out, bool *refused)
{
    weft_train_options options;
    *refused = false;
    WEFT_TRY(strategy_space_options(&s->space, c, &options));
    weft_status status =
        weft_site_estimate(&s->site, s->context, &options, strategy_own(s, c), end, out);
    weft_options_free(s->space.table, &options);
    *refused = strategy_is_refused(status);
    return status;
}

weft_status strategy_memory(strategy_search *s, const strategy_candidate *c,
                            weft_step_estimate *out, bool *refused)
{
    weft_train_options options;
    *refused = false;
    WEFT_TRY(strategy_space_options(&s->space, c, &options));
    weft_status status = weft_site_memory(&s->site, s->context, &options, out);
    weft_options_free(s->space.table, &options);
    *refused = strategy_is_refused(status);
    return status;
}

/* Estimates a candidate. *rate: samples a second that it takes at most; 0: it is refused. */
static weft_status try_candidate(strategy_search *s, const strategy_head *head,
                                 strategy_found *found, double *rate)
{
    char *words;
    bool refused;
    weft_estimate_end end = {.asked = strategy_asked_to_stop,
                             .user = s,
                             .least = head->means.samples / found->most,
                             .most = strategy_enough(s, head)};
    weft_status status = strategy_estimate(s, &found->candidate, &end, &found->step, &refused);
    *rate = found->step.samples_per_second;
    if (status == WEFT_OK && !strategy_is_slow(s, head->kind, found))
        status = strategy_memory(s, &found->candidate, &found->step, &refused);
    if (status == WEFT_OK) return strategy_take(s, head, found);
    *rate = 0;
    if (refused) return strategy_take_refusal(s, &s->kinds[head->kind], &found->candidate, status);
    if (end.slower) {
        *rate = head->means.samples / end.most;
        s->out->bounded++;
        return WEFT_OK;
    }
    if (status == WEFT_ERR_INTERRUPTED) return status;
    weft_error error = {0};
    weft_error_catch(&error, status);
    WEFT_TRY(strategy_space_words(&s->space, &found->candidate, &words));
    status = weft_error_raise(&error);
    status = weft_fail_within(status, "strategy '%s'", words);
    free(words);
    return status;
}

bool strategy_asked_to_stop(void *search)
{
    strategy_search *s = search;
    bool late = s->begun && weft_seconds() > s->ends;
    if (s->stop && s->stop->wanted) s->out->interrupted = true;
    if (late && !s->done) s->out->timed_out = true;
    return late || s->out->interrupted;
}

/* Where the kernel seconds of a candidate without a meeting of learners are, which its schedule,
 * micro-batches and recomputation change to more at most. */
static double *kernels_of(const strategy_search *s, const strategy_candidate *c)
{
    size_t stages = s->space.values[STRATEGY_ZERO].count;
    bool elsewhere = s->space.updates[c->at[STRATEGY_EXCHANGE]];
    size_t at = (size_t)c->learners * stages + (size_t)c->at[STRATEGY_ZERO];
    return &s->kernels[s->kernels_of[c->at[STRATEGY_MESH]] + 2 * at + elsewhere];
}

bool strategy_is_least(const strategy_candidate *c)
{
    return c->at[STRATEGY_SCHEDULE] == 0 && c->at[STRATEGY_MICROBATCHES] == 0 &&
           c->at[STRATEGY_RECOMPUTE] == 0;
}

/* Whether the learners of a head wait for all others; a single one has no exchange. */
static bool waits(const strategy_search *s, const strategy_head *head)
{
    const strategy_candidate *c = &head->candidate;
    return c->learners == 1 || s->work.meetings[c->at[STRATEGY_EXCHANGE]] >= 0;
}

static bool is_wanted_to_know(const strategy_search *s, const strategy_head *head,
                              const strategy_candidate *c, const strategy_known *known, double most)
{
    bool bounds = waits(s, head) && strategy_is_least(c) && known->kernels == 0;
    return strategy_is_wanted(s, head, bounds ? WEFT_MAX(most, head->most) : most);
}

/* Estimates a candidate if it may be wanted, or if that bounds others that may be. own: what is
 * known of those of its head and ZeRO stage; fewer: of one that also recomputes as much, with fewer
 * micro-batches. */
static weft_status try_tail(strategy_search *s, strategy_head *head, const strategy_candidate *c,
                            strategy_known *own, strategy_known *fewer)
{
    double *kernels = kernels_of(s, c), rate = 0;
    const strategy_known known = {.kernels =
                                      WEFT_MAX(WEFT_MAX(own->kernels, *kernels), fewer->kernels),
                                  .links = WEFT_MAX(own->links, fewer->links)};
    strategy_found found = {.candidate = *c};
    found.most = strategy_bound(&s->space, &s->work, &head->means, c, &known);
    bool wanted = is_wanted_to_know(s, head, c, &known, found.most), refused;
    if (wanted && !waits(s, head)) {
        weft_status status = strategy_refine(s, head, c, &found.most, &refused);
        if (refused) return strategy_take_refusal(s, &s->kinds[head->kind], c, status);
        WEFT_TRY(status);
        wanted = strategy_is_wanted(s, head, found.most);
    }
    s->out->bounded += !wanted;
    if (wanted) WEFT_TRY(try_candidate(s, head, &found, &rate));
    if (!wanted || rate <= 0) return WEFT_OK;
    *fewer = (strategy_known){.kernels = found.step.computed,
                              .links = found.step.busiest_link * found.step.seconds};
    if (!strategy_is_least(c)) return WEFT_OK;
    *own = *fewer;
    if (s->work.meetings[c->at[STRATEGY_EXCHANGE]] == 0) *kernels = found.step.computed;
    return WEFT_OK;
}

/* Candidates of a head: those with the least work, or the others, of which those of one ZeRO stage
 * and recomputation follow each other, in the order of their micro-batches. */
static weft_status try_head(strategy_search *s, strategy_head *head, bool least)
{
    bool idle = false;
    strategy_known fewer = {.kernels = 0};
    strategy_candidate of = head->candidate;
    if (strategy_asked_to_stop(s)) return WEFT_OK;
    if (strategy_is_wanted(s, head, head->most)) WEFT_TRY(strategy_is_idle(s, head, &idle));
    for (int i = 0; i < head->tails && !strategy_asked_to_stop(s); i++) {
        strategy_candidate c = head->candidate;
        strategy_space_tail(&s->space, i, &c);
        if (strategy_is_least(&c) != least) continue;
        if (c.at[STRATEGY_ZERO] != of.at[STRATEGY_ZERO] ||
            c.at[STRATEGY_RECOMPUTE] != of.at[STRATEGY_RECOMPUTE])
            fewer = (strategy_known){.kernels = 0};
        of = c;
        if (idle)
            s->out->idle++;
        else if (strategy_is_hopeless(s, head))
            s->out->refused++;
        else
            WEFT_TRY(try_tail(s, head, &c, &head->known[c.at[STRATEGY_ZERO]], &fewer));
        if (s->fn) s->fn(s->user, s->out, s->rates[0]);
    }
    return WEFT_OK;
}

/* Whether the run itself is refused: one rank was, and then many candidates, all for the same
 * reason. */
static bool is_refused(const strategy_search *s)
{
    enum { MANY = 50 };
    return s->work.refused && s->out->estimated == 0 && s->alike >= MANY &&
           s->alike == s->out->refused;
}

/* Heads of one learner, of learners that wait for all others, and of the other ones. */
typedef enum head_group { ALONE, WAITING, APART } head_group;

static head_group group_of(const strategy_search *s, const strategy_head *head)
{
    return head->candidate.learners == 1 ? ALONE : waits(s, head) ? WAITING : APART;
}

static weft_status try_once(strategy_search *s, strategy_head *head, bool least)
{
    if (head->tried[least]) return WEFT_OK;
    WEFT_TRY(try_head(s, head, least));
    head->tried[least] = true;
    return is_refused(s) ? weft_error_raise(&s->refusal) : WEFT_OK;
}

/* Looks at heads that are still to be tried, for so long; 0: as long as the search lasts. */
static weft_status try_heads(strategy_search *s, head_group group, bool least, double seconds)
{
    for (size_t h = 0; h < s->head_count && !strategy_asked_to_stop(s); h++) {
        if (group_of(s, &s->heads[h]) != group) continue;
        if (seconds > 0 && weft_seconds() - s->began > seconds) return WEFT_OK;
        WEFT_TRY(try_once(s, &s->heads[h], least));
    }
    return WEFT_OK;
}

/* The plain ways of a sort. The time that the simplest one takes does not count, so that whatever
 * the limit is, there is a result. */
static weft_status try_plain(strategy_search *s, strategy_rung rung)
{
    for (size_t h = 0; h < s->head_count; h++)
        if (s->heads[h].rung == rung) WEFT_TRY(try_once(s, &s->heads[h], true));
    s->begun = true;
    return WEFT_OK;
}

/* Lowers the bounds of heads whose learners do not wait, by that of their simplest candidate, and
 * sorts them again. */
static weft_status refine_heads(strategy_search *s)
{
    for (size_t h = 0; h < s->head_count && !strategy_asked_to_stop(s); h++) {
        strategy_head *head = &s->heads[h];
        bool refused, idle;
        if (waits(s, head) || !strategy_is_wanted(s, head, head->most)) continue;
        WEFT_TRY(strategy_is_idle(s, head, &idle));
        if (idle) continue;
        weft_status status = strategy_refine(s, head, &head->candidate, &head->first, &refused);
        if (!refused) WEFT_TRY(status);
    }
    strategy_sort_heads(s);
    return WEFT_OK;
}

/* Runs of one learner, which are few beside those with exchanges, come first, for half of the time.
 */
static weft_status try_all(strategy_search *s)
{
    double half = s->options->seconds / 2;
    WEFT_TRY(try_plain(s, STRATEGY_SIMPLEST));
    WEFT_TRY(try_plain(s, STRATEGY_BY_DATA));
    WEFT_TRY(try_heads(s, ALONE, true, half));
    WEFT_TRY(try_heads(s, ALONE, false, half));
    WEFT_TRY(try_plain(s, STRATEGY_BY_LEARNERS));
    WEFT_TRY(try_heads(s, WAITING, true, 0));
    WEFT_TRY(refine_heads(s));
    WEFT_TRY(try_heads(s, APART, true, 0));
    WEFT_TRY(try_heads(s, WAITING, false, 0));
    WEFT_TRY(try_heads(s, APART, false, 0));
    WEFT_TRY(try_heads(s, ALONE, true, 0));
    return try_heads(s, ALONE, false, 0);
}

/* --- the search --- */

static weft_status open_search(strategy_search *s, const char *cluster)
{
    const weft_cluster *c = &s->site.cluster;
    int64_t cores = INT64_MAX;
    WEFT_TRY(weft_site_open(cluster, &s->site));
    for (int g = 0; g < c->group_count; g++) {
        s->space.machines += c->groups[g].count;
        cores = WEFT_MIN(cores, c->groups[g].cores);
    }
    s->space.ranks = s->out->ranks = WEFT_MIN(s->space.machines * cores, (int64_t)WEFT_MAX_RANKS);
    WEFT_TRY(strategy_space_open(&s->space, s->options->one_learner));
    WEFT_TRY(strategy_work_find(&s->site, &s->space, &s->work));
    return strategy_list_heads(s);
}

static void close_search(strategy_search *s)
{
    for (int k = 0; k < s->kind_count && s->kinds; k++) {
        free(s->kinds[k].fitting);
        free(s->kinds[k].unfit);
    }
    for (size_t i = 0; i < s->reason_count; i++) free(s->reasons[i].text);
    free(s->reasons);
    free(s->kinds);
    free(s->rates);
    strategy_free_own(s);
    free(s->kernels);
    free(s->idle);
    free(s->kernels_of);
    free(s->heads);
    free(s->all);
    strategy_work_free(&s->work);
    strategy_space_close(&s->space);
    weft_site_close(&s->site);
}

/* ADVICE: seconds for what would help, where little or nothing fits, when the time is out. */
static weft_status run_search(strategy_search *s, const char *cluster)
{
    static const double ADVICE = 2;
    WEFT_TRY(open_search(s, cluster));
    weft_status status = try_all(s);
    if (status != WEFT_ERR_INTERRUPTED || !strategy_asked_to_stop(s)) WEFT_TRY(status);
    if (s->full && !s->out->interrupted) s->out->timed_out = true;
    s->done = true;
    s->ends = WEFT_MAX(s->ends, weft_seconds() + ADVICE);
    if (s->out->estimated == 0 && s->out->refused > 0) return weft_error_raise(&s->refusal);
    return strategy_make_rows(s);
}

weft_status weft_strategies_search(weft_context *context, const weft_train_options *options,
                                   const char *cluster, const weft_search_options *search,
                                   const weft_stop *stop, weft_search_fn fn, void *user,
                                   weft_strategies *out)
{
    WEFT_NEED(context, options, cluster, search, out);
    weft_search_options own;
    weft_search_options_init(&own);
    WEFT_TAKE(weft_search_options, search, seconds, &own);
    *out = (weft_strategies){.struct_size = sizeof(*out)};
    if (own.top < 1)
        return weft_fail(WEFT_ERR_ARGUMENT, "top is %lld, must be 1 or more", (long long)own.top);
    if (!(own.seconds >= 0))
        return weft_fail(WEFT_ERR_ARGUMENT, "seconds is %g, must be 0 or more", own.seconds);
    WEFT_TRY(weft_train_options_check(context, options));
    if (own.one_learner && options->parallel.exchange)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "one learner has no exchange, and '%s' is given; leave --one-learner or "
                         "--exchange out",
                         options->parallel.exchange);
    strategy_search s = {.context = context,
                         .options = &own,
                         .began = weft_seconds(),
                         .stop = stop,
                         .fn = fn,
                         .user = user,
                         .out = out,
                         .space = {.context = context, .given = options, .names = own.given}};
    s.ends = own.seconds > 0 ? s.began + own.seconds : INFINITY;
    weft_status status = run_search(&s, cluster);
    close_search(&s);
    if (status != WEFT_OK) weft_strategies_free(out);
    return status;
}
