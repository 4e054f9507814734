/* Opens a checkpoint: finds its folder, reads its index, maps its files and verifies their sizes
 * and checksums. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint/about.h"
#include "checkpoint/folder.h"
#include "data/data.h"
#include "formats/formats.h"
#include "optim/optim.h"

/* How often weft_checkpoint_open tries, while a training run deletes each checkpoint it finds. */
enum { OPEN_TRIES = 100 };

/* Fails since PATH/latest has no index, with the way on. A file named `latest` is not a damaged
 * checkpoint: programs that copy links as files leave one. newest: the newest PATH/step-N, or
 * NULL. */
static weft_status fail_latest(const char *latest, const char *index, const char *newest)
{
    struct stat info;
    if (stat(latest, &info) != 0 || S_ISDIR(info.st_mode))
        return weft_folder_offer_previous(latest, weft_checkpoint_damaged(index, "it is missing"));
    return weft_fail(
        WEFT_ERR_IO,
        "%s is a file, where a link to the newest checkpoint belongs; remove the file%s%s", latest,
        newest ? " to resume from " : "", newest ? newest : "");
}

/* Finds the step folder that a path means: PATH itself, PATH/latest, or the newest PATH/step-N.
 * *out gets its path with links resolved. *held gets a descriptor that keeps the folder open, so
 * that its inode is not reused, and locked, so that a run does not remove it. */
static weft_status find_folder(const char *path, char **out, int *held)
{
    char *candidates[3] = {NULL, NULL, NULL};
    int64_t *steps = NULL;
    int count = 0;
    weft_status status = WEFT_OK;
    WEFT_TRY_GOTO(weft_strdup(path, &candidates[0]), done);
    WEFT_TRY_GOTO(weft_format(&candidates[1], "%s/latest", path), done);
    WEFT_TRY_GOTO(weft_checkpoint_list(path, &steps, &count), done);
    if (count > 0)
        WEFT_TRY_GOTO(weft_format(&candidates[2], "%s/step-%lld", path, (long long)steps[0]), done);
    for (int i = 0; i < 3 && candidates[i]; i++) {
        char *index = NULL;
        *out = realpath(candidates[i], NULL);
        if (!*out) continue;
        *held = open(*out, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        /* Without the lock, on a file system that has none, reading may fail and is tried again. */
        if (*held >= 0) (void)flock(*held, LOCK_SH | LOCK_NB);
        WEFT_TRY_GOTO(weft_format(&index, "%s/index.json", *out), done);
        bool whole = weft_file_exists(index);
        if (!whole && i == 1) /* a damaged newest checkpoint must not be skipped silently */
            status = fail_latest(*out, index, candidates[2]);
        free(index);
        if (whole || status != WEFT_OK) goto done;
        if (*held >= 0) close(*held);
        free(*out);
        *out = NULL;
        *held = -1;
    }
    status = weft_folder_fail_empty(path);
done:
    for (int i = 0; i < 3; i++) free(candidates[i]);
    free(steps);
    return status;
}

/* Opens a file by weft_file_map or weft_file_read. FORMAT: it is missing, or is a folder, a pipe or
 * a device. */
static weft_status open_path(const char *path, weft_status (*by)(const char *path, weft_bytes *out),
                             weft_bytes *out)
{
    struct stat info;
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode))
        return weft_checkpoint_damaged(path, "it is not a regular file");
    if (access(path, F_OK) != 0 && errno == ENOENT)
        return weft_checkpoint_damaged(path, "it is missing");
    return by(path, out);
}

/* Opens a file if the index names it. A mapping stays readable if the run deletes the file. */
static weft_status open_file(const char *folder, const char *name, const json_t *files,
                             weft_status (*by)(const char *path, weft_bytes *out), weft_bytes *out)
{
    char *path;
    if (!json_object_get(files, name)) return WEFT_OK;
    WEFT_TRY(weft_format(&path, "%s/%s", folder, name));
    weft_status status = open_path(path, by, out);
    free(path);
    return status;
}

