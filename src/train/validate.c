/* Checks that the options of a job are consistent, and that learners and servers fit its ranks and
 * its model. */
#include "compress/compress.h"
#include "optim/optim.h"
#include "train/trainer.h"
#include "device/device.h"
#include "weft/device.h"

/* --- ranks --- */

weft_status weft_train_check_ranks(const weft_train_options *o)
{
    if (o->job.ranks > 0 || weft_job_rank() >= 0) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "ranks is 0, which means as many as mpirun or srun has started, but this "
                     "process was not started by them; give -n 1 or more");
}

weft_status weft_train_learners(const weft_train_options *o, int64_t ranks, int64_t *mesh,
                                int *learners)
{
    *mesh = 1;
    WEFT_TRY(weft_train_check_ranks(o));
    if (o->parallel.mesh) WEFT_TRY(weft_mesh_ranks(o->parallel.mesh, mesh));
    *learners = (int)(ranks / *mesh);
    if (ranks % *mesh == 0) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "%lld rank%s cannot be divided into learners of %lld (mesh '%s'); give -n a "
                     "multiple of %lld",
                     (long long)ranks, weft_plural(ranks), (long long)*mesh, o->parallel.mesh,
                     (long long)*mesh);
}

/* --- options that exclude each other, or need a missing one --- */

weft_status weft_train_check_devices(weft_context *context, const weft_train_options *o, int ranks)
{
    char *device;
    int devices = weft_device_list_count(o->where.device);
    WEFT_TRY(weft_device_of_rank(context, o->where.device, 0, &device));
    free(device);
    /* A resumed job may have fewer ranks than the device list names. */
    if (devices <= ranks || o->output.resume) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "device '%s' names %d devices for %d rank%s; give one for each rank, or "
                     "fewer, which take turns",
                     o->where.device, devices, ranks, weft_plural(ranks));
}

static weft_status check_between(const weft_trainer *t)
{
    const weft_parallel_choice *o = &t->options.parallel;
    if (o->exchange) WEFT_TRY(weft_exchange_check(t->context, o->exchange));
    if (o->compress) WEFT_TRY(weft_codec_check(t->context, o->compress));
    if (o->compress_downlink) WEFT_TRY(weft_codec_check(t->context, o->compress_downlink));
    if (!o->exchange || !o->place) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "place and exchange contradict each other: with --exchange each learner "
                     "has one place, its own rank; give --mesh pipeline=N to cut learners into "
                     "stages, or leave one of them out");
}

static weft_status check_job(const weft_train_engine *engine, const weft_job_choice *o,
                             const char *checkpoint)
{
    if (o->hosts && !engine->launched)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "hosts '%s' and engine %s contradict each other; several machines need "
                         "--engine mpi",
                         o->hosts, o->engine);
    /* Single processes are restarted without a checkpoint, from the state of the others. */
    if (o->max_restarts > 0 && !checkpoint && !engine->members)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "max-restarts is '%lld', but max-restarts needs --checkpoint DIR; give "
                         "that too, or leave --max-restarts out",
                         (long long)o->max_restarts);
    return WEFT_OK;
}

/* Whether the schedule is the one of a run that names none. */
static weft_status is_usual(const weft_context *context, const char *schedule, bool *out)
{
    weft_train_options usual = {0};
    weft_status status = weft_train_options_init(context, &usual);
    if (status == WEFT_OK) *out = strcmp(schedule, usual.parallel.schedule) == 0;
    weft_options_free(weft_train_table(context), &usual);
    return status;
}

weft_status weft_train_check_stages(const weft_context *context, const weft_parallel_choice *o)
{
    int64_t stages = 1;
    bool usual;
    WEFT_TRY(is_usual(context, o->schedule, &usual));
    if (o->mesh) WEFT_TRY(weft_mesh_axis(o->mesh, "pipeline", &stages));
    if (o->profile && stages == 1)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "profile measures the layers to balance the stages of a pipeline, but the "
                         "mesh has no pipeline; give --mesh pipeline=N, or leave --profile out");
    if (!usual && stages == 1 && !o->place)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "schedule is the order of the micro-batches of a pipeline, but the mesh "
                         "has no pipeline; give --mesh pipeline=N, or leave --schedule out");
    return WEFT_OK;
}

/* States that carry over belong to the rows of the one batch of a step. */
static weft_status check_carried(const weft_train_options *o)
{
    if (!o->length.carry_state) return WEFT_OK;
    if (o->parallel.exchange)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "--carry-state and --exchange contradict each other: the rows of a batch "
                         "continue those of one learner; give --mesh data=N for several ranks, or "
                         "leave one of them out");
    if (o->length.microbatches > 1 || o->length.virtual_workers > 0)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "--carry-state and --%s contradict each other: a state has the rows of a "
                         "batch, which is computed at once; leave one of them out",
                         o->length.microbatches > 1 ? "microbatches" : "virtual-workers");
    return WEFT_OK;
}

