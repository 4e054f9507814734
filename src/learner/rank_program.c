/* Makes the programs of one rank from its part of the graph, and the instances that train and
 * evaluate. */
#include "learner/learner_internal.h"
#include "models/models.h"
#include "program/program.h"
#include "rewrite/rewrite.h"
#include "weft/device.h"

enum { TRACED_STEPS = 100 };

weft_status weft_rank_store(const weft_rank *r, const char *device, weft_store **out)
{
    const weft_run_spec *k = r->run_spec;
    char *own;
    WEFT_TRY(weft_device_of_rank(k->context, device ? device : k->device, r->rank, &own));
    weft_status status = weft_store_create(k->context, own, k->seed, out);
    free(own);
    if (status != WEFT_OK) return status;
    (*out)->schema->plain = r->plain_parameters || k->plain_parameters;
    (*out)->schema->stop = k->stop;
    weft_store_suppose_engine(*out, k->engine);
    if (k->on_host) status = weft_store_keep_on_host(*out);
    if (status == WEFT_OK && k->tuning && k->tuning->size > 0)
        status = weft_store_tune(*out, k->tuning, k->tuned_by);
    if (status != WEFT_OK) weft_store_destroy(out);
    return status;
}

/* Fetched are the loss, the learning rate and norms of gradients, where the rank has them. */
enum { FETCHED = 4 };
static void program_options(const weft_rank *r, weft_value fetch[FETCHED], weft_program_options *p)
{
    const weft_graph *g = r->graph;
    const weft_value wanted[] = {weft_rank_loss(r), r->optimizer.learning_rate, g->part_norm,
                                 g->whole_norm};
    weft_program_options_init(p);
    for (int i = 0; i < (r->measures_noise ? FETCHED : 2); i++) {
        fetch[p->fetch_count] = weft_rewritten_value(r->mine, wanted[i]);
        p->fetch_count += fetch[p->fetch_count] != WEFT_NO_VALUE;
    }
    p->fetch = fetch;
    p->slots = r->schedule.slots;
}

/* A dry program supposes that ranks of a process with the same device reach each other's memory,
 * and that all ranks use the library of this rank's device, if it uses one. */
static weft_status suppose_reach(const weft_rank *r, weft_store *store)
{
    bool *alike;
    int ranks = (int)r->run_spec->plan.ranks, first = r->rank - r->rank % ranks;
    char *mine, *other;
    if (ranks < 2) return WEFT_OK;
    WEFT_TRY(weft_device_of_rank(r->run_spec->context, r->run_spec->device, r->rank, &mine));
    weft_status status = WEFT_NEW(&alike, ranks);
    for (int i = 0; i < ranks && status == WEFT_OK; i++) {
        status = weft_device_of_rank(r->run_spec->context, r->run_spec->device, first + i, &other);
        if (status == WEFT_OK) alike[i] = r->run_spec->threads && strcmp(mine, other) == 0;
        if (status == WEFT_OK) free(other);
    }
    if (status == WEFT_OK) status = weft_store_suppose_reach(store, alike, ranks);
    free(alike);
    free(mine);
    return status;
}

weft_status weft_rank_dry_program_on(const weft_rank *r, weft_store *store, weft_program **out)
{
    weft_program_options p;
    weft_value fetch[FETCHED];
    program_options(r, fetch, &p);
    p.dry = true;
    store->counts = r->run_spec->counts_memory;
    WEFT_TRY(suppose_reach(r, store));
    return weft_program_create_with(store, weft_rewritten_graph(r->mine), &p, out);
}

static bool evaluates(const weft_rank *r)
{
    const weft_dataset *data = r->run_spec->data;
    return weft_dataset_count(data, WEFT_TEST) > 0 || weft_dataset_count(data, WEFT_VALIDATION) > 0;
}

/* Whether the programs of an evaluation are made before the first step: programs that cannot be
 * made, since layouts differ or the memory of a device is too small, must not be found after an
 * epoch. */
static bool evaluates_early(const weft_rank *r, const weft_store *store)
{
    return evaluates(r) &&
           (strchr(r->run_spec->device, ',') || !weft_device_shares(store->schema->devices[0]));
}

