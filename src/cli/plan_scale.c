/* weft plan --scale LOW..HIGH: the estimated steps of strategies on more and more machines of a
 * cluster, as a table and as JSON. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "plan.h"
#include "plan_scale.h"

enum { MOST_RANKS = 1024 };

/* The fewest machines for which there is an estimate, or -1. */
static int first_size(const scale *s)
{
    for (int i = 0; i < s->sizes; i++)
        for (int k = 0; k < s->strategies; k++)
            if (!*scale_at(s, k, i)->reason) return i;
    return -1;
}

double scale_efficiency(const scale *s, int strategy, int size)
{
    double best = 0;
    int first = first_size(s);
    for (int k = 0; k < s->strategies; k++)
        if (!*scale_at(s, k, first)->reason)
            best = fmax(best, scale_at(s, k, first)->step.samples_per_second);
    return scale_at(s, strategy, size)->step.samples_per_second / best * s->machines[first] /
           s->machines[size];
}

/* --- estimates --- */

/* Reads LOW..HIGH: powers of two, and both ends. */
static bool read_sizes(const char *text, scale *s)
{
    int low, high, end = 0;
    if (sscanf(text, "%5d..%5d%n", &low, &high, &end) != 2 || text[end] || low < 1 || high < low ||
        high > MOST_RANKS)
        return false;
    s->machines[s->sizes++] = low;
    for (int power = 1; power < high; power *= 2)
        if (power > low) s->machines[s->sizes++] = power;
    if (high > low) s->machines[s->sizes++] = high;
    return true;
}

/* Writes the words of a strategy with the number of machines in the place of N, and a part of it in
 * that of N/2; false: the part is not whole. */
static bool set_machines(const char *words, int machines, char *out, size_t size)
{
    size_t used = 0;
    *out = '\0';
    for (const char *c = words; *c && used < size; c++) {
        bool stands = *c == 'N' && c > words && c[-1] == '=' &&
                      !strchr("abcdefghijklmnopqrstuvwxyz", c[1] ? c[1] : ' ');
        char *end = NULL;
        long part = stands && c[1] == '/' ? strtol(c + 2, &end, 10) : 1;
        if (stands && (part < 1 || machines % part)) return false;
        if (stands)
            used += (size_t)snprintf(out + used, size - used, "%ld", machines / part);
        else
            used += (size_t)snprintf(out + used, size - used, "%c", *c);
        if (end) c = end - 1;
    }
    return used < size;
}

/* The reason of those that a signal leaves without an estimate. */
static const char STOPPED[] = "stopped before it was estimated";

static void estimate_cell(scale *s, int strategy, int size, int argc, char **argv)
{
    char ranks[16], words[1024];
    scale_cell *c = scale_at(s, strategy, size);
    weft_train_options options = {0};
    const weft_option *table = weft_train_table(s->context);
    if (!set_machines(s->words[strategy], s->machines[size], words, sizeof(words))) {
        (void)snprintf(c->reason, REASON, "a part of %d machine%s, as N/2, is not whole",
                       s->machines[size], weft_plural(s->machines[size]));
        return;
    }
    (void)snprintf(ranks, sizeof(ranks), "%d", s->machines[size]);
    weft_status status = read_train_options(s->context, &options, argc, argv);
    if (status == WEFT_OK) status = weft_options_set(table, &options, "ranks", ranks);
    if (status == WEFT_OK) status = set_strategy(table, &options, words);
    if (status == WEFT_OK)
        status = weft_estimate_step_until(s->context, &options, s->cluster, &wanted_stop, &c->step);
    if (status != WEFT_OK)
        (void)snprintf(c->reason, REASON, "%s",
                       status == WEFT_ERR_INTERRUPTED ? STOPPED : weft_last_message());
    bool fits = c->step.memory_limit <= 0 || c->step.memory <= c->step.memory_limit;
    char *lack = fits ? NULL : plan_memory_lack(s->context, &options, s->cluster, &c->step);
    if (lack) (void)snprintf(c->reason, REASON, "%s", lack);
    free(lack);
    weft_options_free(table, &options);
}

/* --- the table --- */

static bool is_left_out(const scale_cell *c)
{
    return strcmp(c->reason, STOPPED) == 0;
}

static void put_rows(const scale *s, FILE *to, int width)
{
    fprintf(to, "%-*s  %8s  %12s  %12s  %10s\n", width, "strategy", "machines", "ms a step",
            "samples/s", "efficiency");
    for (int k = 0; k < s->strategies; k++)
        for (int i = 0; i < s->sizes; i++) {
            const scale_cell *c = scale_at(s, k, i);
            if (is_left_out(c)) continue;
            fprintf(to, "%-*s  %8d  ", width, i == 0 ? strategy_label(s->words[k]) : "",
                    s->machines[i]);
            if (*c->reason)
                fprintf(to, "%12s  %12s  %10s\n", "-", "-", "-");
            else
                fprintf(to, "%12.4g  %12.0f  %8.0f %%\n", 1e3 * c->step.seconds,
                        c->step.samples_per_second, 100 * scale_efficiency(s, k, i));
        }
}

/* Whether a cell has a reason, which no cell of its strategy on fewer machines has. */
static bool tells(const scale *s, int strategy, int size)
{
    const scale_cell *c = scale_at(s, strategy, size);
    for (int i = 0; i < size; i++)
        if (strcmp(scale_at(s, strategy, i)->reason, c->reason) == 0) return false;
    return *c->reason && !is_left_out(c);
}

