/* The bars of steps as a picture: a lane for each rank and for each direction of a link, kernels in
 * the colour of their operator. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chart.h"
#include "plan_timeline.h"

enum { WIDTH = 1100, TOP = 84, LANE = 22, GAP = 74, MOST_RANKS = 24, MOST_LINKS = 8, OPS = 6 };

/* Operators in the order of their time, and what has no operator. */
static const char *const op_colours[OPS] = {"#0072b2", "#009e73", "#56b4e9",
                                            "#cc79a7", "#e69f00", "#8c564b"};
static const char OTHERS[] = "#9e9e9e", TRANSFER[] = "#d55e00", WAITING[] = "#e8e8e8",
                  REST[] = "#4d4d4d", LINK[] = "#f0c419";

typedef struct op_time {
    const char *op;
    double seconds;
} op_time;

typedef struct gantt {
    chart chart;
    op_time ops[OPS];
    int count;
    bool others, links;
} gantt;

/* --- colours --- */

static int by_seconds(const void *a, const void *b)
{
    const op_time *x = a, *y = b;
    return (x->seconds < y->seconds) - (x->seconds > y->seconds);
}

/* Finds the operators that take most time; those beyond OPS share one colour. */
static bool find_ops(gantt *g, const step_bars *const *bars, int count)
{
    enum { MOST_OPS = 256 };
    op_time *all = calloc(MOST_OPS, sizeof(*all));
    int found = 0;
    for (int b = 0; b < count && all; b++)
        for (size_t i = 0; i < bars[b]->count; i++) {
            const step_bar *bar = &bars[b]->at[i];
            int k = 0;
            if (bar->kind != WEFT_SPAN_KERNEL) continue;
            while (k < found && strcmp(all[k].op, bar->op) != 0) k++;
            if (k == MOST_OPS) continue;
            if (k == found) all[found++].op = bar->op;
            all[k].seconds += bar->end - bar->start;
        }
    if (found) qsort(all, (size_t)found, sizeof(*all), by_seconds);
    g->count = found < OPS ? found : OPS;
    g->others = found > OPS;
    if (all) memcpy(g->ops, all, (size_t)g->count * sizeof(*all));
    free(all);
    return all != NULL;
}

static const char *colour_of(const gantt *g, const step_bar *bar)
{
    switch (bar->kind) {
    case WEFT_SPAN_REST: return REST;
    case WEFT_SPAN_TRANSFER: return TRANSFER;
    case WEFT_SPAN_WAIT: return WAITING;
    case WEFT_SPAN_KERNEL: break;
    default: return LINK;
    }
    for (int k = 0; k < g->count; k++)
        if (strcmp(g->ops[k].op, bar->op) == 0) return op_colours[k];
    return OTHERS;
}

/* --- lanes --- */

static int shown(int count, int most)
{
    return count < most ? count : most;
}

bool step_bars_part(const step_bars *bars, char *out, size_t size)
{
    char ranks[48] = "", links[60] = "";
    if (bars->ranks > MOST_RANKS)
        (void)snprintf(ranks, sizeof(ranks), "ranks 0 to %d of %d", MOST_RANKS - 1, bars->ranks);
    if (bars->machines > MOST_LINKS)
        (void)snprintf(links, sizeof(links), "links of machines 0 to %d of %d", MOST_LINKS - 1,
                       bars->machines);
    (void)snprintf(out, size, "%s%s%s%s", ranks, *ranks && *links ? " and " : "", links,
                   *ranks || *links ? " are shown" : "");
    return *out;
}

static int lanes_of(const step_bars *bars)
{
    return shown(bars->ranks, MOST_RANKS) + 2 * shown(bars->machines, MOST_LINKS);
}

/* The lane of a bar, from the top; -1: it is not shown. */
static int lane_of(const step_bars *bars, const step_bar *bar)
{
    if (bar->kind != WEFT_SPAN_SEND && bar->kind != WEFT_SPAN_RECEIVE)
        return bar->where < MOST_RANKS ? bar->where : -1;
    if (bar->where >= MOST_LINKS) return -1;
    return shown(bars->ranks, MOST_RANKS) + 2 * bar->where + (bar->kind == WEFT_SPAN_RECEIVE);
}

static void note_of(const step_bar *bar, char *out, size_t size)
{
    static const char *const names[] = {
        [WEFT_SPAN_KERNEL] = "kernel",     [WEFT_SPAN_REST] = "the rest",
        [WEFT_SPAN_TRANSFER] = "transfer", [WEFT_SPAN_WAIT] = "waiting",
        [WEFT_SPAN_SEND] = "sending",      [WEFT_SPAN_RECEIVE] = "receiving"};
    (void)snprintf(out, size, "%s%s%s: %.4g ms from %.4g ms", bar->name, *bar->name ? ", " : "",
                   names[bar->kind], 1e3 * (bar->end - bar->start), 1e3 * bar->start);
}

static int in_order(const void *a, const void *b)
{
    const step_bar *x = a, *y = b;
    return (x->start > y->start) - (x->start < y->start);
}

/* Draws the bars of a lane. Bars of one colour that follow each other without a visible gap are
 * drawn as one, so that a step of many short kernels stays a small picture. */
