/* Creates a trainer: opens the communicators of the ranks, the data and the checkpoint to resume
 * from, builds the ranks of this process, and runs tasks on all of them, in one thread for each. */
#include "train/estimate/first_steps.h"
#include "train/trainer.h"

/* Gives the trainer a context of its own with the threads of a rank, of which `here` share this
 * machine; the caller's context is not changed. */
static weft_status take_threads(weft_trainer *t, int here)
{
    int threads = (int)t->options.where.threads;
    if (threads == 0 && t->listed_cores > 0) threads = t->listed_cores;
    if (threads == 0) threads = weft_default_threads(here, &t->threads_by);
    WEFT_TRY(weft_context_with_threads(t->context, threads, &t->own));
    t->context = t->own;
    return WEFT_OK;
}

static weft_status open_ranks(weft_trainer *t)
{
    const weft_train_options *o = &t->options;
    const char *alone = o->job.ranks <= 1 ? t->engine->alone : NULL;
    weft_status_page_open(&t->line);
    WEFT_TRY(weft_comm_open(t->context, alone ? alone : o->job.engine, (int)o->job.ranks, t->worlds,
                            &t->local));
    t->size = weft_comm_size(t->worlds[0]);
    if (t->engine->launched) WEFT_TRY(weft_job_check_world(t->size));
    if (t->link.job) t->line.first = t->link.slot * t->size;
    t->link.late = t->rejoins || (t->link.job && weft_status_page_furthest(&t->line) > 0);
    WEFT_TRY(WEFT_NEW(&t->runs, t->local));
    for (int i = 0; i < t->local; i++) {
        weft_comm_set_timeout(t->worlds[i], t->options.job.timeout);
        weft_comm_set_check(t->worlds[i], t->options.job.check_collectives);
        weft_status_page_note(&t->line, t->worlds[i]);
        t->runs[i] = (weft_run){.job = t, .saved_step = -1, .evaluated_step = {-1, -1, -1}};
        t->runs[i].rank = (weft_rank){
            .run_spec = &t->run_spec, .world = t->worlds[i], .rank = weft_comm_rank(t->worlds[i])};
    }
    int here = weft_comm_local_size(t->worlds[0]);
    WEFT_TRY(weft_trainer_find_cores(t, here));
    return take_threads(t, here);
}

/* --- ranks --- */

static void *run_task(void *user)
{
    weft_run *run = user;
    weft_trainer *t = run->job;
    weft_comm *world = run->rank.world;
    void *before = t->cores ? weft_core_sets_enter(t->cores, weft_comm_local_rank(world)) : NULL;
    weft_status status = run->task(run);
    weft_core_sets_leave(t->cores, before);
    if (status == WEFT_OK) return NULL;
    /* The first error is kept, except that an error that tells of another rank's failure (PEER) is
     * replaced by the error of the rank that failed. */
    pthread_mutex_lock(&t->lock);
    if (t->error.status == WEFT_ERR_PEER && status != WEFT_ERR_PEER) t->error = (weft_error){0};
    weft_error_catch(&t->error, status);
    pthread_mutex_unlock(&t->lock);
    /* A rank that is stopped has taken part in all collectives, unless it alone gave up waiting. */
    if (status != WEFT_ERR_INTERRUPTED || !run->rank.ended) weft_comm_abort(world);
    return NULL;
}

weft_status weft_trainer_everywhere(weft_trainer *t, weft_status (*task)(weft_run *run))
{
    int started = 1;
    weft_status status = WEFT_OK;
    t->error = (weft_error){0};
    for (int i = 0; i < t->local; i++) t->runs[i].task = task;
    for (; started < t->local; started++) {
        status = weft_thread_start(&t->runs[started].thread, run_task, &t->runs[started]);
        if (status != WEFT_OK) break;
    }
    if (started < t->local) {
        pthread_mutex_lock(&t->lock); /* threads that were started may record errors meanwhile */
        t->error = (weft_error){0};
        weft_error_catch(&t->error, weft_fail_within(status, "the threads of %d ranks", t->local));
        pthread_mutex_unlock(&t->lock);
        weft_comm_abort(t->runs[0].rank.world);
    } else {
        (void)run_task(&t->runs[0]);
    }
    for (int i = 1; i < started; i++) pthread_join(t->runs[i].thread, NULL);
    return weft_error_raise(&t->error);
}

