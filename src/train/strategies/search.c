/* Searches for the fastest strategies by branch and bound: heads, which have a bound, are estimated
 * in the order of their bounds, first those of each with the least work, then the others, as long
 * as their bounds are above what has been found. */
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

/* --- what has been found --- */

static weft_status keep(strategy_found **to, const strategy_found *found)
{
    if (!*to) WEFT_TRY(WEFT_NEW(to, 1));
    **to = *found;
    return WEFT_OK;
}

static int descending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

static double rate_of(const strategy_found *found)
{
    return found ? found->step.samples_per_second : 0;
}

/* The rate that a further kind must exceed to be among the best. */
static void find_enough(strategy_search *s)
{
    int64_t top = s->options->top;
    for (int k = 0; k < s->kind_count; k++) s->rates[k] = rate_of(s->kinds[k].fitting);
    qsort(s->rates, (size_t)s->kind_count, sizeof(*s->rates), descending);
    s->enough = top <= s->kind_count ? s->rates[top - 1] : 0;
}

/* The memory of what is slower than one that fits does not matter. */
static bool is_slow(const strategy_search *s, int kind, const strategy_found *found)
{
    const strategy_found *fitting = s->kinds[kind].fitting;
    return !s->options->all && fitting && rate_of(fitting) >= rate_of(found);
}

static weft_status take(strategy_search *s, const strategy_head *head, const strategy_found *found)
{
    strategy_kind *kind = &s->kinds[head->kind];
    bool fits = strategy_fits(&found->step);
    strategy_found **to = fits ? &kind->fitting : &kind->unfit;
    s->out->estimated++;
    if (is_slow(s, head->kind, found)) return WEFT_OK;
    if (s->options->all) {
        WEFT_TRY(WEFT_GROW(&s->all, &s->all_capacity, s->all_count));
        s->all[s->all_count++] = *found;
    }
    if (*to && rate_of(*to) >= rate_of(found)) return WEFT_OK;
    WEFT_TRY(keep(to, found));
    if (fits) find_enough(s);
    return WEFT_OK;
}

static weft_status take_refusal(strategy_search *s, strategy_kind *kind,
                                const strategy_candidate *c, weft_status status)
{
    enum { MOST_REASONS = 20 };
    const char *message = weft_last_message();
    s->out->refused++;
    if (status != WEFT_ERR_UNSUPPORTED || weft_hash_text(message) != kind->reason)
        kind->refused = 0;
    kind->reason = weft_hash_text(message);
    kind->refused += status == WEFT_ERR_UNSUPPORTED;
    if (!s->refusal.status) weft_error_catch(&s->refusal, status);
    s->alike += strcmp(s->refusal.message, message) == 0;
    if (status != WEFT_ERR_UNSUPPORTED || s->reason_count == MOST_REASONS) return WEFT_OK;
    for (size_t i = 0; i < s->reason_count; i++)
        if (strcmp(s->reasons[i].text, message) == 0) return WEFT_OK;
    WEFT_TRY(WEFT_GROW(&s->reasons, &s->reason_capacity, s->reason_count));
    s->reasons[s->reason_count].candidate = *c;
    return weft_strdup(message, &s->reasons[s->reason_count++].text);
}

/* --- estimates --- */

