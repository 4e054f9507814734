/* Writes and opens exported models. An exported model is a folder that can be used without the run:
 * it has weights.safetensors, model.json (settings of the model, data statistics, checksums) and,
 * for a YAML model, model.yaml. */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "checkpoint/about.h"
#include "formats/formats.h"

/* model.json is written last, and marks the folder as complete. */
enum { WEIGHTS, MODEL, ABOUT, NAMES };
static const char *const names[] = {"weights.safetensors", "model.yaml", "model.json"};
static const char *const said[] = {"model", "dtype", "seed"};

bool weft_exported_is(const char *path)
{
    char *file;
    if (weft_format(&file, "%s/model.json", path) != WEFT_OK) return false;
    bool there = weft_file_exists(file);
    free(file);
    return there;
}

static weft_status check_format(const char *file, const json_t *index)
{
    json_int_t format = json_integer_value(json_object_get(index, "format"));
    if (format < 1 || format > WEFT_CHECKPOINT_FORMAT)
        return weft_fail(WEFT_ERR_UNSUPPORTED,
                         "%s: its format is not 1 to %d; a newer weft wrote it", file,
                         WEFT_CHECKPOINT_FORMAT);
    return WEFT_OK;
}

/* Reads the options that an export stores; one that an older export lacks gets its usual value. */
static weft_status read_options(const char *file, const json_t *options, const weft_option *table,
                                weft_settings *out)
{
    for (const weft_option *o = table; o->name; o++)
        for (size_t i = 0; i < WEFT_COUNT(said); i++)
            if (strcmp(o->name, said[i]) == 0)
                WEFT_TRY(weft_settings_read(file, options, (weft_option[]){*o, {0}}, out));
    return WEFT_OK;
}

/* Reads model.json. *files gets the sizes and checksums of the other files; NULL in older
 * exports. */
static weft_status read_about(const char *file, const weft_option *table, weft_checkpoint *c,
                              json_t **files)
{
    weft_bytes bytes = {0};
    json_error_t error;
    json_t *index = NULL;
    WEFT_TRY(weft_file_map(file, &bytes));
    weft_status status = weft_index_check(file, &bytes);
    if (status == WEFT_OK) {
        index = json_loadb((const char *)bytes.data, bytes.size, JSON_REJECT_DUPLICATES, &error);
        status = index ? check_format(file, index)
                       : weft_fail(WEFT_ERR_FORMAT, "%s:%d: %s", file, error.line, error.text);
    }
    if (status == WEFT_OK)
        status = read_options(file, json_object_get(index, "options"), table, &c->settings);
    if (status == WEFT_OK)
        status = weft_stats_read(file, json_object_get(index, "data"), &c->stats);
    if (status == WEFT_OK)
        status = weft_splits_read(file, json_object_get(index, "data"), c->splits);
    *files = json_incref(json_object_get(index, "files"));
    json_decref(index);
    weft_file_unmap(&bytes);
    return status;
}

static weft_status map(const char *folder, const char *name, weft_bytes *out)
{
    char *path;
    WEFT_TRY(weft_format(&path, "%s/%s", folder, name));
    weft_status status = weft_file_map(path, out);
    free(path);
    return status;
}

static weft_status read_model(weft_checkpoint *c)
{
    char *path;
    WEFT_TRY(weft_format(&path, "%s/%s", c->path, names[MODEL]));
    weft_status status = weft_file_exists(path) ? weft_file_read(path, &c->model) : WEFT_OK;
    free(path);
    return status;
}

static weft_status read_files(weft_checkpoint *c, const json_t *files)
{
    char *path;
    weft_bytes *bytes = &c->files[WEFT_PARAMETERS_FILE];
    /* A model.yaml that `files` does not list was left in the folder by an earlier export. */
    if (!files || json_object_get(files, names[MODEL])) WEFT_TRY(read_model(c));
    WEFT_TRY(map(c->path, names[WEIGHTS], bytes));
    if (files) {
        WEFT_TRY(weft_checkpoint_check_file(c->path, names[MODEL], files, false, &c->model));
        WEFT_TRY(weft_checkpoint_check_file(c->path, names[WEIGHTS], files, true, bytes));
    }
    WEFT_TRY(weft_format(&path, "%s/%s", c->path, names[WEIGHTS]));
    weft_status status =
        weft_safetensors_parse(path, bytes->data, bytes->size, &c->tensors[WEFT_PARAMETERS_FILE]);
    free(path);
    return status;
}

