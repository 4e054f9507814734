/* The results of a search so far: the best strategy of each kind, and reasons for which candidates
 * are refused; and by that, which candidates are wanted. */
#include "train/strategies/search.h"

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

bool strategy_is_slow(const strategy_search *s, int kind, const strategy_found *found)
{
    const strategy_found *fitting = s->kinds[kind].fitting;
    return !s->options->all && fitting && rate_of(fitting) >= rate_of(found);
}

weft_status strategy_take(strategy_search *s, const strategy_head *head,
                          const strategy_found *found)
{
    strategy_kind *kind = &s->kinds[head->kind];
    bool fits = strategy_fits(&found->step);
    strategy_found **to = fits ? &kind->fitting : &kind->unfit;
    s->out->estimated++;
    if (strategy_is_slow(s, head->kind, found)) return WEFT_OK;
    if (s->options->all) {
        WEFT_TRY(WEFT_GROW(&s->all, &s->all_capacity, s->all_count));
        s->all[s->all_count++] = *found;
    }
    if (*to && rate_of(*to) >= rate_of(found)) return WEFT_OK;
    WEFT_TRY(keep(to, found));
    if (fits) find_enough(s);
    return WEFT_OK;
}

weft_status strategy_take_refusal(strategy_search *s, strategy_kind *kind,
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

bool strategy_is_wanted(const strategy_search *s, const strategy_head *head, double most)
{
    if (s->options->all) return true;
    if (!head->means.fits || most <= rate_of(s->kinds[head->kind].fitting)) return false;
    return head->kind == 0 || most > s->enough;
}

double strategy_enough(const strategy_search *s, const strategy_head *head)
{
    double enough = rate_of(s->kinds[head->kind].fitting);
    if (head->kind != 0) enough = WEFT_MAX(enough, s->enough);
    return s->options->all || enough <= 0 ? 0 : head->means.samples / enough;
}

bool strategy_is_hopeless(const strategy_search *s, const strategy_head *head)
{
    enum { ENOUGH = 8 };
    const strategy_kind *kind = &s->kinds[head->kind];
    bool exchanges = head->candidate.at[STRATEGY_EXCHANGE] > 0;
    return exchanges && !kind->fitting && !kind->unfit && kind->refused >= ENOUGH;
}
