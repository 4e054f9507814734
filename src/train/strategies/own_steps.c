/* Bounds of candidates whose learners do not wait for all others, by the learners' own steps, which
 * are those of each tail: with other micro-batches or recomputation they are others. */
#include "train/strategies/search.h"

weft_status strategy_make_own(strategy_search *s)
{
    size_t meshes = s->space.values[STRATEGY_MESH].count;
    WEFT_TRY(WEFT_NEW(&s->own_of, meshes));
    for (size_t m = 0; m < meshes; m++) {
        s->own_of[m] = s->own_count;
        s->own_count += 2 * (size_t)(s->space.ranks / s->space.mesh_ranks[m] + 1);
    }
    return WEFT_NEW(&s->own, s->own_count);
}

void strategy_free_own(strategy_search *s)
{
    size_t i = 0;
    for (int m = 0; s->own && m < (int)s->space.values[STRATEGY_MESH].count; m++) {
        const strategy_candidate c = {.at = {[STRATEGY_MESH] = m}, .learners = 1};
        bool last = m + 1 == (int)s->space.values[STRATEGY_MESH].count;
        for (size_t end = last ? s->own_count : s->own_of[m + 1]; i < end; i++) {
            int tails = s->own[i] ? strategy_space_tails(&s->space, &c) : 0;
            for (int t = 0; t < tails; t++) {
                if (s->own[i][t]) free(s->own[i][t]->seconds);
                free(s->own[i][t]);
            }
            free((void *)s->own[i]);
        }
    }
    free((void *)s->own);
    free(s->own_of);
}

/* Where the own steps of all tails are. */
static weft_own_steps ***all_of(strategy_search *s, const strategy_candidate *c)
{
    bool elsewhere = s->space.updates[c->at[STRATEGY_EXCHANGE]];
    return &s->own[s->own_of[c->at[STRATEGY_MESH]] + 2 * (size_t)c->learners + elsewhere];
}

const weft_own_steps *strategy_own(strategy_search *s, const strategy_candidate *c)
{
    weft_own_steps **all = *all_of(s, c);
    return all ? all[strategy_space_tail_number(&s->space, c)] : NULL;
}

/* Where the own steps of a candidate's learners are. */
static weft_status own_of(strategy_search *s, const strategy_candidate *c, weft_own_steps ***out)
{
    weft_own_steps ***all = all_of(s, c);
    if (!*all) WEFT_TRY(WEFT_NEW(all, strategy_space_tails(&s->space, c)));
    *out = &(*all)[strategy_space_tail_number(&s->space, c)];
    return WEFT_OK;
}

static weft_status estimate_own(strategy_search *s, const strategy_candidate *c,
                                weft_own_steps **out, bool *refused)
{
    weft_train_options options;
    weft_own_steps *own;
    const weft_estimate_end end = {.asked = strategy_asked_to_stop, .user = s};
    WEFT_TRY(WEFT_NEW(&own, 1));
    weft_status status = WEFT_NEW(&own->seconds, c->learners);
    if (status == WEFT_OK) status = strategy_space_options(&s->space, c, &options);
    if (status == WEFT_OK) {
        status = weft_site_learners(&s->site, s->context, &options, &end, c->learners, own);
        weft_options_free(s->space.table, &options);
    }
    *refused = strategy_is_refused(status);
    if (status == WEFT_OK) {
        *out = own;
    } else {
        free(own->seconds);
        free(own);
    }
    return status;
}

weft_status strategy_refine(strategy_search *s, const strategy_head *head,
                            const strategy_candidate *c, double *most, bool *refused)
{
    weft_own_steps **own;
    double seconds;
    *refused = false;
    WEFT_TRY(own_of(s, c, &own));
    if (!*own) WEFT_TRY(estimate_own(s, c, own, refused));
    WEFT_TRY(strategy_least_seconds(&s->site, &s->space, &s->work, c, (*own)->seconds, &seconds));
    *most = WEFT_MIN(*most, head->means.samples / seconds);
    return WEFT_OK;
}
