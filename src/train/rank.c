/* One rank of a job: the learner's graph, its plan, this rank's part of it, and the program. */
#include <stdio.h>

#include "models/models.h"
#include "train/trainer.h"

enum { TRACED_STEPS = 100, PROFILED_PASSES = 5 };

static weft_status optimizer_options(const weft_trainer *t, weft_optimizer_options *out)
{
    const weft_train_options *o = &t->options;
    weft_optimizer_options_init(out);
    out->name = o->optimizer;
    out->lr = o->lr;
    out->momentum = o->momentum;
    out->nesterov = o->nesterov;
    out->weight_decay = o->weight_decay;
    out->beta1 = o->beta1;
    out->beta2 = o->beta2;
    out->epsilon = o->epsilon;
    out->clip_norm = o->clip_norm;
    out->schedule = strcmp(o->lr_schedule, "step") == 0     ? WEFT_SCHEDULE_STEP
                    : strcmp(o->lr_schedule, "cosine") == 0 ? WEFT_SCHEDULE_COSINE
                                                            : WEFT_SCHEDULE_CONSTANT;
    out->warmup = o->warmup;
    out->total = t->total_steps;
    out->every = o->decay_every;
    out->gamma = o->gamma;
    out->floor = o->lr_floor;
    out->accumulate = t->microbatches;
    char low[32], high[32];
    if (out->floor > out->lr)
        return weft_fail(WEFT_ERR_ARGUMENT, "lr-floor %s is above lr %s",
                         weft_real_text(out->floor, low, sizeof(low)),
                         weft_real_text(out->lr, high, sizeof(high)));
    return WEFT_OK;
}

static weft_status recompute(weft_rank *r)
{
    weft_graph *graph;
    weft_value *map;
    weft_model_values *v = &r->values;
    weft_optimizer_values *o = &r->optimizer;
    weft_value *const all[] = {
        &v->x,    &v->labels,        &v->weights, &v->first_sample,  &v->logits,
        &v->loss, &v->probabilities, &o->step,    &o->learning_rate, &o->keep};
    WEFT_TRY(WEFT_NEW(&map, weft_graph_value_count(r->graph)));
    weft_status status = weft_graph_recompute(r->graph, &graph, map);
    if (status == WEFT_OK) {
        for (size_t i = 0; i < WEFT_COUNT(all); i++)
            if (*all[i] != WEFT_NO_VALUE) *all[i] = map[*all[i]];
        weft_graph_destroy(&r->graph);
        r->graph = graph;
    }
    free(map);
    return status;
}

/* The graph that one rank alone would run. */
static weft_status build_graph(weft_rank *r)
{
    weft_trainer *t = r->job;
    weft_dtype real = WEFT_F32;
    weft_optimizer_options optimizer;
    weft_model_options model;
    weft_model_options_init(&model);
    model.model = t->options.model;
    model.sample = weft_dataset_shape(t->data);
    model.batch = t->micro;
    model.classes = weft_dataset_stats(t->data)->classes;
    model.training = true;
    model.seed = (uint64_t)t->options.seed;
    (void)weft_dtype_parse(t->options.dtype, &real);
    WEFT_TRY(optimizer_options(t, &optimizer));
    WEFT_TRY(weft_graph_create(t->context, real, &r->graph));
    WEFT_TRY(weft_build_model(r->graph, &model, &t->model, &r->values));
    WEFT_TRY(weft_graph_differentiate(r->graph, r->values.loss));
    WEFT_TRY(weft_optimizer_build(r->graph, &optimizer, &r->optimizer));
    return t->options.recompute ? recompute(r) : WEFT_OK;
}

/* Where nothing is run, the ranks follow each other, and rank 0 has measured for all. */
static weft_status keep_profile(weft_trainer *t, double *costs, int n)
{
    if (t->profile) {
        memcpy(costs, t->profile, (size_t)n * sizeof(*costs));
        return WEFT_OK;
    }
    WEFT_TRY(WEFT_NEW(&t->profile, n));
    memcpy(t->profile, costs, (size_t)n * sizeof(*costs));
    return WEFT_OK;
}