weft_status weft_checkpoint_check_file(const char *folder, const char *name, const json_t *files,
                                       bool needed, const weft_bytes *bytes)
{
    char *path, have[16];
    const json_t *entry = json_object_get(files, name);
    const char *crc = json_string_value(json_object_get(entry, "crc32"));
    if (!entry && !needed) return WEFT_OK;
    WEFT_TRY(weft_format(&path, "%s/%s", folder, name));
    weft_status status = WEFT_OK;
    if (!crc)
        status = weft_checkpoint_damaged(path, "its checksum is missing");
    else if ((int64_t)bytes->size != json_integer_value(json_object_get(entry, "bytes")))
        status = weft_checkpoint_damaged(path, "its size has changed");
    if (status == WEFT_OK) { /* a checksum reads the whole file */
        (void)snprintf(have, sizeof(have), "%08x", weft_crc32(bytes->data, bytes->size));
        if (strcmp(have, crc) != 0)
            status = weft_checkpoint_damaged(path, "its checksum does not fit");
    }
    free(path);
    return status;
}

static weft_status sum_state(const char *file, const json_t *files, weft_checkpoint *c)
{
    if (!json_is_object(files))
        return weft_checkpoint_damaged(file, "its list of files is missing or no object");
    char *text = json_dumps(files, JSON_COMPACT | JSON_SORT_KEYS);
    if (!text) return weft_fail(WEFT_ERR_MEMORY, "no memory for the checksums of a checkpoint");
    c->state_checksum =
        weft_mix(weft_mix(weft_crc32(text, strlen(text)), c->run), (uint64_t)c->position.step);
    c->state_checksum += c->state_checksum == 0; /* 0: none */
    free(text);
    return WEFT_OK;
}

static weft_status read_watch(const char *file, const json_t *watch, weft_watch *w)
{
    w->loss = json_number_value(json_object_get(watch, "loss"));
    w->weight = json_number_value(json_object_get(watch, "weight"));
    w->best = json_number_value(json_object_get(watch, "best"));
    WEFT_TRY(weft_index_integer(file, watch, "step", 0, INT32_MAX, &w->step));
    WEFT_TRY(weft_index_integer(file, watch, "best_step", 0, INT32_MAX, &w->best_step));
    return weft_index_integer(file, watch, "waited", 0, INT32_MAX, &w->waited);
}

static weft_status read_index(const char *file, const json_t *index, const weft_option *table,
                              weft_checkpoint *c)
{
    int64_t format = json_integer_value(json_object_get(index, "format"));
    if (format < 1 || format > WEFT_CHECKPOINT_FORMAT)
        return weft_fail(WEFT_ERR_UNSUPPORTED,
                         "%s: its format is not 1 to %d; a newer weft wrote it", file,
                         WEFT_CHECKPOINT_FORMAT);
    if (format > 1 && !json_object_get(index, "crc32"))
        return weft_checkpoint_damaged(file, "its own checksum is missing");
    weft_position *at = &c->position;
    int64_t learners = 0;
    at->samples = -1; /* older checkpoints have none */
    WEFT_TRY(weft_index_integer(file, index, "step", 0, INT32_MAX, &at->step));
    WEFT_TRY(weft_index_integer(file, index, "epoch", 0, INT32_MAX, &at->epoch));
    WEFT_TRY(weft_index_integer(file, index, "batch", 0, INT32_MAX, &at->batch));
    WEFT_TRY(weft_index_integer(file, index, "samples", 0, WEFT_MOST_SAMPLES, &at->samples));
    WEFT_TRY(weft_index_integer(file, index, "learners", 0, WEFT_MAX_RANKS, &learners));
    c->learners = (int)learners;
    const json_t *schedule = json_object_get(index, "schedule");
    at->schedule = json_number_value(json_object_get(schedule, "step"));
    WEFT_TRY(weft_index_integer(file, schedule, "epoch", 1, INT32_MAX, &at->schedule_epoch));
    if (schedule && !(at->schedule >= 0 && at->schedule <= INT32_MAX && at->schedule_epoch >= 1))
        return weft_checkpoint_damaged(file, "its place in the schedule is out of range");
    WEFT_TRY(read_watch(file, json_object_get(index, "watch"), &c->watch));
    const json_t *noise = json_object_get(index, "noise");
    c->watch.noise.trace = json_number_value(json_object_get(noise, "trace"));
    c->watch.noise.squared = json_number_value(json_object_get(noise, "squared"));
    const char *run = json_string_value(json_object_get(index, "run"));
    c->run = run ? strtoull(run, NULL, 16) : 0;
    WEFT_TRY(sum_state(file, json_object_get(index, "files"), c));
    WEFT_TRY(weft_settings_read(file, json_object_get(index, "options"), table, &c->settings));
    WEFT_TRY(weft_stats_read(file, json_object_get(index, "data"), &c->stats));
    const char *folder =
        json_string_value(json_object_get(json_object_get(index, "data"), "folder"));
    if (folder) WEFT_TRY(weft_strdup(folder, &c->folder));
    WEFT_TRY(weft_splits_read(file, json_object_get(index, "data"), c->splits));
    return weft_state_words_read(file, json_object_get(index, "states"), c);
}

