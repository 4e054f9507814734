/* Describes a checkpoint as text, and exports the parameters of its model to a file. */
#include "models/models.h"
#include "train/train.h"
#include "train/trainer.h"

/* Builds the graph of the model for inference. The tensors to export are the leaves of this graph,
 * so optimizer state is left out. */
static weft_status build_plain(weft_context *context, const weft_checkpoint *c, weft_graph **out,
                               weft_model_values *values)
{
    weft_model_options o;
    weft_graph *graph;
    weft_dtype real = WEFT_F32;
    (void)weft_dtype_parse(weft_settings_find(&c->settings, "dtype"), &real);
    WEFT_TRY(weft_graph_create(context, real, &graph));
    weft_model_options_init(&o);
    o.model = weft_settings_find(&c->settings, "model");
    weft_model_options_fit(&o, &c->stats);
    weft_status status = weft_build_model(graph, &o, &c->model, values);
    if (status != WEFT_OK) {
        weft_graph_destroy(&graph);
        return weft_fail_within(status, "%s", c->path);
    }
    *out = graph;
    return WEFT_OK;
}

weft_status weft_checkpoint_text(weft_context *context, const char *path, char **out)
{
    WEFT_NEED(context, path, out);
    weft_checkpoint c;
    weft_text text = {0}, outputs = {0};
    weft_model_values values;
    weft_graph *model = NULL;
    char *rate = NULL;
    WEFT_TRY(weft_checkpoint_open(path, weft_train_table(context), &c));
    weft_status status = weft_schedule_text(context, &c, &rate);
    /* A checkpoint is described also where its model, such as that of a plug-in, cannot be built.
     */
    if (status == WEFT_OK && build_plain(context, &c, &model, &values) == WEFT_OK)
        weft_model_outputs_text(model, &values, &outputs);
    if (status == WEFT_OK)
        weft_checkpoint_describe(&c, rate, outputs.data ? outputs.data : "", &text);
    weft_graph_destroy(&model);
    free(outputs.data);
    free(rate);
    weft_checkpoint_close(&c);
    return status == WEFT_OK ? weft_text_take(&text, out) : status;
}

/* An export: to a folder, or to a file, perhaps by the names of a map. */
typedef struct target {
    const char *folder, *map, *file; /* NULL: none */
} target;

static weft_status write(const weft_checkpoint *c, const weft_graph *graph, const target *to)
{
    if (to->folder) return weft_exported_write(c, graph, to->folder);
    if (to->map) return weft_checkpoint_write_mapped(c, graph, to->map, to->file);
    return weft_checkpoint_write_leaves(c, graph, to->file, WEFT_OUTPUT_REPLACE);
}

static weft_status export_to(weft_context *context, const char *path, const target *to)
{
    weft_checkpoint c;
    weft_graph *model = NULL;
    weft_model_values values;
    WEFT_TRY(weft_checkpoint_refuse_overwrite("output", to->folder ? to->folder : to->file));
    WEFT_TRY(weft_checkpoint_open_model(path, weft_train_table(context), &c));
    weft_status status = build_plain(context, &c, &model, &values);
    if (status == WEFT_OK) status = weft_checkpoint_check_leaves(&c, model);
    if (status == WEFT_OK) status = write(&c, model, to);
    weft_graph_destroy(&model);
    weft_checkpoint_close(&c);
    return status;
}

weft_status weft_checkpoint_export(weft_context *context, const char *path, const char *file)
{
    WEFT_NEED(context, path, file);
    return export_to(context, path, &(target){.file = file});
}

weft_status weft_checkpoint_export_mapped(weft_context *context, const char *path, const char *map,
                                          const char *file)
{
    WEFT_NEED(context, path, map, file);
    return export_to(context, path, &(target){.map = map, .file = file});
}

weft_status weft_checkpoint_export_folder(weft_context *context, const char *path,
                                          const char *folder)
{
    WEFT_NEED(context, path, folder);
    if (!*folder) return weft_fail(WEFT_ERR_ARGUMENT, "the folder of an export has no name");
    return export_to(context, path, &(target){.folder = folder});
}
