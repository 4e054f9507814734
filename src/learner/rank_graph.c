/* Builds the graph of one rank: the learner's graph, its plan, and this rank's part of it. */
#include "graph/carry.h"
#include "learner/learner_internal.h"
#include "models/models.h"
#include "program/program.h"
#include "rewrite/rewrite.h"
#include "weft/device.h"

weft_value weft_rank_loss(const weft_rank *r)
{
    return weft_model_value(&r->values, WEFT_PORT_LOSS);
}

static weft_status recompute(weft_rank *r)
{
    weft_graph *graph;
    weft_value *map;
    weft_optimizer_values *o = &r->optimizer;
    weft_value *const all[] = {&o->step, &o->learning_rate, &o->keep, &o->measured};
    WEFT_TRY(WEFT_NEW(&map, weft_graph_value_count(r->graph)));
    weft_status status = weft_graph_recompute(r->graph, &graph, map);
    if (status == WEFT_OK) {
        for (size_t i = 0; i < WEFT_COUNT(all); i++)
            if (*all[i] != WEFT_NO_VALUE) *all[i] = map[*all[i]];
        for (int i = 0; i < r->values.count; i++)
            r->values.ports[i].value = map[r->values.ports[i].value];
        weft_graph_destroy(&r->graph);
        r->graph = graph;
    }
    free(map);
    return status;
}

static weft_status narrow(weft_rank *r)
{
    weft_optimizer_values *o = &r->optimizer;
    weft_value *all[WEFT_MAX_PORTS + 4] = {&o->step, &o->learning_rate, &o->keep, &o->measured};
    for (int i = 0; i < r->values.count; i++) all[4 + i] = &r->values.ports[i].value;
    return weft_graph_narrow(r->graph, all, 4 + r->values.count);
}

static weft_status carry(weft_rank *r)
{
    weft_value *values[WEFT_MAX_PORTS];
    for (int i = 0; i < r->values.count; i++) values[i] = &r->values.ports[i].value;
    WEFT_TRY(weft_graph_carry(r->graph, values, r->values.count));
    return weft_graph_show(r->graph, "carrying states over", r->graphs);
}

bool weft_run_exchanges(const weft_run_spec *k)
{
    return k->learners > 1 || k->simulated || k->cluster;
}

bool weft_rank_updates_elsewhere(const weft_rank *r)
{
    const weft_exchange_ops *ops;
    const char *arguments;
    const weft_run_spec *k = r->run_spec;
    return weft_run_exchanges(k) &&
           weft_exchange_find(k->context, k->exchange, &ops, &arguments) == WEFT_OK &&
           weft_exchange_updates(ops) == WEFT_UPDATE_ELSEWHERE;
}

/* The optimizer options with which the learner's graph is built. If there is an exchange, it
 * determines where the update is made; a single learner has none. */
static weft_status optimizer_options(const weft_run_spec *k, weft_optimizer_options *out)
{
    const weft_exchange_ops *ops;
    const char *arguments;
    *out = k->optimizer;
    if (!weft_run_exchanges(k)) return WEFT_OK;
    WEFT_TRY(weft_exchange_find(k->context, k->exchange, &ops, &arguments));
    out->update = weft_exchange_updates(ops);
    if (k->bf16_weights && out->update == WEFT_UPDATE_ELSEWHERE)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "exchange %s makes the update itself, on parameters in f32, and --weights "
                         "bf16 is about updates of learners; give --weights f32, and --compress "
                         "bf16 for messages of half the bytes, or another exchange",
                         ops->name);
    return out->update == WEFT_UPDATE_ELSEWHERE ? weft_plan_check_exchange(&k->plan, ops->name)
                                                : WEFT_OK;
}

/* Builds the training graph of a learner as for a single rank; weft_plan_rewrite cuts it later. */
static weft_status build_graph(weft_rank *r)
{
    const weft_run_spec *k = r->run_spec;
    weft_optimizer_options optimizer;
    WEFT_TRY(optimizer_options(k, &optimizer));
    WEFT_TRY(weft_graph_create(k->context, k->real, &r->graph));
    if (k->bf16_weights)
        WEFT_TRY(weft_graph_keep_weights_narrow(r->graph, k->seed, weft_run_exchanges(k)));
    WEFT_TRY(weft_build_model(r->graph, &k->model, k->text, &r->values));
    WEFT_TRY(weft_graph_show(r->graph, "building the model", r->graphs));
    if (k->carries) WEFT_TRY(carry(r));
    WEFT_TRY(weft_graph_check_samples(r->graph, k->least_samples, k->least_remedy));
    WEFT_TRY(weft_graph_differentiate(r->graph, weft_rank_loss(r)));
    WEFT_TRY(weft_graph_show(r->graph, "differentiation", r->graphs));
    r->graph->measures_noise = r->measures_noise;
    WEFT_TRY(weft_optimizer_build(r->graph, &optimizer, &r->optimizer));
    if (k->carries) WEFT_TRY(weft_graph_carry_next(r->graph));
    WEFT_TRY(weft_graph_show(r->graph, "adding the optimizer", r->graphs));
    if (k->recompute) {
        WEFT_TRY(recompute(r));
        WEFT_TRY(weft_graph_show(r->graph, "recomputation", r->graphs));
    }
    if (k->real != WEFT_BF16) return WEFT_OK;
    WEFT_TRY(narrow(r));
    return weft_graph_show(r->graph, "mixed precision", r->graphs);
}

