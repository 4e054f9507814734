/* Saves the learned batch times of a model version to a file, and reads them at the next start. The
 * times are used only if the key is equal, which describes the network, the machine and the
 * options. */
#include "serve/batch_times.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>

#include "serve/servable.h"

struct weft_batch_times_key {
    json_t *json;
};

/* --- the key --- */

weft_status weft_batch_times_key_of(const weft_servable *s, weft_batch_times_key **out)
{
    char processor[200], network[32], *text;
    WEFT_TRY(weft_graph_text(s->sizes[0].graph, &text));
    (void)snprintf(network, sizeof(network), "%016llx", (unsigned long long)weft_hash_text(text));
    free(text);
    weft_processor_name(processor, sizeof(processor));
    WEFT_TRY(WEFT_NEW(out, 1));
    (*out)->json =
        json_pack("{s:s, s:s, s:s, s:i, s:s, s:i, s:i, s:s}", "weft", weft_version(), "network",
                  network, "processor", processor, "cores", weft_cores(), "device", s->device,
                  "threads", weft_context_threads(s->context), "instances", s->executors, "mesh",
                  s->weights.mesh ? s->weights.mesh : "");
    if ((*out)->json) return WEFT_OK;
    weft_batch_times_key_free(out);
    return weft_fail_memory(1);
}

void weft_batch_times_key_free(weft_batch_times_key **key)
{
    if (!*key) return;
    json_decref((*key)->json);
    free(*key);
    *key = NULL;
}

/* --- the file --- */

/* The default file of the batch times. A checkpoint step-N of a training run uses a file in the
 * folder of the run, which remains when old checkpoints are deleted. Any other model uses a file in
 * its own folder. */
static weft_status default_path(const char *path, char **out)
{
    const char *slash = strrchr(path, '/'), *last = slash ? slash + 1 : path;
    if (slash && strncmp(last, "step-", 5) == 0)
        return weft_format(out, "%.*s/" WEFT_BATCH_TIMES_FILE, (int)(slash - path), path);
    return weft_format(out, "%s/" WEFT_BATCH_TIMES_FILE, path);
}

weft_status weft_batch_times_file(const weft_servable *s, const char *option, char **out)
{
    *out = NULL;
    if (!option || !*option) return default_path(s->checkpoint.path, out);
    if (strcmp(option, "none") == 0) return WEFT_OK;
    return weft_format(out, "%s/%s.json", option, s->name);
}

/* --- reading --- */

/* Logs the first entry of the key that differs, with its value in the file and its value now. */
static void log_difference(const weft_servable *s, const json_t *key)
{
    const char *name;
    json_t *mine;
    json_object_foreach(s->key->json, name, mine)
    {
        const json_t *other = json_object_get(key, name);
        if (json_equal(mine, other)) continue;
        char *have = other ? json_dumps(other, JSON_ENCODE_ANY) : NULL;
        char *want = json_dumps(mine, JSON_ENCODE_ANY);
        weft_log(s->context, WEFT_LOG_NOTE,
                 "%s is not used: %s was %s when it was measured, and is %s", s->times_path, name,
                 have ? have : "not said", want ? want : "another");
        free(have);
        free(want);
        return;
    }
}

static bool take_numbers(const json_t *root, weft_batch_times *out)
{
    const json_t *rows = json_object_get(root, "rows"), *seconds = json_object_get(root, "seconds"),
                 *slower = json_object_get(root, "slower");
    size_t count = json_array_size(rows), executors = json_array_size(slower);
    if (count == 0 || count > WEFT_MOST_SIZES || json_array_size(seconds) != count ||
        executors > WEFT_MOST_EXECUTORS)
        return false;
    for (size_t i = 0; i < count; i++) {
        out->rows[i] = json_integer_value(json_array_get(rows, i));
        out->seconds[i] = json_number_value(json_array_get(seconds, i));
        bool grows =
            i == 0 ? out->rows[0] >= 1
                   : out->rows[i] > out->rows[i - 1] && out->seconds[i] >= out->seconds[i - 1];
        if (!grows || !(out->seconds[i] > 0) || !isfinite(out->seconds[i])) return false;
    }
    for (size_t e = 0; e < executors; e++) {
        out->slowdown[e] = json_number_value(json_array_get(slower, e));
        if (!(out->slowdown[e] > 0) || !isfinite(out->slowdown[e])) return false;
    }
    out->count = (int)count;
    out->executors = (int)executors;
    return true;
}

