/* Simulates a training run in virtual time: the exchange's actors run in the simulator, which
 * models the duration of steps and messages, while the results of the learners' steps are really
 * computed. */
#include <math.h>

#include "train/estimate/learner_time.h"
#include "train/sim/sim_internal.h"

/* --- callbacks of the simulator --- */

static int learner_index(const weft_simulation *s, weft_actor_id id)
{
    return weft_placed_learner(&s->at, id);
}

static weft_status make(void *user, weft_actor_id id, int life, weft_actor **out)
{
    weft_simulation *s = user;
    (void)life;
    return s->exchange->ops->make(s->exchange, id, out);
}

static weft_sim_link link_of(void *user, weft_actor_id from, weft_actor_id to)
{
    return weft_placed_link(&((const weft_simulation *)user)->at, from, to);
}

static bool crosses(void *user, weft_actor_id from, weft_actor_id to)
{
    return weft_placed_crosses(&((const weft_simulation *)user)->at, from, to);
}

static weft_sim_delay work(void *user, const weft_actor *actor, weft_work_kind kind,
                           const char *codec, double bytes, int computing)
{
    weft_simulation *s = user;
    int host = weft_placed_host(&s->at, actor->id);
    return weft_placed_work(&s->placed, host, kind, codec, bytes, computing);
}

static weft_status compute(void *user, weft_actor *actor, int64_t ticket, weft_sim_work *work)
{
    weft_simulation *s = user;
    int i = learner_index(s, actor->id);
    weft_sim_learner *p = &s->learner[i];
    if (ticket != p->steps + 1)
        return weft_fail(WEFT_ERR_INTERNAL, "step %lld is requested after step %lld",
                         (long long)ticket, (long long)p->steps);
    if (s->due) WEFT_TRY(weft_simulation_evaluate(s, false));
    work->seconds = s->placed.learners
                        ? weft_placed_step(&s->placed, i)
                        : weft_cluster_step(&s->cluster, i, s->step.flops, &p->random);
    p->takes = work->seconds;
    work->parts = s->makes;
    work->part_count = s->parts;
    return WEFT_OK;
}

/* The learner has all parameters that the step needs: a thread starts to compute the step.
 * `computed` waits for the result when virtual time has reached the end of the step. */
static weft_status supplied(void *user, weft_actor *actor, int64_t ticket)
{
    weft_simulation *s = user;
    (void)ticket;
    weft_simulation_submit(s, learner_index(s, actor->id));
    return WEFT_OK;
}

static weft_status computed(void *user, weft_actor *actor, int64_t ticket)
{
    weft_simulation *s = user;
    int i = learner_index(s, actor->id);
    (void)ticket;
    weft_status status = weft_simulation_wait(s, i);
    weft_error_catch(&s->error, status);
    return status;
}

static weft_status ended(void *user, weft_actor *actor, int64_t ticket)
{
    weft_simulation *s = user;
    (void)ticket;
    return weft_simulation_count_step(s, &s->learner[learner_index(s, actor->id)]);
}

/* Pauses, and ends the simulation if a signal has asked for it. The simulator calls this before
 * each event, since no step may ever end when messages are lost. */
static weft_status before_event(void *user)
{
    weft_simulation *s = user;
    const weft_pauses *p = s->pauses;
    double next = weft_sim_next(s->sim);
    if (p && p->due(p->user, next)) WEFT_TRY(weft_simulation_pause(s, next));
    if (!weft_stop_wanted(s->stop)) return WEFT_OK;
    return weft_fail(WEFT_ERR_INTERRUPTED, "stopped before an event");
}

/* --- the run --- */

static weft_status open_actors(weft_simulation *s)
{
    const weft_run_spec *k = &s->job->run_spec;
    weft_optimizer_options *elsewhere = &s->lead->elsewhere;
    *elsewhere = k->optimizer;
    elsewhere->clip_norm = 0;
    elsewhere->accumulate = 1;
    weft_sim_exchange_options sim_options = {.struct_size = sizeof(sim_options),
                                             .context = k->context,
                                             .store = s->lead->store,
                                             .optimizer = elsewhere,
                                             .learners = s->learners,
                                             .servers = k->servers,
                                             .codec = k->codec,
                                             .back = k->back,
                                             .steps = s->job->total_steps,
                                             .dtype = s->dtype,
                                             .count = s->count,
                                             .parameters = s->parameters,
                                             .gradients = s->gradients,
                                             .weights = s->weights,
                                             .empty = s->empty};
    return weft_sim_exchange_open(k->exchange, &sim_options, &s->exchange);
}

/* Adds the cause to a failure of an actor that has heard nothing for too long: no process of a
 * simulation dies, so its links deliver too little. */
static weft_status explain_silence(const weft_simulation *s, weft_status status)
{
    weft_sim_report r = weft_sim_stats(s->sim);
    return weft_fail(status,
                     "%s; no process of a simulation ends early, so the links of --cluster deliver "
                     "too little: %llu of %llu messages were lost, %zu bytes are under way; give a "
                     "smaller 'lost' or a greater 'bandwidth'",
                     weft_last_message(), (unsigned long long)r.lost,
                     (unsigned long long)r.messages, r.held_bytes);
}

