/* Builds one rank of a job: the learner's graph, its plan, this rank's part of the graph, its
 * communicators, program and exchange. */
#include "learner/learner_internal.h"
#include "models/models.h"
#include "weft/device.h"

enum { TRACED_STEPS = 100 };

weft_value weft_rank_loss(const weft_rank *r)
{
    return weft_model_value(&r->values, WEFT_PORT_LOSS);
}

static weft_status recompute(weft_rank *r)
{
    weft_graph *graph;
    weft_value *map;
    weft_optimizer_values *o = &r->optimizer;
    weft_value *const all[] = {&o->step, &o->learning_rate, &o->keep};
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

/* The optimizer options with which the learner's graph is built. If there is an exchange, it
 * determines where the update is made; a single learner has none. */
static weft_status optimizer_options(const weft_run_spec *k, weft_optimizer_options *out)
{
    const weft_exchange_ops *ops;
    const char *arguments;
    *out = k->optimizer;
    if (k->learners <= 1 && !k->simulated && !k->cluster) return WEFT_OK;
    WEFT_TRY(weft_exchange_find(k->context, k->exchange, &ops, &arguments));
    out->update = weft_exchange_updates(ops);
    if (out->update == WEFT_UPDATE_ELSEWHERE && k->plan.zero > 0)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "zero shards the update over the ranks of a learner, but exchange %s "
                         "makes the update itself; give --zero 0",
                         ops->name);
    return WEFT_OK;
}

