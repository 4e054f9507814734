/* The table of measured times, and its text: a first line with the format, lines about the machine,
 * and a line for each measurement. Tabs separate the fields of a line:
 *
 *   weft-times   1
 *   version      of Weft
 *   processor    name
 *   time         threads, ranks, seconds, operations, bytes, kind, group
 *   end          number of the measurements
 */
#include <math.h>
#include <stdio.h>

#include "cost/times_internal.h"

static const char title[] = "weft-times\t1";
enum { FIELDS = 8, MOST_CORES = 4096 };
static const double MOST_SECONDS = 1e6; /* of a kernel */

weft_status weft_times_new(weft_times **out)
{
    char processor[200];
    weft_processor_name(processor, sizeof(processor));
    WEFT_TRY(WEFT_NEW(out, 1));
    weft_status status = weft_strdup(processor, &(*out)->processor);
    if (status != WEFT_OK) weft_times_free(out);
    return status;
}

void weft_times_free(weft_times **times)
{
    weft_times *t = *times;
    *times = NULL;
    if (!t) return;
    for (size_t i = 0; i < t->count; i++) free(t->lines[i].own);
    free(t->lines);
    free(t->settings);
    free(t->processor);
    free(t);
}

size_t weft_times_count(const weft_times *times)
{
    return times->count;
}

const char *weft_times_processor(const weft_times *times)
{
    return times->processor;
}

uint64_t weft_times_operator(const char *kind)
{
    char name[64];
    (void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(kind, "+ "), kind);
    return weft_hash_text(name);
}

uint64_t weft_times_form(const char *kind)
{
    return weft_hash_text(kind + strcspn(kind, " "));
}

uint64_t weft_times_family(const char *group)
{
    char name[64];
    const char *end = strchr(group, '-');
    if (!end) return 0;
    (void)snprintf(name, sizeof(name), "%.*s", (int)(end - group), group);
    return weft_hash_text(name);
}

weft_status weft_times_add(weft_times *t, const weft_timed *what, double seconds)
{
    size_t kind = strlen(what->kind) + 1, group = strlen(what->group) + 1;
    WEFT_TRY(WEFT_GROW(&t->lines, &t->capacity, t->count));
    time_line *line = &t->lines[t->count];
    *line = (time_line){.threads = what->threads,
                        .ranks = what->ranks,
                        .flops = what->flops,
                        .bytes = what->bytes,
                        .seconds = seconds};
    WEFT_TRY(WEFT_NEW(&line->own, kind + group));
    line->kind = memcpy(line->own, what->kind, kind);
    line->group = memcpy(line->own + kind, what->group, group);
    line->kind_hash = weft_hash_text(what->kind);
    line->operator_hash = weft_times_operator(what->kind);
    line->group_hash = weft_hash_text(what->group);
    line->form_hash = weft_times_form(what->kind);
    line->family_hash = weft_times_family(what->group);
    t->count++;
    t->indexed = false;
    return WEFT_OK;
}

weft_status weft_times_add_all(weft_times *t, const weft_times *from)
{
    for (size_t i = 0; i < from->count; i++) {
        const time_line *m = &from->lines[i];
        const weft_timed what = {m->kind, m->group, m->threads, m->ranks, m->flops, m->bytes};
        WEFT_TRY(weft_times_add(t, &what, m->seconds));
    }
    return WEFT_OK;
}

double weft_times_spread(const weft_times *times)
{
    return times->errors[WEFT_BY_SIZE];
}

/* --- text --- */

static weft_status damaged(const char *where, int number, const char *why)
{
    return weft_fail(WEFT_ERR_FORMAT, "%s:%d: %s; weft measure writes a new file", where, number,
                     why);
}

static bool parse_count(const char *text, int *out)
{
    int64_t number;
    if (!weft_parse_int(text, &number) || number < 1 || number > MOST_CORES) return false;
    *out = (int)number;
    return true;
}

static bool parse_amount(const char *text, double *out)
{
    return weft_parse_real(text, out) && *out >= 0 && isfinite(*out);
}

