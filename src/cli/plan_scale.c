/* weft plan --scale LOW..HIGH: the estimated steps of strategies on more and more machines of a
 * cluster, as a table, as JSON, and as curves. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chart.h"
#include "cli.h"
#include "plan.h"

enum { MOST_CURVES = 32, MOST_SIZES = 16, MOST_RANKS = 1024, REASON = 400 };

typedef struct cell {
    weft_step_estimate step;
    char reason[REASON]; /* why there is no estimate; "": there is one */
} cell;

typedef struct scale {
    weft_context *context;
    const char *cluster;
    char *words[MOST_CURVES];
    int machines[MOST_SIZES];
    int strategies, sizes;
    cell *cells; /* [strategies, sizes] */
    chart chart;
    chart_panel panel;
    bool efficiency; /* the panel has efficiencies in place of rates */
    int drawn;       /* the strategy of the current curve */
} scale;

static cell *at(const scale *s, int strategy, int size)
{
    return &s->cells[strategy * s->sizes + size];
}

/* The fewest machines for which there is an estimate, or -1. */
static int first_size(const scale *s)
{
    for (int i = 0; i < s->sizes; i++)
        for (int k = 0; k < s->strategies; k++)
            if (!*at(s, k, i)->reason) return i;
    return -1;
}

/* The rate over that of the fastest strategy on the fewest machines, times the machines. */
static double efficiency(const scale *s, int strategy, int size)
{
    double best = 0;
    int first = first_size(s);
    for (int k = 0; k < s->strategies; k++)
        if (!*at(s, k, first)->reason) best = fmax(best, at(s, k, first)->step.samples_per_second);
    return at(s, strategy, size)->step.samples_per_second / best * s->machines[first] /
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
    cell *c = at(s, strategy, size);
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

static bool is_left_out(const cell *c)
{
    return strcmp(c->reason, STOPPED) == 0;
}

static void put_rows(const scale *s, FILE *to, int width)
{
    fprintf(to, "%-*s  %8s  %12s  %12s  %10s\n", width, "strategy", "machines", "ms a step",
            "samples/s", "efficiency");
    for (int k = 0; k < s->strategies; k++)
        for (int i = 0; i < s->sizes; i++) {
            const cell *c = at(s, k, i);
            if (is_left_out(c)) continue;
            fprintf(to, "%-*s  %8d  ", width, i == 0 ? strategy_label(s->words[k]) : "",
                    s->machines[i]);
            if (*c->reason)
                fprintf(to, "%12s  %12s  %10s\n", "-", "-", "-");
            else
                fprintf(to, "%12.4g  %12.0f  %8.0f %%\n", 1e3 * c->step.seconds,
                        c->step.samples_per_second, 100 * efficiency(s, k, i));
        }
}

/* Why there are dashes. */
static void print_reasons(const scale *s)
{
    for (int k = 0; k < s->strategies; k++)
        for (int i = 0; i < s->sizes; i++) {
            const cell *c = at(s, k, i);
            if (*c->reason && !is_left_out(c))
                printf("%s on %d machine%s: %s\n", strategy_label(s->words[k]), s->machines[i],
                       weft_plural(s->machines[i]), c->reason);
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
            const cell *c = at(s, k, i);
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
                       efficiency(s, k, i));
            }
            printf("}");
        }
    printf("]\n");
}

/* --- the picture --- */

enum { WIDTH = 1000, TOP = 66, PANEL = 352, HEIGHT = 300 };

/* The size of the estimate number `i` of the current strategy. */
static int size_of(const scale *s, size_t i)
{
    int size = 0;
    for (;; size++)
        if (!*at(s, s->drawn, size)->reason && i-- == 0) return size;
}

static chart_point point_at(const void *curve, size_t i)
{
    const scale *s = curve;
    int size = size_of(s, i);
    return (chart_point){s->machines[size], s->efficiency
                                                ? 100 * efficiency(s, s->drawn, size)
                                                : at(s, s->drawn, size)->step.samples_per_second};
}

static size_t points_of(scale *s, int strategy)
{
    size_t count = 0;
    s->drawn = strategy;
    for (int i = 0; i < s->sizes; i++) count += !*at(s, strategy, i)->reason;
    return count;
}