static weft_status build(weft_run *run)
{
    weft_trainer *t = run->job;
    weft_rank *r = &run->rank;
    WEFT_TRY(weft_rank_build(r));
    if (r->rank == 0) t->parameters = weft_rank_parameters(r);
    weft_status_page_stage(&t->line, r->rank, WEFT_STAGE_BUILT);
    return WEFT_OK;
}

/* Estimates a step, on rank 0 of the job, as one of a run without phases. */
static weft_status estimate_steps(weft_trainer *t)
{
    weft_train_options o = t->options;
    if (!o.show.estimate || t->runs[0].rank.rank != 0) return WEFT_OK;
    if (t->linked)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "estimate: learners that are processes come and go, and a step is "
                         "estimated for all ranks of a run; leave it out, or give --engine threads "
                         "or mpi");
    o.job.ranks = t->size;
    o.length.phases = o.parallel.rechoose = NULL;
    return weft_first_steps_new(t->context, &o, &t->first_steps);
}

static weft_status make(weft_trainer *t)
{
    WEFT_TRY(weft_train_check_ranks(&t->options));
    if (!t->linked) WEFT_TRY(weft_train_check_launched(&t->options));
    WEFT_TRY(open_ranks(t));
    WEFT_TRY(weft_trainer_find_resumed(t));
    WEFT_TRY(weft_trainer_count_learners(t));
    WEFT_TRY(weft_trainer_open_data(t));
    if (t->linked) WEFT_TRY(weft_trainer_describe_data(t));
    WEFT_TRY(weft_trainer_read_model(t));
    WEFT_TRY(weft_trainer_write_run_spec(t));
    WEFT_TRY(weft_trainer_note_changes(t));
    WEFT_TRY(weft_trainer_tune(t));
    WEFT_TRY(weft_trainer_everywhere(t, build));
    weft_trainer_note_untuned(t);
    weft_checkpoint_unmap(&t->resumed);
    t->run_spec.initial = NULL;
    weft_initial_close(&t->initial);
    WEFT_TRY(weft_trainer_check_servers(t));
    WEFT_TRY(weft_trainer_prepare_phases(t));
    WEFT_TRY(weft_rechoice_estimate(t));
    return estimate_steps(t);
}

/* Creates a trainer that has only its options. *out must be destroyed even on failure, unless it is
 * NULL. */
static weft_status begin(weft_context *context, const weft_train_options *options,
                         weft_trainer **out)
{
    weft_trainer *t;
    *out = NULL;
    WEFT_TRY(WEFT_NEW(&t, 1));
    *out = t;
    t->context = context;
    t->folder_lock = -1;
    t->line.deaf = true;
    t->tuning_took = -1;
    pthread_mutex_init(&t->lock, NULL);
    WEFT_TRY(weft_train_options_copy(t->context, options, &t->options));
    t->engine = weft_train_engine_of(t->options.job.engine);
    WEFT_TRY(weft_train_place_devices(t->context, &t->options));
    WEFT_TRY(weft_options_check(weft_train_table(t->context), &t->options));
    return weft_settings_take(weft_train_table(t->context), &t->options, &t->settings);
}

/* The number of ranks on a machine, if --hosts have equally many. */
static int ranks_of_host(const weft_trainer *t)
{
    int hosts = 1;
    for (const char *at = t->options.job.hosts; at && *at; at++) hosts += *at == ',';
    return (t->size + hosts - 1) / hosts;
}