/* Times of the whole graph's nodes, measured by rank 0 and told to all, so that all cut alike. */
static weft_status profile(weft_rank *r, double *costs)
{
    int n = weft_graph_node_count(r->graph);
    weft_store *store = NULL;
    weft_instance *instance = NULL;
    if (r->rank == 0) {
        WEFT_TRY(weft_store_create(r->job->context, r->job->options.device, 1, &store));
        weft_status status = weft_instance_build(store, r->graph, &r->values.loss, 1, &instance);
        if (status == WEFT_OK) status = weft_instance_profile(instance, PROFILED_PASSES, costs);
        weft_instance_destroy(&instance);
        weft_store_destroy(&store);
        WEFT_TRY(status);
    }
    if (!r->world) return keep_profile(r->job, costs, n);
    return weft_comm_run(r->world, &(weft_transfer){.kind = WEFT_BROADCAST,
                                                    .dtype = WEFT_F64,
                                                    .what = "the profile",
                                                    .receive = costs,
                                                    .count = n});
}

/* No stage may wait for ever; found out before anything is launched. */
static weft_status check_schedule(const weft_rank *r)
{
    enum { MOST_STAGES = 64 };
    double pass[MOST_STAGES];
    int stages = weft_plan_places(r->plan);
    for (int s = 0; s < MOST_STAGES; s++) pass[s] = 1;
    if (stages == 1) return WEFT_OK;
    return weft_schedule_check(r->job->options.schedule, stages, (int)r->job->microbatches, pass,
                               pass, NULL, NULL);
}

weft_status weft_rank_rewrite(weft_rank *r)
{
    const weft_train_options *o = &r->job->options;
    weft_plan_options p;
    weft_plan_options_init(&p);
    p.ranks = r->job->mesh;
    p.mesh = o->mesh;
    p.zero = (int)o->zero;
    p.shard = o->shard;
    p.place = o->place;
    p.virtual_workers = (int)o->virtual_workers;
    p.plain_sums = r->plain_sums;
    WEFT_TRY(build_graph(r));
    double *costs = NULL;
    weft_status status = WEFT_OK;
    if (o->profile) {
        status = WEFT_NEW(&costs, weft_graph_node_count(r->graph));
        if (status == WEFT_OK) status = profile(r, costs);
        p.node_costs = costs;
    }
    if (status == WEFT_OK) status = weft_plan_create(r->graph, &p, &r->plan);
    free(costs);
    WEFT_TRY(status);
    WEFT_TRY(weft_plan_schedule(r->plan, r->rank % r->job->mesh, o->schedule,
                                (int)r->job->microbatches, &r->schedule));
    if (!o->place) WEFT_TRY(check_schedule(r));
    return weft_plan_rewrite(r->plan, r->graph, r->rank % r->job->mesh, &r->mine);
}

/* Communicators of the learner, of its axes, and of the same place in all learners. */
static weft_status split_world(weft_rank *r)
{
    int mesh = r->job->mesh, within = r->rank % mesh;
    r->learner_index = r->rank / mesh;
    WEFT_TRY(weft_comm_split(r->world, r->learner_index, within, &r->learner));
    WEFT_TRY(weft_comm_split(r->world, within, r->learner_index, &r->between));
    return weft_plan_split(r->plan, r->learner, &r->comms);
}

/* Ranks that would not compute the same thing must not begin. */
static weft_status check_alike(weft_rank *r)
{
    const weft_trainer *t = r->job;
    char *text = NULL;
    uint64_t hash = weft_hash_text(weft_version()), all[WEFT_MAX_RANKS];
    WEFT_TRY(weft_graph_text(r->graph, &text));
    hash = weft_mix(hash, weft_hash_text(text));
    free(text);
    const weft_data_stats *stats = weft_dataset_stats(t->data);
    hash = weft_mix(hash, (uint64_t)t->samples);
    for (int i = 0; i < stats->features; i++) {
        uint64_t bits;
        memcpy(&bits, &stats->mean[i], sizeof(bits));
        hash = weft_mix(hash, bits);
    }
    int64_t counts[WEFT_MAX_RANKS];
    for (int i = 0; i < t->size; i++) counts[i] = (int64_t)sizeof(hash);
    WEFT_TRY(weft_comm_run(r->world, &(weft_transfer){.kind = WEFT_ALL_GATHER,
                                                      .dtype = WEFT_U8,
                                                      .what = "the check of versions and data",
                                                      .send = &hash,
                                                      .receive = all,
                                                      .counts = counts}));
    for (int i = 1; i < t->size; i++)
        if (all[i] != all[0])
            return weft_fail(WEFT_ERR_ARGUMENT,
                             "rank %d has another program, model or data than rank 0; install the "
                             "same weft and the same files on all machines",
                             i);
    return WEFT_OK;
}

