/* Writing checkpoints: everything goes to a hidden folder that is renamed when it is whole. */
#include <errno.h>
#include <jansson.h>
#include <unistd.h>

#include "train/train.h"

/* The graph's leaves of one kind, as a list to write. Parts come from all ranks that hold them. */
typedef struct selection {
    const weft_graph *graph;
    const weft_store *store;
    const weft_comms *comms;
    weft_value *leaves;
    size_t count;
} selection;

static const char *selected_name(void *user, size_t i)
{
    const selection *s = user;
    return weft_graph_value_name(s->graph, s->leaves[i]);
}

static weft_type selected_type(void *user, size_t i)
{
    const selection *s = user;
    return weft_graph_value_type(s->graph, s->leaves[i]);
}

static weft_status selected_read(void *user, size_t i, void *data)
{
    const selection *s = user;
    weft_type type = selected_type(user, i);
    return weft_gather_tensor(s->comms, s->store, selected_name(user, i), &type, data);
}

static weft_status select_leaves(selection *s, weft_value_kind kind)
{
    WEFT_TRY(WEFT_NEW(&s->leaves, weft_graph_value_count(s->graph)));
    for (weft_value v = 0; v < weft_graph_value_count(s->graph); v++)
        if (weft_graph_value_kind(s->graph, v) == kind && !weft_graph_is_transient(s->graph, v))
            s->leaves[s->count++] = v;
    return WEFT_OK;
}

/* Each tensor says which slice of the whole it covers, so that a part of it may be stored. */
static json_t *slices(const selection *s, size_t i)
{
    weft_type type = weft_graph_value_type(s->graph, s->leaves[i]);
    json_t *list = json_array();
    for (int d = 0; d < type.shape.rank; d++)
        json_array_append_new(list,
                              json_pack("[I, I]", (json_int_t)0, (json_int_t)type.shape.dim[d]));
    return list;
}

static weft_status write_tensors(selection *s, const char *folder, const char *file, json_t *files,
                                 json_t *tensors)
{
    char *path, crc_text[16];
    uint32_t crc = 0;
    size_t bytes = 0;
    WEFT_TRY(weft_format(&path, "%s/%s", folder, file));
    weft_tensor_list list = {s->count, selected_name, selected_type, selected_read, s};
    weft_status status = weft_safetensors_write(path, &list, &crc, &bytes);
    (void)snprintf(crc_text, sizeof(crc_text), "%08x", crc);
    if (status == WEFT_OK)
        json_object_set_new(files, file,
                            json_pack("{s:I, s:s}", "bytes", (json_int_t)bytes, "crc32", crc_text));
    for (size_t i = 0; i < s->count && status == WEFT_OK; i++)
        json_object_set_new(tensors, selected_name(s, i),
                            json_pack("{s:s, s:o}", "file", file, "slice", slices(s, i)));
    free(path);
    return status;
}

static json_t *options_json(const weft_train_options *options)
{
    json_t *object = json_object();
    for (const weft_option *o = weft_train_table(); o->name; o++) {
        char *text = NULL;
        if (weft_options_get(weft_train_table(), options, o->name, &text) == WEFT_OK && text)
            json_object_set_new(object, o->name, json_string(text));
        free(text);
    }
    return object;
}

static json_t *stats_json(const weft_data_stats *stats)
{
    json_t *mean = json_array(), *deviation = json_array(), *shape = json_array();
    for (int i = 0; i < stats->shape.rank; i++)
        json_array_append_new(shape, json_integer(stats->shape.dim[i]));
    for (int i = 0; i < stats->features; i++) {
        json_array_append_new(mean, json_real(stats->mean[i]));
        json_array_append_new(deviation, json_real(stats->deviation[i]));
    }
    json_t *object = json_pack("{s:i, s:o, s:o, s:o}", "classes", stats->classes, "shape", shape,
                               "mean", mean, "deviation", deviation);
    if (!stats->class_names) return object;
    json_t *names = json_array();
    for (int i = 0; i < stats->classes; i++)
        json_array_append_new(names, json_string(stats->class_names[i]));
    json_object_set_new(object, "class_names", names);
    return object;
}

static weft_status write_model(const char *folder, const weft_bytes *model, json_t *files)
{
    char *path, crc_text[16];
    if (!model || model->size == 0) return WEFT_OK;
    WEFT_TRY(weft_format(&path, "%s/model.yaml", folder));
    weft_status status = weft_file_write(path, model->data, model->size);
    (void)snprintf(crc_text, sizeof(crc_text), "%08x", weft_crc32(model->data, model->size));
    if (status == WEFT_OK)
        json_object_set_new(
            files, "model.yaml",
            json_pack("{s:I, s:s}", "bytes", (json_int_t)model->size, "crc32", crc_text));
    free(path);
    return status;
}

static weft_status write_index(const char *folder, json_t *index)
{
    char *path, *text = json_dumps(index, JSON_INDENT(1) | JSON_REAL_PRECISION(17));
    if (!text) return weft_fail_memory(1);
    weft_status status = weft_format(&path, "%s/index.json", folder);
    if (status == WEFT_OK) {
        status = weft_file_write(path, text, strlen(text));
        free(path);
    }
    free(text);
    return status;
}