/* Why there are dashes: each reason of a strategy once, with the machines that it is for. */
static void print_reasons(const scale *s)
{
    for (int k = 0; k < s->strategies; k++)
        for (int i = 0; i < s->sizes; i++) {
            const char *reason = scale_at(s, k, i)->reason;
            int last = i;
            if (!tells(s, k, i)) continue;
            printf("%s on %d", strategy_label(s->words[k]), s->machines[i]);
            for (int j = i + 1; j < s->sizes; j++) {
                if (strcmp(scale_at(s, k, j)->reason, reason) != 0) continue;
                printf(", %d", s->machines[j]);
                last = j;
            }
            printf(" machine%s: %s\n", weft_plural(s->machines[last]), reason);
        }
}

static void print_table(const scale *s)
{
    folded_table t;
    int width = (int)strlen("strategy");
    for (int k = 0; k < s->strategies; k++)
        width = (int)fmax(width, (double)strlen(strategy_label(s->words[k])));
    int first = first_size(s), fewest = s->machines[first < 0 ? 0 : first];
    printf("Estimated for %s, with a rank on each machine; an efficiency of 100 %% is the rate of "
           "the fastest\non %d machine%s, times the machines:\n\n",
           s->cluster, fewest, weft_plural(fewest));
    folded_table_begin(&t);
    put_rows(s, t.to, width);
    folded_table_end(&t);
    print_reasons(s);
}

static void print_json(const scale *s)
{
    for (int k = 0; k < s->strategies; k++)
        for (int i = 0; i < s->sizes; i++) {
            const scale_cell *c = scale_at(s, k, i);
            if (is_left_out(c)) continue;
            printf("%s{\"strategy\":", k + i ? ",\n " : "[");
            print_json_string(s->words[k]);
            printf(",\"machines\":%d,", s->machines[i]);
            if (*c->reason) {
                printf("\"reason\":");
                print_json_string(c->reason);
            } else {
                printf("\"step_seconds\":%.9g,\"low\":%.9g,\"high\":%.9g,"
                       "\"samples_per_second\":%.9g,\"efficiency\":%.9g",
                       c->step.seconds, c->step.low, c->step.high, c->step.samples_per_second,
                       scale_efficiency(s, k, i));
            }
            printf("}");
        }
    printf("]\n");
}

/* --- the command --- */

static bool begin(scale *s, const char *list, const char *sizes)
{
    if (!read_sizes(sizes, s)) {
        fprintf(stderr,
                "weft: scale '%s': give two numbers of machines from 1 to %d, as in --scale 1..64\n"
                "Try 'weft help plan'.\n",
                sizes, MOST_RANKS);
        return false;
    }
    s->strategies = split_strategies(list, s->words, MOST_CURVES);
    if (s->strategies < 1)
        fprintf(stderr,
                "weft: strategies '%s': give from 1 to %d with semicolons between them, as in "
                "--strategies 'mesh=data=N; exchange=average:every=4'\nTry 'weft help plan'.\n",
                list, MOST_CURVES);
    else if (!(s->cells = calloc((size_t)(s->strategies * s->sizes), sizeof(*s->cells))))
        fprintf(stderr, "weft: plan: not enough memory\n");
    return s->cells != NULL;
}

/* Whether the file has as many machines; prints an error if not. */
static bool has_machines(const scale *s)
{
    int64_t machines = 0;
    int most = s->machines[s->sizes - 1];
    if (!plan_machines(s->cluster, &machines)) {
        (void)usage_failure("plan");
        return false;
    }
    if (most <= machines) return true;
    fprintf(
        stderr,
        "weft: %s has %lld machine%s, and --scale goes to %d; give the last line of its machines "
        "a larger count\nTry 'weft help plan'.\n",
        s->cluster, (long long)machines, weft_plural(machines), most);
    return false;
}

static int draw(const scale *s, const char *subject, const char *path)
{
    weft_output *to = NULL;
    weft_status status = weft_output_open(path, WEFT_OUTPUT_REPLACE, &to);
    if (status == WEFT_OK) status = scale_plot(s, subject, to);
    weft_status closed = weft_output_close(&to, status == WEFT_OK);
    return report_failure(status == WEFT_OK ? closed : status);
}

/* Returns the number of estimates. */
static int estimate_cells(scale *s, int argc, char **argv)
{
    int estimated = 0;
    catch_signals();
    for (int k = 0; k < s->strategies; k++)
        for (int i = 0; i < s->sizes; i++) {
            if (wanted_stop.wanted)
                (void)snprintf(scale_at(s, k, i)->reason, REASON, "%s", STOPPED);
            else
                estimate_cell(s, k, i, argc, argv);
            estimated += !*scale_at(s, k, i)->reason;
        }
    return estimated;
}

int plan_scale(weft_context *context, const plan_scale_options *o, int argc, char **argv)
{
    scale s = {.context = context, .cluster = o->cluster};
    int code = 2;
    if (begin(&s, o->strategies, o->sizes) && has_machines(&s)) {
        int estimated = estimate_cells(&s, argc, argv);
        if (!is_left_out(s.cells)) (o->json ? print_json : print_table)(&s);
        flush_stdout();
        code = estimated > 0 ? 0 : 1;
        if (estimated == 0 && !is_left_out(s.cells))
            fprintf(stderr,
                    "weft: no step of these strategies is estimated for %s; the table says "
                    "why\n",
                    s.cluster);
        if (o->plot && code == 0) code = draw(&s, o->subject, o->plot);
        if (is_left_out(scale_at(&s, s.strategies - 1, s.sizes - 1))) {
            fprintf(stderr, "weft: stopped; the table has %d of %d estimates\n", estimated,
                    s.strategies * s.sizes);
            code = interrupted_code();
        }
    }
    for (int k = 0; k < s.strategies; k++) free(s.words[k]);
    free(s.cells);
    return code;
}
