/* The candidates of a search: options of a run, and its words, from the numbers of values. */
#include <stdio.h>

#include "train/strategies/space.h"

static const char ranks_option[] = "ranks";

/* --- the space --- */

/* Whether the user has given an option: it has another value than its default, or is named. */
static weft_status is_given(const strategy_space *space, const weft_train_options *usual,
                            const char *option, bool *out)
{
    char *mine = NULL, *initial = NULL;
    *out = space->names && weft_is_listed(space->names, option);
    if (*out) return WEFT_OK;
    weft_status status = weft_options_get(space->table, space->given, option, &mine);
    if (status == WEFT_OK) status = weft_options_get(space->table, usual, option, &initial);
    *out = mine && initial ? strcmp(mine, initial) != 0 : mine != initial;
    free(mine);
    free(initial);
    return status;
}

static weft_status list_values(strategy_space *space, const weft_train_options *usual,
                               bool one_learner)
{
    bool given;
    WEFT_TRY(is_given(space, usual, ranks_option, &given));
    if (given) space->fixed = space->given->job.ranks;
    space->ranks = WEFT_MAX(space->ranks, space->fixed);
    for (int i = 0; i < STRATEGY_OPTIONS; i++) {
        WEFT_TRY(is_given(space, usual, strategy_option_name(i), &given));
        WEFT_TRY(strategy_list_values(space, i, given || (one_learner && i == STRATEGY_EXCHANGE)));
    }
    return WEFT_OK;
}

static weft_status measure_meshes(strategy_space *space)
{
    const strategy_values *meshes = &space->values[STRATEGY_MESH];
    WEFT_TRY(WEFT_NEW(&space->mesh_ranks, meshes->count));
    for (size_t i = 0; i < meshes->count; i++) {
        const char *mesh = i ? meshes->text[i] : space->given->parallel.mesh;
        space->mesh_ranks[i] = 1;
        if (mesh) WEFT_TRY(weft_mesh_ranks(mesh, &space->mesh_ranks[i]));
    }
    return WEFT_OK;
}

/* Whether the checks of a run accept an option with an exchange. */
static weft_status find_reads(strategy_space *space, int option)
{
    size_t exchanges = space->values[STRATEGY_EXCHANGE].count;
    WEFT_TRY(WEFT_NEW(&space->reads[option], exchanges));
    if (space->values[option].count < 2) return WEFT_OK;
    for (size_t e = 0; e < exchanges; e++) {
        weft_train_options options;
        strategy_candidate both = {.learners = 1};
        both.at[STRATEGY_EXCHANGE] = (int)e;
        both.at[option] = 1;
        WEFT_TRY(strategy_space_options(space, &both, &options));
        space->reads[option][e] = weft_options_check(space->table, &options) == WEFT_OK;
        weft_options_free(space->table, &options);
    }
    return WEFT_OK;
}

static weft_status find_updates(strategy_space *space)
{
    const strategy_values *exchanges = &space->values[STRATEGY_EXCHANGE];
    WEFT_TRY(WEFT_NEW(&space->updates, exchanges->count));
    for (size_t e = 0; e < exchanges->count; e++) {
        const weft_exchange_ops *ops;
        const char *arguments, *given = space->given->parallel.exchange;
        const char *spec = e ? exchanges->text[e] : given;
        if (!spec) continue;
        WEFT_TRY(weft_exchange_find(space->context, spec, &ops, &arguments));
        space->updates[e] = ops->owns_update;
    }
    return WEFT_OK;
}

weft_status strategy_space_open(strategy_space *space, bool one_learner)
{
    weft_train_options usual = {0};
    space->table = weft_train_table(space->context);
    WEFT_TRY(weft_train_options_init(space->context, &usual));
    weft_status status = list_values(space, &usual, one_learner);
    weft_options_free(space->table, &usual);
    if (status == WEFT_OK) status = measure_meshes(space);
    if (status == WEFT_OK) status = find_updates(space);
    if (status == WEFT_OK) status = find_reads(space, STRATEGY_COMPRESS);
    if (status == WEFT_OK) status = find_reads(space, STRATEGY_SERVERS);
    return status;
}

void strategy_space_close(strategy_space *space)
{
    for (int i = 0; i < STRATEGY_OPTIONS; i++) {
        for (size_t k = 0; k < space->values[i].count; k++) free(space->values[i].text[k]);
        free(space->values[i].text);
    }
    for (int i = 0; i < STRATEGY_HEAD; i++) free(space->reads[i]);
    free(space->mesh_ranks);
    free(space->updates);
}

const char *strategy_space_mesh(const strategy_space *space, int mesh)
{
    return mesh ? space->values[STRATEGY_MESH].text[mesh] : space->given->parallel.mesh;
}

int64_t strategy_space_axis(const strategy_space *space, int mesh, const char *axis)
{
    int64_t size = 1;
    const char *text = strategy_space_mesh(space, mesh);
    return text && weft_mesh_axis(text, axis, &size) == WEFT_OK ? size : 1;
}