static weft_eval_ranks eval_ranks(const weft_rank *r, const weft_comms *comms)
{
    const weft_run_spec *k = r->run_spec;
    return (weft_eval_ranks){.plan = r->plan,
                             .rank = r->rank % (int)k->plan.ranks,
                             .comms = comms,
                             .trained = k->optimizer.averages ? r->graph : NULL,
                             .bf16_weights = k->bf16_weights && !weft_run_exchanges(k)};
}

weft_status weft_rank_dry_evaluation_on(const weft_rank *r, weft_store *store, bool early,
                                        double *graphs, weft_program **out)
{
    const weft_run_spec *k = r->run_spec;
    const weft_eval_ranks share = eval_ranks(r, NULL);
    *out = NULL;
    if (graphs) *graphs = 0;
    if (!(early ? evaluates_early(r, store) : evaluates(r))) return WEFT_OK;
    return weft_evaluator_dry_program(k->context, store, k->real, &k->model, k->text, &share,
                                      graphs, out);
}

weft_status weft_rank_dry_program(const weft_rank *r, weft_program **out)
{
    weft_store *store;
    WEFT_TRY(weft_rank_store(r, NULL, &store));
    weft_status status = weft_rank_dry_program_on(r, store, out);
    weft_store_destroy(&store);
    return status;
}

/* Whether the first rank's device is another one than this rank's. */
static weft_status has_other_device(const weft_rank *r, bool *out)
{
    char *mine = NULL, *first = NULL;
    const weft_run_spec *k = r->run_spec;
    weft_status status = weft_device_of_rank(k->context, k->device, r->rank, &mine);
    if (status == WEFT_OK) status = weft_device_of_rank(k->context, k->device, 0, &first);
    *out = status == WEFT_OK && strcmp(mine, first) != 0;
    free(mine);
    free(first);
    return status;
}

/* Logs how devices compute with a type that a processor may not have: the first rank, and others
 * whose device is another one. */
static weft_status note_precision(const weft_rank *r)
{
    const weft_run_spec *k = r->run_spec;
    const weft_device *device = r->store->schema->devices[0];
    const char *how = NULL;
    bool other = false;
    if (k->real != WEFT_BF16 || r->learner_index != 0) return WEFT_OK;
    if (r->rank > 0) WEFT_TRY(has_other_device(r, &other));
    if (r->rank > 0 && !other) return WEFT_OK;
    if (device->ops->precision) how = device->ops->precision(device, k->real);
    weft_log(k->context, WEFT_LOG_NOTE, "%s on %s: %s", weft_dtype_name(k->real), device->ops->name,
             how ? how : "its values are computed on the host, and --dtype f32 is faster");
    return WEFT_OK;
}

static weft_status make_program(weft_rank *r)
{
    const weft_run_spec *k = r->run_spec;
    weft_program_options p;
    weft_value fetch[FETCHED];
    program_options(r, fetch, &p);
    WEFT_TRY(weft_rank_store(r, NULL, &r->store));
    WEFT_TRY(note_precision(r));
    WEFT_TRY(weft_store_reach(r->store, &r->comms, true));
    WEFT_TRY(weft_instance_build_with(r->store, weft_rewritten_graph(r->mine), &p, &r->comms,
                                      &r->instance));
    if (!k->traced) return WEFT_OK;
    weft_program_info info = weft_program_describe(weft_instance_program(r->instance));
    int each = info.device_bytes > 0 ? 3 : 2; /* a device's instructions are queued, then run */
    return weft_instance_trace(r->instance, TRACED_STEPS + (size_t)(each * TRACED_STEPS) *
                                                               (size_t)k->microbatches *
                                                               (size_t)info.instructions);
}

weft_status weft_rank_add_program(weft_rank *r)
{
    weft_program_options p;
    weft_value fetch[FETCHED];
    program_options(r, fetch, &p);
    return weft_instance_build_with(r->store, weft_rewritten_graph(r->mine), &p, &r->comms,
                                    &r->instance);
}

