/* Arrival processes of a load: Poisson, steady, bursts and recorded traces. A new process needs its
 * functions and a line in the table at the end. */
#include <math.h>

#include "base/registry.h"
#include "base/spec.h"
#include "formats/formats.h"
#include "load/load.h"

typedef struct arrivals_ops {
    const char *name, *form, *help;
    weft_status (*open)(weft_arrivals *arrivals, const char *arguments);
    double (*next)(weft_arrivals *arrivals, double rate);
    bool timed; /* it has times of its own, and needs no rate */
} arrivals_ops;

struct weft_arrivals {
    const arrivals_ops *ops;
    weft_random random;
    double size;  /* requests of a burst */
    int64_t left; /* requests left in the current burst */
    double *gaps; /* of a trace: [count] seconds before each request; [0] is the mean */
    size_t count, at;
    double mean;
};

/* An exponential variate of mean 1. All 53 bits of a double are random, so that long gaps have the
 * right frequency. */
static double exponential(weft_random *random)
{
    uint64_t high = weft_random_u32(random), low = weft_random_u32(random);
    return -log1p(-(double)((high << 32 | low) >> 11) * 0x1p-53);
}

static weft_status open_plain(weft_arrivals *arrivals, const char *arguments)
{
    if (!*arguments) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT, "arrivals %s take no arguments, not '%s'",
                     arrivals->ops->name, arguments);
}

static double next_poisson(weft_arrivals *arrivals, double rate)
{
    return exponential(&arrivals->random) / rate;
}

static double next_steady(weft_arrivals *arrivals, double rate)
{
    (void)arrivals;
    return 1 / rate;
}

static weft_status open_bursts(weft_arrivals *arrivals, const char *arguments)
{
    const weft_spec_key keys[] = {
        {.name = "size", .number = &arrivals->size, .low = 1, .high = 1e6, .integer = true},
        {.name = NULL},
    };
    arrivals->size = 10;
    return *arguments ? weft_spec_parse("arrivals bursts", arguments, keys) : WEFT_OK;
}

static double next_burst(weft_arrivals *arrivals, double rate)
{
    if (arrivals->left-- > 0) return 0;
    arrivals->left = (int64_t)arrivals->size - 1;
    return arrivals->size * exponential(&arrivals->random) / rate;
}

/* --- traces --- */

typedef struct lines {
    const char *name, *next, *end;
    int64_t line;
} lines;

/* Reads the first field of the next line that is neither empty nor a comment; false: the file has
 * ended. Text after a comma is ignored, so that a table is read by its first column. *more: the
 * line has a comma. */
static bool next_line(lines *l, char *text, size_t size, bool *more)
{
    while (l->next < l->end) {
        const char *begin = l->next, *end = memchr(begin, '\n', (size_t)(l->end - begin));
        if (!end) end = l->end;
        l->next = end + 1;
        l->line++;
        const char *comma = memchr(begin, ',', (size_t)(end - begin));
        *more = comma != NULL;
        if (comma) end = comma;
        while (begin < end && strchr(" \t", *begin)) begin++;
        while (begin < end && strchr(" \t\r", end[-1])) end--;
        if (begin == end && !comma) continue;
        if (begin < end && *begin == '#') continue;
        size_t length = WEFT_MIN((size_t)(end - begin), size - 1);
        memcpy(text, begin, length);
        text[length] = '\0';
        return true;
    }
    return false;
}