static weft_status write_folder(const char *folder, selection *s, const weft_train_options *options,
                                const weft_data_stats *stats, const weft_bytes *model,
                                weft_position p)
{
    json_t *files = json_object(), *tensors = json_object();
    weft_status status = write_tensors(&s[0], folder, "parameters.safetensors", files, tensors);
    if (status == WEFT_OK)
        status = write_tensors(&s[1], folder, "state.safetensors", files, tensors);
    if (status == WEFT_OK) status = write_model(folder, model, files);
    json_t *index =
        json_pack("{s:i, s:s, s:I, s:I, s:I, s:o, s:o, s:o, s:o}", "format", 1, "weft",
                  weft_version(), "step", (json_int_t)p.step, "epoch", (json_int_t)p.epoch, "batch",
                  (json_int_t)p.batch, "options", options_json(options), "data", stats_json(stats),
                  "files", files, "tensors", tensors);
    if (status == WEFT_OK && !index) status = weft_fail_memory(1);
    if (status == WEFT_OK) status = write_index(folder, index);
    json_decref(index);
    return status == WEFT_OK ? weft_dir_sync(folder) : status;
}

/* A link cannot be replaced in place, but a new one can be renamed over it. */
static weft_status point_latest(const char *directory, const char *step_name)
{
    char *link_path, *temporary;
    WEFT_TRY(weft_format(&link_path, "%s/latest", directory));
    weft_status status = weft_format(&temporary, "%s/.latest.tmp", directory);
    if (status == WEFT_OK) {
        unlink(temporary);
        if (symlink(step_name, temporary) != 0 || rename(temporary, link_path) != 0)
            status = weft_fail(WEFT_ERR_IO, "%s: cannot be pointed at %s: %s", link_path, step_name,
                               strerror(errno));
        free(temporary);
    }
    free(link_path);
    return status;
}

static weft_status prune(const char *directory, int64_t keep)
{
    int64_t *steps;
    int count;
    WEFT_TRY(weft_checkpoint_list(directory, &steps, &count));
    weft_status status = WEFT_OK;
    for (int i = 0; i < count && status == WEFT_OK; i++) {
        char *path;
        if (i < keep) continue;
        status = weft_format(&path, "%s/step-%lld", directory, (long long)steps[i]);
        if (status != WEFT_OK) break;
        status = weft_dir_remove(path);
        free(path);
    }
    free(steps);
    return status;
}

/* Puts the finished folder in place. One that is already there (after a resume) is moved aside
 * first, and goes only when the new one has its name. */
static weft_status put_in_place(const char *temporary, const char *final)
{
    char *old;
    WEFT_TRY(weft_format(&old, "%s.old", final));
    weft_status status = WEFT_OK;
    bool replaced = rename(final, old) == 0;
    if (rename(temporary, final) != 0) {
        status = weft_fail(WEFT_ERR_IO, "%s: cannot be renamed to %s: %s", temporary, final,
                           strerror(errno));
        if (replaced) (void)rename(old, final);
    } else if (replaced) {
        status = weft_dir_remove(old);
    }
    free(old);
    return status;
}

/* What ranks other than the writing one do. */
static weft_status contribute(selection *s)
{
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; i < s[k].count; i++) WEFT_TRY(selected_read(&s[k], i, NULL));
    return WEFT_OK;
}

static weft_status write_checkpoint(selection *s, const weft_train_options *options,
                                    const weft_data_stats *stats, const weft_bytes *model,
                                    weft_position position, char **path)
{
    char name[40], *temporary = NULL, *final = NULL;
    const char *directory = options->checkpoint;
    weft_status status = WEFT_OK;
    (void)snprintf(name, sizeof(name), "step-%lld", (long long)position.step);
    WEFT_TRY_GOTO(weft_dir_make(directory), done);
    WEFT_TRY_GOTO(weft_format(&temporary, "%s/.%s.tmp", directory, name), done);
    WEFT_TRY_GOTO(weft_format(&final, "%s/%s", directory, name), done);
    WEFT_TRY_GOTO(weft_dir_remove(temporary), done);
    WEFT_TRY_GOTO(weft_dir_make(temporary), done);
    status = write_folder(temporary, s, options, stats, model, position);
    if (status != WEFT_OK) {
        char message[1024]; /* of the first failure */
        (void)snprintf(message, sizeof(message), "%s", weft_last_message());
        if (weft_dir_remove(temporary) != WEFT_OK) status = weft_fail(status, "%s", message);
        goto done;
    }
    WEFT_TRY_GOTO(put_in_place(temporary, final), done);
    WEFT_TRY_GOTO(weft_dir_sync(directory), done);
    WEFT_TRY_GOTO(point_latest(directory, name), done);
    WEFT_TRY_GOTO(prune(directory, options->keep), done);
    if (path) {
        *path = final;
        final = NULL;
    }
done:
    free(temporary);
    free(final);
    return status;
}

weft_status weft_checkpoint_save(const weft_store *store, const weft_graph *graph,
                                 const weft_comms *comms, const weft_train_options *options,
                                 const weft_data_stats *stats, const weft_bytes *model,
                                 weft_position position, char **path)
{
    selection s[2] = {{.graph = graph, .store = store, .comms = comms},
                      {.graph = graph, .store = store, .comms = comms}};
    weft_status status = select_leaves(&s[0], WEFT_VALUE_PARAM);
    if (status == WEFT_OK) status = select_leaves(&s[1], WEFT_VALUE_STATE);
    if (status == WEFT_OK)
        status = weft_comm_rank(comms->learner) == 0
                     ? write_checkpoint(s, options, stats, model, position, path)
                     : contribute(s);
    free(s[0].leaves);
    free(s[1].leaves);
    return status;
}