weft_status weft_trainer_prepare(weft_context *context, const weft_train_options *options,
                                 const weft_train_engine *engine, weft_trainer **out)
{
    weft_trainer *t;
    weft_status status = begin(context, options, &t);
    if (!t) return status;
    if (engine) t->engine = engine;
    t->run_spec.simulated = t->engine && t->engine->simulated;
    t->run_spec.threads = t->engine && !t->engine->processes;
    if (status == WEFT_OK) t->size = (int)WEFT_MAX(t->options.job.ranks, (int64_t)1);
    if (status == WEFT_OK) status = weft_train_check_ranks(&t->options);
    if (status == WEFT_OK) status = weft_trainer_count_learners(t);
    if (status == WEFT_OK) status = WEFT_NEW(&t->runs, t->mesh);
    if (status == WEFT_OK) t->local = t->mesh;
    if (status == WEFT_OK) status = take_threads(t, ranks_of_host(t));
    if (status == WEFT_OK) status = weft_trainer_open_data(t);
    if (status == WEFT_OK) status = weft_trainer_read_model(t);
    if (status == WEFT_OK) status = weft_trainer_write_run_spec(t);
    if (status == WEFT_OK) status = weft_trainer_tune(t);
    if (status != WEFT_OK) {
        weft_trainer_destroy(&t);
        return status;
    }
    *out = t;
    return WEFT_OK;
}

static weft_status copy_text(const char *from, weft_bytes *out)
{
    char *text;
    WEFT_TRY(weft_strdup(from, &text));
    *out = (weft_bytes){.data = (unsigned char *)text, .size = strlen(text)};
    return WEFT_OK;
}

static weft_status take_joining(weft_trainer *t, const weft_joining *j)
{
    if (!j) return WEFT_OK;
    t->linked = true;
    t->link =
        (weft_learner_link){.slot = j->slot,
                            .learners = j->learners,
                            .job = j->job,
                            .run = j->run,
                            .saves = t->options.output.checkpoint && (!j->job || j->slot == 0),
                            .removal = &t->removal,
                            .stop = &t->stop};
    t->rejoins = j->rejoins;
    t->advises_rejoin = j->advises_rejoin;
    t->stops = j->stop;
    t->begun = j->begun;
    t->run_steps = j->steps;
    t->place = j->place;
    t->run_spec.plain_parameters = j->plain_parameters;
    t->link.layout = j->layout;
    if (j->coordinator) WEFT_TRY(weft_strdup(j->coordinator, &t->link_texts[0]));
    WEFT_TRY(weft_strdup(t->options.task.model, &t->link_texts[1]));
    if (j->listen) WEFT_TRY(weft_strdup(j->listen, &t->link_texts[3]));
    if (j->device) WEFT_TRY(weft_strdup(j->device, &t->link_texts[4]));
    if (j->otherwise) WEFT_TRY(weft_strdup(j->otherwise, &t->link_texts[5]));
    t->link.device = t->link_texts[4];
    t->link.otherwise = t->link_texts[5];
    t->link.coordinator = t->link_texts[0];
    t->link.listen = t->link_texts[3];
    t->link.model = t->link_texts[1];
    if (j->tuning) WEFT_TRY(copy_text(j->tuning, &t->tuning));
    return j->model ? copy_text(j->model, &t->model) : WEFT_OK;
}

weft_status weft_trainer_create_joining(weft_context *context, const weft_train_options *options,
                                        const weft_joining *joining, weft_trainer **out)
{
    weft_trainer *t;
    weft_status status = begin(context, options, &t);
    if (!t) return status;
    if (status == WEFT_OK) status = take_joining(t, joining);
    if (status == WEFT_OK) status = make(t);
    if (status != WEFT_OK) {
        /* All ranks know of a stop. */
        for (int i = 0; i < t->local && status != WEFT_ERR_INTERRUPTED; i++)
            weft_comm_abort(t->worlds[i]);
        weft_trainer_destroy(&t);
        return status;
    }
    *out = t;
    return WEFT_OK;
}

weft_status weft_trainer_create(weft_context *context, const weft_train_options *options,
                                weft_trainer **out)
{
    WEFT_NEED(context, options, out);
    return weft_trainer_create_joining(context, options, NULL, out);
}