static weft_status read_files(const json_t *index, weft_checkpoint *c)
{
    const char *const *names = weft_checkpoint_files;
    const json_t *files = json_object_get(index, "files");
    WEFT_TRY(open_file(c->path, "model.yaml", files, weft_file_read, &c->model));
    WEFT_TRY(open_file(c->path, WEFT_TUNING_FILE, files, weft_file_read, &c->tuning));
    for (int i = 0; i < WEFT_CHECKPOINT_FILES; i++)
        WEFT_TRY(open_file(c->path, names[i], files, weft_file_map, &c->files[i]));
    WEFT_TRY(weft_checkpoint_check_file(c->path, "model.yaml", files, false, &c->model));
    WEFT_TRY(weft_checkpoint_check_file(c->path, WEFT_TUNING_FILE, files, false, &c->tuning));
    for (int i = 0; i < WEFT_CHECKPOINT_FILES; i++) {
        WEFT_TRY(weft_checkpoint_check_file(c->path, names[i], files, i <= WEFT_STATE_FILE,
                                            &c->files[i]));
        if (!c->files[i].data) continue;
        WEFT_TRY(
            weft_safetensors_parse(names[i], c->files[i].data, c->files[i].size, &c->tensors[i]));
    }
    return WEFT_OK;
}

static weft_status read_folder(const weft_option *table, bool whole, weft_checkpoint *c)
{
    char *file;
    weft_bytes bytes = {0};
    json_t *index = NULL;
    json_error_t error;
    WEFT_TRY(weft_format(&file, "%s/index.json", c->path));
    weft_status status = open_path(file, weft_file_map, &bytes);
    if (status == WEFT_OK && bytes.size == 0) status = weft_checkpoint_damaged(file, "it is empty");
    if (status == WEFT_OK) status = weft_index_check(file, &bytes);
    if (status == WEFT_OK) {
        index = json_loadb((const char *)bytes.data, bytes.size, JSON_REJECT_DUPLICATES, &error);
        if (!index)
            status = weft_fail(WEFT_ERR_FORMAT, "%s:%d: damaged checkpoint: %s", file, error.line,
                               error.text);
    }
    if (status == WEFT_OK) c->checksum = 1 + (uint64_t)weft_crc32(bytes.data, bytes.size);
    if (status == WEFT_OK) status = read_index(file, index, table, c);
    if (status == WEFT_OK && whole) status = read_files(index, c);
    if (status != WEFT_OK && status != WEFT_ERR_MEMORY)
        status = weft_folder_offer_previous(c->path, status);
    json_decref(index);
    weft_file_unmap(&bytes);
    free(file);
    return status;
}

