/* Making a trainer: data, model, optimiser, store and program, or a checkpoint to go on from. */
#include <errno.h>
#include <unistd.h>

#include "train/trainer.h"

enum { TRACED_STEPS = 100 };

static weft_status open_data(weft_trainer *t)
{
    const weft_train_options *o = &t->options;
    const weft_data_stats *stats = t->resumed.path ? &t->resumed.stats : NULL;
    WEFT_TRY(weft_dataset_open(t->context, o->data, o->normalize, stats, &t->data));
    WEFT_TRY(weft_dataset_prepare(t->data, WEFT_TRAIN));
    t->samples = weft_dataset_count(t->data, WEFT_TRAIN);
    if (t->samples == 0)
        return weft_fail(WEFT_ERR_ARGUMENT, "data '%s': the training part is empty", o->data);
    if (o->batch > t->samples)
        return weft_fail(
            WEFT_ERR_ARGUMENT,
            "batch is %lld, the training part has only %lld samples; give --batch %lld or "
            "less",
            (long long)o->batch, (long long)t->samples, (long long)t->samples);
    if (o->batch % o->accumulate)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "batch %lld cannot be cut into %lld equal micro-batches",
                         (long long)o->batch, (long long)o->accumulate);
    t->micro = o->batch / o->accumulate;
    t->steps_per_epoch = (t->samples + o->batch - 1) / o->batch;
    t->total_steps = o->steps ? o->steps : o->epochs * t->steps_per_epoch;
    if (t->total_steps > INT32_MAX)
        return weft_fail(WEFT_ERR_ARGUMENT, "%lld steps are more than the counter holds",
                         (long long)t->total_steps);
    return WEFT_OK;
}

static weft_status optimizer_options(const weft_trainer *t, weft_optimizer_options *out)
{
    const weft_train_options *o = &t->options;
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
    out->schedule = strcmp(o->schedule, "step") == 0     ? WEFT_SCHEDULE_STEP
                    : strcmp(o->schedule, "cosine") == 0 ? WEFT_SCHEDULE_COSINE
                                                         : WEFT_SCHEDULE_CONSTANT;
    out->warmup = o->warmup;
    out->total = t->total_steps;
    out->every = o->decay_every;
    out->gamma = o->gamma;
    out->floor = o->lr_floor;
    out->accumulate = o->accumulate;
    if (out->floor > out->lr)
        return weft_fail(WEFT_ERR_ARGUMENT, "lr-floor %g is above lr %g", out->floor, out->lr);
    return WEFT_OK;
}

/* The text of a YAML model is kept, so that the checkpoint does not depend on the file. */
static weft_status read_model(weft_trainer *t)
{
    const char *dot = strrchr(t->options.model, '.');
    if (t->resumed.model.size > 0) {
        t->model = (weft_bytes){.data = t->resumed.model.data, .size = t->resumed.model.size};
        return WEFT_OK;
    }
    if (!dot || (strcmp(dot, ".yaml") != 0 && strcmp(dot, ".yml") != 0)) return WEFT_OK;
    WEFT_TRY(weft_file_map(t->options.model, &t->model));
    if (t->model.size == 0)
        return weft_fail(WEFT_ERR_FORMAT, "%s: is empty; give layers under the key 'layers'",
                         t->options.model);
    return WEFT_OK;
}

static weft_status build(weft_trainer *t)
{
    weft_dtype real = WEFT_F32;
    weft_optimizer_options optimizer;
    weft_shape sample = weft_dataset_shape(t->data);
    (void)weft_dtype_parse(t->options.dtype, &real);
    WEFT_TRY(optimizer_options(t, &optimizer));
    WEFT_TRY(read_model(t));
    WEFT_TRY(weft_graph_create(t->context, real, &t->graph));
    WEFT_TRY(weft_build_model(t->graph, &t->options, &t->model, &sample,
                              weft_dataset_stats(t->data)->classes, t->micro, true, &t->values));
    WEFT_TRY(weft_graph_differentiate(t->graph, t->values.loss));
    WEFT_TRY(weft_optimizer_build(t->graph, &optimizer, &t->optimizer));
    WEFT_TRY(
        weft_store_create(t->context, t->options.device, (uint64_t)t->options.seed, &t->store));
    weft_value fetch[] = {t->values.loss, t->optimizer.learning_rate};
    WEFT_TRY(weft_program_create(t->store, t->graph, fetch, 2, &t->program));
    for (int i = 0; i < weft_store_count(t->store); i++) {
        weft_type type = weft_store_type(t->store, i);
        if (weft_store_kind(t->store, i) == WEFT_VALUE_PARAM)
            t->parameters += weft_shape_elements(&type.shape);
    }
    if (t->options.trace)
        WEFT_TRY(weft_program_trace(t->program,
                                    (size_t)(TRACED_STEPS * t->options.accumulate) *
                                        (size_t)weft_program_describe(t->program).instructions));
    return WEFT_OK;
}

