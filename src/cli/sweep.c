/* The runs of `weft compare --sweep NAME=LOW..HIGH:log:COUNT`: an option takes values at equal
 * distances, or in equal ratios, with each of the strategies. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "compare.h"

typedef struct range {
    char name[64];
    double low, high;
    bool log, whole;
    int count;
} range;

enum { LINEAR, LOG, SCALES };
static const char *const scales[SCALES] = {[LINEAR] = "linear", [LOG] = "log"};

/* Reads a number up to `end`, and moves *at behind that text. */
static bool take_number(const char **at, const char *end, double *out)
{
    char number[40], *rest;
    const char *stop = strstr(*at, end);
    size_t size = stop ? (size_t)(stop - *at) : 0;
    if (size == 0 || size >= sizeof(number)) return false;
    memcpy(number, *at, size);
    number[size] = '\0';
    *out = strtod(number, &rest);
    *at = stop + strlen(end);
    return !*rest && isfinite(*out);
}

static bool read_range(const weft_option *table, const char *sweep, range *r)
{
    char scale[8];
    int end = 0, kind = 0;
    if (sscanf(sweep, "%63[a-z0-9-]=%n", r->name, &end) != 1 || end == 0) return false;
    const char *at = sweep + end;
    if (!take_number(&at, "..", &r->low) || !take_number(&at, ":", &r->high)) return false;
    end = 0;
    if (sscanf(at, "%7[a-z]:%6d%n", scale, &r->count, &end) != 2 || at[end]) return false;
    while (kind < SCALES && strcmp(scale, scales[kind]) != 0) kind++;
    r->log = kind == LOG;
    for (const weft_option *o = table; o->name; o++)
        if (strcmp(o->name, r->name) == 0) r->whole = o->kind == WEFT_OPT_INT;
    return kind < SCALES && r->high > r->low && (!r->log || r->low > 0) && r->count >= 2 &&
           r->count <= MOST_RUNS;
}

/* Value i of a range; both of its ends are exact. */
static double value_of(const range *r, int i)
{
    double share = (double)i / (r->count - 1);
    double value =
        r->log ? r->low * pow(r->high / r->low, share) : r->low + share * (r->high - r->low);
    if (i == r->count - 1) value = r->high;
    return r->whole ? round(value) : value;
}

/* Adds the runs of one strategy, which may be empty. Values that are written alike have one run.
 * Returns their number. */
static int add_runs(FILE *to, const range *r, const char *words, size_t size)
{
    char value[32], last[32] = "";
    int runs = 0;
    for (int i = 0; i < r->count; i++) {
        int digits = i == 0 || i == r->count - 1 ? 15 : 6;
        if (r->whole)
            (void)snprintf(value, sizeof(value), "%.0f", value_of(r, i));
        else
            (void)snprintf(value, sizeof(value), "%.*g", digits, value_of(r, i));
        if (strcmp(value, last) == 0) continue;
        fprintf(to, "%s%.*s %s=%s", ftell(to) ? ";" : "", (int)size, words, r->name, value);
        memcpy(last, value, sizeof(value));
        runs++;
    }
    return runs;
}

bool sweep_runs(const weft_option *table, const char *sweep, const char *strategies,
                const char *command_name, bool quiet, char **out)
{
    const char *at = strategies;
    range r = {.whole = false};
    int runs = 0;
    size_t size;
    *out = NULL;
    if (!read_range(table, sweep, &r)) {
        fprintf(stderr,
                "weft: sweep '%s' is not NAME=LOW..HIGH:log:COUNT or NAME=LOW..HIGH:linear:COUNT, "
                "with 2 to %d values, as in --sweep lr=1e-4..1e-1:log:8; values in a list are "
                "strategies, as in --strategies 'lr=0.1; lr=0.01 batch=32'\nTry 'weft help %s'.\n",
                sweep, MOST_RUNS, command_name);
        return false;
    }
    FILE *to = open_memstream(out, &size);
    if (!to) {
        fprintf(stderr, "weft: %s: %s\n", command_name, strerror(errno));
        return false;
    }
    for (size_t length;; at += length + 1) {
        length = strcspn(at, ";");
        runs = add_runs(to, &r, at, length);
        if (!at[length]) break;
    }
    if (runs < r.count && !quiet)
        printf("the sweep of %s%s leaves out %d of %d values as equal to the one before\n", r.name,
               r.whole ? ", in whole numbers," : "", r.count - runs, r.count);
    if (fclose(to) == 0) return true;
    fprintf(stderr, "weft: %s: not enough memory\n", command_name);
    return false;
}