/* Whether the path still leads to the folder that is held open. Inodes are compared, since that of
 * an open folder is not reused; modification times are too coarse for a run that saves a thousand
 * times a second. */
static bool still_there(const char *folder, int held)
{
    struct stat now, then;
    return folder && held >= 0 && stat(folder, &now) == 0 && fstat(held, &then) == 0 &&
           now.st_dev == then.st_dev && now.st_ino == then.st_ino;
}

/* A training run keeps only its newest checkpoints and may delete one before it is locked. If
 * reading fails and the folder is gone or replaced, the search starts again. */
static weft_status open_folder(const char *path, const weft_option *table, bool whole,
                               weft_checkpoint *out)
{
    weft_status status = WEFT_OK;
    bool again = true;
    for (int i = 0; i < OPEN_TRIES && again; i++) {
        weft_checkpoint c = {0};
        int held = -1;
        status = find_folder(path, &c.path, &held);
        if (status == WEFT_OK) status = read_folder(table, whole, &c);
        again = status != WEFT_OK && status != WEFT_ERR_MEMORY && !still_there(c.path, held);
        if (held >= 0) close(held);
        if (status == WEFT_OK)
            *out = c;
        else
            weft_checkpoint_close(&c);
    }
    return status;
}

weft_status weft_checkpoint_open(const char *path, const weft_option *table, weft_checkpoint *out)
{
    return weft_exported_is(path) ? weft_exported_open(path, table, out)
                                  : open_folder(path, table, true, out);
}

weft_status weft_checkpoint_open_index(const char *path, const weft_option *table,
                                       weft_checkpoint *out)
{
    return open_folder(path, table, false, out);
}

/* The average of a parameter; NULL: the run had none, or has made no update. */
static const weft_tensor *average_of(const weft_checkpoint *c, const weft_tensor *parameter)
{
    char *name;
    const weft_safetensors *state = &c->tensors[WEFT_STATE_FILE];
    const weft_tensor *count = weft_safetensors_find(state, WEFT_AVERAGE_PREFIX "steps");
    static const unsigned char none[sizeof(int32_t)] = {0};
    if (!count || count->bytes != sizeof(none) || memcmp(count->data, none, sizeof(none)) == 0 ||
        weft_format(&name, WEFT_AVERAGE_PREFIX "%s", parameter->name) != WEFT_OK)
        return NULL;
    const weft_tensor *average = weft_safetensors_find(state, name);
    free(name);
    return average && weft_shape_equal(&average->shape, &parameter->shape) ? average : NULL;
}

/* The average in the place of a parameter. to: the room for its numbers if they are rounded. */
static void take_average(weft_tensor *t, const weft_tensor *average, uint16_t *to)
{
    bool rounds = strcmp(t->dtype, "BF16") == 0 && strcmp(average->dtype, "F32") == 0;
    for (size_t i = 0; rounds && i < t->bytes / sizeof(*to); i++) {
        float x;
        memcpy(&x, average->data + i * sizeof(x), sizeof(x));
        to[i] = weft_bf16_of(x);
    }
    char *name = t->name;
    if (!rounds) *t = *average;
    if (rounds) t->data = (const unsigned char *)to;
    t->name = name;
}

weft_status weft_checkpoint_open_model(const char *path, const weft_option *table,
                                       weft_checkpoint *out)
{
    WEFT_TRY(weft_checkpoint_open(path, table, out));
    const weft_safetensors *parameters = &out->tensors[WEFT_PARAMETERS_FILE];
    size_t narrow = 0, at = 0;
    for (size_t i = 0; i < parameters->count; i++)
        if (strcmp(parameters->tensors[i].dtype, "BF16") == 0)
            narrow += parameters->tensors[i].bytes / sizeof(*out->rounded);
    weft_status status = narrow > 0 ? WEFT_NEW(&out->rounded, narrow) : WEFT_OK;
    if (status != WEFT_OK) weft_checkpoint_close(out);
    for (size_t i = 0; i < parameters->count && status == WEFT_OK; i++) {
        weft_tensor *t = &parameters->tensors[i];
        const weft_tensor *average = average_of(out, t);
        size_t room = strcmp(t->dtype, "BF16") == 0 ? t->bytes / sizeof(*out->rounded) : 0;
        if (average) take_average(t, average, room > 0 ? out->rounded + at : NULL);
        at += room;
    }
    return status;
}