/* What decides which samples form batch t cannot change between two parts of one run. */
static weft_status check_resumed(const weft_trainer *t)
{
    static const char *const fixed[] = {"batch", "seed", "data", "dtype"};
    for (size_t i = 0; i < WEFT_COUNT(fixed); i++) {
        char *now = NULL, *then = NULL;
        weft_status status = weft_options_get(weft_train_table(), &t->options, fixed[i], &now);
        if (status == WEFT_OK)
            status = weft_options_get(weft_train_table(), &t->resumed.options, fixed[i], &then);
        if (status == WEFT_OK && strcmp(now, then) != 0)
            status =
                weft_fail(WEFT_ERR_ARGUMENT,
                          "%s was made with --%s %s, this run has %s; a resumed run must have the "
                          "same",
                          t->resumed.path, fixed[i], then, now);
        free(now);
        free(then);
        WEFT_TRY(status);
    }
    return WEFT_OK;
}

/* Never writes a new run into the folder of an old one. */
static weft_status find_resumed(weft_trainer *t)
{
    int64_t *steps = NULL;
    int count = 0;
    if (t->options.resume && !t->options.checkpoint)
        return weft_fail(WEFT_ERR_ARGUMENT, "resume needs --checkpoint DIR: where to go on from");
    if (!t->options.checkpoint) return WEFT_OK;
    WEFT_TRY(weft_checkpoint_list(t->options.checkpoint, &steps, &count));
    free(steps);
    if (count == 0) return WEFT_OK;
    if (!t->options.resume)
        return weft_fail(
            WEFT_ERR_ARGUMENT,
            "%s already holds %d checkpoint%s; add --resume to go on, or give another folder",
            t->options.checkpoint, count, count == 1 ? "" : "s");
    WEFT_TRY(weft_checkpoint_open(t->options.checkpoint, &t->resumed));
    t->position = t->resumed.position;
    return check_resumed(t);
}

/* Finds out before hours of work that the folder cannot be written. */
static weft_status check_folder(const weft_trainer *t)
{
    if (!t->options.checkpoint) return WEFT_OK;
    WEFT_TRY(weft_dir_make(t->options.checkpoint));
    if (access(t->options.checkpoint, W_OK) == 0) return WEFT_OK;
    return weft_fail(WEFT_ERR_IO, "%s: cannot be written: %s; choose another folder",
                     t->options.checkpoint, strerror(errno));
}

static weft_status make(weft_trainer *t)
{
    WEFT_TRY(weft_context_set_threads(t->context, (int)t->options.threads));
    WEFT_TRY(find_resumed(t));
    WEFT_TRY(open_data(t));
    WEFT_TRY(build(t));
    if (t->resumed.path) WEFT_TRY(weft_checkpoint_load(&t->resumed, t->store));
    WEFT_TRY(check_folder(t));
    if (t->options.metrics)
        WEFT_TRY(weft_metrics_open(t->options.metrics, t->resumed.path != NULL, &t->metrics));
    return WEFT_OK;
}

weft_status weft_trainer_create(weft_context *context, const weft_train_options *options,
                                weft_trainer **out)
{
    weft_trainer *t;
    WEFT_TRY(WEFT_NEW(&t, 1));
    t->context = context;
    t->saved_step = t->evaluated_step = -1;
    weft_status status = weft_train_options_copy(options, &t->options);
    if (status == WEFT_OK) status = make(t);
    if (status != WEFT_OK) {
        weft_trainer_destroy(&t);
        return status;
    }
    *out = t;
    return WEFT_OK;
}

void weft_trainer_destroy(weft_trainer **trainer)
{
    if (!trainer || !*trainer) return;
    weft_trainer *t = *trainer;
    (void)!weft_metrics_close(&t->metrics);
    weft_evaluator_destroy(&t->evaluator);
    weft_program_destroy(&t->program);
    weft_store_destroy(&t->store);
    weft_graph_destroy(&t->graph);
    if (t->model.mapped) weft_file_unmap(&t->model);
    weft_checkpoint_close(&t->resumed);
    weft_dataset_close(&t->data);
    weft_options_free(weft_train_table(), &t->options);
    free(t);
    *trainer = NULL;
}

void weft_trainer_stop(weft_trainer *t)
{
    t->stop = 1;
}
const weft_graph *weft_trainer_graph(const weft_trainer *t)
{
    return t->graph;
}
const weft_program *weft_trainer_program(const weft_trainer *t)
{
    return t->program;
}