/* Until no event is left. A step that takes longer than any run on real machines waits comes from a
 * cluster file with wrong numbers. */
static weft_status run_events(weft_simulation *s)
{
    int64_t all = s->job->total_steps * s->learners, done;
    do {
        double until = s->done < all ? s->last + WEFT_SIM_LONGEST : INFINITY;
        done = s->done;
        WEFT_TRY(weft_sim_run(s->sim, until));
        if (weft_sim_stats(s->sim).now < until) return WEFT_OK;
    } while (s->done > done);
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "no learner ends a step within a day of virtual time (%lld of %lld steps, the "
                     "last one at %g s); give --cluster a file with a smaller 'step' or a greater "
                     "'rate', 'speed', 'awake' or 'bandwidth'",
                     (long long)done, (long long)all, s->last);
}

static weft_status run(weft_simulation *s)
{
    weft_sim_options options = {.struct_size = sizeof(options),
                                .seed = (uint64_t)s->job->options.task.seed,
                                .link_of = link_of,
                                .work = s->placed.learners ? work : NULL,
                                .crosses = crosses,
                                .make = make,
                                .compute = compute,
                                .needs = s->needs,
                                .need_count = s->parts,
                                .supplied = supplied,
                                .computed = computed,
                                .ended = ended,
                                .check = before_event,
                                .user = s};
    WEFT_TRY(weft_sim_create(&options, &s->sim));
    WEFT_TRY(weft_placed_add(&s->at, s->sim, NULL));
    weft_status status = run_events(s);
    /* The error of a learner's step comes first, since the simulator's own message names the actor
     * only by its number. */
    if (s->error.status != WEFT_OK)
        status = weft_error_raise(&s->error);
    else if (status == WEFT_ERR_PEER)
        status = explain_silence(s, status);
    if (status == WEFT_OK) status = weft_simulation_finish(s);
    return status == WEFT_ERR_INTERRUPTED ? weft_simulation_give_up(s) : status;
}

/* Builds the first rank of the job, the only real one. The workers' ranks and the learners' stores
 * are clones of its own. */
static weft_status build_lead(weft_simulation *s)
{
    weft_trainer *t = s->job;
    int local = 0;
    int64_t all = t->options.length.batch * s->learners;
    WEFT_TRY(weft_trainer_find_resumed(t));
    WEFT_TRY(weft_comm_open(t->context, "self", 1, &t->worlds[0], &local));
    s->lead = &t->runs[0].rank;
    *s->lead = (weft_rank){.run_spec = &t->run_spec, .world = t->worlds[0]};
    WEFT_TRY(weft_rank_build(s->lead));
    t->parameters = weft_rank_parameters(s->lead);
    WEFT_TRY(weft_trainer_check_servers(t));
    s->epoch = (t->samples + all - 1) / all;
    weft_overlapped_init(weft_instance_program(s->lead->instance), t->run_spec.microbatches,
                         &s->step);
    return WEFT_OK;
}

static weft_status build(weft_simulation *s)
{
    WEFT_TRY(build_lead(s));
    WEFT_TRY(weft_simulation_start_learners(s));
    WEFT_TRY(open_actors(s));
    s->at = (weft_placed_actors){.cluster = &s->cluster,
                                 .exchange = s->exchange,
                                 .machine = s->placed.machine,
                                 .links = s->placed.links,
                                 .learners = s->learners,
                                 .processes = s->placed.processes,
                                 .hosted = s->placed.hosted};
    if (s->placed.learners) s->at.cluster = &s->site.cluster;
    return weft_overlap_find(&s->step, s->exchange, &s->needs, &s->makes, &s->parts);
}

static weft_status play(weft_simulation *s)
{
    WEFT_TRY(build(s));
    WEFT_TRY(weft_trainer_open_outputs(s->job, 0));
    WEFT_TRY(weft_metrics_begin(s->job, s->lead));
    WEFT_TRY(weft_simulation_report_start(s));
    return run(s);
}

/* A simulated learner is one rank, whatever its mesh is: only its times are those of the mesh. */
static weft_status as_one_rank(weft_context *context, weft_train_options *o)
{
    weft_train_options plain = {0};
    weft_parallel_choice *p = &o->parallel;
    char **texts[] = {&p->mesh, &p->shard, &p->shares};
    for (size_t i = 0; i < WEFT_COUNT(texts); i++) {
        free(*texts[i]);
        *texts[i] = NULL;
    }
    p->zero = 0;
    weft_status status = weft_train_options_init(context, &plain);
    if (status == WEFT_OK)
        status =
            weft_options_set(weft_train_table(context), o, "schedule", plain.parallel.schedule);
    weft_options_free(weft_train_table(context), &plain);
    return status;
}

