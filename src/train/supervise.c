/* Runs a training run under a supervisor: derives the supervisor's options, and with engine
 * processes the command line of each process, from the options of the run. */
#include "checkpoint/checkpoint.h"
#include "job/job.h"
#include "train/elastic/engine_processes.h"
#include "train/trainer.h"

static weft_job_options job_options(const weft_train_options *o)
{
    return (weft_job_options){.mpi = strcmp(o->job.engine, "mpi") == 0,
                              .members = strcmp(o->job.engine, "processes") == 0,
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

/* With engine processes, turns --resume off if there is no checkpoint. A member that is given
 * --resume refuses to begin with fresh weights, so the supervisor decides for all processes whether
 * the run is a new one. */
static weft_status find_start(const weft_context *context, weft_train_options *o)
{
    bool found;
    if (strcmp(o->job.engine, "processes") != 0 || !o->output.resume) return WEFT_OK;
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
    weft_process_plan p = {.count = 0};
    WEFT_TRY(weft_train_options_check(context, options));
    weft_job_options o = job_options(options);
    WEFT_TRY(weft_job_check_launched(&o));
    weft_status status = o.members ? weft_process_plan_make(context, options, &p) : WEFT_OK;
    weft_process_plan_free(&p);
    return status;
}

weft_status weft_job_run(const weft_context *context, const weft_train_options *options,
                         const char *program, char *const *arguments, weft_job_fn tell, void *user,
                         int *code)
{
    WEFT_NEED(context, options, program, code);
    if (!*program) return weft_fail(WEFT_ERR_ARGUMENT, "the program of a job has no name");
    WEFT_TRY(weft_train_options_check(context, options));
    weft_train_options own = *options;
    if (own.output.checkpoint) WEFT_TRY(weft_folder_suits_run(own.output.checkpoint));
    WEFT_TRY(find_start(context, &own));
    weft_job_options o = job_options(&own);
    if (!o.members) WEFT_NEED(arguments);
    if (!o.members) return weft_job_supervise(&o, program, arguments, tell, user, code);
    weft_process_plan p;
    weft_status status = weft_process_plan_make(context, &own, &p);
    o.parts = p.parts;
    o.part_count = p.count;
    o.failure_timeout = p.failure_timeout;
    if (status == WEFT_OK) status = weft_job_supervise(&o, program, arguments, tell, user, code);
    weft_process_plan_free(&p);
    return status;
}