static weft_status take_time(weft_times *t, char *const *field, const char *where, int number)
{
    weft_timed what = {.kind = field[6], .group = field[7]};
    double seconds;
    if (!parse_count(field[1], &what.threads) || !parse_count(field[2], &what.ranks))
        return damaged(where, number, "threads and ranks must be from 1 to 4096");
    if (!parse_amount(field[3], &seconds) || seconds == 0 || seconds > MOST_SECONDS)
        return damaged(where, number, "the seconds are no number above 0, up to 1e6");
    if (!parse_amount(field[4], &what.flops) || !parse_amount(field[5], &what.bytes))
        return damaged(where, number, "operations and bytes must be numbers from 0");
    if (!*what.kind) return damaged(where, number, "the kind is empty");
    return weft_times_add(t, &what, seconds);
}

/* The last line of a file that is whole. */
static weft_status take_end(const weft_times *t, const char *text, const char *where, int number,
                            bool *ended)
{
    int64_t count;
    if (!weft_parse_int(text, &count) || count != (int64_t)t->count)
        return damaged(where, number, "the file has another number of times than its end says");
    *ended = true;
    return WEFT_OK;
}

static weft_status take_line(weft_times *t, char *own, const char *where, int number,
                             bool *versioned, bool *ended)
{
    char *field[FIELDS] = {own};
    int count = 1;
    for (char *at = own; count < FIELDS && (at = strchr(at, '\t')); count++) {
        *at++ = '\0';
        field[count] = at;
    }
    if (*ended) return damaged(where, number, "there is a line behind the end");
    if (count == FIELDS && strcmp(own, "time") == 0) return take_time(t, field, where, number);
    if (count == 2 && strcmp(own, "end") == 0) return take_end(t, field[1], where, number, ended);
    if (count == 2 && strcmp(own, "processor") == 0 && !t->processor)
        return weft_strdup(field[1], &t->processor);
    if (count != 2 || strcmp(own, "version") != 0 || *versioned)
        return damaged(where, number, "the line is damaged");
    *versioned = true;
    if (strcmp(field[1], weft_version()) == 0) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "%s:%d: these times are of weft %s, and this is weft %s, whose kernels may "
                     "differ; weft measure writes a new file",
                     where, number, field[1], weft_version());
}

static weft_status read_lines(weft_times *t, const char *text, size_t size, const char *where)
{
    const char *end = text + size;
    int number = 0;
    bool versioned = false, ended = false;
    for (const char *at = text, *next; at < end; at = next) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        char *own;
        if (!stop) return damaged(where, ++number, "the last line is cut off");
        next = stop + 1;
        WEFT_TRY(weft_format(&own, "%.*s", (int)(stop - at), at));
        weft_status status = WEFT_OK;
        if (++number > 1)
            status = take_line(t, own, where, number, &versioned, &ended);
        else if (strcmp(own, title) != 0)
            status = damaged(where, number, "this is no table of times, or one of another format");
        free(own);
        WEFT_TRY(status);
    }
    if (!versioned || !t->processor)
        return damaged(where, number,
                       "the file ends without the version of weft and the processor");
    if (!ended) return damaged(where, number, "the file is cut off: it has no line 'end'");
    return t->count > 0 ? WEFT_OK : damaged(where, number, "the file has no times");
}

weft_status weft_times_read(const char *text, size_t size, const char *where, weft_times **out)
{
    WEFT_TRY(WEFT_NEW(out, 1));
    weft_status status = read_lines(*out, text, size, where);
    if (status == WEFT_OK) status = weft_times_index(*out);
    if (status != WEFT_OK) weft_times_free(out);
    return status;
}

weft_status weft_times_text(const weft_times *t, char **out)
{
    weft_text text = {0};
    weft_text_add(&text, "%s\nversion\t%s\nprocessor\t%s\n", title, weft_version(), t->processor);
    for (size_t i = 0; i < t->count; i++) {
        const time_line *m = &t->lines[i];
        weft_text_add(&text, "time\t%d\t%d\t%.3e\t%.6g\t%.6g\t%s\t%s\n", m->threads, m->ranks,
                      m->seconds, m->flops, m->bytes, m->kind, m->group);
    }
    weft_text_add(&text, "end\t%zu\n", t->count);
    return weft_text_take(&text, out);
}