static void put_lane(gantt *g, const chart_panel *p, const step_bars *bars, const step_bar *sorted,
                     int lane)
{
    const double FINE = 0.4; /* pixels */
    double pixel = (p->x.high - p->x.low) / p->width, middle = p->top + LANE * (lane + 0.5);
    step_bar now = {.where = -1};
    char note[220];
    for (size_t i = 0; i <= bars->count; i++) {
        step_bar next = i < bars->count ? sorted[i] : (step_bar){.where = -1};
        if (i < bars->count) {
            if (lane_of(bars, &next) != lane) continue;
            next.start *= 1e3;
            next.end *= 1e3;
            bool thin = next.end - next.start < FINE * pixel;
            bool joins = now.where >= 0 && next.start - now.end < FINE * pixel &&
                         (thin || now.end - now.start < FINE * pixel) &&
                         strcmp(colour_of(g, &now), colour_of(g, &next)) == 0;
            if (joins) {
                now.end = fmax(now.end, next.end);
                continue;
            }
        }
        if (now.where >= 0) {
            step_bar told = now;
            told.start /= 1e3;
            told.end /= 1e3;
            note_of(&told, note, sizeof(note));
            chart_bar(&g->chart, p, colour_of(g, &now), now.start, now.end, middle, LANE - 6, note);
        }
        now = next;
    }
}

static bool put_bars(gantt *g, const chart_panel *p, const step_bars *bars)
{
    step_bar *sorted = malloc((bars->count + 1) * sizeof(*sorted));
    if (!sorted) return false;
    memcpy(sorted, bars->at, bars->count * sizeof(*sorted));
    qsort(sorted, bars->count, sizeof(*sorted), in_order);
    for (int lane = 0; lane < lanes_of(bars); lane++) put_lane(g, p, bars, sorted, lane);
    free(sorted);
    return true;
}

/* Draws the lanes of one step; ticks of the y axis are their names. */
static bool put_step(gantt *g, const step_bars *bars, double top, double seconds)
{
    chart_tick ticks[MOST_RANKS + 2 * MOST_LINKS];
    char label[160], part[150];
    (void)snprintf(label, sizeof(label), "ms%s%s",
                   step_bars_part(bars, part, sizeof(part)) ? "; " : "", part);
    int lanes = lanes_of(bars), ranks = shown(bars->ranks, MOST_RANKS);
    chart_panel p = {
        .left = CHART_LEFT + 20,
        .top = top,
        .width = WIDTH - CHART_LEFT - 20 - CHART_RIGHT,
        .height = lanes * LANE,
        .title = bars->title,
        .x = {.label = label, .low = 0, .high = 1e3 * seconds},
        .y = {.label = "", .low = 0, .high = lanes, .ticks = ticks, .tick_count = lanes}};
    for (int i = 0; i < lanes; i++) {
        ticks[i].at = lanes - i - 0.5;
        if (i < ranks)
            (void)snprintf(ticks[i].text, sizeof(ticks[i].text), "rank %d", i);
        else
            (void)snprintf(ticks[i].text, sizeof(ticks[i].text), "machine %d %s", (i - ranks) / 2,
                           (i - ranks) % 2 ? "in" : "out");
    }
    chart_frame(&g->chart, &p);
    return put_bars(g, &p, bars);
}

/* --- the picture --- */

static int make_entries(const gantt *g, chart_entry *out)
{
    const struct {
        const char *colour, *text;
        bool shown;
    } more[] = {
        {OTHERS, "other operators", g->others},
        {TRANSFER, "work on transfers", true},
        {WAITING, "waiting for other ranks or the network (the bubble of a pipeline)", true},
        {REST, "the rest: batches, the host", true},
        {LINK, "a machine's link is busy", g->links}};
    int count = 0;
    for (int k = 0; k < g->count; k++)
        out[count++] =
            (chart_entry){.style = {.colour = op_colours[k], .bar = true}, .text = g->ops[k].op};
    for (size_t k = 0; k < sizeof(more) / sizeof(*more); k++)
        if (more[k].shown)
            out[count++] = (chart_entry){.style = {.colour = more[k].colour, .bar = true},
                                         .text = more[k].text};
    return count;
}

weft_status step_bars_plot(const step_bars *const *bars, int count, const char *subject,
                           weft_output *to)
{
    gantt g = {.chart = {.to = to}};
    chart_entry entries[OPS + 5];
    double top = TOP, seconds = 0, left = CHART_LEFT + 20, width = WIDTH - left - CHART_RIGHT;
    bool drawn = find_ops(&g, bars, count);
    for (int b = 0; b < count; b++) {
        top += lanes_of(bars[b]) * LANE + GAP;
        seconds = fmax(seconds, bars[b]->seconds);
        g.links = g.links || bars[b]->machines > 0;
    }
    int texts = make_entries(&g, entries);
    double legend = chart_legend(NULL, left, top, width, entries, texts);
    chart_begin(&g.chart, WIDTH, top - 34 + legend + 12, "A step by ranks and links");
    chart_text(&g.chart, left, 26, width, "font-size='15' font-weight='bold'", subject);
    top = TOP - 18;
    for (int b = 0; b < count && drawn; b++) {
        drawn = put_step(&g, bars[b], top, seconds > 0 ? seconds : 1);
        top += lanes_of(bars[b]) * LANE + GAP;
    }
    (void)chart_legend(&g.chart, left, top - 16, width, entries, texts);
    chart_end(&g.chart);
    return drawn ? g.chart.status : WEFT_ERR_MEMORY;
}
