/* Pauses of a run in virtual time, between two steps, with an evaluation of the model with which
 * the run would end there. The run goes on as if there had been none. */
#include "train/trainer.h"

/* The contents of a store that an exchange changes for an evaluation. */
typedef struct kept_store {
    weft_store *store;
    void **data; /* [1 + count]: the parameters; then each tensor, NULL: it is not changed */
} kept_store;

static bool is_changed(const weft_store *s, int i)
{
    return weft_store_kind(s, i) == WEFT_VALUE_STATE &&
           weft_store_role(s, i) != WEFT_ROLE_OPTIMIZER;
}

static weft_status keep_tensor(const weft_store *s, int i, void **out)
{
    void *data;
    size_t bytes;
    weft_dtype dtype;
    WEFT_TRY(weft_store_map(s, i, &dtype, &data, &bytes));
    weft_status status = weft_new_bytes(out, 1, WEFT_MAX(bytes, (size_t)1));
    if (status == WEFT_OK) memcpy(*out, data, bytes);
    weft_store_unmap_read(s, data);
    return status;
}

static weft_status put_back_tensor(weft_store *s, int i, const void *kept)
{
    void *data;
    size_t bytes;
    weft_dtype dtype;
    WEFT_TRY(weft_store_map(s, i, &dtype, &data, &bytes));
    memcpy(data, kept, bytes);
    return weft_store_unmap(s, i, data);
}

static weft_status keep(weft_store *s, kept_store *out)
{
    *out = (kept_store){.store = s};
    WEFT_TRY(WEFT_NEW(&out->data, weft_store_count(s) + 1));
    WEFT_TRY(keep_tensor(s, WEFT_ALL_PARAMETERS, &out->data[0]));
    for (int i = 0; i < weft_store_count(s); i++)
        if (is_changed(s, i)) WEFT_TRY(keep_tensor(s, i, &out->data[1 + i]));
    return WEFT_OK;
}

static weft_status put_back(const kept_store *k)
{
    WEFT_TRY(put_back_tensor(k->store, WEFT_ALL_PARAMETERS, k->data[0]));
    for (int i = 0; i < weft_store_count(k->store); i++)
        if (k->data[1 + i]) WEFT_TRY(put_back_tensor(k->store, i, k->data[1 + i]));
    return WEFT_OK;
}

static void let_go(kept_store *k)
{
    for (int i = 0; k->data && i <= weft_store_count(k->store); i++) free(k->data[i]);
    free((void *)k->data);
}

/* All learners have the same model then, and the first one evaluates it. */
static weft_status judge(weft_run *run, weft_report *out)
{
    weft_rank *r = &run->rank;
    kept_store kept = {0};
    WEFT_TRY(weft_rank_settle(r));
    if (!r->exchange) return weft_rank_evaluate(r, run->job->watched, out);
    weft_status status = keep(r->store, &kept);
    if (status == WEFT_OK) status = weft_exchange_preview(r->exchange, r->position.step);
    if (status == WEFT_OK && r->learner_index == 0)
        status = weft_rank_evaluate(r, run->job->watched, out);
    if (status == WEFT_OK) status = put_back(&kept);
    let_go(&kept);
    return status;
}

weft_status weft_run_pause(weft_run *run)
{
    const weft_trainer *t = run->job;
    const weft_pauses *p = t->clock.pauses;
    weft_rank *r = &run->rank;
    weft_report report = {0};
    double step = (double)r->position.step, next = (step + 1) * t->clock.seconds;
    if (!p) return WEFT_OK;
    const bool leads = r->rank == 0 && r->learner_index == 0;
    double due = leads && p->due(p->user, next);
    WEFT_TRY(weft_sum_over(r->world, "whether the run pauses", &due, 1));
    if (due == 0) return WEFT_OK;
    bool judges = step > 0 && weft_dataset_count(t->data, t->watched) > 0;
    if (judges) WEFT_TRY(judge(run, &report));
    if (leads) p->pause(p->user, step * t->clock.seconds, next, judges ? &report : NULL, 0);
    if (judges) weft_report_free(&report);
    return WEFT_OK;
}