/* Virtual workers are micro-batches of the ranks that share them. */
int64_t strategy_space_microbatches(const strategy_space *space, const strategy_candidate *c)
{
    const weft_length_choice *given = &space->given->length;
    int64_t number = given->microbatches;
    int at = c->at[STRATEGY_MICROBATCHES];
    if (at > 0) (void)weft_parse_int(space->values[STRATEGY_MICROBATCHES].text[at], &number);
    return WEFT_MAX(number, given->virtual_workers);
}

/* --- tails --- */

static int tail_count(const strategy_space *space, const strategy_candidate *head, int option)
{
    const char *axis = strategy_option_axis(option);
    bool acts = !axis || strategy_space_axis(space, head->at[STRATEGY_MESH], axis) > 1;
    return acts ? (int)space->values[option].count : 1;
}

int strategy_space_tails(const strategy_space *space, const strategy_candidate *head)
{
    int count = 1;
    for (int i = STRATEGY_HEAD; i < STRATEGY_OPTIONS; i++) count *= tail_count(space, head, i);
    return count;
}

void strategy_space_tail(const strategy_space *space, int number, strategy_candidate *candidate)
{
    for (int i = STRATEGY_HEAD; i < STRATEGY_OPTIONS; i++) {
        int count = tail_count(space, candidate, i);
        candidate->at[i] = number % count;
        number /= count;
    }
}

int strategy_space_tail_number(const strategy_space *space, const strategy_candidate *c)
{
    int number = 0;
    for (int i = STRATEGY_OPTIONS; i-- > STRATEGY_HEAD;)
        number = number * tail_count(space, c, i) + c->at[i];
    return number;
}

/* --- options and words --- */

static int64_t ranks_of(const strategy_space *space, const strategy_candidate *c)
{
    return space->mesh_ranks[c->at[STRATEGY_MESH]] * c->learners;
}

static weft_status set_number(const strategy_space *space, const char *option, int64_t number,
                              weft_train_options *out)
{
    char text[24];
    (void)snprintf(text, sizeof(text), "%lld", (long long)number);
    return weft_options_set(space->table, out, option, text);
}

weft_status strategy_space_remesh(const strategy_space *space, weft_train_options *options,
                                  const char *mesh, int64_t ranks)
{
    WEFT_TRY(set_number(space, ranks_option, ranks, options));
    return weft_options_set(space->table, options, strategy_option_name(STRATEGY_MESH), mesh);
}

static weft_status set_all(const strategy_space *space, const strategy_candidate *c,
                           weft_train_options *out)
{
    WEFT_TRY(set_number(space, ranks_option, ranks_of(space, c), out));
    for (int i = 0; i < STRATEGY_OPTIONS; i++)
        if (c->at[i] > 0)
            WEFT_TRY(weft_options_set(space->table, out, strategy_option_name(i),
                                      space->values[i].text[c->at[i]]));
    return WEFT_OK;
}

weft_status strategy_space_options(const strategy_space *space, const strategy_candidate *candidate,
                                   weft_train_options *out)
{
    WEFT_TRY(weft_train_options_copy(space->context, space->given, out));
    weft_status status = set_all(space, candidate, out);
    if (status != WEFT_OK) weft_options_free(space->table, out);
    return status;
}

/* Sets an option to its default. */
static weft_status reset(const strategy_space *space, const char *option, weft_train_options *out)
{
    const weft_option *row = strategy_row(space, option);
    char **text = (char **)(void *)((char *)out + row->offset);
    if (row->initial) return weft_options_set(space->table, out, option, row->initial);
    if (row->kind != WEFT_OPT_STRING) return weft_options_set(space->table, out, option, "false");
    free(*text);
    *text = NULL;
    return WEFT_OK;
}

weft_status strategy_space_simplest(const strategy_space *space, weft_train_options *out)
{
    WEFT_TRY(weft_train_options_copy(space->context, space->given, out));
    weft_status status = weft_options_set(space->table, out, ranks_option, "1");
    for (int i = 0; i < STRATEGY_OPTIONS && status == WEFT_OK; i++)
        status = reset(space, strategy_option_name(i), out);
    if (status != WEFT_OK) weft_options_free(space->table, out);
    return status;
}

weft_status strategy_space_words(const strategy_space *space, const strategy_candidate *c,
                                 char **out)
{
    weft_text text = {0};
    weft_text_add(&text, "%s=%lld", ranks_option, (long long)ranks_of(space, c));
    for (int i = 0; i < STRATEGY_OPTIONS; i++)
        if (c->at[i] > 0)
            weft_text_add(&text, " %s=%s", strategy_option_name(i),
                          space->values[i].text[c->at[i]]);
    return weft_text_take(&text, out);
}

weft_status strategy_space_changes(const strategy_space *space, const strategy_candidate *from,
                                   const strategy_candidate *to, char **out)
{
    weft_text text = {0};
    for (int i = STRATEGY_HEAD; i < STRATEGY_OPTIONS; i++) {
        const char *initial = strategy_row(space, strategy_option_name(i))->initial;
        if (to->at[i] == from->at[i]) continue;
        weft_text_add(&text, "%s%s=%s", text.size ? " " : "", strategy_option_name(i),
                      to->at[i] ? space->values[i].text[to->at[i]]
                      : initial ? initial
                                : "false");
    }
    return weft_text_take(&text, out);
}