/* Fails if the pipeline schedule would deadlock, before anything is run. */
static weft_status check_schedule(const weft_rank *r)
{
    double *pass;
    int stages = weft_plan_places(r->plan);
    if (stages == 1) return WEFT_OK;
    WEFT_TRY(WEFT_NEW(&pass, stages));
    for (int s = 0; s < stages; s++) pass[s] = 1;
    weft_status status =
        weft_schedule_check(r->run_spec->context, r->run_spec->schedule, stages,
                            (int)r->run_spec->microbatches, pass, pass, NULL, NULL);
    free(pass);
    return status;
}

const char *weft_rank_idle_axis(const weft_rank *r)
{
    return weft_plan_idle_axis(r->plan);
}

/* Warns of an axis whose ranks compute the same. */
static void warn_of_idle_axis(const weft_rank *r)
{
    const weft_run_spec *k = r->run_spec;
    const char *axis = weft_rank_idle_axis(r);
    if (r->rank > 0 || !axis) return;
    weft_log(
        k->context, WEFT_LOG_WARNING,
        "mesh %s: the axis %s splits no operator of this model, and each of its ranks computes "
        "the whole; leave it out, or give it a size by which a dimension can be divided",
        k->plan.mesh ? k->plan.mesh : "", axis);
}

/* Asking takes as long as there are pieces of free memory. */
static double allocated(const weft_run_spec *k)
{
    return k->counts_memory ? (double)weft_allocated_memory() : 0;
}

weft_status weft_rank_rewrite(weft_rank *r)
{
    const weft_run_spec *k = r->run_spec;
    weft_plan_options p = k->plan;
    p.plain_sums = r->plain_sums;
    double before = allocated(k);
    if (!r->graph) {
        WEFT_TRY(build_graph(r));
        r->graph_bytes = allocated(k) - before;
        before += r->graph_bytes;
    }
    double *costs = NULL;
    weft_status status = weft_rank_shares(r, &p, &p.shares);
    if (status == WEFT_OK && k->measured) {
        status = WEFT_NEW(&costs, weft_graph_node_count(r->graph));
        if (status == WEFT_OK) status = weft_rank_measure(r, costs);
        p.node_costs = costs;
    }
    if (status == WEFT_OK) status = weft_plan_create(r->graph, &p, &r->plan);
    free(costs);
    WEFT_TRY(status);
    WEFT_TRY(weft_plan_schedule(r->plan, r->rank % p.ranks, k->schedule, (int)k->microbatches,
                                &r->schedule));
    if (!p.place) WEFT_TRY(check_schedule(r));
    WEFT_TRY(weft_plan_rewrite(r->plan, r->graph, r->rank % p.ranks, &r->mine));
    warn_of_idle_axis(r);
    r->part_bytes = allocated(k) - before;
    return weft_graph_show(weft_rewritten_graph(r->mine), "the rewrite for the rank", r->graphs);
}

weft_status weft_rank_rewrite_shared(weft_rank *r, const weft_rank *built)
{
    r->graph = built->graph;
    r->graph_bytes = built->graph_bytes;
    r->values = built->values;
    r->optimizer = built->optimizer;
    return weft_rank_rewrite(r);
}

void weft_rank_free_shared(weft_rank *r)
{
    r->graph = NULL;
    weft_rank_free(r);
}

weft_status weft_rank_alike(const weft_rank *r, bool blocks, int other, bool *out)
{
    const weft_run_spec *k = r->run_spec;
    char *mine = NULL, *others = NULL;
    int ranks = k->plan.ranks;
    *out = weft_rewritten_alike(r->plan, r->mine, r->rank % ranks, other % ranks, blocks);
    if (!*out || !strchr(k->device, ',')) return WEFT_OK;
    weft_status status = weft_device_of_rank(k->context, k->device, r->rank, &mine);
    if (status == WEFT_OK) status = weft_device_of_rank(k->context, k->device, other, &others);
    *out = status == WEFT_OK && strcmp(mine, others) == 0;
    free(mine);
    free(others);
    return status;
}
