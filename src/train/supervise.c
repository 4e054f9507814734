/* Extracts the supervisor's options from those of a run. */
#include "job/job.h"
#include "train/elastic/engine_processes.h"

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

bool weft_job_needs_supervisor(const weft_train_options *options)
{
    weft_job_options o = job_options(options);
    return weft_job_needed(&o);
}

weft_status weft_job_check(const weft_context *context, const weft_train_options *options)
{
    weft_process_plan p = {.port = -1};
    WEFT_TRY(weft_train_options_check(options));
    weft_job_options o = job_options(options);
    weft_status status = o.members ? weft_process_plan_make(context, options, &p) : WEFT_OK;
    weft_process_plan_free(&p);
    return status;
}

weft_status weft_job_run(const weft_context *context, const weft_train_options *options,
                         const char *program, char *const *arguments, weft_job_fn tell, void *user,
                         int *code)
{
    WEFT_TRY(weft_train_options_check(options));
    weft_job_options o = job_options(options);
    if (!o.members) return weft_job_supervise(&o, program, arguments, tell, user, code);
    weft_process_plan p;
    weft_status status = weft_process_plan_make(context, options, &p);
    o.parts = p.parts;
    o.part_count = p.count;
    o.failure_timeout = p.failure_timeout;
    if (status == WEFT_OK) status = weft_job_supervise(&o, program, arguments, tell, user, code);
    weft_process_plan_free(&p);
    return status;
}
