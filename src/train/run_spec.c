/* Translates the options of a run into the specification (weft_run_spec) from which its ranks are
 * built. */
#include "models/models.h"
#include "optim/optim.h"
#include "train/trainer.h"

weft_status weft_optimizer_chosen(const weft_context *context, const weft_update_choice *o,
                                  const weft_schedule_place *place, weft_optimizer_options *out)
{
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
    WEFT_TRY(weft_initial_open(spec, weft_train_table(t->context), &t->initial));
    t->run_spec.initial = t->initial;
    return WEFT_OK;
}

/* Where parameters are kept: the choices of --home. */
enum { HOME_DEVICE, HOME_HOST };
static const char *const homes[] = {[HOME_DEVICE] = "device", [HOME_HOST] = "cpu"};

weft_status weft_trainer_write_run_spec(weft_trainer *t)
{
    const weft_train_options *o = &t->options;
    weft_run_spec *k = &t->run_spec;
    k->context = t->context;
    k->data = t->data;
    const char *best = o->output.keep_best;
    if (o->output.metric || best)
        WEFT_TRY(weft_format(&t->metric_names, "%s,%s", o->output.metric ? o->output.metric : "",
                             best ? best : ""));
    k->metrics = t->metric_names;
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
    if (k->bf16_weights && k->real != WEFT_BF16)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "--weights bf16 and --dtype %s contradict each other: products would read "
                         "weights that are converted as a whole; give --dtype bf16",
                         o->task.dtype);
    k->device = o->where.device;
    k->on_host = strcmp(o->where.home, homes[HOME_HOST]) == 0;
    k->seed = (uint64_t)o->task.seed;
    weft_plan_options_init(&k->plan);
    k->plan.ranks = t->mesh;
    k->plan.mesh = o->parallel.mesh;
    k->plan.zero = (int)o->parallel.zero;
    k->plan.shard = o->parallel.shard;
    k->plan.place = o->parallel.place;
    k->plan.bf16_sums = strcmp(o->parallel.sum_dtype, weft_dtype_name(WEFT_BF16)) == 0;
    k->shares = o->parallel.shares;
    k->plan.virtual_workers = (int)o->length.virtual_workers;
    k->schedule = o->parallel.schedule;
    k->recompute = o->parallel.recompute;
    k->carries = o->length.carry_state;
    if (k->carries && !t->data->source->continues)
        return weft_fail(
            WEFT_ERR_ARGUMENT,
            "--carry-state needs samples each of which continues the one before, and "
            "those of data '%s'%s do not; give text: or tokens: without stride%s, or leave "
            "it out",
            o->task.data, t->data->source->validates ? " without those of validation" : "",
            t->data->source->validates ? " and other data for validation" : "");
    k->measured = o->parallel.profile;
    k->traced = o->output.trace != NULL;
    k->exchange = o->parallel.exchange;
    k->servers = (int)o->parallel.servers;
    k->replicas = (int)o->parallel.replicas;
    k->codec = o->parallel.compress;
    k->back = o->parallel.compress_downlink;
    k->learners = t->learners;
    k->resumed = t->resumed.path ? &t->resumed : NULL;
    k->drops = o->output.drop_state;
    k->resumed_run = t->options.output.resume || t->begun.step > 0;
    k->cluster = t->linked ? &t->link : NULL;
    k->begun = t->begun;
    k->timeout = o->job.timeout;
    k->saves = o->output.checkpoint;
    k->asked = weft_trainer_stop_requested;
    k->user = t;
    WEFT_TRY(weft_optimizer_chosen(t->context, &o->update, &t->place, &k->optimizer));
    k->optimizer.accumulate = k->microbatches;
    return open_initial(t);
}