void weft_batch_times_read(const weft_servable *s, weft_batch_times *out)
{
    weft_bytes text = {0};
    *out = (weft_batch_times){0};
    if (!s->times_path || !weft_file_exists(s->times_path)) return;
    if (weft_file_read(s->times_path, &text) != WEFT_OK) {
        weft_log(s->context, WEFT_LOG_NOTE, "%s; it is not used", weft_last_message());
        return;
    }
    json_t *root = json_loadb((const char *)text.data, text.size, JSON_REJECT_DUPLICATES, NULL);
    weft_free((void *)(uintptr_t)text.data);
    const json_t *key = json_object_get(root, "key");
    if (!json_is_object(key))
        weft_log(s->context, WEFT_LOG_NOTE, "%s is not used: it has no batch times", s->times_path);
    else if (!json_equal(key, s->key->json))
        log_difference(s, key);
    else if (!take_numbers(root, out)) {
        *out = (weft_batch_times){0};
        weft_log(s->context, WEFT_LOG_NOTE, "%s is not used: its times are damaged", s->times_path);
    }
    json_decref(root);
}

/* --- writing --- */

static void collect(const weft_servable *s, weft_batch_times *out)
{
    *out = (weft_batch_times){.executors = s->executors};
    double last = weft_batch_queue_batch_time(s->queue, s->limit, 1);
    for (int i = 0; i < s->count && last > 0; i++) {
        out->rows[out->count] = s->sizes[i].rows;
        out->seconds[out->count++] = weft_batch_queue_batch_time(s->queue, s->sizes[i].rows, 1);
    }
    for (int e = 0; e < s->executors; e++)
        out->slowdown[e] =
            last > 0 ? weft_batch_queue_batch_time(s->queue, s->limit, e + 1) / last : 1;
}

void weft_batch_times_take(const weft_servable *s, const weft_servable *from, weft_batch_times *out)
{
    *out = (weft_batch_times){0};
    if (from && from->queue && from->key && json_equal(from->key->json, s->key->json))
        collect(from, out);
}

void weft_batch_times_write(weft_servable *s)
{
    weft_batch_queue_stats stats;
    weft_batch_times t;
    if (!s->times_path || !s->queue) return;
    weft_batch_queue_describe(s->queue, &stats);
    if (stats.batches == s->saved_batches) return;
    collect(s, &t);
    if (t.count == 0) return;
    json_t *rows = json_array(), *seconds = json_array(), *slower = json_array();
    for (int i = 0; i < t.count; i++) {
        json_array_append_new(rows, json_integer(t.rows[i]));
        json_array_append_new(seconds, json_real(t.seconds[i]));
    }
    for (int e = 0; e < t.executors; e++) json_array_append_new(slower, json_real(t.slowdown[e]));
    json_t *root = json_pack("{s:O, s:o, s:o, s:o}", "key", s->key->json, "rows", rows, "seconds",
                             seconds, "slower", slower);
    char *text = root ? json_dumps(root, JSON_INDENT(1) | JSON_REAL_PRECISION(6)) : NULL;
    /* A failed write is only logged: without the file, the next start measures the times again. */
    if (!text || weft_file_replace(s->times_path, WEFT_OUTPUT_OWN, text, strlen(text)) != WEFT_OK)
        weft_log(s->context, WEFT_LOG_INFO, "the measured batch times are not saved: %s",
                 text ? weft_last_message() : "no memory");
    s->saved_batches = stats.batches;
    free(text);
    json_decref(root);
}

double weft_batch_times_at(const weft_batch_times *t, int64_t rows)
{
    if (t->count == 0 || rows < t->rows[0] || rows > t->rows[t->count - 1]) return 0;
    int i = 0;
    while (t->rows[i] < rows) i++;
    if (t->rows[i] == rows) return t->seconds[i];
    double part = (double)(rows - t->rows[i - 1]) / (double)(t->rows[i] - t->rows[i - 1]);
    return t->seconds[i - 1] + part * (t->seconds[i] - t->seconds[i - 1]);
}
