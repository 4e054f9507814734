/* Builds one rank of a job: it checks that all ranks are alike, splits their communicators, opens
 * the exchange, and loads the state from the checkpoint with which the run resumes. */
#include "device/device.h"
#include "learner/learner_internal.h"
#include "program/program.h"

static uint64_t mix_numbers(uint64_t hash, const double *numbers, int count)
{
    for (int i = 0; i < count; i++) {
        uint64_t bits;
        memcpy(&bits, &numbers[i], sizeof(bits));
        hash = weft_mix(hash, bits);
    }
    return hash;
}

/* Sets *other to the first rank whose number differs from that of rank 0 (0: all are equal), and
 * numbers to those of rank 0 and of that rank. */
static weft_status find_other(weft_comm *comm, const char *what, uint64_t mine, int *other,
                              uint64_t numbers[2])
{
    int n = weft_comm_size(comm);
    uint64_t *all;
    WEFT_TRY(WEFT_NEW(&all, n));
    weft_status status =
        weft_comm_run(comm, WEFT_TRANSFER(.kind = WEFT_ALL_GATHER, .dtype = WEFT_U8, .what = what,
                                          .send = &mine, .receive = all, .count = sizeof(mine)));
    *other = 0;
    for (int i = n; i-- > 1;)
        if (all[i] != all[0]) *other = i;
    numbers[0] = all[0];
    numbers[1] = all[*other];
    free(all);
    return status;
}

/* ARGUMENT: a rank has another number type than rank 0. */
static weft_status check_types(const weft_rank *r)
{
    int other;
    uint64_t types[2];
    WEFT_TRY(find_other(r->world, "the check of number types", r->run_spec->real, &other, types));
    if (other == 0) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "rank %d has the number type %s, and rank 0 has %s; give all ranks the same "
                     "--dtype",
                     other, weft_dtype_name((weft_dtype)types[1]),
                     weft_dtype_name((weft_dtype)types[0]));
}

/* Compares a hash of version, graph and data statistics over all ranks. ARGUMENT: a rank differs
 * from rank 0. */
static weft_status check_alike(weft_rank *r)
{
    const weft_dataset *data = r->run_spec->data;
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
    if (r->run_spec->initial) hash = weft_mix(hash, weft_initial_hash(r->run_spec->initial));
    int other;
    uint64_t numbers[2];
    WEFT_TRY(check_types(r));
    WEFT_TRY(find_other(r->world, "the check of versions and data", hash, &other, numbers));
    if (other == 0) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "rank %d has another program, model or data%s than rank 0; install the same "
                     "weft and the same files on all machines",
                     other, r->run_spec->initial ? ", or other weights of --init" : "");
}

enum { HARDWARE = 384 };

/* Whether ranks a and b of the learner differ in their coordinate on the data axis alone. */
static bool share_workers(const weft_plan *plan, int a, int b)
{
    for (int axis = 1; weft_axis_name(axis); axis++)
        if (weft_plan_coordinate(plan, a, axis) != weft_plan_coordinate(plan, b, axis))
            return false;
    return true;
}

/* Fails if the ranks of the data axis, which share out virtual workers, have unlike devices: the
 * bits would depend on the number of ranks. */
