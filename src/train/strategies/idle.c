/* Meshes with an axis that splits nothing of a model: its ranks would compute the same. */
#include "train/strategies/search.h"

/* Whether one axis alone splits nothing; a mesh that a run refuses is left to the estimate. */
static weft_status rewrite(strategy_search *s, int axis, int64_t size, bool *idle)
{
    char *mesh;
    weft_train_options options;
    weft_trainer *t = NULL;
    *idle = false;
    WEFT_TRY(weft_format(&mesh, "%s=%lld", weft_axis_name(axis), (long long)size));
    weft_status status = strategy_space_simplest(&s->space, &options);
    if (status == WEFT_OK) {
        weft_rank rank = {.rank = 0};
        status = strategy_space_remesh(&s->space, &options, mesh, size);
        if (status == WEFT_OK) status = weft_trainer_prepare(s->context, &options, NULL, &t);
        if (status == WEFT_OK) {
            rank.run_spec = &t->run_spec;
            status = weft_rank_rewrite(&rank);
        }
        if (status == WEFT_OK) *idle = weft_rank_idle_axis(&rank) != NULL;
        weft_rank_free(&rank);
        weft_trainer_destroy(&t);
        weft_options_free(s->space.table, &options);
    }
    free(mesh);
    return strategy_is_refused(status) ? WEFT_OK : status;
}

weft_status strategy_is_idle(strategy_search *s, const strategy_head *head, bool *out)
{
    int mesh = head->candidate.at[STRATEGY_MESH], axes = 0;
    while (weft_axis_name(axes)) axes++;
    *out = false;
    for (int a = 0; mesh > 0 && a < axes && !*out; a++) {
        int64_t size = strategy_space_axis(&s->space, mesh, weft_axis_name(a));
        if (size == 1) continue;
        if (!s->idle) WEFT_TRY(WEFT_NEW(&s->idle, axes * (s->space.ranks + 1)));
        signed char *known = &s->idle[a * (s->space.ranks + 1) + size];
        bool idle = *known > 0;
        if (*known == 0) WEFT_TRY(rewrite(s, a, size, &idle));
        *known = idle ? 1 : -1;
        *out = idle;
    }
    return WEFT_OK;
}
