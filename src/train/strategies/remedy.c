/* Finds remedies for a strategy that does not fit into the memory of the machines: nearby
 * candidates, and more machines, are tried. */
#include <stdio.h>

#include "train/strategies/search.h"

static const char *size_text(double bytes, char *out, size_t size)
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
    int u = 0;
    for (; bytes >= 999.5 && u < 4; u++) bytes /= 1000;
    (void)snprintf(out, size, "%.4g %s", bytes, units[u]);
    return out;
}

/* --- the same head --- */

static int differences(const strategy_candidate *a, const strategy_candidate *b)
{
    int count = 0;
    for (int i = STRATEGY_HEAD; i < STRATEGY_OPTIONS; i++) count += a->at[i] != b->at[i];
    return count;
}

/* The first candidate that fits, of those that differ in the fewest options. */
static weft_status find_near(strategy_search *s, const strategy_candidate *from,
                             strategy_candidate *to, bool *found)
{
    enum { MOST_TRIED = 40 };
    int tails = strategy_space_tails(&s->space, from), tried = 0;
    *found = false;
    for (int changes = 1; changes <= STRATEGY_OPTIONS - STRATEGY_HEAD; changes++)
        for (int i = 0; i < tails && tried < MOST_TRIED && !strategy_asked_to_stop(s); i++) {
            weft_step_estimate step;
            bool refused;
            *to = *from;
            strategy_space_tail(&s->space, i, to);
            if (differences(from, to) != changes) continue;
            weft_status status = strategy_memory(s, to, &step, &refused);
            tried++;
            if (status == WEFT_ERR_INTERRUPTED) return WEFT_OK;
            if (status != WEFT_OK && !refused) return status;
            *found = status == WEFT_OK && strategy_fits(&step);
            if (*found) return WEFT_OK;
        }
    return WEFT_OK;
}

weft_status strategy_remedy(strategy_search *s, const strategy_found *found, char **out)
{
    char need[32], has[32], lacks[32], *change = NULL;
    strategy_candidate near;
    bool helps;
    const weft_step_estimate *step = &found->step;
    WEFT_TRY(find_near(s, &found->candidate, &near, &helps));
    if (helps) WEFT_TRY(strategy_space_changes(&s->space, &found->candidate, &near, &change));
    weft_status status =
        weft_format(out, "%s on the fullest machine; fits in %s: no, %s too much%s%s",
                    size_text(step->memory, need, sizeof(need)),
                    size_text(step->memory_limit, has, sizeof(has)),
                    size_text(step->memory - step->memory_limit, lacks, sizeof(lacks)),
                    helps ? "; fits with " : "", helps ? change : "");
    free(change);
    return status;
}

/* --- a model that fits nowhere --- */

/* A candidate that takes little memory, and its estimate. */
typedef struct strategy_least {
    char *words;
    strategy_candidate candidate;
    weft_step_estimate step;
} strategy_least;

static double share_of(const weft_step_estimate *step)
{
    return step->memory / step->memory_limit;
}

/* Keeps a candidate if it takes less memory than the least so far. */
static weft_status keep_less(strategy_search *s, const strategy_candidate *c,
                             const weft_step_estimate *step, strategy_least *least)
{
    if (least->words && share_of(step) >= share_of(&least->step)) return WEFT_OK;
    free(least->words);
    least->words = NULL;
    least->step = *step;
    least->candidate = *c;
    return strategy_space_words(&s->space, c, &least->words);
}

/* The candidate of a head that saves the most: the last value of each option, but so many
 * micro-batches. */
static weft_status try_saving(strategy_search *s, strategy_candidate c, int microbatches,
                              strategy_least *least)
{
    weft_step_estimate step;
    bool refused;
    strategy_space_tail(&s->space, strategy_space_tails(&s->space, &c) - 1, &c);
    c.at[STRATEGY_MICROBATCHES] = microbatches;
    weft_status status = strategy_memory(s, &c, &step, &refused);
    return status == WEFT_OK ? keep_less(s, &c, &step, least) : refused ? WEFT_OK : status;
}

static weft_status find_least(strategy_search *s, strategy_least *least)
{
    enum { MOST_TRIED = 100 };
    for (int k = 0; k < s->kind_count; k++) {
        const strategy_found *unfit = s->kinds[k].unfit;
        if (unfit) WEFT_TRY(keep_less(s, &unfit->candidate, &unfit->step, least));
    }
    int last = (int)s->space.values[STRATEGY_MICROBATCHES].count - 1, tried = 0;
    for (size_t h = s->head_count; h-- > 0 && tried < MOST_TRIED;) {
        const strategy_candidate *c = &s->heads[h].candidate;
        bool all = s->space.mesh_ranks[c->at[STRATEGY_MESH]] * c->learners == s->space.ranks;
        if (s->heads[h].kind != 0 || (!all && !s->space.fixed)) continue;
        for (int m = 0; m <= last && !strategy_asked_to_stop(s);
             m += WEFT_MAX(last / 2, 1), tried++)
            WEFT_TRY(try_saving(s, *c, m, least));
    }
    return WEFT_OK;
}