/* Where the cluster has times of kernels, learners and servers are on its machines as in a job, and
 * steps take the time of their programs. */
static weft_status place(weft_simulation *s, weft_context *context, const weft_train_options *o,
                         const char *cluster)
{
    if (!s->cluster.times) return WEFT_OK;
    WEFT_TRY(weft_site_open(cluster, &s->site));
    return weft_estimate_placed(context, o, &s->site, s->stop, s->learners, &s->placed);
}

/* Prepares a run with the learners of the cluster file. Each step is computed with as many threads
 * as in a real run of these learners. */
static weft_status prepare(weft_simulation *s, weft_context *context,
                           const weft_simulate_options *given)
{
    weft_train_options o;
    int64_t ranks = WEFT_MAX(given->train.job.ranks, (int64_t)1), mesh;
    WEFT_TRY(weft_sim_exchange_check(context, given->train.parallel.exchange));
    WEFT_TRY(weft_cluster_open(given->cluster, &ranks, &s->cluster));
    WEFT_TRY(weft_train_learners(&given->train, ranks, &mesh, &s->learners));
    if (mesh > 1 && !s->cluster.times)
        return weft_fail(
            WEFT_ERR_ARGUMENT,
            "mesh '%s': the time of a step of several ranks is estimated from times of "
            "kernels; give --cluster a file of weft measure, or leave --mesh out",
            given->train.parallel.mesh);
    WEFT_TRY(weft_train_options_copy(context, &given->train, &o));
    o.job.ranks = ranks;
    weft_status status = place(s, context, &o, given->cluster);
    if (status == WEFT_OK) status = as_one_rank(context, &o);
    o.job.ranks = s->learners;
    if (status == WEFT_OK)
        status = weft_trainer_prepare(context, &o, &weft_train_engine_simulated, &s->job);
    if (status == WEFT_OK) s->job->run_spec.stop = s->stop ? &s->stop->wanted : NULL;
    weft_options_free(weft_train_table(context), &o);
    return status;
}

static void destroy(weft_simulation *s)
{
    weft_thread_pool_close(&s->pool);
    weft_sim_destroy(&s->sim);
    weft_sim_exchange_close(&s->exchange);
    weft_simulation_stop_learners(s);
    weft_trainer_destroy(&s->job);
    weft_cluster_free(&s->cluster);
    free(s->needs);
    free(s->makes);
    weft_placed_learners_close(&s->placed);
    weft_site_close(&s->site);
}

static weft_status check(weft_context *context, const weft_simulate_options *given)
{
    const weft_option *table = weft_simulate_table(context);
    WEFT_TRY(weft_train_options_check(context, &given->train));
    if (given->struct_size != sizeof(*given))
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "the struct_size of weft_simulate_options is %zu, must be %zu; "
                         "weft_simulate_options_init sets it",
                         given->struct_size, sizeof(*given));
    WEFT_CHECK_ROOM("weft_simulate_options", given);
    WEFT_TRY(weft_options_check(table, given));
    if (given->cluster)
        WEFT_TRY(
            weft_options_refuse_overwrite(table, given, "the file of --cluster", given->cluster));
    WEFT_TRY(weft_train_check_ranks(&given->train));
    if (strchr(given->train.where.device, ','))
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "device '%s': the learners of a simulation share one program; give one "
                         "device",
                         given->train.where.device);
    return WEFT_OK;
}

weft_status weft_simulate(weft_context *context, const weft_simulate_options *options,
                          const weft_stop *stop, weft_event_fn fn, void *user)
{
    return weft_simulate_paused(context, options, stop, NULL, fn, user);
}

weft_status weft_simulate_paused(weft_context *context, const weft_simulate_options *options,
                                 const weft_stop *stop, const weft_pauses *pauses, weft_event_fn fn,
                                 void *user)
{
    WEFT_NEED(context, options);
    weft_simulation s = {.rated_until = -1, .stop = stop, .pauses = pauses, .met = INFINITY};
    bool waits;
    WEFT_TRY(check(context, options));
    WEFT_TRY(weft_learners_wait(context, options->train.parallel.exchange, &waits));
    if (waits) return weft_simulate_synchronous(context, options, stop, pauses, fn, user);
    weft_status status = prepare(&s, context, options);
    if (status == WEFT_OK) {
        s.job->fn = fn;
        s.job->user = user;
        status = play(&s);
    }
    destroy(&s);
    return status;
}

weft_status weft_simulate_check(weft_context *context, const weft_simulate_options *options)
{
    WEFT_NEED(context, options);
    weft_simulation s = {.rated_until = -1};
    bool waits;
    WEFT_TRY(check(context, options));
    WEFT_TRY(weft_learners_wait(context, options->train.parallel.exchange, &waits));
    if (waits) return weft_simulate_synchronous_check(context, options);
    weft_status status = prepare(&s, context, options);
    if (status == WEFT_OK) status = build(&s);
    destroy(&s);
    return status;
}
