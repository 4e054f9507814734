/* Translates the options of a run into the specification (weft_run_spec) from which its ranks are
 * built. */
#include <stdio.h>

#include "models/models.h"
#include "optim/optim.h"
#include "train/trainer.h"

/* DECAY[:warmup] */
static weft_status take_average(const char *text, weft_optimizer_options *out)
{
    static const char rises[] = ":warmup";
    char number[32];
    size_t size = text ? strcspn(text, ":") : 0;
    if (!text) return WEFT_OK;
    (void)snprintf(number, sizeof(number), "%.*s", (int)WEFT_MIN(size, sizeof(number) - 1), text);
    out->averages = true;
    out->average_rises = strcmp(text + size, rises) == 0;
    bool known = size < sizeof(number) && weft_parse_real(number, &out->average_decay) &&
                 (!text[size] || out->average_rises);
    if (known && out->average_decay >= 0 && out->average_decay < 1) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "ema is '%s', must be a decay from 0 up to but not including 1, such as 0.999 "
                     "or 0.999:warmup",
                     text);
}

weft_status weft_optimizer_chosen(const weft_context *context, const weft_train_options *options,
                                  const weft_schedule_place *place, weft_optimizer_options *out)
{
    const weft_update_choice *o = &options->update;
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
    WEFT_TRY(weft_optimizer_set_schedule(context, o->lr_schedule, out));
    out->warmup = o->warmup;
    out->clock = place->clock;
    out->total = place->total;
    out->every = o->decay_every;
    out->gamma = o->gamma;
    out->floor = o->lr_floor;
    out->multipliers = o->lr_multiplier;
    out->frozen = options->weights.freeze;
    WEFT_TRY(take_average(options->weights.ema, out));
    char low[32], high[32];
    if (out->floor > out->lr)
        return weft_fail(WEFT_ERR_ARGUMENT, "lr-floor %s is above lr %s",
                         weft_real_text(out->floor, low, sizeof(low)),
                         weft_real_text(out->lr, high, sizeof(high)));
    return WEFT_OK;
}

/* Opens the weights of --init, unless the run is under way, and has weights that are newer. */
static weft_status open_initial(weft_trainer *t)
{
    const char *spec = t->options.task.init;
    if (!spec || t->resumed.path || t->rejoins || t->begun.step > 0) return WEFT_OK;
    WEFT_TRY(weft_initial_open(spec, weft_train_table(t->context), weft_dataset_stats(t->data),
                               &t->initial));
    t->run_spec.initial = t->initial;
    return WEFT_OK;
}

/* Where parameters are kept: the choices of --home. */
enum { HOME_DEVICE, HOME_HOST };
static const char *const homes[] = {[HOME_DEVICE] = "device", [HOME_HOST] = "cpu"};

/* The metrics of --metric, and the one by which a run keeps the best checkpoint. */
static weft_status name_metrics(weft_trainer *t)
{
    const char *metric = t->options.output.metric, *best = t->options.output.keep_best;
    if (metric || best)
        WEFT_TRY(weft_format(&t->metric_names, "%s,%s", metric ? metric : "", best ? best : ""));
    t->run_spec.metrics = t->metric_names;
    return WEFT_OK;
}

static weft_status take_model(weft_trainer *t, weft_run_spec *k)
{
    const weft_train_options *o = &t->options;
    weft_model_options_init(&k->model);
    k->model.model = o->task.model;
    weft_model_options_fit(&k->model, weft_dataset_stats(t->data));
    k->model.batch = t->micro;
    k->model.training = true;
    k->model.seed = (uint64_t)o->task.seed;
    k->model.label_smoothing = o->update.label_smoothing;
    k->model.loss = o->update.loss;
    k->model.mixes = weft_dataset_mixes(t->data);
    k->text = &t->model;
    k->real = WEFT_F32;
    (void)weft_dtype_parse(o->task.dtype, &k->real);
    k->bf16_weights = strcmp(o->task.weights, weft_dtype_name(WEFT_BF16)) == 0;
    if (!k->bf16_weights || k->real == WEFT_BF16) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "--weights bf16 and --dtype %s contradict each other: products would read "
                     "weights that are converted as a whole; give --dtype bf16",
                     o->task.dtype);
}

