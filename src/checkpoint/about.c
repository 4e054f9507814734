/* Converts the contents of a checkpoint's index to JSON and back: the settings of the run, the
 * splits of its data, and the descriptions of the exchange's states. */
#include <stdio.h>
#include <stdlib.h>

#include "base/registry.h"
#include "checkpoint/about.h"
#include "formats/formats.h"

weft_status weft_checkpoint_damaged(const char *file, const char *what)
{
    return weft_fail(WEFT_ERR_FORMAT, "%s: damaged checkpoint: %s", file, what);
}

weft_status weft_index_integer(const char *file, const json_t *object, const char *name,
                               int64_t least, int64_t most, int64_t *out)
{
    const json_t *entry = json_object_get(object, name);
    int64_t value = json_integer_value(entry);
    if (!entry) return WEFT_OK;
    if (!json_is_integer(entry))
        return weft_fail(WEFT_ERR_FORMAT, "%s: damaged checkpoint: '%s' is not an integer", file,
                         name);
    if (value < least || value > most)
        return weft_fail(WEFT_ERR_FORMAT,
                         "%s: damaged checkpoint: '%s' is %lld, must be from %lld to %lld", file,
                         name, (long long)value, (long long)least, (long long)most);
    *out = value;
    return WEFT_OK;
}

weft_status weft_index_text(const json_t *index, char **out)
{
    char *text = json_dumps(index, JSON_INDENT(1) | JSON_REAL_PRECISION(17));
    if (!text) return weft_fail_memory(1);
    size_t size = strlen(text) - 2; /* without the final newline and brace */
    weft_status status = weft_format(out, "%.*s" WEFT_INDEX_CRC "%08x\"\n}", (int)size, text,
                                     weft_crc32((const unsigned char *)text, size));
    free(text);
    return status;
}

weft_status weft_index_check(const char *file, const weft_bytes *bytes)
{
    const char *text = (const char *)bytes->data, key[] = WEFT_INDEX_CRC;
    size_t tail = sizeof(key) - 1 + 8 + 3; /* eight digits, a quote, a newline and the brace */
    char want[16];
    if (bytes->size < tail || memcmp(text + bytes->size - tail, key, sizeof(key) - 1) != 0)
        return WEFT_OK;
    size_t size = bytes->size - tail;
    (void)snprintf(want, sizeof(want), "%08x\"\n}", weft_crc32(bytes->data, size));
    if (memcmp(text + size + sizeof(key) - 1, want, 11) != 0)
        return weft_checkpoint_damaged(file, "its own checksum does not fit");
    return WEFT_OK;
}

json_t *weft_settings_json(const weft_settings *settings)
{
    json_t *object = json_object();
    for (int i = 0; i < settings->count; i++)
        json_object_set_new(object, settings->all[i].name, json_string(settings->all[i].text));
    return object;
}

/* Reads the options that the table lists and ignores all others. An option that the object lacks
 * gets the table's initial value, or is left unset if the table has none. */
weft_status weft_settings_read(const char *file, const json_t *object, const weft_option *table,
                               weft_settings *out)
{
    for (const weft_option *o = table; o->name; o++) {
        const char *text = json_string_value(json_object_get(object, o->name));
        if (!text && !o->initial) continue;
        weft_status status = weft_settings_add(out, o, text ? text : o->initial);
        if (status != WEFT_OK) return weft_fail_within(status, "%s", file);
    }
    const char *plugins = json_string_value(json_object_get(object, WEFT_SETTING_PLUGINS));
    if (!plugins || !*plugins || !weft_is_printable(plugins) || !table->context ||
        weft_settings_find(out, WEFT_SETTING_PLUGINS))
        return WEFT_OK;
    WEFT_TRY(weft_plugin_remember(table->context, plugins));
    return weft_settings_add(
        out, &(weft_option){.name = WEFT_SETTING_PLUGINS, .kind = WEFT_OPT_STRING}, plugins);
}

static json_t *hash_json(uint64_t hash)
{
    return json_sprintf("%016llx", (unsigned long long)hash);
}

/* 0: there is none. */
static uint64_t hash_of(const json_t *text)
{
    return json_is_string(text) ? strtoull(json_string_value(text), NULL, 16) : 0;
}

void weft_splits_add(json_t *data, const weft_split_id splits[WEFT_SPLITS])
{
    json_t *array = json_array();
    int count = splits[WEFT_VALIDATION].samples > 0 ? WEFT_SPLITS : WEFT_VALIDATION;
    for (int i = 0; i < count; i++) {
        json_t *least = splits[i].leasts > 0 && i == WEFT_TRAIN ? json_array() : NULL;
        for (int k = 0; k < splits[i].leasts && least; k++)
            json_array_append_new(least, hash_json(splits[i].least[k]));
        json_t *rows = splits[i].rows ? hash_json(splits[i].rows) : NULL;
        json_array_append_new(
            array, json_pack("{s:I, s:o, s:o*, s:o*}", "samples", (json_int_t)splits[i].samples,
                             "hash", hash_json(splits[i].hash), "rows", rows, "least", least));
    }
    json_object_set_new(data, "splits", array);
}

weft_status weft_splits_read(const char *file, const json_t *data,
                             weft_split_id splits[WEFT_SPLITS])
{
    const json_t *array = json_object_get(data, "splits");
    size_t count = json_array_size(array) > WEFT_VALIDATION ? WEFT_SPLITS : WEFT_VALIDATION;
    for (size_t i = 0; i < count && array; i++) {
        const json_t *split = json_array_get(array, i);
        const json_t *hash = json_object_get(split, "hash"),
                     *least = json_object_get(split, "least");
        int64_t samples = 0;
        if (!json_is_string(hash))
            return weft_checkpoint_damaged(file, "the splits of its data are incomplete");
        WEFT_TRY(weft_index_integer(file, split, "samples", 0, WEFT_MOST_SAMPLES, &samples));
        splits[i] = (weft_split_id){.samples = samples,
                                    .hash = hash_of(hash),
                                    .rows = hash_of(json_object_get(split, "rows"))};
        splits[i].leasts = (int)WEFT_MIN(json_array_size(least), (size_t)WEFT_LEAST_ROWS);
        for (int k = 0; k < splits[i].leasts; k++)
            splits[i].least[k] = hash_of(json_array_get(least, (size_t)k));
    }
    return WEFT_OK;
}

json_t *weft_state_words_json(const weft_checkpoint_source *source)
{
    weft_exchange_state s;
    json_t *object = json_object();
    for (int i = 0; weft_source_state_at(source, 0, i, &s); i++)
        if (s.what) json_object_set_new(object, s.name, json_string(s.what));
    return object;
}

weft_status weft_state_words_read(const char *file, json_t *object, weft_checkpoint *out)
{
    const char *name;
    json_t *what;
    WEFT_TRY(WEFT_NEW(&out->words, json_object_size(object)));
    json_object_foreach(object, name, what)
    {
        const char *text = json_string_value(what);
        weft_state_words *w = &out->words[out->word_count];
        if (!text || !weft_is_printable(text))
            return weft_checkpoint_damaged(file,
                                           "the description of an exchange state is not a string");
        out->word_count++;
        WEFT_TRY(weft_strdup(name, &w->name));
        WEFT_TRY(weft_strdup(text, &w->what));
    }
    return WEFT_OK;
}
