/* Lists the heads of the candidates: meshes, learners, exchanges, codecs and servers. */
#include "train/strategies/search.h"

static int kind_of(const strategy_search *s, const strategy_candidate *c)
{
    return c->at[STRATEGY_EXCHANGE] * (int)s->space.values[STRATEGY_COMPRESS].count +
           c->at[STRATEGY_COMPRESS];
}

static weft_status add_head(strategy_search *s, const strategy_candidate *c)
{
    WEFT_TRY(WEFT_GROW(&s->heads, &s->head_capacity, s->head_count));
    strategy_head *h = &s->heads[s->head_count];
    *h = (strategy_head){.candidate = *c,
                         .kind = kind_of(s, c),
                         .tails = strategy_space_tails(&s->space, c),
                         .order = (int)s->head_count};
    strategy_candidate again = *c;
    again.at[STRATEGY_RECOMPUTE] = 1;
    h->most[0] = strategy_bound(&s->site, &s->space, &s->work, c, &h->fits);
    h->most[1] = strategy_bound(&s->site, &s->space, &s->work, &again, &h->fits);
    s->head_count++;
    s->out->candidates += h->tails;
    return WEFT_OK;
}

/* The values of an option: all, or if it has no effect with this exchange, the first. */
static int values_with(const strategy_space *space, int option, int exchange)
{
    return space->reads[option][exchange] ? (int)space->values[option].count : 1;
}

static weft_status add_exchange(strategy_search *s, strategy_candidate c)
{
    int codecs = values_with(&s->space, STRATEGY_COMPRESS, c.at[STRATEGY_EXCHANGE]);
    int servers = values_with(&s->space, STRATEGY_SERVERS, c.at[STRATEGY_EXCHANGE]);
    for (c.at[STRATEGY_COMPRESS] = 0; c.at[STRATEGY_COMPRESS] < codecs; c.at[STRATEGY_COMPRESS]++)
        for (c.at[STRATEGY_SERVERS] = 0; c.at[STRATEGY_SERVERS] < servers; c.at[STRATEGY_SERVERS]++)
            WEFT_TRY(add_head(s, &c));
    return WEFT_OK;
}

/* Without an exchange there is one learner. With one that the user gives there may be one. */
static weft_status add_mesh(strategy_search *s, int mesh)
{
    const strategy_space *space = &s->space;
    int64_t ranks = space->mesh_ranks[mesh];
    for (int e = 0; e < (int)space->values[STRATEGY_EXCHANGE].count; e++) {
        bool exchanges = e > 0 || space->given->parallel.exchange;
        int64_t most = exchanges ? space->ranks / ranks : 1;
        for (int64_t learners = e > 0 ? 2 : 1; learners <= most; learners++) {
            strategy_candidate c = {.learners = (int)learners};
            c.at[STRATEGY_MESH] = mesh;
            c.at[STRATEGY_EXCHANGE] = e;
            if (space->fixed && ranks * learners != space->fixed) continue;
            WEFT_TRY(add_exchange(s, c));
        }
    }
    return WEFT_OK;
}

/* The greatest bound first; where they are equal, the simplest. */
static int compare(const void *first, const void *second)
{
    const strategy_head *a = first, *b = second;
    if (a->most[0] != b->most[0]) return a->most[0] < b->most[0] ? 1 : -1;
    return a->order - b->order;
}

weft_status strategy_list_heads(strategy_search *s)
{
    const strategy_values *values = s->space.values;
    s->kind_count = (int)(values[STRATEGY_EXCHANGE].count * values[STRATEGY_COMPRESS].count);
    WEFT_TRY(WEFT_NEW(&s->kinds, s->kind_count));
    WEFT_TRY(WEFT_NEW(&s->rates, s->kind_count));
    for (int m = 0; m < (int)values[STRATEGY_MESH].count; m++) WEFT_TRY(add_mesh(s, m));
    qsort(s->heads, s->head_count, sizeof(*s->heads), compare);
    return WEFT_OK;
}
