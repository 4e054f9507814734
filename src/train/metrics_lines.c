/* Metrics as a file of lines: each event is a line of JSON. When a run resumes, the lines of steps
 * after its checkpoint are cut off, since the run writes them again. */
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "train/metrics.h"
#include "weft/output.h"

/* The line formats by kind of event. */
static const struct {
    weft_event_kind kind;
    const char *head;
    const char *part; /* of an evaluation; NULL: the event has none */
} lines[] = {{WEFT_EVENT_STEP, "{\"event\":\"step\",\"step\":", NULL},
             {WEFT_EVENT_EVAL, "{\"event\":\"eval\",\"step\":", "test"},
             {WEFT_EVENT_EVAL, "{\"event\":\"eval\",\"step\":", "validation"},
             {WEFT_EVENT_CHOICE, "{\"event\":\"choice\",\"step\":", NULL},
             {WEFT_EVENT_SUMMARY, "{\"event\":\"summary\",\"steps\":", NULL}};

/* Whether a line is of a row of the table. */
static bool is_of(size_t row, const char *line, size_t size)
{
    char part[40];
    size_t head = strlen(lines[row].head);
    if (size <= head || strncmp(line, lines[row].head, head) != 0) return false;
    if (!lines[row].part) return true;
    int length = snprintf(part, sizeof(part), "\"split\":\"%s\"", lines[row].part);
    return memmem(line, size, part, (size_t)length) != NULL;
}

typedef struct metrics_file {
    weft_output *to;
    int64_t last[WEFT_COUNT(lines)]; /* step of the last line of each kind; -1: none */
} metrics_file;

/* The step of a line that weft_metrics_event wrote; *kind gets its index in `lines`. -1: it is no
 * such line. */
static int64_t step_of(const char *line, size_t size, size_t *kind)
{
    for (size_t i = 0; i < WEFT_COUNT(lines); i++) {
        size_t head = strlen(lines[i].head);
        int64_t step;
        char number[24];
        if (!is_of(i, line, size)) continue;
        size_t digits = WEFT_MIN(strspn(line + head, "0123456789"), sizeof(number) - 1);
        (void)snprintf(number, sizeof(number), "%.*s", (int)digits, line + head);
        *kind = i;
        return weft_parse_int(number, &step) ? step : -1;
    }
    return -1;
}

/* Sets *end to where the file is to be cut: the first line of a step after `step`, or a last line
 * that a crash has cut off. FORMAT: the file has other lines than metrics; it is left unchanged. */
static weft_status find_end(metrics_file *m, const char *path, const char *text, size_t size,
                            int64_t step, size_t *end)
{
    *end = SIZE_MAX;
    for (size_t at = 0, line = 1; at < size; line++) {
        const char *newline = memchr(text + at, '\n', size - at);
        size_t length = newline ? (size_t)(newline - text) - at : size - at;
        size_t kind = 0;
        int64_t of = newline ? step_of(text + at, length, &kind) : INT64_MAX;
        if (of < 0)
            return weft_fail(WEFT_ERR_FORMAT,
                             "%s:%zu: is not a line of metrics, so the run does not append to this "
                             "file; give another one",
                             path, line);
        if (of > step && *end == SIZE_MAX) *end = at;
        if (*end == SIZE_MAX) m->last[kind] = of;
        at += length + 1;
    }
    *end = WEFT_MIN(*end, size);
    return WEFT_OK;
}

/* Cuts off the lines of steps after `step`, that of the checkpoint. The resumed run writes them
 * again. */
static weft_status cut_back(metrics_file *m, const char *path, int64_t step)
{
    struct stat info;
    weft_bytes file;
    char *text;
    size_t end = 0;
    if (weft_output_is_standard(path) || stat(path, &info) != 0 || !S_ISREG(info.st_mode))
        return WEFT_OK;
    WEFT_TRY(weft_file_map(path, &file));
    weft_status status = WEFT_NEW(&text, file.size + 1); /* with a terminating zero byte */
    if (status == WEFT_OK && file.size > 0) memcpy(text, file.data, file.size);
    size_t size = file.size;
    weft_file_unmap(&file);
    WEFT_TRY(status);
    status = find_end(m, path, text, size, step, &end);
    if (status == WEFT_OK && end < size && truncate(path, (off_t)end) != 0)
        status = weft_fail_io("cut", path);
    free(text);
    return status;
}

static weft_status open_file(const char *path, int64_t after, void **out)
{
    metrics_file *m;
    WEFT_TRY(WEFT_NEW(&m, 1));
    for (size_t i = 0; i < WEFT_COUNT(lines); i++) m->last[i] = -1;
    weft_status status =
        weft_output_open(path, after >= 0 ? WEFT_OUTPUT_APPEND : WEFT_OUTPUT_STREAM, &m->to);
    if (status == WEFT_OK && after >= 0) status = cut_back(m, path, after); /* with its lock */
    if (status == WEFT_OK) {
        *out = m;
        return WEFT_OK;
    }
    (void)!weft_output_close(&m->to, false); /* the first failure counts */
    free(m);
    return status;
}

static void real_digits(weft_text *text, const char *key, double value, int digits)
{
    char number[32];
    weft_text_add(text, ",\"%s\":%s", key, weft_json_real(value, digits, number, sizeof(number)));
}

static void real(weft_text *text, const char *key, double value)
{
    real_digits(text, key, value, 9);
}