/* The run with the options of the least candidate, with all ranks of `times` as many machines on
 * one axis. *helps: it fits. */
static weft_status try_machines(strategy_search *s, int64_t times, const char *axis, bool *helps)
{
    char mesh[64];
    bool refused;
    weft_step_estimate step;
    weft_train_options options;
    strategy_candidate c = {.learners = 1};
    int64_t ranks = s->space.ranks * times;
    for (int i = STRATEGY_HEAD; i < STRATEGY_OPTIONS; i++) {
        const char *acts = strategy_option_axis(i);
        if (!acts || strcmp(acts, axis) == 0) c.at[i] = (int)s->space.values[i].count - 1;
    }
    c.at[STRATEGY_SCHEDULE] = c.at[STRATEGY_MICROBATCHES] = 0;
    (void)snprintf(mesh, sizeof(mesh), "%s=%lld", axis, (long long)ranks);
    *helps = false;
    WEFT_TRY(strategy_space_options(&s->space, &c, &options));
    weft_status status = strategy_space_remesh(&s->space, &options, mesh, ranks);
    if (status == WEFT_OK) status = weft_site_memory(&s->site, s->context, &options, &step);
    refused = strategy_is_refused(status);
    weft_options_free(s->space.table, &options);
    *helps = status == WEFT_OK && strategy_fits(&step);
    return refused ? WEFT_OK : status;
}

/* How many times as many machines, up to 16 times, hold the model; 0: not that many. */
static weft_status find_machines(strategy_search *s, int64_t *times, const char **axis)
{
    weft_cluster *c = &s->site.cluster;
    weft_status status = WEFT_OK;
    bool helps = false;
    for (*times = 2; *times <= 16 && !helps && status == WEFT_OK; *times *= 2) {
        for (int g = 0; g < c->group_count; g++) c->groups[g].count *= *times;
        for (int a = 0; (*axis = weft_axis_name(a)) && !helps && status == WEFT_OK &&
                        !strategy_asked_to_stop(s);
             a++) {
            status = try_machines(s, *times, *axis, &helps);
            if (helps) break;
        }
        for (int g = 0; g < c->group_count; g++) c->groups[g].count /= *times;
        if (helps) return status;
    }
    *times = 0;
    return status;
}

/* Estimates the least candidate, which fits. *done: its step is known. */
static weft_status take_least(strategy_search *s, const strategy_least *least,
                              strategy_found *found, bool *done)
{
    bool refused;
    *found = (strategy_found){.candidate = least->candidate};
    weft_status status = strategy_estimate(s, &least->candidate, NULL, &found->step, &refused);
    if (status == WEFT_OK) status = strategy_memory(s, &least->candidate, &found->step, &refused);
    *done = status == WEFT_OK && strategy_fits(&found->step);
    found->most = found->step.samples_per_second;
    return refused ? WEFT_OK : status;
}

weft_status strategy_remedy_nowhere(strategy_search *s, char **out, strategy_found *found,
                                    bool *done)
{
    strategy_least least = {.words = NULL};
    char need[32], has[32], lacks[32];
    int64_t times = 0;
    const char *axis = NULL;
    weft_status status = find_least(s, &least);
    bool fits = least.words && strategy_fits(&least.step);
    *done = false;
    if (status == WEFT_OK && fits) status = take_least(s, &least, found, done);
    if (status == WEFT_OK && fits && !*done && least.step.memory_limit > 0)
        status = weft_format(out, "no estimate fits so far; %s takes %s of %s", least.words,
                             size_text(least.step.memory, need, sizeof(need)),
                             size_text(least.step.memory_limit, has, sizeof(has)));
    if (status == WEFT_OK && least.words && !fits) status = find_machines(s, &times, &axis);
    if (status == WEFT_OK && least.words && !fits) {
        weft_text text = {0};
        weft_text_add(&text,
                      "no strategy fits: the least memory is that of %s, %s on a machine of %s, "
                      "which is %s too much; machines of %s would hold it",
                      least.words, size_text(least.step.memory, need, sizeof(need)),
                      size_text(least.step.memory_limit, has, sizeof(has)),
                      size_text(least.step.memory - least.step.memory_limit, lacks, sizeof(lacks)),
                      need);
        if (times > 0)
            weft_text_add(&text, ", or %lld such machines, with all ranks on the axis %s",
                          (long long)(s->space.machines * times), axis);
        status = weft_text_take(&text, out);
    }
    free(least.words);
    return status;
}
