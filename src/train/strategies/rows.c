/* The result of a search: rows of strategies. */
#include "train/strategies/search.h"

enum { MOST_UNFIT = 5 };

static double rate_of(const strategy_found *found)
{
    return found->step.samples_per_second;
}

static weft_status add_row(strategy_search *s, const strategy_candidate *c,
                           const strategy_found *found, char *reason)
{
    weft_strategy *row = &s->out->at[s->out->count++];
    *row = (weft_strategy){.struct_size = sizeof(*row), .reason = reason};
    row->one_learner = c->at[STRATEGY_EXCHANGE] == 0 && !s->space.given->parallel.exchange;
    if (found) {
        row->step = found->step;
        row->most = found->most;
    }
    return strategy_space_words(&s->space, c, &row->words);
}

/* Strategies that fit come first, the fastest first of each. */
static int compare(const void *first, const void *second)
{
    const strategy_found *a = first, *b = second;
    int fits = strategy_fits(&b->step) - strategy_fits(&a->step);
    if (fits) return fits;
    return (rate_of(a) < rate_of(b)) - (rate_of(a) > rate_of(b));
}

/* Lists the best of each kind, and sorts them. *fitting: how many fit. */
static weft_status list_found(const strategy_search *s, strategy_found **out, int *count)
{
    int found = 0;
    WEFT_TRY(WEFT_NEW(out, 2 * s->kind_count + (int64_t)s->all_count + 1));
    for (size_t i = 0; i < s->all_count; i++) (*out)[found++] = s->all[i];
    for (int k = 0; k < s->kind_count && !s->options->all; k++) {
        const strategy_kind *kind = &s->kinds[k];
        bool faster =
            kind->unfit && (!kind->fitting || rate_of(kind->unfit) > rate_of(kind->fitting));
        if (kind->fitting) (*out)[found++] = *kind->fitting;
        if (faster) (*out)[found++] = *kind->unfit;
    }
    qsort(*out, (size_t)found, sizeof(**out), compare);
    *count = found;
    return WEFT_OK;
}

/* The rows that are shown: the best that fit, and always that of one learner. */
static bool is_shown(const strategy_search *s, const strategy_found *found, int place)
{
    const strategy_candidate *c = &found->candidate;
    if (place < s->options->top) return true;
    return !s->options->all && c->at[STRATEGY_EXCHANGE] == 0 && c->at[STRATEGY_COMPRESS] == 0;
}

/* The machines on which a candidate's ranks are, if the file has others, too, of another kind; else
 * 0. */
static int64_t first_machines(const strategy_search *s, const strategy_candidate *c)
{
    int ranks = (int)s->space.mesh_ranks[c->at[STRATEGY_MESH]] * c->learners;
    int machines = strategy_place_of(&s->site, &s->space, ranks).machines;
    return s->site.cluster.group_count > 1 && machines < s->space.machines ? machines : 0;
}

static weft_status add_found(strategy_search *s, const strategy_found *all, int count)
{
    int fitting = 0, unfit = 0;
    for (int i = 0; i < count; i++) {
        char *reason = NULL;
        if (strategy_fits(&all[i].step)) {
            if (!is_shown(s, &all[i], fitting++)) continue;
            if (s->out->fitting++ == 0)
                s->out->first_machines = first_machines(s, &all[i].candidate);
        } else {
            if (unfit++ >= MOST_UNFIT && !s->options->all) continue;
            if (!s->out->interrupted) WEFT_TRY(strategy_remedy(s, &all[i], &reason));
            if (!reason) WEFT_TRY(weft_strdup("does not fit", &reason));
        }
        WEFT_TRY(add_row(s, &all[i].candidate, &all[i], reason));
    }
    return WEFT_OK;
}

/* Where no estimate fits: what would help, or the candidate with little memory that fits, as the
 * first row. */
static weft_status add_least(strategy_search *s)
{
    strategy_found found;
    bool fits;
    weft_strategy *at = s->out->at;
    WEFT_TRY(strategy_remedy_nowhere(s, &s->out->remedy, &found, &fits));
    if (!fits) return WEFT_OK;
    WEFT_TRY(add_row(s, &found.candidate, &found, NULL));
    weft_strategy row = at[s->out->count - 1];
    memmove(at + 1, at, (size_t)(s->out->count - 1) * sizeof(*at));
    at[0] = row;
    s->out->fitting = 1;
    s->out->first_machines = first_machines(s, &found.candidate);
    return WEFT_OK;
}

weft_status strategy_make_rows(strategy_search *s)
{
    strategy_found *all = NULL;
    int count;
    weft_status status = list_found(s, &all, &count);
    if (status == WEFT_OK) status = WEFT_NEW(&s->out->at, count + (int64_t)s->reason_count + 1);
    if (status == WEFT_OK) status = add_found(s, all, count);
    for (size_t i = 0; i < s->reason_count && status == WEFT_OK; i++) {
        char *reason = s->reasons[i].text;
        s->reasons[i].text = NULL;
        status = add_row(s, &s->reasons[i].candidate, NULL, reason);
    }
    free(all);
    if (status == WEFT_OK && s->out->fitting == 0 && !s->out->interrupted) status = add_least(s);
    return status;
}

void weft_strategies_free(weft_strategies *strategies)
{
    WEFT_NEED_VOID(strategies);
    for (int i = 0; i < strategies->count; i++) {
        free(strategies->at[i].words);
        free(strategies->at[i].reason);
    }
    free(strategies->at);
    free(strategies->remedy);
    *strategies = (weft_strategies){.struct_size = sizeof(*strategies)};
}