static void add_event_numbers(weft_text *f, const weft_event *e)
{
    weft_event_number n;
    for (int i = 0; weft_event_number_at(e, i, &n); i++) {
        if (n.digits > 0)
            real_digits(f, n.key, n.value, n.digits);
        else
            weft_text_add(f, ",\"%s\":%.0f", n.key, n.value);
    }
}

/* Former keys of the summary, which are written beside the present ones for one release. */
static const char *const former_keys[][2] = {
    {"exchange_messages", "exchange_letters"},
    {"exchange_messages_lost", "exchange_letters_lost"},
    {"exchange_messages_dropped", "exchange_letters_dropped"},
    {"exchange_mean_contributors", "exchange_mean_of"},
};

static void add_numbers(weft_text *f, const char *key, const weft_series *s)
{
    bool list = s->list || s->count > 1;
    weft_text_add(f, ",\"%s\":%s", key, list ? "[" : "");
    for (int i = 0; i < s->count; i++) weft_text_add(f, "%s%.12g", i ? "," : "", s->numbers[i]);
    if (list) weft_text_add(f, "]");
}

static void add_series(weft_text *f, const weft_series *s)
{
    add_numbers(f, s->name, s);
    for (size_t i = 0; i < WEFT_COUNT(former_keys); i++)
        if (strcmp(s->name, former_keys[i][0]) == 0) add_numbers(f, former_keys[i][1], s);
}

static void add_choice(weft_text *f, const weft_event *e)
{
    weft_text_add(f, "{\"event\":\"choice\",\"step\":%lld,\"epoch\":%lld", (long long)e->step,
                  (long long)e->epoch);
    real(f, "noise_scale", e->noise_scale);
    weft_text_add(f, ",\"chosen\":");
    if (e->chosen >= 0)
        weft_text_add_json(f, e->ways[e->chosen].words);
    else
        weft_text_add(f, "null");
    weft_text_add(f, ",\"ways\":[");
    for (int i = 0; i < e->way_count; i++) {
        weft_text_add(f, "%s{\"options\":", i ? "," : "");
        weft_text_add_json(f, e->ways[i].words);
        real(f, "step_seconds", e->ways[i].step_seconds);
        real(f, "batch", e->ways[i].batch);
        real(f, "cost_seconds", e->ways[i].cost);
        weft_text_add(f, "}");
    }
    weft_text_add(f, "]");
    real(f, "seconds", e->seconds);
}

static void add_event(weft_text *f, const weft_event *e)
{
    switch (e->kind) {
    case WEFT_EVENT_STEP:
        weft_text_add(f, "{\"event\":\"step\",\"step\":%lld,\"epoch\":%lld", (long long)e->step,
                      (long long)e->epoch);
        add_event_numbers(f, e);
        break;
    case WEFT_EVENT_EVAL:
        weft_text_add(f, "{\"event\":\"eval\",\"step\":%lld,\"epoch\":%lld,\"split\":\"%s\"",
                      (long long)e->step, (long long)e->epoch, e->report->part);
        add_event_numbers(f, e);
        if (e->best) weft_text_add(f, ",\"best\":true");
        if (e->path) weft_text_add(f, ",\"weights\":");
        if (e->path) weft_text_add_json(f, e->path);
        break;
    case WEFT_EVENT_CHOICE: add_choice(f, e); break;
    case WEFT_EVENT_SUMMARY:
        weft_text_add(f, "{\"event\":\"summary\",\"steps\":%lld", (long long)e->step);
        real(f, "seconds", e->seconds);
        real(f, "samples_per_second", e->samples_per_second);
        real(f, "first_step_seconds", e->first_step_seconds);
        weft_text_add(f,
                      ",\"since_step\":%lld,\"peak_rss_bytes\":%zu,\"ranks\":%d,\"learners\":%d,"
                      "\"rank_bytes\":[",
                      (long long)e->since, e->peak_memory, e->ranks, e->learners);
        for (int i = 0; i < e->ranks; i++)
            weft_text_add(f, "%s%.0f", i ? "," : "", e->rank_memory[i]);
        weft_text_add(f, "]");
        if (e->device) {
            weft_text_add(f, ",\"device\":");
            weft_text_add_json(f, e->device);
        }
        for (int i = 0; i < e->series_count; i++) add_series(f, &e->series[i]);
        break;
    default: return;
    }
    weft_text_add(f, "}\n");
}

/* An event whose line is in the file since before a resume is not written again. */
static weft_status write_line(void *writer, const weft_event *e)
{
    metrics_file *m = writer;
    weft_text text = {0};
    char *line;
    for (size_t i = 0; i < WEFT_COUNT(lines); i++)
        if (lines[i].kind == e->kind && m->last[i] == e->step &&
            (!lines[i].part || strcmp(lines[i].part, e->report->part) == 0))
            return WEFT_OK;
    add_event(&text, e);
    WEFT_TRY(weft_text_take(&text, &line));
    weft_status status = weft_output_write(m->to, line, strlen(line));
    free(line);
    return status;
}

static weft_status close_file(void *writer)
{
    metrics_file *m = writer;
    weft_status status = weft_output_close(&m->to, true);
    free(m);
    return status;
}

const weft_metrics_format weft_metrics_lines = {
    .name = "", .open = open_file, .event = write_line, .close = close_file};
