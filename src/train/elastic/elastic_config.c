/* Encodes and decodes the run configuration: pairs of a name and a text, each of which ends with a
 * zero byte. */
#include <float.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/registry.h"
#include "base/settings.h"
#include "train/elastic/elastic.h"

static void add_pair(weft_text *out, const char *name, const char *text)
{
    weft_text_add_bytes(out, name, strlen(name) + 1);
    weft_text_add_bytes(out, text, strlen(text) + 1);
}

static void add_number(weft_text *out, const char *name, int64_t number)
{
    char text[32];
    (void)snprintf(text, sizeof(text), "%" PRId64, number);
    add_pair(out, name, text);
}

static void add_real(weft_text *out, const char *name, double number)
{
    char text[40];
    (void)snprintf(text, sizeof(text), "%a", number);
    add_pair(out, name, text);
}

/* Encodes each gap by its distance from the end of the previous one and its length. */
static weft_status add_gaps(weft_text *out, weft_gap_list gaps)
{
    weft_text text = {0};
    char *taken = NULL;
    int64_t at = 0;
    for (size_t i = 0; i < gaps.count; i++) {
        const weft_codec_gap *g = &gaps.gaps[i];
        weft_text_add(&text, "%s%" PRId64 " %" PRId64, i ? " " : "", g->begin - at, g->count);
        at = g->begin + g->count;
    }
    if (gaps.count == 0) return WEFT_OK;
    WEFT_TRY(weft_text_take(&text, &taken));
    add_pair(out, "@gaps", taken);
    free(taken);
    return WEFT_OK;
}

/* Encodes each segment by the distance of its begin from the previous one and its factor. */
static weft_status add_segments(weft_text *out, weft_segment_list list)
{
    weft_text text = {0};
    char *taken = NULL;
    for (size_t i = 0; i < list.count; i++)
        weft_text_add(&text, "%s%" PRId64 " %a",
                      i            ? " "
                      : list.whole ? "whole "
                                   : "",
                      list.at[i].begin - (i ? list.at[i - 1].begin : 0), list.at[i].factor);
    if (list.count == 0) return WEFT_OK;
    WEFT_TRY(weft_text_take(&text, &taken));
    add_pair(out, "@segments", taken);
    free(taken);
    return WEFT_OK;
}

/* Writes the options of the run under their names, and other facts under names that begin with '@'.
 */
weft_status weft_elastic_config_write(weft_context *context, const weft_elastic_config *config,
                                      weft_text *out)
{
    const weft_option *table = weft_train_table(context);
    weft_settings settings;
    char layout[32];
    WEFT_TRY(weft_settings_take(table, &config->options, &settings));
    const char *plugins = weft_settings_find(&settings, WEFT_SETTING_PLUGINS);
    if (plugins) add_pair(out, "@plugins", plugins); /* before the options that may name theirs */
    for (int i = 0; i < settings.count; i++)
        if (settings.all[i].text != plugins && !weft_cluster_is_own(settings.all[i].name))
            add_pair(out, settings.all[i].name, settings.all[i].text);
    weft_settings_free(&settings);
    add_number(out, "@learners", config->learners);
    add_number(out, "@servers", config->servers);
    add_number(out, "@count", config->count);
    WEFT_TRY(add_gaps(out, config->gaps));
    WEFT_TRY(add_segments(out, config->segments));
    add_number(out, "@steps", config->steps);
    add_number(out, "@dtype", config->dtype);
    add_number(out, "@plain", config->plain_parameters);
    (void)snprintf(layout, sizeof(layout), "%" PRIx64, config->layout);
    add_pair(out, "@layout", layout);
    add_number(out, "@begun.step", config->begun.step);
    add_number(out, "@begun.epoch", config->begun.epoch);
    add_number(out, "@begun.batch", config->begun.batch);
    add_number(out, "@begun.samples", config->begun.samples);
    add_number(out, "@begun.schedule.step", config->place.clock.step);
    add_real(out, "@begun.schedule.at", config->place.clock.at);
    add_real(out, "@begun.schedule.pace", config->place.clock.pace);
    add_number(out, "@begun.schedule.total", config->place.total);
    add_number(out, "@begun.schedule.epoch", config->place.epoch);
    if (config->device) add_pair(out, "@device", config->device);
    if (config->mesh) add_pair(out, "@mesh", config->mesh);
    if (config->model) add_pair(out, "@model", config->model);
    if (config->tuning) add_pair(out, "@tuning", config->tuning);
    return out->failed ? weft_fail_memory(out->size) : WEFT_OK;
}

