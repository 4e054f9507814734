/* What of a run's options concerns its supervisor. */
#include "job/job.h"
#include "weft/train.h"

static weft_job_options job_options(const weft_train_options *o)
{
    return (weft_job_options){.mpi = strcmp(o->engine, "mpi") == 0,
                              .ranks = o->ranks,
                              .hosts = o->hosts,
                              .mesh = o->mesh,
                              .place = o->place,
                              .exchange = o->exchange,
                              .zero = o->zero,
                              .virtual_workers = o->virtual_workers,
                              .timeout = o->timeout,
                              .checkpoint = o->checkpoint,
                              .resume = o->resume,
                              .max_restarts = o->max_restarts};
}

bool weft_job_wanted(const weft_train_options *options)
{
    weft_job_options o = job_options(options);
    return weft_job_needed(&o);
}

weft_status weft_job_run(const weft_train_options *options, const char *program,
                         char *const *arguments, weft_job_fn tell, void *user, int *code)
{
    weft_job_options o = job_options(options);
    return weft_job_supervise(&o, program, arguments, tell, user, code);
}