static weft_status check_devices(weft_rank *r)
{
    const weft_run_spec *k = r->run_spec;
    int n = k->plan.ranks, mine = r->rank % n;
    char own[HARDWARE] = "", *all;
    if (k->plan.virtual_workers == 0 || n == 1) return WEFT_OK;
    weft_device_hardware(r->store->schema->devices[0], own, sizeof(own));
    WEFT_TRY(WEFT_NEW(&all, n * HARDWARE));
    weft_status status =
        weft_comm_run(r->learner, WEFT_TRANSFER(.kind = WEFT_ALL_GATHER, .dtype = WEFT_U8,
                                                .what = "the ranks' devices", .send = own,
                                                .receive = all, .count = HARDWARE));
    for (int i = 0; i < n && status == WEFT_OK; i++) {
        const char *other = all + (ptrdiff_t)i * HARDWARE;
        if (share_workers(r->plan, mine, i) && strcmp(own, other) != 0)
            status = weft_fail(WEFT_ERR_ARGUMENT,
                               "virtual workers give the same bits on every number of ranks, which "
                               "unlike devices do not: rank %d has %s, and rank %d has %s; give "
                               "them one device, or leave --virtual-workers out",
                               WEFT_MIN(mine, i), i < mine ? other : own, WEFT_MAX(mine, i),
                               i < mine ? own : other);
    }
    free(all);
    return status;
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

/* Makes the programs of all ranks again with plain parameters, if the devices of ranks that
 * exchange parameters lay them out differently. Ranks of a learner in lock step do not exchange
 * any. */
static weft_status lay_alike(weft_rank *r)
{
    const weft_run_spec *k = r->run_spec;
    const weft_exchange_ops *ops;
    const char *arguments;
    bool within = false;
    int other;
    uint64_t forms[2];
    if (k->cluster || weft_comm_size(r->between) < 2) return WEFT_OK;
    WEFT_TRY(weft_exchange_find(k->context, k->exchange, &ops, &arguments));
    WEFT_TRY(find_other(r->between, "parameter layouts", weft_store_form(r->store), &other, forms));
    if (!ops->lockstep) WEFT_TRY(weft_exchange_ranks_differ(r->learner, r->store, &within));
    double differ = within || other > 0;
    WEFT_TRY(weft_sum_over(r->world, "whether the layouts of parameters differ", &differ, 1));
    if (differ == 0) return WEFT_OK;
    r->plain_parameters = true;
    weft_rank_drop_programs(r);
    WEFT_TRY(weft_rank_rewrite(r));
    return weft_rank_make_programs(r);
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
    weft_exchange_setup setup = {.struct_size = sizeof(setup),
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
                                 .bf16_sums = r->run_spec->plan.bf16_sums,
                                 .saves = r->run_spec->saves,
                                 .optimizer = &r->elsewhere};
    bool shared = false;
    if (link) WEFT_TRY(weft_unsharded_is_needed(r, link->layout, &shared));
    WEFT_TRY(shared ? weft_unsharded_open(r, &setup, &r->exchange)
                    : weft_exchange_open(r->run_spec->exchange, &setup, &r->exchange));
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

/* Replaces random initial weights by given ones, before an exchange sends any. */
static weft_status load_initial(const weft_rank *r)
{
    const weft_run_spec *k = r->run_spec;
    char *text;
    if (!k->initial) return WEFT_OK;
    WEFT_TRY(weft_initial_load(k->initial, r->graph, &r->values, r->store, &text));
    if (weft_rank_speaks(r)) weft_log(k->context, WEFT_LOG_NOTE, "%s", text);
    free(text);
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
    } else {
        WEFT_TRY(load_initial(r));
    }
    if (k->cluster || weft_comm_size(r->between) > 1) WEFT_TRY(open_exchange(r));
    if (!k->resumed) return WEFT_OK;
    WEFT_TRY(weft_checkpoint_load_exchange(k->resumed, r->exchange, learner, dropped));
    return r->exchange ? agree_on_restored(r) : WEFT_OK;
}

bool weft_rank_speaks(const weft_rank *r)
{
    const weft_run_spec *k = r->run_spec;
    return r->rank == 0 && (r->learner_index == 0 || (k->cluster && !k->cluster->job));
}

/* A learner may queue steps. With several learners their exchange takes part in each step. */
static weft_status try_ahead(weft_rank *r)
{
    weft_value loss = weft_rank_loss(r);
    weft_ahead_options o = {.loss = WEFT_NO_VALUE,
                            .dtype = weft_graph_value_type(r->graph, loss).dtype,
                            .schedule = &r->schedule,
                            .captures = true};
    if (weft_rewritten_counts(r->mine, loss)) o.loss = weft_rewritten_value(r->mine, loss);
    if (r->exchange) return WEFT_OK;
    return weft_run_ahead_open(r->instance, &o, &r->runs_ahead);
}

weft_status weft_rank_build(weft_rank *r)
{
    const weft_run_spec *k = r->run_spec;
    WEFT_TRY(weft_rank_rewrite(r));
    WEFT_TRY(check_alike(r));
    WEFT_TRY(split_world(r));
    WEFT_TRY(weft_rank_make_programs(r));
    WEFT_TRY(lay_alike(r));
    WEFT_TRY(check_devices(r));
    weft_dropped dropped = {0};
    bool speaks = weft_rank_speaks(r);
    weft_status status = open_with_state(r, k->drops ? &dropped : NULL);
    if (status == WEFT_OK && speaks) status = weft_dropped_report(&dropped, k->context, k->resumed);
    weft_dropped_free(&dropped);
    WEFT_TRY(status);
    WEFT_TRY(try_ahead(r));
    WEFT_TRY(weft_noise_open(r));
    if (r->merged && speaks)
        weft_log(k->context, WEFT_LOG_NOTE,
                 "the learners in %s differ; this run begins with their mean", k->resumed->path);
    WEFT_TRY(weft_comm_barrier(r->world));
    r->began = weft_seconds();
    return WEFT_OK;
}

void weft_rank_free(weft_rank *r)
{
    weft_noise_close(r);
    weft_exchange_close(&r->exchange);
    weft_learner_group_close(&r->endpoint);
    weft_rank_drop_programs(r);
    free(r->shares);
    r->shares = NULL;
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
    out->noise = NULL;
    out->averages = NULL;
    out->runs_ahead = false;
    weft_status status = weft_comm_open(r->run_spec->context, "self", 1, &out->world, &local);
    if (status == WEFT_OK) status = weft_comm_split(out->world, 0, 0, &out->learner);
    weft_program *program = (weft_program *)(uintptr_t)weft_instance_program(r->instance);
    if (status == WEFT_OK)
        status = weft_instance_create(program, r->store, &r->comms, &out->instance);
    if (status == WEFT_OK) status = weft_averages_clone(r, out);
    if (status != WEFT_OK) weft_rank_free_clone(out);
    return status;
}

void weft_rank_free_clone(weft_rank *r)
{
    weft_averages_close(r);
    weft_instance_destroy(&r->instance);
    weft_comm_close(&r->learner);
    weft_comm_close(&r->world);
}