static weft_status fail_config(const char *name)
{
    return weft_fail(WEFT_ERR_FORMAT,
                     "the run configuration of the coordinator cannot be read ('%.40s'); use the "
                     "same version of weft on all machines",
                     name);
}

/* Reads a number of at most `most` and skips one space behind it; false: there is no such number.
 */
static bool read_number(const char **at, int64_t most, int64_t *out)
{
    *out = 0;
    if (**at < '0' || **at > '9') return false;
    for (; **at >= '0' && **at <= '9'; ++*at) {
        *out = 10 * *out + (**at - '0');
        if (*out > most) return false;
    }
    if (**at == ' ') ++*at;
    return true;
}

/* Reads the gaps. false: they are not in order, one is empty, or one is outside the `count`
 * parameter elements. */
static bool read_gaps(const char *text, int64_t count, weft_gap_list *out, size_t capacity)
{
    int64_t at = 0, length;
    for (int64_t distance; *text; at += distance + length) {
        if (out->count == capacity || !read_number(&text, count - at, &distance) ||
            !read_number(&text, count - at - distance, &length) || length < 1)
            return false;
        out->gaps[out->count++] = (weft_codec_gap){at + distance, length};
    }
    return true;
}

/* Allocates and reads the gaps. A gap takes at least four bytes of text and the last one three,
 * which bounds their number. */
static weft_status take_gaps(weft_elastic_config *config, const char *text)
{
    size_t capacity = strlen(text) / 4 + 1;
    free(config->gaps.gaps);
    free(config->segments.at);
    config->gaps = (weft_gap_list){0};
    WEFT_TRY(WEFT_NEW(&config->gaps.gaps, capacity));
    return read_gaps(text, config->count, &config->gaps, capacity) ? WEFT_OK : fail_config("@gaps");
}

/* Reads the segments. false: they are not in order, or a factor is below 0. */
static bool read_segments(const char *text, int64_t count, weft_segment_list *out, size_t capacity)
{
    static const char whole[] = "whole ";
    int64_t at = 0;
    out->whole = strncmp(text, whole, sizeof(whole) - 1) == 0;
    if (out->whole) text += sizeof(whole) - 1;
    for (int64_t distance; *text; text += *text == ' ') {
        char *end;
        if (out->count == capacity || !read_number(&text, count - 1 - at, &distance)) return false;
        if ((out->count == 0) != (distance == 0)) return false;
        at += distance;
        double factor = strtod(text, &end);
        if (end == text || !(factor >= 0 && factor <= DBL_MAX)) return false;
        text = end;
        out->at[out->count++] = (weft_segment){at, factor};
    }
    return true;
}

static weft_status take_segments(weft_elastic_config *config, const char *text)
{
    size_t capacity = strlen(text) / 3 + 1;
    free(config->segments.at);
    config->segments = (weft_segment_list){0};
    WEFT_TRY(WEFT_NEW(&config->segments.at, capacity));
    return read_segments(text, config->count, &config->segments, capacity)
               ? WEFT_OK
               : fail_config("@segments");
}

/* Takes a number of the place in the schedule; false: it is none, or out of range. */
static bool take_place(weft_schedule_place *place, const char *name, const char *text)
{
    int64_t number = 0;
    char *end;
    double real = strtod(text, &end);
    bool whole = weft_parse_int(text, &number) && number >= 0 && number <= INT32_MAX;
    if (strcmp(name, "step") == 0) place->clock.step = number;
    if (strcmp(name, "total") == 0) place->total = number;
    if (strcmp(name, "epoch") == 0) place->epoch = number;
    if (strcmp(name, "at") == 0) place->clock.at = real;
    if (strcmp(name, "pace") == 0) place->clock.pace = real;
    if (strcmp(name, "at") == 0 || strcmp(name, "pace") == 0)
        return *text && !*end && real >= 0 && real <= INT32_MAX;
    return whole;
}

