/* The table of engines, and runs under a supervisor: derives the supervisor's options from those of
 * the run. */
#include "train/engine/engine.h"

#include "checkpoint/checkpoint.h"
#include "train/trainer.h"

/* The first is the engine of a run that names none. */
static const weft_train_engine *const engines[] = {
    &weft_train_engine_threads,
    &weft_train_engine_mpi,
    &weft_train_engine_processes,
    &weft_train_engine_simulated,
};

const weft_train_engine *weft_train_engine_of(const char *name)
{
    for (size_t i = 0; i < WEFT_COUNT(engines); i++)
        if (strcmp(engines[i]->name, name) == 0) return engines[i];
    static const weft_train_engine other = {.hosted = true};
    return &other;
}

weft_status weft_train_engine_look(const weft_context *context, weft_train_options *o)
{
    const weft_option *table = weft_train_table(context);
    const weft_train_engine *engine = weft_train_engine_of(o->job.engine);
    weft_train_options plain = {0};
    weft_status status = weft_train_options_init(context, &plain);
    if (status == WEFT_OK && engine->processes)
        status = weft_options_set(table, o, "engine", plain.job.engine);
    if (status == WEFT_OK && engine->launched) {
        weft_free(o->job.hosts);
        o->job.hosts = NULL;
    }
    if (engine->members || o->output.checkpoint) o->job.max_restarts = 0;
    if (status == WEFT_OK && o->output.checkpoint) {
        const weft_output_choice output = o->output;
        o->output = plain.output;
        plain.output = output;
    }
    weft_options_free(table, &plain);
    return status;
}

weft_status weft_job_text(const weft_train_options *o, char **out)
{
    WEFT_NEED(o, out);
    const char *processes = weft_train_engine_of(o->job.engine)->processes;
    bool learners = o->parallel.exchange != NULL;
    int64_t mesh = 1;
    *out = NULL;
    if (!processes) return WEFT_OK;
    /* The ranks report a text that is no mesh. */
    if (learners && o->parallel.mesh && weft_mesh_ranks(o->parallel.mesh, &mesh) != WEFT_OK)
        mesh = 1;
    int64_t count = o->job.ranks / mesh;
    if (count == 1)
        return weft_format(out, "1 %s as a process%s", learners ? "learner" : "rank",
                           processes + strlen("processes"));
    return weft_format(out, "%lld %ss as %s", (long long)count, learners ? "learner" : "rank",
                       processes);
}

weft_status weft_job_fit_launcher(const weft_context *context, weft_train_options *o)
{
    WEFT_NEED(context, o);
    if (weft_job_rank() < 0) return WEFT_OK;
    if (o->job.ranks == 1) o->job.ranks = 0;
    for (size_t i = 0; i < WEFT_COUNT(engines); i++)
        if (engines[i]->launched && weft_train_engine_of(o->job.engine) == engines[0])
            return weft_options_set(weft_train_table(context), o, "engine", engines[i]->name);
    return WEFT_OK;
}

static weft_job_options job_options(const weft_train_options *o)
{
    const weft_train_engine *engine = weft_train_engine_of(o->job.engine);
    return (weft_job_options){.mpi = engine->launched,
                              .members = engine->members,
                              .ranks = o->job.ranks,
                              .hosts = o->job.hosts,
                              .mesh = o->parallel.mesh,
                              .place = o->parallel.place,
                              .exchange = o->parallel.exchange,
                              .zero = o->parallel.zero,
                              .virtual_workers = o->length.virtual_workers,
                              .timeout = o->job.timeout,
                              .checkpoint = o->output.checkpoint,
                              .resume = o->output.resume,
                              .max_restarts = o->job.max_restarts};
}

/* Where processes are members, turns --resume off if there is no checkpoint. A member that is given
 * --resume refuses to begin with fresh weights, so the supervisor decides for all processes whether
 * the run is a new one. */
static weft_status find_start(const weft_context *context, weft_train_options *o)
{
    bool found;
    if (!weft_train_engine_of(o->job.engine)->members || !o->output.resume) return WEFT_OK;
    WEFT_TRY(weft_checkpoint_found(o->output.checkpoint, &found));
    if (found) return WEFT_OK;
    weft_log_new_run(context, o->output.checkpoint);
    o->output.resume = o->output.drop_state = false;
    return WEFT_OK;
}

bool weft_job_needs_supervisor(const weft_train_options *options)
{
    WEFT_NEED_ELSE(false, options);
    weft_job_options o = job_options(options);
    return weft_job_needed(&o);
}

weft_status weft_train_check_launched(const weft_train_options *options)
{
    weft_job_options o = job_options(options);
    return weft_job_check_launched(&o);
}

weft_status weft_job_check(const weft_context *context, const weft_train_options *options)
{
    WEFT_NEED(context, options);
    WEFT_TRY(weft_train_options_check(context, options));
    WEFT_TRY(weft_train_check_launched(options));
    const weft_train_engine *engine = weft_train_engine_of(options->job.engine);
    return engine->check ? engine->check(context, options) : WEFT_OK;
}

weft_status weft_job_run(const weft_context *context, const weft_train_options *options,
                         const char *program, char *const *arguments, weft_job_fn tell, void *user,
                         int *code)
{
    WEFT_NEED(context, options, program, code);
    if (!*program) return weft_fail(WEFT_ERR_ARGUMENT, "the program of a job has no name");
    WEFT_TRY(weft_train_options_check(context, options));
    const weft_train_engine *engine = weft_train_engine_of(options->job.engine);
    weft_train_options own;
    void *plan = NULL;
    if (!engine->plan) WEFT_NEED(arguments);
    if (options->output.checkpoint) WEFT_TRY(weft_folder_suits_run(options->output.checkpoint));
    WEFT_TRY(weft_train_options_copy(context, options, &own));
    weft_status status = find_start(context, &own);
    if (status == WEFT_OK) status = weft_train_place_devices(context, &own);
    weft_job_options o = job_options(&own);
    if (status == WEFT_OK && engine->plan) status = engine->plan(context, &own, &o, &plan);
    if (status == WEFT_OK) status = weft_job_supervise(&o, program, arguments, tell, user, code);
    if (engine->plan) engine->done(plan);
    weft_options_free(weft_train_table(context), &own);
    return status;
}