void weft_checkpoint_unmap(weft_checkpoint *c)
{
    free(c->rounded);
    c->rounded = NULL;
    for (int i = 0; i < WEFT_CHECKPOINT_FILES; i++) {
        weft_safetensors_free(&c->tensors[i]);
        weft_file_unmap(&c->files[i]);
    }
}

void weft_checkpoint_close(weft_checkpoint *c)
{
    weft_checkpoint_unmap(c);
    for (size_t i = 0; i < c->word_count; i++) {
        free(c->words[i].name);
        free(c->words[i].what);
    }
    free(c->words);
    free((void *)(uintptr_t)c->model.data);
    free((void *)(uintptr_t)c->tuning.data);
    weft_data_stats_free(&c->stats);
    weft_settings_free(&c->settings);
    free(c->path);
    free(c->folder);
    free(c->changed);
    *c = (weft_checkpoint){0};
}

weft_status weft_checkpoint_found(const char *directory, bool *found)
{
    int64_t *steps;
    int count;
    char *latest;
    WEFT_TRY(weft_checkpoint_list(directory, &steps, &count));
    free(steps);
    WEFT_TRY(weft_format(&latest, "%s/latest", directory));
    *found = count > 0 || weft_file_exists(latest);
    free(latest);
    return WEFT_OK;
}

/* ARGUMENT: the folder is absent and would have the name of a checkpoint in the folder of a run. */
static weft_status refuse_absent_step(const char *directory)
{
    const char *name = strrchr(directory, '/');
    int64_t step;
    bool found;
    char *run;
    if (!name || name == directory || weft_file_exists(directory)) return WEFT_OK;
    if (strncmp(name + 1, "step-", 5) != 0 || !weft_parse_int(name + 6, &step)) return WEFT_OK;
    WEFT_TRY(weft_format(&run, "%.*s", (int)(name - directory), directory));
    weft_status status = weft_checkpoint_found(run, &found);
    if (status == WEFT_OK && found)
        status =
            weft_fail(WEFT_ERR_ARGUMENT,
                      "%s is absent, and %s is the folder of a run that has other checkpoints; "
                      "give %s, and the run goes on from its newest one",
                      directory, run, run);
    free(run);
    return status;
}

weft_status weft_folder_suits_run(const char *directory)
{
    char real[PATH_MAX], target[300], *index;
    if (weft_exported_is(directory))
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "%s is an exported model, which no run resumes from; give another folder "
                         "for the checkpoints of this run",
                         directory);
    if (weft_folder_leads_nowhere(directory, target, sizeof(target)))
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "%s is a link to %s, which is absent; a run needs the folder that holds "
                         "its checkpoints, and goes on from the newest one there",
                         directory, target);
    WEFT_TRY(refuse_absent_step(directory));
    WEFT_TRY(weft_format(&index, "%s/index.json", directory));
    bool suits = !weft_file_exists(index);
    free(index);
    if (suits) return WEFT_OK;
    char *name = realpath(directory, real) ? strrchr(real, '/') : NULL;
    bool is_named = name && name > real &&
                    (strncmp(name + 1, "step-", 5) == 0 || strcmp(name + 1, WEFT_LATEST) == 0 ||
                     strcmp(name + 1, WEFT_BEST) == 0);
    if (is_named) *name = '\0';
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "%s is a checkpoint itself, but a run needs the folder that holds its "
                     "checkpoints; give %s",
                     directory, is_named ? real : "a folder that has this one as step-N");
}