/* Builds the training graph of a learner as for a single rank; weft_plan_rewrite cuts it later. */
static weft_status build_graph(weft_rank *r)
{
    const weft_run_spec *k = r->run_spec;
    weft_optimizer_options optimizer;
    WEFT_TRY(optimizer_options(k, &optimizer));
    WEFT_TRY(weft_graph_create(k->context, k->real, &r->graph));
    WEFT_TRY(weft_build_model(r->graph, &k->model, k->text, &r->values));
    WEFT_TRY(weft_graph_differentiate(r->graph, weft_rank_loss(r)));
    WEFT_TRY(weft_optimizer_build(r->graph, &optimizer, &r->optimizer));
    return k->recompute ? recompute(r) : WEFT_OK;
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

weft_status weft_rank_rewrite(weft_rank *r)
{
    const weft_run_spec *k = r->run_spec;
    weft_plan_options p = k->plan;
    p.plain_sums = r->plain_sums;
    WEFT_TRY(build_graph(r));
    double *costs = NULL;
    weft_status status = WEFT_OK;
    if (k->measured) {
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
    return weft_plan_rewrite(r->plan, r->graph, r->rank % p.ranks, &r->mine);
}

/* Creates the communicators of the learner, of its mesh axes, and of the ranks that have this
 * rank's position in each learner. */
static weft_status split_world(weft_rank *r)
{
    int mesh = r->run_spec->plan.ranks, within = r->rank % mesh;
    r->learner_index = r->rank / mesh + (r->run_spec->cluster ? r->run_spec->cluster->slot : 0);
    r->together = r->world;
    WEFT_TRY(weft_comm_split(r->world, r->learner_index, within, &r->learner));
    WEFT_TRY(weft_comm_split(r->world, within, r->learner_index, &r->between));
    return weft_plan_split(r->plan, r->learner, &r->comms);
}

static uint64_t mix_numbers(uint64_t hash, const double *numbers, int count)
{
    for (int i = 0; i < count; i++) {
        uint64_t bits;
        memcpy(&bits, &numbers[i], sizeof(bits));
        hash = weft_mix(hash, bits);
    }
    return hash;
}

/* Compares a hash of version, graph and data statistics over all ranks. ARGUMENT: a rank differs
 * from rank 0. */
static weft_status check_alike(weft_rank *r)
{
    const weft_dataset *data = r->run_spec->data;
    int n = weft_comm_size(r->world);
    char *text = NULL;
    uint64_t hash = weft_hash_text(weft_version());
    WEFT_TRY(weft_graph_text(r->graph, &text));
    hash = weft_mix(hash, weft_hash_text(text));
    free(text);
    const weft_data_stats *stats = weft_dataset_stats(data);
    hash = weft_mix(hash, (uint64_t)weft_dataset_count(data, WEFT_TRAIN));
    uint64_t own;
    WEFT_TRY(weft_dataset_hash(data, &own));
    hash = weft_mix(hash, own);
    hash = mix_numbers(hash, stats->mean, stats->features);
    hash = mix_numbers(hash, stats->target_mean, stats->targets);
    uint64_t *all;
    int other = 0;
    WEFT_TRY(WEFT_NEW(&all, n));
    weft_status status = weft_comm_run(r->world, &(weft_transfer){.kind = WEFT_ALL_GATHER,
                                                                  .dtype = WEFT_U8,
                                                                  .what = "the check of versions "
                                                                          "and data",
                                                                  .send = &hash,
                                                                  .receive = all,
                                                                  .count = sizeof(hash)});
    for (int i = n; i-- > 1;)
        if (all[i] != all[0]) other = i;
    free(all);
    if (status != WEFT_OK || other == 0) return status;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "rank %d has another program, model or data than rank 0; install the same "
                     "weft and the same files on all machines",
                     other);
}

weft_status weft_rank_store(const weft_rank *r, weft_store **out)
{
    char *device;
    WEFT_TRY(weft_device_of_rank(r->run_spec->context, r->run_spec->device, r->rank, &device));
    weft_status status = weft_store_create(r->run_spec->context, device, r->run_spec->seed, out);
    free(device);
    return status;
}

static weft_status make_program(weft_rank *r)
{
    const weft_run_spec *k = r->run_spec;
    weft_program_options p;
    weft_value fetch[2];
    const weft_value wanted[] = {weft_rank_loss(r), r->optimizer.learning_rate};
    weft_program_options_init(&p);
    for (int i = 0; i < 2; i++) {
        fetch[p.fetch_count] = weft_rewritten_value(r->mine, wanted[i]);
        p.fetch_count += fetch[p.fetch_count] != WEFT_NO_VALUE;
    }
    p.fetch = fetch;
    p.slots = r->schedule.slots;
    WEFT_TRY(weft_rank_store(r, &r->store));
    WEFT_TRY(weft_instance_build_with(r->store, weft_rewritten_graph(r->mine), &p, &r->comms,
                                      &r->instance));
    if (!k->traced) return WEFT_OK;
    return weft_instance_trace(
        r->instance,
        (size_t)(2 * TRACED_STEPS * k->microbatches) *
            (size_t)weft_program_describe(weft_instance_program(r->instance)).instructions);
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
    weft_eval_ranks share = {r->plan, r->rank % k->plan.ranks, &r->comms};
    if (r->evaluator) return WEFT_OK;
    return weft_evaluator_create(k->context, r->store, k->real, &k->model, k->text, &share,
                                 &r->evaluator);
}

/* Sets *out to whether any rank of the job failed to build because layouts differ between ranks
 * (UNSUPPORTED). A rank compares its layouts only with the ranks of its axes, so only some ranks
 * may find a difference; building a program is collective, so all ranks must learn of it. */
static weft_status any_differs(weft_rank *r, weft_status built, bool *out)
{
    double differs = built == WEFT_ERR_UNSUPPORTED;
    if (built != WEFT_OK && built != WEFT_ERR_UNSUPPORTED) return built;
    WEFT_TRY(weft_sum_over(r->world, "whether ranks differ", &differs, 1));
    *out = differs > 0;
    return WEFT_OK;
}

static void drop_plan(weft_rank *r)
{
    weft_evaluator_destroy(&r->evaluator);
    weft_instance_destroy(&r->instance);
    weft_store_destroy(&r->store);
    weft_schedule_free(&r->schedule);
    weft_rewritten_destroy(&r->mine);
    weft_plan_destroy(&r->plan);
    weft_graph_destroy(&r->graph);
}

/* Builds the program. If ranks have chosen different layouts for values that are summed over ranks,
 * all ranks plan again, with plain layouts for these values. Ranks on different devices may agree
 * in the training program and differ in the evaluation program, so the evaluator is built now, too,
 * rather than during the run. */
static weft_status make_programs(weft_rank *r)
{
    const weft_run_spec *k = r->run_spec;
    bool mixed = strchr(k->device, ','), evaluates = weft_dataset_count(k->data, WEFT_TEST) > 0;
    bool differs;
    WEFT_TRY(any_differs(r, make_program(r), &differs));
    if (!differs && mixed && evaluates) WEFT_TRY(any_differs(r, make_evaluator(r), &differs));
    if (!differs) return WEFT_OK;
    r->plain_sums = true;
    drop_plan(r);
    WEFT_TRY(weft_rank_rewrite(r));
    return make_program(r);
}

static weft_status open_exchange(weft_rank *r)
{
    const weft_learner_link *link = r->run_spec->cluster;
    if (link)
        WEFT_TRY(weft_learner_group_single(link->slot, link->learners, r->run_spec->timeout,
                                           &r->endpoint));
    else
        WEFT_TRY(weft_learner_group_over(r->between, &r->endpoint));
    r->elsewhere = r->run_spec->optimizer;
    r->elsewhere.clip_norm = 0;
    r->elsewhere.accumulate = 1;
    weft_exchange_site site = {.struct_size = sizeof(site),
                               .context = r->run_spec->context,
                               .endpoint = r->endpoint,
                               .store = r->store,
                               .instance = r->instance,
                               .learner = r->learner,
                               .servers = r->run_spec->servers,
                               .replicas = r->run_spec->replicas,
                               .codec = r->run_spec->codec,
                               .back = r->run_spec->back,
                               .cluster = link,
                               .resumed_run = r->run_spec->resumed_run,
                               .asked = r->run_spec->asked,
                               .user = r->run_spec->user,
                               .optimizer = &r->elsewhere};
    bool shared = false;
    if (link) WEFT_TRY(weft_unsharded_is_needed(r, &shared));
    WEFT_TRY(shared ? weft_unsharded_open(r, &site, &r->exchange)
                    : weft_exchange_open(r->run_spec->exchange, &site, &r->exchange));
    weft_exchange_listen(r->exchange);
    if (!r->exchange->ops->lockstep) r->together = r->learner;
    return WEFT_OK;
}

/* Learners that differ in the checkpoint stay apart if they are as many as before, and either go on
 * with the same exchange or meet in lock step, at the averages of the exchange. Otherwise the run
 * begins with their mean: most exchanges need equal parameters, and no learner's work is to be
 * lost. */
static weft_status decide_merge(weft_rank *r)
{
    const weft_run_spec *k = r->run_spec;
    const weft_exchange_ops *ops = NULL;
    const char *arguments, *before = weft_settings_find(&k->resumed->settings, "exchange");
    int saved = weft_checkpoint_differing(k->resumed);
    if (k->learners > 1 || k->cluster)
        WEFT_TRY(weft_exchange_find(k->context, k->exchange, &ops, &arguments));
    bool apart = ops && (ops->lockstep || (before && strcmp(before, k->exchange) == 0));
    r->merged = saved > 1 && !(apart && k->learners == saved);
    return WEFT_OK;
}

/* A rank without parameters, as of a pipeline stage without layers that have any, loads no state,
 * and must yet begin as the other ranks of its learner, since the exchange may have collectives. */
static weft_status agree_on_restored(weft_rank *r)
{
    double restored = r->exchange->restored;
    WEFT_TRY(
        weft_sum_over(r->learner, "whether a checkpoint has the exchange's state", &restored, 1));
    r->exchange->restored = restored > 0;
    return WEFT_OK;
}

/* Opens the exchange, and loads the state of this rank and its exchange from the checkpoint. */
static weft_status open_with_state(weft_rank *r, weft_dropped *dropped)
{
    const weft_run_spec *k = r->run_spec;
    int learner = r->learner_index;
    if (k->resumed) {
        r->position = k->resumed->position;
        WEFT_TRY(decide_merge(r));
        WEFT_TRY(weft_checkpoint_load_learner(k->resumed, r->store, r->graph, learner, r->merged,
                                              dropped));
    }
    if (k->cluster || weft_comm_size(r->between) > 1) WEFT_TRY(open_exchange(r));
    if (!k->resumed) return WEFT_OK;
    WEFT_TRY(weft_checkpoint_load_exchange(k->resumed, r->exchange, learner, dropped));
    return r->exchange ? agree_on_restored(r) : WEFT_OK;
}

weft_status weft_rank_build(weft_rank *r)
{
    const weft_run_spec *k = r->run_spec;
    WEFT_TRY(weft_rank_rewrite(r));
    WEFT_TRY(check_alike(r));
    WEFT_TRY(split_world(r));
    WEFT_TRY(make_programs(r));
    weft_dropped dropped = {0};
    bool speaks = r->learner_index == 0 || (k->cluster && !k->cluster->job);
    weft_status status = open_with_state(r, k->drops ? &dropped : NULL);
    if (status == WEFT_OK && r->rank == 0 && speaks)
        status = weft_dropped_tell(&dropped, k->context, k->resumed);
    weft_dropped_free(&dropped);
    WEFT_TRY(status);
    if (k->resumed && r->rank == 0 && speaks &&
        weft_checkpoint_lacks_learners(k->resumed, r->exchange))
        weft_log(k->context, WEFT_LOG_NOTE,
                 "%s has the residuals of the first learner alone, since learners that are "
                 "processes of their own send none: those of the others begin at zero",
                 k->resumed->path);
    if (r->merged && r->rank == 0 && speaks)
        weft_log(k->context, WEFT_LOG_NOTE,
                 "the learners in %s differ; this run begins with their mean", k->resumed->path);
    WEFT_TRY(weft_comm_barrier(r->world));
    r->began = weft_seconds();
    return WEFT_OK;
}

weft_status weft_rank_evaluate(weft_rank *r, weft_report *out)
{
    const weft_run_spec *k = r->run_spec;
    WEFT_TRY(make_evaluator(r));
    /* The exchange polls between the evaluator's instructions, too, to send heartbeats; without
     * them an elastic run would remove this learner during a long evaluation. */
    if (k->cluster && r->exchange)
        weft_exchange_attend(r->exchange, weft_evaluator_instance(r->evaluator));
    return weft_evaluator_run(r->evaluator, k->data, WEFT_TEST, out, NULL, NULL);
}

void weft_rank_free(weft_rank *r)
{
    weft_exchange_close(&r->exchange);
    weft_learner_group_close(&r->endpoint);
    drop_plan(r);
    weft_plan_close_comms(&r->comms);
    weft_comm_close(&r->learner);
    weft_comm_close(&r->between);
}

weft_status weft_rank_clone(const weft_rank *r, weft_rank *out)
{
    int local = 0;
    *out = *r;
    out->world = out->learner = NULL;
    out->instance = NULL;
    out->evaluator = NULL;
    weft_status status = weft_comm_open(r->run_spec->context, "self", 1, &out->world, &local);
    if (status == WEFT_OK) status = weft_comm_split(out->world, 0, 0, &out->learner);
    weft_program *program = (weft_program *)(uintptr_t)weft_instance_program(r->instance);
    if (status == WEFT_OK)
        status = weft_instance_create(program, r->store, &r->comms, &out->instance);
    if (status != WEFT_OK) weft_rank_free_clone(out);
    return status;
}

void weft_rank_free_clone(weft_rank *r)
{
    weft_instance_destroy(&r->instance);
    weft_comm_close(&r->learner);
    weft_comm_close(&r->world);
}