static weft_status take_pair(weft_context *context, weft_elastic_config *config, const char *name,
                             const char *text)
{
    const weft_option *table = weft_train_table(context), *o = table;
    int64_t number = 0;
    bool valid = weft_parse_int(text, &number) && number >= 0;
    const struct {
        const char *name;
        char **to;
    } texts[] = {{"@model", &config->model},
                 {"@tuning", &config->tuning},
                 {"@device", &config->device},
                 {"@mesh", &config->mesh}};
    for (size_t i = 0; i < WEFT_COUNT(texts); i++) {
        if (strcmp(name, texts[i].name) != 0) continue;
        free(*texts[i].to);
        *texts[i].to = NULL;
        return weft_strdup(text, texts[i].to);
    }
    if (strcmp(name, "@plugins") == 0) return weft_plugin_remember(context, text);
    if (strcmp(name, "@gaps") == 0) return take_gaps(config, text);
    if (strcmp(name, "@segments") == 0) return take_segments(config, text);
    if (*name != '@') {
        while (o->name && strcmp(o->name, name) != 0) o++;
        if (!o->name || weft_cluster_is_own(name)) return fail_config(name);
        return weft_options_set(table, &config->options, name, text);
    }
    static const char schedule[] = "@begun.schedule.";
    if (strncmp(name, schedule, sizeof(schedule) - 1) == 0)
        return take_place(&config->place, name + sizeof(schedule) - 1, text) ? WEFT_OK
                                                                             : fail_config(name);
    if (strcmp(name, "@layout") == 0) {
        char *end;
        config->layout = strtoull(text, &end, 16);
        return *text && !*end ? WEFT_OK : fail_config(name);
    }
    if (!valid) return fail_config(name);
    if (strcmp(name, "@learners") == 0 && number >= 1 && number <= WEFT_MAX_RANKS)
        config->learners = (int)number;
    else if (strcmp(name, "@servers") == 0 && number <= WEFT_MAX_RANKS)
        config->servers = (int)number;
    else if (strcmp(name, "@count") == 0 && config->gaps.count == 0 && config->segments.count == 0)
        config->count = number;
    else if (strcmp(name, "@steps") == 0)
        config->steps = number;
    else if (strcmp(name, "@begun.step") == 0)
        config->begun.step = number;
    else if (strcmp(name, "@begun.epoch") == 0)
        config->begun.epoch = number;
    else if (strcmp(name, "@begun.batch") == 0)
        config->begun.batch = number;
    else if (strcmp(name, "@begun.samples") == 0)
        config->begun.samples = number;
    else if (strcmp(name, "@dtype") == 0 && (number == WEFT_F32 || number == WEFT_F64))
        config->dtype = (weft_dtype)number;
    else if (strcmp(name, "@plain") == 0 && number <= 1)
        config->plain_parameters = number == 1;
    else
        return fail_config(name);
    return WEFT_OK;
}

/* Sets the options that each process chooses for itself to those of the joining process. */
static weft_status take_own(weft_context *context, const weft_train_options *own,
                            weft_elastic_config *config)
{
    const weft_option *table = weft_train_table(context);
    for (const weft_option *o = table; o->name; o++) {
        char *text;
        if (!weft_cluster_is_own(o->name)) continue;
        WEFT_TRY(weft_options_get(table, own, o->name, &text));
        weft_status status =
            text ? weft_options_set(table, &config->options, o->name, text) : WEFT_OK;
        free(text);
        WEFT_TRY(status);
    }
    return WEFT_OK;
}

weft_status weft_elastic_config_read(weft_context *context, const char *text, size_t bytes,
                                     const weft_train_options *own, weft_elastic_config *out)
{
    const char *at = text, *end = text + bytes;
    *out = (weft_elastic_config){.dtype = WEFT_F32};
    if (!text || !bytes || end[-1] != '\0') return fail_config("nothing");
    weft_status status = weft_train_options_init(context, &out->options);
    while (status == WEFT_OK && at < end) {
        const char *name = at, *value = name + strlen(name) + 1;
        if (value >= end) {
            status = fail_config(name);
            break;
        }
        status = take_pair(context, out, name, value);
        at = value + strlen(value) + 1;
    }
    if (status == WEFT_OK && out->learners < 1) status = fail_config("learners");
    if (status == WEFT_OK) status = take_own(context, own, out);
    if (status != WEFT_OK) weft_elastic_config_free(context, out);
    return status;
}

void weft_elastic_config_free(weft_context *context, weft_elastic_config *config)
{
    weft_options_free(weft_train_table(context), &config->options);
    free(config->model);
    free(config->tuning);
    free(config->device);
    free(config->mesh);
    free(config->gaps.gaps);
    free(config->segments.at);
    *config = (weft_elastic_config){0};
}