static void set_panel(scale *s, chart_tick *ticks)
{
    double low = INFINITY, high = 0;
    for (int k = 0; k < s->strategies; k++)
        for (size_t i = 0, count = points_of(s, k); i < count; i++) {
            low = fmin(low, point_at(s, i).y);
            high = fmax(high, point_at(s, i).y);
        }
    if (!isfinite(low)) low = high = 1;
    for (int i = 0; i < s->sizes; i++) {
        ticks[i].at = s->machines[i];
        (void)snprintf(ticks[i].text, sizeof(ticks[i].text), "%d", s->machines[i]);
    }
    s->panel = (chart_panel){
        .left = CHART_LEFT + s->efficiency * (PANEL + CHART_LEFT + CHART_RIGHT),
        .top = TOP,
        .width = PANEL,
        .height = HEIGHT,
        .x = {.label = "machines (logarithmic)",
              .logarithmic = true,
              .ticks = ticks,
              .tick_count = s->sizes},
        .y = {.label = s->efficiency ? "efficiency, %" : "samples a second (logarithmic)",
              .logarithmic = !s->efficiency}};
    chart_cover(&s->panel.x, s->machines[0], s->machines[s->sizes - 1]);
    if (s->efficiency)
        chart_cover(&s->panel.y, 0, fmax(105, 1.05 * high));
    else
        chart_cover(&s->panel.y, low / 1.2, high * 1.2);
}

static void put_panel(scale *s)
{
    chart_tick ticks[MOST_SIZES];
    set_panel(s, ticks);
    chart_frame(&s->chart, &s->panel);
    for (int k = 0; k < s->strategies; k++) {
        chart_style style = chart_style_of(k);
        size_t count = points_of(s, k);
        chart_curve(&s->chart, &s->panel, &style, false, point_at, s, count);
        for (size_t i = 0; i < count; i++) {
            char note[64];
            chart_point point = point_at(s, i);
            (void)snprintf(note, sizeof(note), "%.0f machines: %.5g%s", point.x, point.y,
                           s->efficiency ? " %" : " samples/s");
            chart_mark(&s->chart, &s->panel, &style, point, note);
        }
    }
}

static weft_status plot(scale *s, const char *subject, weft_output *to)
{
    chart_entry entries[MOST_CURVES];
    double left = CHART_LEFT, top = TOP + HEIGHT + CHART_BOTTOM + 8;
    double width = WIDTH - left - CHART_RIGHT;
    char line[200];
    s->chart = (chart){.to = to};
    for (int k = 0; k < s->strategies; k++)
        entries[k] = (chart_entry){.style = chart_style_of(k),
                                   .text = strategy_label(s->words[k]),
                                   .note = points_of(s, k) ? NULL : "no estimate"};
    double height = chart_legend(NULL, left, top, width, entries, s->strategies);
    chart_begin(&s->chart, WIDTH, top + height + 12, "Estimated rates of strategies");
    chart_text(&s->chart, left, 26, width, "font-size='15' font-weight='bold'", subject);
    (void)snprintf(line, sizeof(line), "estimated for %.160s", s->cluster);
    chart_text(&s->chart, left, 46, width, "fill='#555'", line);
    for (int side = 0; side < 2; side++) {
        s->efficiency = side == 1;
        put_panel(s);
    }
    (void)chart_legend(&s->chart, left, top, width, entries, s->strategies);
    chart_end(&s->chart);
    return s->chart.status;
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

static int draw(scale *s, const char *subject, const char *path)
{
    weft_output *to = NULL;
    weft_status status = weft_output_open(path, WEFT_OUTPUT_REPLACE, &to);
    if (status == WEFT_OK) status = plot(s, subject, to);
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
                (void)snprintf(at(s, k, i)->reason, REASON, "%s", STOPPED);
            else
                estimate_cell(s, k, i, argc, argv);
            estimated += !*at(s, k, i)->reason;
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
        if (is_left_out(at(&s, s.strategies - 1, s.sizes - 1))) {
            fprintf(stderr, "weft: stopped; the table has %d of %d estimates\n", estimated,
                    s.strategies * s.sizes);
            code = interrupted_code();
        }
    }
    for (int k = 0; k < s.strategies; k++) free(s.words[k]);
    free(s.cells);
    return code;
}