weft_status strategy_estimate(strategy_search *s, const strategy_candidate *c,
                              weft_step_estimate *out, bool *refused)
{
    weft_train_options options;
    *refused = false;
    WEFT_TRY(strategy_space_options(&s->space, c, &options));
    weft_status status = weft_site_estimate(&s->site, s->context, &options, out);
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

static weft_status try_candidate(strategy_search *s, const strategy_head *head,
                                 strategy_found *found)
{
    char *words;
    bool refused;
    weft_status status = strategy_estimate(s, &found->candidate, &found->step, &refused);
    if (status == WEFT_OK && !is_slow(s, head->kind, found))
        status = strategy_memory(s, &found->candidate, &found->step, &refused);
    if (refused) return take_refusal(s, &s->kinds[head->kind], &found->candidate, status);
    if (status == WEFT_OK) return take(s, head, found);
    weft_error error = {0};
    weft_error_catch(&error, status);
    WEFT_TRY(strategy_space_words(&s->space, &found->candidate, &words));
    status = weft_error_raise(&error);
    status = weft_fail_within(status, "strategy '%s'", words);
    free(words);
    return status;
}

/* Whether a candidate may be the best of its kind, of a kind that is among the best or that is one
 * learner's. */
static bool is_wanted(const strategy_search *s, const strategy_head *head, double most)
{
    if (s->options->all) return true;
    if (!head->means.fits || most <= rate_of(s->kinds[head->kind].fitting)) return false;
    return head->kind == 0 || most > s->enough;
}

/* Whether no candidate with an exchange can be estimated: the first ones, whose learners are single
 * ranks, could not, all for one reason. */
static bool is_hopeless(const strategy_search *s, const strategy_head *head)
{
    enum { ENOUGH = 8 };
    const strategy_kind *kind = &s->kinds[head->kind];
    bool exchanges = head->candidate.at[STRATEGY_EXCHANGE] > 0;
    return exchanges && !kind->fitting && !kind->unfit && kind->refused >= ENOUGH;
}

static bool asked_to_stop(strategy_search *s)
{
    double limit = s->options->seconds;
    if (s->stop && s->stop->wanted) s->out->interrupted = true;
    if (limit > 0 && weft_seconds() - s->began > limit) s->out->timed_out = true;
    return s->out->interrupted || s->out->timed_out;
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

/* Whether a candidate has the least work of those of its head and ZeRO stage. */
static bool is_least(const strategy_candidate *c)
{
    return c->at[STRATEGY_SCHEDULE] == 0 && c->at[STRATEGY_MICROBATCHES] == 0 &&
           c->at[STRATEGY_RECOMPUTE] == 0;
}

/* Estimates a candidate if it may be wanted, or if that bounds others that may be. own: what is
 * known of those of its head and ZeRO stage. */
static weft_status try_tail(strategy_search *s, const strategy_head *head,
                            const strategy_candidate *c, strategy_known *own)
{
    double *kernels = kernels_of(s, c);
    const strategy_known known = {.kernels = WEFT_MAX(own->kernels, *kernels), .links = own->links};
    strategy_found found = {.candidate = *c};
    found.most = strategy_bound(&s->space, &s->work, &head->means, c, &known);
    bool bounds = is_least(c) && known.kernels == 0;
    if (!is_wanted(s, head, bounds ? WEFT_MAX(found.most, head->most) : found.most)) {
        s->out->bounded++;
        return WEFT_OK;
    }
    WEFT_TRY(try_candidate(s, head, &found));
    if (!is_least(c)) return WEFT_OK;
    *own = (strategy_known){.kernels = found.step.computed,
                            .links = found.step.busiest_link * found.step.seconds};
    if (s->work.meetings[c->at[STRATEGY_EXCHANGE]] == 0) *kernels = found.step.computed;
    return WEFT_OK;
}

/* Candidates of a head: those with the least work, or the others. */
static weft_status try_head(strategy_search *s, strategy_head *head, bool least)
{
    for (int i = 0; i < head->tails && !asked_to_stop(s); i++) {
        strategy_candidate c = head->candidate;
        strategy_space_tail(&s->space, i, &c);
        if (is_least(&c) != least) continue;
        if (is_hopeless(s, head))
            s->out->refused++;
        else
            WEFT_TRY(try_tail(s, head, &c, &head->known[c.at[STRATEGY_ZERO]]));
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

static weft_status try_all(strategy_search *s)
{
    for (size_t h = 0; h < s->head_count; h++) {
        WEFT_TRY(try_head(s, &s->heads[h], true));
        if (is_refused(s)) return weft_error_raise(&s->refusal);
    }
    for (size_t h = 0; h < s->head_count; h++) WEFT_TRY(try_head(s, &s->heads[h], false));
    return WEFT_OK;
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
    free(s->kernels);
    free(s->kernels_of);
    free(s->heads);
    free(s->all);
    strategy_work_free(&s->work);
    strategy_space_close(&s->space);
    weft_site_close(&s->site);
}

static weft_status run_search(strategy_search *s, const char *cluster)
{
    WEFT_TRY(open_search(s, cluster));
    WEFT_TRY(try_all(s));
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
    strategy_search s = {.context = context,
                         .options = &own,
                         .began = weft_seconds(),
                         .stop = stop,
                         .fn = fn,
                         .user = user,
                         .out = out,
                         .space = {.context = context, .given = options}};
    weft_status status = run_search(&s, cluster);
    close_search(&s);
    if (status != WEFT_OK) weft_strategies_free(out);
    return status;
}
