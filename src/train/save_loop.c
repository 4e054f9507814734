/* Saves a training loop of the caller's own as a checkpoint that is like those of weft train. */
#include "models/models.h"
#include "train/train.h"
#include "train/trainer.h"

/* The contents of the checkpoint of a loop, besides its tensors. */
typedef struct loop_record {
    weft_train_options options;
    weft_settings settings;
    weft_bytes model; /* text of the YAML model, or empty */
    weft_split_id splits[WEFT_SPLITS];
} loop_record;

static void free_record(weft_context *context, loop_record *r)
{
    weft_options_free(weft_train_table(context), &r->options);
    weft_settings_free(&r->settings);
    free((void *)(uintptr_t)r->model.data);
}

static weft_status make_record(weft_context *context, const weft_train_options *options,
                               weft_dataset *data, loop_record *r)
{
    const weft_option *table = weft_train_table(context);
    WEFT_TRY(weft_train_options_copy(context, options, &r->options));
    WEFT_TRY(weft_options_check(table, &r->options));
    WEFT_TRY(weft_settings_take(table, &r->options, &r->settings));
    if (!r->options.output.checkpoint)
        return weft_fail(WEFT_ERR_ARGUMENT, "the option checkpoint is not set; it names the folder "
                                            "of the checkpoints");
    WEFT_TRY(weft_folder_suits_run(r->options.output.checkpoint));
    if (weft_model_is_file(r->options.task.model))
        WEFT_TRY(weft_file_read(r->options.task.model, &r->model));
    for (int i = 0; i < WEFT_SPLITS; i++) {
        WEFT_TRY(weft_dataset_prepare(data, (weft_split)i));
        WEFT_TRY(weft_dataset_identify(data, (weft_split)i, &r->splits[i]));
    }
    return WEFT_OK;
}

/* ARGUMENT: a graph has a parameter that the other lacks, or has with another type or shape. */
static weft_status has_parameters(const weft_graph *has, const weft_graph *of, const char *how,
                                  const char *model)
{
    for (weft_value v = 0; v < weft_graph_value_count(of); v++) {
        if (weft_graph_value_kind(of, v) != WEFT_VALUE_PARAM) continue;
        const char *name = weft_graph_value_name(of, v);
        weft_value same = weft_graph_find(has, name);
        weft_type type = weft_graph_value_type(of, v), other = {0};
        if (same != WEFT_NO_VALUE) other = weft_graph_value_type(has, same);
        if (same == WEFT_NO_VALUE || other.dtype != type.dtype ||
            !weft_shape_equal(&other.shape, &type.shape))
            return weft_fail(
                WEFT_ERR_ARGUMENT,
                "parameter '%s' %s; a checkpoint has the parameters of its model '%s', "
                "which weft_model_build gives",
                name, how, model);
    }
    return WEFT_OK;
}

/* A command that predicts builds the graph from the options, and must find its weights. */
static weft_status fits_model(weft_context *context, const loop_record *r, weft_dataset *data,
                              const weft_graph *graph)
{
    weft_graph *plain;
    weft_model_options o;
    weft_model_values values;
    weft_dtype real = WEFT_F32;
    (void)weft_dtype_parse(r->options.task.dtype, &real);
    WEFT_TRY(weft_graph_create(context, real, &plain));
    weft_model_options_init(&o);
    o.model = r->options.task.model;
    weft_model_options_fit(&o, weft_dataset_stats(data));
    weft_status status = weft_build_model(plain, &o, &r->model, &values);
    if (status == WEFT_OK)
        status = has_parameters(graph, plain, "of the model is not in the graph, or is another one",
                                o.model);
    if (status == WEFT_OK)
        status = has_parameters(plain, graph, "of the graph is not in the model, or is another one",
                                o.model);
    weft_graph_destroy(&plain);
    return status;
}

/* ARGUMENT: the folder has a checkpoint of this step or of a later one. */
static weft_status is_next(const char *folder, int64_t step)
{
    int64_t *steps;
    int count;
    WEFT_TRY(weft_checkpoint_list(folder, &steps, &count));
    int64_t newest = count > 0 ? steps[0] : -1;
    free(steps);
    if (newest < step) return weft_folder_check(folder, step - 1, step);
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "%s has the checkpoint of step %lld, and step is %lld; give a later step, or "
                     "another folder",
                     folder, (long long)newest, (long long)step);
}

static weft_status write(weft_context *context, weft_store *store, const weft_graph *graph,
                         const loop_record *r, weft_dataset *data, int64_t step, char **path)
{
    const char *folder = r->options.output.checkpoint;
    int lock = -1, local;
    weft_comm *self = NULL;
    WEFT_TRY(weft_dir_make(folder));
    WEFT_TRY(weft_folder_lock(folder, NULL, 0, &lock));
    weft_status status = is_next(folder, step);
    if (status == WEFT_OK) status = weft_comm_open(context, "self", 1, &self, &local);
    if (status == WEFT_OK) {
        weft_comms comms = {.learner = self};
        weft_checkpoint_source source = {.store = store, .graph = graph, .comms = &comms};
        weft_checkpoint_record record = {.position = {.step = step},
                                         .settings = &r->settings,
                                         .stats = weft_dataset_stats(data),
                                         .splits = r->splits,
                                         .model = &r->model};
        status = weft_checkpoint_save(&source, &record, folder, r->options.output.keep, path);
    }
    weft_comm_close(&self);
    weft_folder_unlock(&lock);
    return status;
}

weft_status weft_checkpoint_save_loop(weft_context *context, const weft_train_options *options,
                                      weft_store *store, const weft_graph *graph,
                                      weft_dataset *data, int64_t step, char **path)
{
    WEFT_NEED(context, options, store, graph, data);
    if (step < 0)
        return weft_fail(WEFT_ERR_ARGUMENT, "step is %lld, must be from 0", (long long)step);
    loop_record r = {0};
    char *written = NULL;
    weft_status status = make_record(context, options, data, &r);
    if (status == WEFT_OK) status = fits_model(context, &r, data, graph);
    if (status == WEFT_OK) status = write(context, store, graph, &r, data, step, &written);
    free_record(context, &r);
    if (status == WEFT_OK && path)
        *path = written;
    else
        free(written);
    return status;
}