static void take_plan(const weft_trainer *t, weft_run_spec *k)
{
    const weft_parallel_choice *o = &t->options.parallel;
    weft_plan_options_init(&k->plan);
    k->plan.ranks = t->mesh;
    k->plan.mesh = o->mesh;
    k->plan.zero = (int)o->zero;
    k->plan.shard = o->shard;
    k->plan.place = o->place;
    k->plan.bf16_sums = strcmp(o->sum_dtype, weft_dtype_name(WEFT_BF16)) == 0;
    k->plan.virtual_workers = (int)t->options.length.virtual_workers;
    k->shares = o->shares;
    k->schedule = o->schedule;
    k->recompute = o->recompute;
    k->measured = o->profile;
    k->exchange = o->exchange;
    k->servers = (int)o->servers;
    k->replicas = (int)o->replicas;
    k->codec = o->compress;
    k->back = o->compress_downlink;
}

static weft_status check_carried(const weft_trainer *t)
{
    const weft_source *source = t->data->source;
    if (!t->options.length.carry_state || source->continues) return WEFT_OK;
    return weft_fail(
        WEFT_ERR_ARGUMENT,
        "--carry-state needs samples each of which continues the one before, and "
        "those of data '%s'%s do not; give text: or tokens: without stride%s, or leave "
        "it out",
        t->options.task.data, source->validates ? " without those of validation" : "",
        source->validates ? " and other data for validation" : "");
}

/* The noise scale is found from the gradients of equal parts of a batch, which a learner itself
 * adds up. */
static weft_status take_noise(const weft_trainer *t, weft_run_spec *k)
{
    const weft_train_options *o = &t->options;
    const weft_exchange_ops *ops = NULL;
    const char *arguments;
    int64_t data = o->parallel.place ? 1 : t->mesh;
    if (o->show.noise_scale == 0) return WEFT_OK;
    if (o->parallel.mesh) WEFT_TRY(weft_mesh_axis(o->parallel.mesh, "data", &data));
    k->noise_every = o->show.noise_scale;
    k->parts = data * k->microbatches;
    if (t->learners > 1 && o->parallel.exchange)
        WEFT_TRY(weft_exchange_find(t->context, o->parallel.exchange, &ops, &arguments));
    bool measurable = !ops || (!ops->owns_update && ops->lockstep);
    if (!measurable && t->rechoice) k->noise_every = 0; /* the run stays with this exchange */
    if (!measurable && t->rechoice) return WEFT_OK;
    if (!measurable)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "noise-scale is measured where a learner updates its parameters itself, "
                         "which those of exchange %s do not, or not alone; leave one of them out",
                         ops->name);
    if (k->carries || o->parallel.shares)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "noise-scale compares equal parts of a batch that do not depend on each "
                         "other; leave --%s out",
                         k->carries ? "carry-state" : "shares");
    if (k->parts < 2)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "noise-scale compares the gradients of parts of a batch, and the batches "
                         "of this run have one part; give --microbatches 2, or several ranks of "
                         "the data axis");
    if (o->length.batch % k->parts == 0) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "noise-scale compares equal parts of a batch, and batch %lld has no %lld; "
                     "give a multiple of %lld",
                     (long long)o->length.batch, (long long)k->parts, (long long)k->parts);
}

weft_status weft_trainer_write_run_spec(weft_trainer *t)
{
    const weft_train_options *o = &t->options;
    weft_run_spec *k = &t->run_spec;
    k->context = t->context;
    k->data = t->data;
    WEFT_TRY(name_metrics(t));
    WEFT_TRY(take_model(t, k));
    k->device = o->where.device;
    k->engine = o->job.engine;
    k->on_host = strcmp(o->where.home, homes[HOME_HOST]) == 0;
    k->seed = (uint64_t)o->task.seed;
    take_plan(t, k);
    k->carries = o->length.carry_state;
    WEFT_TRY(check_carried(t));
    k->traced = k->traced || o->output.trace != NULL;
    k->learners = t->learners;
    k->resumed = t->resumed.path ? &t->resumed : NULL;
    k->drops = o->output.drop_state || t->begins_phase;
    k->resumed_run = o->output.resume || t->begun.step > 0;
    k->cluster = t->linked ? &t->link : NULL;
    k->begun = t->begun;
    k->timeout = o->job.timeout;
    k->saves = o->output.checkpoint;
    k->asked = weft_trainer_stop_requested;
    k->user = t;
    WEFT_TRY(weft_optimizer_chosen(t->context, o, &t->place, &k->optimizer));
    k->optimizer.accumulate = k->microbatches;
    weft_trainer_unfreeze(t);
    WEFT_TRY(take_noise(t, k));
    return open_initial(t);
}
