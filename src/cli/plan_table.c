/* The table of weft plan --cluster FILE --strategies LIST: the estimated steps of several runs, the
 * fastest first. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "plan.h"

enum { MOST_STRATEGIES = 256, REASON = 400 };

typedef struct row {
    char *words;
    weft_step_estimate step;
    char reason[REASON]; /* why there is no estimate; "": there is one */
} row;

/* The rows with an estimate come first, by their samples a second. */
static int compare_rows(const void *first, const void *second)
{
    const row *a = first, *b = second;
    bool lacks_a = *a->reason, lacks_b = *b->reason;
    if (lacks_a != lacks_b) return lacks_a - lacks_b;
    double x = a->step.samples_per_second, y = b->step.samples_per_second;
    return (x < y) - (x > y);
}

/* The part of the step that takes most of it. */
static const char *limit_of(const weft_step_estimate *s)
{
    double most = s->computed;
    const char *name = "kernels";
    bool server = s->server_busy > 0.5 && s->server_busy > s->busiest_link;
    if (s->memory_limit > 0 && s->memory > s->memory_limit) return "memory: it does not fit";
    const struct {
        double seconds;
        const char *name;
    } others[] = {{s->transferred, "transfers"},
                  {s->waited, server                  ? "the server"
                              : s->busiest_link > 0.5 ? "the network"
                                                      : "waiting"},
                  {s->rest, "the host"}};
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (others[i].seconds > most) {
            most = others[i].seconds;
            name = others[i].name;
        }
    return name;
}

static void print_row(const row *r, int width)
{
    const weft_step_estimate *s = &r->step;
    char range[48], rate[24];
    (void)snprintf(range, sizeof(range), "%.4g (%.3g to %.3g)", 1e3 * s->seconds, 1e3 * s->low,
                   1e3 * s->high);
    (void)snprintf(rate, sizeof(rate), s->samples_per_second < 9999 ? "%.4g" : "%.0f",
                   s->samples_per_second);
    printf("%-*s  %-28s %11s %7.0f %% %8.0f %% %7.0f %% %12.4g %10.0f  %s\n", width,
           strategy_label(r->words), range, rate, 100 * s->computed / s->seconds,
           100 * s->transferred / s->seconds, 100 * s->waited / s->seconds, s->wire_bytes / 1e6,
           s->memory / 1e6, limit_of(s));
}

static void print_rows(const row *rows, int count, const char *cluster)
{
    int width = 8;
    for (int i = 0; i < count; i++)
        width = (int)fmax(width, (double)strlen(strategy_label(rows[i].words)));
    printf("Estimated for %s, the fastest first; shares of a step are means over the ranks:\n\n",
           cluster);
    printf("%-*s  %-28s %11s %9s %10s %9s %12s %10s  %s\n", width, "strategy", "ms a step (likely)",
           "samples/s", "kernels", "transfers", "waiting", "MB between", "MB memory", "limited by");
    for (int i = 0; i < count; i++)
        if (!*rows[i].reason) print_row(&rows[i], width);
    for (int i = 0; i < count; i++)
        if (*rows[i].reason)
            printf("%-*s  %s\n", width, strategy_label(rows[i].words), rows[i].reason);
}

static void print_number(const char *name, double number)
{
    printf(",\"%s\":%.9g", name, number);
}

static void print_object(const row *r)
{
    const weft_step_estimate *s = &r->step;
    printf("{\"strategy\":");
    print_json_string(r->words);
    if (*r->reason) {
        printf(",\"reason\":");
        print_json_string(r->reason);
        printf("}");
        return;
    }
    print_number("step_seconds", s->seconds);
    print_number("low", s->low);
    print_number("high", s->high);
    print_number("samples_per_second", s->samples_per_second);
    print_number("kernel_seconds", s->computed);
    print_number("transfer_seconds", s->transferred);
    print_number("waiting_seconds", s->waited);
    print_number("rest_seconds", s->rest);
    print_number("bytes_between_machines", s->wire_bytes);
    print_number("busiest_link", s->busiest_link);
    if (s->staleness >= 0) print_number("staleness", s->staleness);
    if (s->staleness >= 0) print_number("server_busy", s->server_busy);
    print_number("memory_bytes", s->memory);
    if (s->memory_limit > 0)
        printf(",\"fits\":%s", s->memory <= s->memory_limit ? "true" : "false");
    printf("}");
}

static void print_objects(const row *rows, int count)
{
    for (int i = 0; i < count; i++) {
        printf(i ? ",\n " : "[");
        print_object(&rows[i]);
    }
    printf("]\n");
}

static void estimate_row(weft_context *context, const char *cluster, int argc, char **argv, row *r)
{
    weft_train_options options = {0};
    const weft_option *table = weft_train_table(context);
    weft_status status = read_train_options(context, &options, argc, argv);
    if (status == WEFT_OK) status = take_resumed_options(context, &options, argc, argv);
    if (status == WEFT_OK) status = set_strategy(table, &options, r->words);
    if (status == WEFT_OK) status = weft_estimate_step(context, &options, cluster, &r->step);
    if (status != WEFT_OK) (void)snprintf(r->reason, REASON, "%s", weft_last_message());
    weft_options_free(table, &options);
}

int plan_strategies(weft_context *context, const char *cluster, const char *list, bool json,
                    int argc, char **argv)
{
    char *words[MOST_STRATEGIES];
    int count = split_strategies(list, words, MOST_STRATEGIES), estimated = 0;
    row *rows = count > 0 ? calloc((size_t)count, sizeof(*rows)) : NULL;
    if (count < 1) {
        fprintf(stderr,
                "weft: strategies '%s': give from 1 to %d with semicolons between them, as in "
                "--strategies 'mesh=data=2; mesh=tensor=2'\nTry 'weft help plan'.\n",
                list, MOST_STRATEGIES);
        return 2;
    }
    for (int i = 0; i < count && rows; i++) {
        rows[i].words = words[i];
        estimate_row(context, cluster, argc, argv, &rows[i]);
        estimated += !*rows[i].reason;
    }
    if (rows) qsort(rows, (size_t)count, sizeof(*rows), compare_rows);
    if (rows && json)
        print_objects(rows, count);
    else if (rows)
        print_rows(rows, count, cluster);
    for (int i = 0; i < count; i++) free(words[i]);
    free(rows);
    return estimated > 0 ? 0 : 1;
}
