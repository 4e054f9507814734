/* Lists the heads of the candidates: meshes, learners, exchanges, codecs and servers. */
#include "train/strategies/search.h"

static int kind_of(const strategy_search *s, const strategy_candidate *c)
{
    return c->at[STRATEGY_EXCHANGE] * (int)s->space.values[STRATEGY_COMPRESS].count +
           c->at[STRATEGY_COMPRESS];
}

static strategy_rung rung_of(const strategy_search *s, const strategy_candidate *c)
{
    const strategy_space *space = &s->space;
    int mesh = c->at[STRATEGY_MESH];
    int64_t ranks = space->mesh_ranks[mesh] * c->learners;
    bool machines = ranks == space->machines || ranks == space->fixed, alone = c->learners == 1;
    if (c->at[STRATEGY_COMPRESS] || c->at[STRATEGY_SERVERS]) return STRATEGY_OTHERS;
    if (mesh == 0 && c->at[STRATEGY_EXCHANGE] == 0 && (alone || ranks == space->fixed))
        return STRATEGY_SIMPLEST;
    if (!alone) return mesh == 0 && machines ? STRATEGY_BY_LEARNERS : STRATEGY_OTHERS;
    if (!machines && ranks != space->ranks) return STRATEGY_OTHERS;
    return strategy_space_axis(space, mesh, "data") == ranks ? STRATEGY_BY_DATA : STRATEGY_OTHERS;
}

static weft_status add_head(strategy_search *s, const strategy_candidate *c)
{
    WEFT_TRY(WEFT_GROW(&s->heads, &s->head_capacity, s->head_count));
    strategy_head *h = &s->heads[s->head_count];
    *h = (strategy_head){.candidate = *c,
                         .kind = kind_of(s, c),
                         .tails = strategy_space_tails(&s->space, c),
                         .order = (int)s->head_count,
                         .rung = rung_of(s, c),
                         .apart = s->work.meetings[c->at[STRATEGY_EXCHANGE]] == 0};
    strategy_means_find(&s->site, &s->space, &s->work, c, &h->means);
    strategy_candidate tail = *c;
    for (int m = 0; m < (int)s->space.values[STRATEGY_MICROBATCHES].count; m++) {
        const strategy_known nothing = {.kernels = 0};
        tail.at[STRATEGY_MICROBATCHES] = m;
        double most = strategy_bound(&s->space, &s->work, &h->means, &tail, &nothing);
        h->most = WEFT_MAX(h->most, most);
    }
    h->first = h->most;
    s->head_count++;
    s->out->candidates += h->tails;
    return WEFT_OK;
}

/* The values of an option: all, or if it has no effect with this exchange, the first. */
static int values_with(const strategy_space *space, int option, int exchange)
{
    return space->reads[option][exchange] ? (int)space->values[option].count : 1;
}

/* Whether there is no room or time for further heads, in a search that has a limit of time. */
static bool is_full(strategy_search *s)
{
    enum { LEAST_HEADS = 1000, MOST_HEADS = 200000 };
    static const double SHARE = 0.2; /* of the time, for listing heads */
    bool late = weft_seconds() - s->began > SHARE * s->options->seconds;
    if (s->options->seconds > 0 && s->head_count >= (late ? LEAST_HEADS : MOST_HEADS))
        s->full = true;
    return s->full;
}

/* plain: only the plain way among them, else the others. Heads for which there is no room are
 * counted alone. */
static weft_status add_exchange(strategy_search *s, strategy_candidate c, int tails, bool plain)
{
    int codecs = values_with(&s->space, STRATEGY_COMPRESS, c.at[STRATEGY_EXCHANGE]);
    int servers = values_with(&s->space, STRATEGY_SERVERS, c.at[STRATEGY_EXCHANGE]);
    bool first = rung_of(s, &c) != STRATEGY_OTHERS;
    if (plain) return first ? add_head(s, &c) : WEFT_OK;
    if (is_full(s)) {
        s->out->candidates += ((int64_t)codecs * servers - first) * tails;
        return WEFT_OK;
    }
    for (int i = first; i < codecs * servers; i++) {
        c.at[STRATEGY_COMPRESS] = i / servers;
        c.at[STRATEGY_SERVERS] = i % servers;
        WEFT_TRY(add_head(s, &c));
    }
    return WEFT_OK;
}

/* Heads of a mesh: with the exchange that is given or none, or with the others. Without an exchange
 * there is one learner. With one that the user gives there may be one. */
static weft_status add_mesh(strategy_search *s, int mesh, bool others, bool plain)
{
    const strategy_space *space = &s->space;
    int64_t ranks = space->mesh_ranks[mesh];
    int end = others ? (int)space->values[STRATEGY_EXCHANGE].count : 1;
    const strategy_candidate first = {.at = {[STRATEGY_MESH] = mesh}, .learners = 1};
    int tails = strategy_space_tails(space, &first);
    for (int e = others; e < end; e++) {
        bool exchanges = e > 0 || space->given->parallel.exchange;
        int64_t most = exchanges ? space->ranks / ranks : 1;
        for (int64_t learners = e > 0 ? 2 : 1; learners <= most; learners++) {
            strategy_candidate c = {.learners = (int)learners};
            c.at[STRATEGY_MESH] = mesh;
            c.at[STRATEGY_EXCHANGE] = e;
            if (space->fixed && ranks * learners != space->fixed) continue;
            WEFT_TRY(add_exchange(s, c, tails, plain));
        }
    }
    return WEFT_OK;
}

static weft_status add_all(strategy_search *s, bool plain)
{
    for (int others = 0; others < 2; others++)
        for (int m = 0; m < (int)s->space.values[STRATEGY_MESH].count; m++)
            if (m == 0 || !others || !plain) WEFT_TRY(add_mesh(s, m, others > 0, plain));
    return WEFT_OK;
}

/* The greatest bound first; where they are equal, learners that do not meet, then the simplest. */
static int compare(const void *first, const void *second)
{
    const strategy_head *a = first, *b = second;
    if (a->first != b->first) return a->first < b->first ? 1 : -1;
    return a->apart != b->apart ? b->apart - a->apart : a->order - b->order;
}

/* Room for the kernel seconds of each mesh, number of learners, ZeRO stage and way to update. */
static weft_status make_kernels(strategy_search *s)
{
    size_t meshes = s->space.values[STRATEGY_MESH].count, count = 0;
    size_t stages = s->space.values[STRATEGY_ZERO].count;
    WEFT_TRY(WEFT_NEW(&s->kernels_of, meshes));
    for (size_t m = 0; m < meshes; m++) {
        s->kernels_of[m] = count;
        count += (size_t)(s->space.ranks / s->space.mesh_ranks[m] + 1) * stages * 2;
    }
    return WEFT_NEW(&s->kernels, count);
}

weft_status strategy_list_heads(strategy_search *s)
{
    const strategy_values *values = s->space.values;
    s->kind_count = (int)(values[STRATEGY_EXCHANGE].count * values[STRATEGY_COMPRESS].count);
    WEFT_TRY(WEFT_NEW(&s->kinds, s->kind_count));
    WEFT_TRY(WEFT_NEW(&s->rates, s->kind_count));
    WEFT_TRY(make_kernels(s));
    WEFT_TRY(add_all(s, true));
    WEFT_TRY(add_all(s, false));
    strategy_sort_heads(s);
    return strategy_make_own(s);
}

void strategy_sort_heads(strategy_search *s)
{
    qsort(s->heads, s->head_count, sizeof(*s->heads), compare);
}