int64_t weft_rank_parameters(const weft_rank *r)
{
    int64_t count = 0;
    for (int v = 0; v < weft_graph_value_count(r->graph); v++) {
        weft_type type = weft_graph_value_type(r->graph, v);
        if (weft_graph_value_kind(r->graph, v) == WEFT_VALUE_PARAM)
            count += weft_shape_elements(&type.shape);
    }
    return count;
}

static weft_status make_evaluator(weft_rank *r)
{
    const weft_run_spec *k = r->run_spec;
    weft_eval_ranks share = eval_ranks(r, &r->comms);
    if (r->evaluator) return WEFT_OK;
    return weft_evaluator_create(k->context, r->store, k->real, &k->model, k->text, &share,
                                 &r->evaluator);
}

/* Sets *out to whether any rank of the job failed to build because layouts differ between ranks. A
 * rank compares its layouts only with the ranks of its axes, so only some ranks may find a
 * difference; building a program is collective, so all ranks must learn of it. Any other failure,
 * such as a device that cannot be opened, is that of one rank, while others are still building. */
static weft_status any_differs(weft_rank *r, weft_status built, bool *out)
{
    bool found = built != WEFT_OK && r->store && r->store->schema->differs;
    double differs = found;
    if (built != WEFT_OK && !found) return built;
    WEFT_TRY(weft_sum_over(r->world, "whether ranks differ", &differs, 1));
    *out = differs > 0;
    return WEFT_OK;
}

void weft_rank_drop_programs(weft_rank *r)
{
    weft_evaluator_destroy(&r->evaluator);
    weft_averages_close(r);
    weft_instance_destroy(&r->instance);
    weft_store_destroy(&r->store);
    weft_schedule_free(&r->schedule);
    weft_rewritten_destroy(&r->mine);
    weft_plan_destroy(&r->plan);
    weft_graph_destroy(&r->graph);
}

weft_status weft_rank_make_programs(weft_rank *r)
{
    bool differs;
    WEFT_TRY(any_differs(r, make_program(r), &differs));
    if (!differs && evaluates_early(r, r->store))
        WEFT_TRY(any_differs(r, make_evaluator(r), &differs));
    if (!differs) return weft_averages_open(r);
    r->plain_sums = true;
    weft_rank_drop_programs(r);
    WEFT_TRY(weft_rank_rewrite(r));
    WEFT_TRY(make_program(r));
    return weft_averages_open(r);
}

/* Evaluates the averages of the parameters, which take the parameters' places meanwhile. Before the
 * first update there are none. */
static weft_status run_evaluator(weft_rank *r, weft_split split, weft_report *out)
{
    const weft_run_spec *k = r->run_spec;
    bool averages = weft_averages_begun(r);
    int count = weft_store_count(r->store);
    void **kept = NULL;
    weft_status status = WEFT_OK;
    if (averages) {
        WEFT_TRY(WEFT_NEW(&kept, count));
        status = weft_rank_keep(r->store, true, kept, false);
        if (status == WEFT_OK)
            status = weft_instance_run(weft_evaluator_instance(r->evaluator), WEFT_PHASE_UPDATE);
    }
    if (status == WEFT_OK)
        status =
            weft_evaluator_run(r->evaluator, k->data, split, k->metrics, out, NULL, NULL, NULL);
    if (averages && status == WEFT_OK) status = weft_rank_keep(r->store, true, kept, true);
    for (int i = 0; i < count && averages; i++) free(kept[i]);
    free((void *)kept);
    return status;
}

weft_status weft_rank_evaluate(weft_rank *r, weft_split split, weft_report *out)
{
    const weft_run_spec *k = r->run_spec;
    WEFT_TRY(make_evaluator(r));
    /* The exchange polls between the evaluator's instructions, too, to send heartbeats; without
     * them an elastic run would remove this learner during a long evaluation. */
    if (k->cluster && r->exchange)
        weft_exchange_progress(r->exchange, weft_evaluator_instance(r->evaluator));
    WEFT_TRY(run_evaluator(r, split, out));
    out->part = split == WEFT_VALIDATION ? "validation" : "test";
    return WEFT_OK;
}