weft_status weft_exported_open(const char *path, const weft_option *table, weft_checkpoint *out)
{
    weft_checkpoint c = {.exported = true, .position.samples = -1};
    char *file = NULL;
    json_t *files = NULL;
    weft_status status = weft_strdup(path, &c.path);
    if (status == WEFT_OK) status = weft_format(&file, "%s/%s", path, names[ABOUT]);
    if (status == WEFT_OK) status = read_about(file, table, &c, &files);
    if (status == WEFT_OK) status = read_files(&c, files);
    json_decref(files);
    free(file);
    if (status == WEFT_OK)
        *out = c;
    else
        weft_checkpoint_close(&c);
    return status;
}

static weft_status add_file(json_t *files, const char *folder, int name)
{
    weft_bytes bytes = {0};
    char crc[16];
    WEFT_TRY(map(folder, names[name], &bytes));
    (void)snprintf(crc, sizeof(crc), "%08x", weft_crc32(bytes.data, bytes.size));
    json_object_set_new(files, names[name],
                        json_pack("{s:I, s:s}", "bytes", (json_int_t)bytes.size, "crc32", crc));
    weft_file_unmap(&bytes);
    return WEFT_OK;
}

static weft_status write_about(const weft_checkpoint *c, const char *folder, const char *file)
{
    json_t *options = json_object(), *files = json_object();
    for (size_t i = 0; i < WEFT_COUNT(said); i++) {
        const char *text = weft_settings_find(&c->settings, said[i]);
        if (text) json_object_set_new(options, said[i], json_string(text));
    }
    const char *plugins = weft_settings_find(&c->settings, WEFT_SETTING_PLUGINS);
    if (plugins) json_object_set_new(options, WEFT_SETTING_PLUGINS, json_string(plugins));
    json_t *data = weft_stats_json(&c->stats);
    weft_splits_add(data, c->splits); /* shows later that a file is the one of the training */
    weft_status status = add_file(files, folder, WEIGHTS);
    if (status == WEFT_OK && c->model.size > 0) status = add_file(files, folder, MODEL);
    json_t *index =
        json_pack("{s:i, s:s, s:o, s:o, s:o}", "format", weft_stats_format(&c->stats), "weft",
                  weft_version(), "options", options, "data", data, "files", files);
    char *text = NULL;
    if (status == WEFT_OK) status = index ? weft_index_text(index, &text) : weft_fail_memory(1);
    if (status == WEFT_OK) status = weft_file_replace(file, WEFT_OUTPUT_OWN, text, strlen(text));
    free(text);
    json_decref(index);
    return status;
}

/* ARGUMENT: the folder belongs to a run, whose checkpoints are not found beside model.json. */
static weft_status refuse_run(const char *folder)
{
    char *index;
    bool found;
    WEFT_TRY(weft_checkpoint_found(folder, &found));
    WEFT_TRY(weft_format(&index, "%s/index.json", folder));
    bool checkpoint = weft_file_exists(index);
    free(index);
    if (!found && !checkpoint) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "%s %s, which an exported model there would hide; give another folder", folder,
                     checkpoint ? "is a checkpoint" : "holds the checkpoints of a run");
}

/* model.json is removed first and written last, so that weft_exported_is finds no model in the
 * folder while its files are replaced. A folder that is made in vain is removed. */
weft_status weft_exported_write(const weft_checkpoint *c, const weft_graph *graph,
                                const char *folder)
{
    char *path[NAMES] = {NULL};
    bool made = !weft_file_exists(folder);
    weft_status status = weft_dir_make(folder);
    if (status == WEFT_OK) status = refuse_run(folder);
    for (int i = 0; i < NAMES && status == WEFT_OK; i++)
        status = weft_format(&path[i], "%s/%s", folder, names[i]);
    if (status == WEFT_OK && remove(path[ABOUT]) != 0 && errno != ENOENT)
        status = weft_fail_io("be replaced", path[ABOUT]);
    if (status == WEFT_OK)
        status = weft_checkpoint_write_leaves(c, graph, path[WEIGHTS], WEFT_OUTPUT_OWN);
    if (status == WEFT_OK && c->model.size > 0)
        status = weft_file_replace(path[MODEL], WEFT_OUTPUT_OWN, c->model.data, c->model.size);
    if (status == WEFT_OK) status = write_about(c, folder, path[ABOUT]);
    for (int i = 0; i < NAMES; i++) free(path[i]);
    if (status != WEFT_OK && made) (void)rmdir(folder); /* fails if it holds anything */
    return status;
}