static weft_status make_program(weft_rank *r)
{
    const weft_train_options *o = &r->job->options;
    weft_program_options p;
    weft_value fetch[2];
    const weft_value wanted[] = {r->values.loss, r->optimizer.learning_rate};
    weft_program_options_init(&p);
    for (int i = 0; i < 2; i++) {
        fetch[p.fetch_count] = weft_rewritten_value(r->mine, wanted[i]);
        p.fetch_count += fetch[p.fetch_count] != WEFT_NO_VALUE;
    }
    p.fetch = fetch;
    p.slots = r->schedule.slots;
    WEFT_TRY(weft_store_create(r->job->context, o->device, (uint64_t)o->seed, &r->store));
    WEFT_TRY(weft_instance_build_with(r->store, weft_rewritten_graph(r->mine), &p, &r->comms,
                                      &r->instance));
    if (!o->trace) return WEFT_OK;
    return weft_instance_trace(
        r->instance,
        (size_t)(2 * TRACED_STEPS * r->job->microbatches) *
            (size_t)weft_program_describe(weft_instance_program(r->instance)).instructions);
}

static weft_status count_parameters(weft_rank *r)
{
    if (r->rank != 0) return WEFT_OK;
    for (int v = 0; v < weft_graph_value_count(r->graph); v++) {
        weft_type type = weft_graph_value_type(r->graph, v);
        if (weft_graph_value_kind(r->graph, v) == WEFT_VALUE_PARAM)
            r->job->parameters += weft_shape_elements(&type.shape);
    }
    return WEFT_OK;
}

static void drop_plan(weft_rank *r)
{
    weft_instance_destroy(&r->instance);
    weft_store_destroy(&r->store);
    weft_schedule_free(&r->schedule);
    weft_rewritten_destroy(&r->mine);
    weft_plan_destroy(&r->plan);
    weft_graph_destroy(&r->graph);
}

/* Where ranks lay their values differently, all notice, and sum them in plain
 * layout. */
static weft_status plan_again(weft_rank *r)
{
    r->plain_sums = true;
    drop_plan(r);
    WEFT_TRY(weft_rank_rewrite(r));
    return make_program(r);
}

weft_status weft_rank_build(weft_rank *r)
{
    weft_trainer *t = r->job;
    WEFT_TRY(weft_rank_rewrite(r));
    WEFT_TRY(check_alike(r));
    WEFT_TRY(split_world(r));
    weft_status status = make_program(r);
    double differs = status == WEFT_ERR_UNSUPPORTED;
    if (status != WEFT_OK && status != WEFT_ERR_UNSUPPORTED) return status;
    WEFT_TRY(weft_sum_over(r->world, "whether ranks differ", &differs, 1));
    if (differs > 0) WEFT_TRY(plan_again(r));
    WEFT_TRY(count_parameters(r));
    r->position = t->resumed.position;
    if (t->resumed.path)
        WEFT_TRY(weft_checkpoint_load_learner(&t->resumed, r->store, r->graph, r->learner_index));
    if (t->learners > 1)
        WEFT_TRY(weft_exchange_open(t->options.exchange, r->between, r->store, &r->exchange));
    if (t->resumed.path && r->exchange)
        WEFT_TRY(weft_checkpoint_load_exchange(&t->resumed, r->exchange));
    WEFT_TRY(weft_comm_barrier(r->world));
    r->began = weft_seconds();
    weft_board_stage(&t->line, r->rank, WEFT_STAGE_BUILT);
    return WEFT_OK;
}

void weft_rank_free(weft_rank *r)
{
    weft_exchange_close(&r->exchange);
    weft_evaluator_destroy(&r->evaluator);
    drop_plan(r);
    weft_plan_close_comms(&r->comms);
    weft_comm_close(&r->learner);
    weft_comm_close(&r->between);
}