weft_status weft_trainer_create_passing(weft_context *context, const weft_train_options *options,
                                        const weft_stop *stop, bool traced, weft_trainer **out)
{
    weft_trainer *t;
    weft_status status = begin(context, options, &t);
    if (!t) return status;
    t->run_spec.traced = traced;
    t->run_spec.stop = stop ? &stop->wanted : NULL;
    t->stops = stop;
    if (status == WEFT_OK) status = make(t);
    if (status == WEFT_OK)
        *out = t;
    else
        weft_trainer_destroy(&t);
    return status;
}

void weft_trainer_release(weft_trainer *t)
{
    for (int i = 0; t->runs && i < t->local; i++) {
        weft_rank_free(&t->runs[i].rank);
        free(t->runs[i].planned);
    }
    for (int i = 0; i < t->local; i++) weft_comm_close(&t->worlds[i]);
    free(t->runs);
    t->runs = NULL;
    t->local = 0;
    weft_dataset_close(&t->data);
}

void weft_trainer_destroy(weft_trainer **trainer)
{
    if (!trainer || !*trainer) return;
    weft_trainer *t = *trainer;
    (void)!weft_metrics_close(&t->metrics);
    weft_first_steps_free(&t->first_steps);
    weft_rechoice_free(&t->rechoice);
    (void)!weft_output_close(&t->trace, false);
    weft_program_destroy(&t->dry);
    weft_trainer_release(t);
    free(t->run_spec.profile);
    free((void *)(uintptr_t)t->model.data);
    free((void *)(uintptr_t)t->tuning.data);
    free(t->tuned_by);
    free(t->metric_names);
    weft_checkpoint_close(&t->resumed);
    weft_initial_close(&t->initial);
    weft_folder_unlock(&t->folder_lock);
    weft_status_page_close(&t->line);
    weft_core_sets_free(&t->cores);
    weft_settings_free(&t->settings);
    for (size_t i = 0; i < WEFT_COUNT(t->link_texts); i++) free(t->link_texts[i]);
    weft_options_free(weft_train_table(t->context), &t->options);
    pthread_mutex_destroy(&t->lock);
    weft_context_destroy(&t->own);
    free(t);
    *trainer = NULL;
}

void weft_trainer_stop(weft_trainer *t)
{
    WEFT_NEED_VOID_AS("trainer", t);
    atomic_store_explicit(&t->stop, 1, memory_order_relaxed);
}

bool weft_trainer_stop_requested(void *trainer)
{
    weft_trainer *t = trainer;
    pthread_mutex_lock(&t->lock);
    bool said = weft_stop_wanted(t->stops);
    if (said || (t->runs[0].rank.rank == 0 && weft_status_page_listen(&t->line)))
        weft_trainer_stop(t);
    pthread_mutex_unlock(&t->lock);
    return atomic_load_explicit(&t->stop, memory_order_relaxed);
}

const weft_train_options *weft_trainer_options(const weft_trainer *t)
{
    WEFT_NEED_ELSE_AS(NULL, "trainer", t);
    return &t->options;
}
const weft_dataset *weft_trainer_data(const weft_trainer *t)
{
    WEFT_NEED_ELSE_AS(NULL, "trainer", t);
    return t->data;
}

const weft_graph *weft_trainer_graph(const weft_trainer *t)
{
    WEFT_NEED_ELSE_AS(NULL, "trainer", t);
    return weft_rewritten_graph(t->runs[0].rank.mine);
}
bool weft_trainer_output(const weft_trainer *t, int i, weft_model_output *out)
{
    WEFT_NEED_ELSE_AS(false, "trainer, out", t, out);
    const weft_rank *r = &t->runs[0].rank;
    return weft_model_output_at(r->graph, &r->values, i, out, NULL);
}
weft_status weft_trainer_trace_text(const weft_trainer *t, char **out)
{
    WEFT_NEED_AS("trainer, out", t, out);
    return weft_instance_trace_table(t->runs[0].rank.instance, out);
}
const weft_program *weft_trainer_program(const weft_trainer *t)
{
    WEFT_NEED_ELSE_AS(NULL, "trainer", t);
    return t->dry ? t->dry : weft_instance_program(t->runs[0].rank.instance);
}