static weft_status read_times(weft_arrivals *arrivals, lines *l)
{
    char text[64];
    bool more, heading = true;
    double time, before = 0, first = 0;
    size_t capacity = 0;
    for (; next_line(l, text, sizeof(text), &more); heading = false) {
        if (!weft_parse_real(text, &time) || !isfinite(time)) {
            if (heading && more) continue; /* the first line is a header */
            return weft_fail(WEFT_ERR_FORMAT,
                             "%s:%lld: '%.40s' is no time; each line must begin with a number of "
                             "seconds",
                             l->name, (long long)l->line, text);
        }
        if (arrivals->count > 0 && time < before)
            return weft_fail(WEFT_ERR_FORMAT,
                             "%s:%lld: the time %g is earlier than %g before it; sort the file",
                             l->name, (long long)l->line, time, before);
        WEFT_TRY(WEFT_GROW(&arrivals->gaps, &capacity, arrivals->count));
        if (arrivals->count == 0) first = time;
        arrivals->gaps[arrivals->count++] = time - before;
        before = time;
    }
    if (arrivals->count < 2 || !(before > first))
        return weft_fail(WEFT_ERR_FORMAT, "%s: has %zu time%s%s; a trace must have two that differ",
                         l->name, arrivals->count, weft_plural((long long)arrivals->count),
                         arrivals->count < 2 ? "" : ", all of them the same");
    /* The trace repeats; the gap before each repetition is the mean gap. */
    arrivals->mean = (before - first) / (double)(arrivals->count - 1);
    arrivals->gaps[0] = arrivals->mean;
    return WEFT_OK;
}

static weft_status open_trace(weft_arrivals *arrivals, const char *path)
{
    weft_bytes bytes;
    if (!*path)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "arrivals trace: the file of times is missing; give trace:FILE");
    WEFT_TRY(weft_gzip_open(path, &bytes));
    const char *text = (const char *)bytes.data;
    lines l = {.name = path, .next = text, .end = bytes.size ? text + bytes.size : text};
    weft_status status = read_times(arrivals, &l);
    weft_gzip_close(&bytes);
    return status;
}

static double next_of_trace(weft_arrivals *arrivals, double rate)
{
    double gap = arrivals->gaps[arrivals->at];
    arrivals->at = (arrivals->at + 1) % arrivals->count;
    return rate > 0 ? gap / (arrivals->mean * rate) : gap;
}

/* --- the table --- */

static const arrivals_ops ways[] = {
    {"poisson", NULL, "a Poisson process: independent arrivals", open_plain, next_poisson, false},
    {"steady", NULL, "equal intervals", open_plain, next_steady, false},
    {"bursts", "bursts[:size=N]", "Poisson arrivals of bursts of N requests (default 10)",
     open_bursts, next_burst, false},
    {"trace", "trace:FILE", "recorded times: FILE, plain or gzip, has one time in seconds per line",
     open_trace, next_of_trace, true},
};

weft_status weft_arrivals_register(weft_context *context)
{
    weft_entry entries[WEFT_COUNT(ways)];
    for (size_t i = 0; i < WEFT_COUNT(ways); i++)
        entries[i] = (weft_entry){.kind = WEFT_KIND_ARRIVALS,
                                  .name = ways[i].name,
                                  .form = ways[i].form,
                                  .summary = ways[i].help,
                                  .ops = &ways[i]};
    return weft_registry_add(context, entries, (int)WEFT_COUNT(ways));
}

weft_status weft_arrivals_open(weft_context *context, const char *spec, uint64_t seed,
                               weft_arrivals **out)
{
    const weft_entry *entry;
    weft_arrivals *arrivals;
    size_t size = strcspn(spec, ":");
    *out = NULL;
    WEFT_TRY(weft_load_register(context));
    WEFT_TRY(weft_registry_find(context, WEFT_KIND_ARRIVALS, spec, size, &entry));
    WEFT_TRY(WEFT_NEW(&arrivals, 1));
    arrivals->ops = entry->ops;
    weft_random_start(&arrivals->random, seed, weft_hash_text("arrivals"));
    weft_status status = arrivals->ops->open(arrivals, spec[size] ? spec + size + 1 : "");
    if (status != WEFT_OK)
        weft_arrivals_close(&arrivals);
    else
        *out = arrivals;
    return status;
}

bool weft_arrivals_are_timed(const weft_context *context, const char *spec)
{
    const weft_entry *entry =
        spec ? weft_registry_look(context, WEFT_KIND_ARRIVALS, spec, strcspn(spec, ":")) : NULL;
    return entry && ((const arrivals_ops *)entry->ops)->timed;
}

double weft_arrivals_next(weft_arrivals *arrivals, double rate)
{
    return arrivals->ops->next(arrivals, rate);
}

void weft_arrivals_close(weft_arrivals **arrivals)
{
    if (!arrivals || !*arrivals) return;
    free((*arrivals)->gaps);
    free(*arrivals);
    *arrivals = NULL;
}