/* A choice by evaluations, as of a schedule by measurements, needs those that all learners make at
 * the same step. */
static weft_status check_evaluations(const weft_trainer *t)
{
    weft_optimizer_options optimizer;
    const weft_exchange_ops *ops;
    const weft_train_options *o = &t->options;
    const char *arguments, *exchange = o->parallel.exchange;
    const char *chooses = o->output.keep_best      ? "keep-best"
                          : o->length.patience > 0 ? "patience"
                                                   : NULL;
    weft_optimizer_options_init(&optimizer);
    WEFT_TRY(weft_optimizer_set_schedule(t->context, t->options.update.lr_schedule, &optimizer));
    const weft_rate_ops *s = weft_rate_schedule_at(t->context, optimizer.schedule);
    if ((!s->measure && !chooses) || !exchange) return WEFT_OK;
    WEFT_TRY(weft_exchange_find(t->context, exchange, &ops, &arguments));
    if (ops->lockstep) return WEFT_OK;
    if (chooses)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "%s follows evaluations that all learners make at the same step, and "
                         "learners of exchange %s are at different steps; give an exchange in lock "
                         "step, such as average, or leave it out",
                         chooses, ops->name);
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "lr-schedule %s follows a loss that all learners measure at the same step, "
                     "and learners of exchange %s are at different steps; give an exchange in "
                     "lock step, such as average, or another schedule",
                     t->options.update.lr_schedule, ops->name);
}

static weft_status check_options(const weft_trainer *t)
{
    weft_tensor_need need;
    WEFT_TRY(weft_optimizer_check(t->context, t->options.update.optimizer, &need));
    WEFT_TRY(weft_train_check_devices(t->context, &t->options, t->size));
    WEFT_TRY(check_between(t));
    WEFT_TRY(check_evaluations(t));
    WEFT_TRY(check_carried(&t->options));
    WEFT_TRY(weft_trainer_check_phases(t));
    WEFT_TRY(check_job(t->engine, &t->options.job, t->options.output.checkpoint));
    /* The schedule of an elastic run is for those of its learners that have a pipeline. */
    return t->linked ? WEFT_OK : weft_train_check_stages(t->context, &t->options.parallel);
}

/* --- learners and servers --- */

static weft_status check_plan(const weft_trainer *t)
{
    const weft_parallel_choice *o = &t->options.parallel;
    return weft_exchange_fits(
        t->context, o->exchange,
        &(weft_exchange_plan){.learners = t->learners,
                              .servers = (int)o->servers,
                              .replicas = (int)o->replicas,
                              .codec = o->compress,
                              .back = o->compress_downlink,
                              .resumed_run = t->options.output.resume || t->begun.step > 0,
                              .hosted = !t->linked && t->engine->hosted,
                              .here = t->linked ? 1 : WEFT_MAX(t->local / t->mesh, 1)});
}

weft_status weft_trainer_count_learners(weft_trainer *t)
{
    const weft_train_options *o = &t->options;
    bool exchange = o->parallel.exchange != NULL;
    int64_t mesh = t->size;
    WEFT_TRY(check_options(t));
    if (o->parallel.mesh) WEFT_TRY(weft_mesh_ranks(o->parallel.mesh, &mesh));
    if (!exchange && mesh != t->size)
        return weft_fail(
            WEFT_ERR_ARGUMENT,
            "mesh '%s' has %lld ranks, but the run has %d (-n, or as many as mpirun or "
            "srun has started); the sizes must multiply to that (or give --exchange "
            "for several learners)",
            o->parallel.mesh, (long long)mesh, t->size);
    if (t->linked && o->parallel.mesh && mesh != t->size)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "a process that joins is one learner, of %lld rank%s by its mesh '%s', "
                         "but it has %d (-n); give -n %lld, or start another process for another "
                         "learner",
                         (long long)mesh, weft_plural(mesh), o->parallel.mesh, t->size,
                         (long long)mesh);
    if (exchange) WEFT_TRY(weft_train_learners(o, t->size, &mesh, &t->learners));
    if (!exchange) t->learners = 1;
    if (t->linked) t->learners = t->link.learners;
    t->mesh = (int)mesh;
    /* Even a single learner, which does not use its exchange, has one that fits. */
    return exchange ? check_plan(t) : WEFT_OK;
}

weft_status weft_trainer_check_servers(const weft_trainer *t)
{
    int64_t servers = t->options.parallel.servers, n = weft_rank_parameters(&t->runs[0].rank);
    if (servers <= n) return WEFT_OK;
    const char *what = n > 1                              ? " or fewer"
                       : t->options.parallel.replicas > 0 ? ", and leave --replicas out"
                                                          : "";
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "servers is %lld, and the model has only %lld parameter%s to share out; give "
                     "--servers %lld%s",
                     (long long)servers, (long long)n, weft_plural(n),
                     (long long)WEFT_MAX(n, (int64_t)1), what);
}
