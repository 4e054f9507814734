/* Draws the rates and efficiencies of weft plan --scale as curves over the machines. */
#include <math.h>
#include <stdio.h>

#include "chart.h"
#include "cli.h"
#include "plan_scale.h"

enum { WIDTH = 1000, TOP = 66, PANEL = 352, HEIGHT = 300 };

typedef struct picture {
    const scale *s;
    chart chart;
    chart_panel panel;
    bool efficiency; /* the panel has efficiencies in place of rates */
    int drawn;       /* the strategy of the current curve */
} picture;

/* The size of the estimate number `i` of the current strategy. */
static int size_of(const picture *p, size_t i)
{
    int size = 0;
    for (;; size++)
        if (!*scale_at(p->s, p->drawn, size)->reason && i-- == 0) return size;
}

static chart_point point_at(const void *curve, size_t i)
{
    const picture *p = curve;
    int size = size_of(p, i);
    return (chart_point){p->s->machines[size],
                         p->efficiency ? 100 * scale_efficiency(p->s, p->drawn, size)
                                       : scale_at(p->s, p->drawn, size)->step.samples_per_second};
}

static size_t points_of(picture *p, int strategy)
{
    size_t count = 0;
    p->drawn = strategy;
    for (int i = 0; i < p->s->sizes; i++) count += !*scale_at(p->s, strategy, i)->reason;
    return count;
}

static void set_panel(picture *p, chart_tick *ticks)
{
    const scale *s = p->s;
    double low = INFINITY, high = 0;
    for (int k = 0; k < s->strategies; k++)
        for (size_t i = 0, count = points_of(p, k); i < count; i++) {
            low = fmin(low, point_at(p, i).y);
            high = fmax(high, point_at(p, i).y);
        }
    if (!isfinite(low)) low = high = 1;
    for (int i = 0; i < s->sizes; i++) {
        ticks[i].at = s->machines[i];
        (void)snprintf(ticks[i].text, sizeof(ticks[i].text), "%d", s->machines[i]);
    }
    p->panel = (chart_panel){
        .left = CHART_LEFT + p->efficiency * (PANEL + CHART_LEFT + CHART_RIGHT),
        .top = TOP,
        .width = PANEL,
        .height = HEIGHT,
        .x = {.label = "machines (logarithmic)",
              .logarithmic = true,
              .ticks = ticks,
              .tick_count = s->sizes},
        .y = {.label = p->efficiency ? "efficiency, %" : "samples a second (logarithmic)",
              .logarithmic = !p->efficiency}};
    chart_cover(&p->panel.x, s->machines[0], s->machines[s->sizes - 1]);
    if (p->efficiency)
        chart_cover(&p->panel.y, 0, fmax(105, 1.05 * high));
    else
        chart_cover(&p->panel.y, low / 1.2, high * 1.2);
}

static void put_panel(picture *p)
{
    chart_tick ticks[MOST_SIZES];
    set_panel(p, ticks);
    chart_frame(&p->chart, &p->panel);
    for (int k = 0; k < p->s->strategies; k++) {
        chart_style style = chart_style_of(k);
        size_t count = points_of(p, k);
        chart_curve(&p->chart, &p->panel, &style, false, point_at, p, count);
        for (size_t i = 0; i < count; i++) {
            char note[64];
            chart_point point = point_at(p, i);
            (void)snprintf(note, sizeof(note), "%.0f machines: %.5g%s", point.x, point.y,
                           p->efficiency ? " %" : " samples/s");
            chart_mark(&p->chart, &p->panel, &style, point, note);
        }
    }
}

weft_status scale_plot(const scale *s, const char *subject, weft_output *to)
{
    picture own = {.s = s, .chart = {.to = to}}, *p = &own;
    chart_entry entries[MOST_CURVES];
    double left = CHART_LEFT, top = TOP + HEIGHT + CHART_BOTTOM + 8;
    double width = WIDTH - left - CHART_RIGHT;
    char line[200];
    for (int k = 0; k < s->strategies; k++)
        entries[k] = (chart_entry){.style = chart_style_of(k),
                                   .text = strategy_label(s->words[k]),
                                   .note = points_of(p, k) ? NULL : "no estimate"};
    double height = chart_legend(NULL, left, top, width, entries, s->strategies);
    chart_begin(&p->chart, WIDTH, top + height + 12, "Estimated rates of strategies");
    chart_text(&p->chart, left, 26, width, "font-size='15' font-weight='bold'", subject);
    (void)snprintf(line, sizeof(line), "estimated for %.160s", s->cluster);
    chart_text(&p->chart, left, 46, width, "fill='#555'", line);
    for (int side = 0; side < 2; side++) {
        p->efficiency = side == 1;
        put_panel(p);
    }
    (void)chart_legend(&p->chart, left, top, width, entries, s->strategies);
    chart_end(&p->chart);
    return p->chart.status;
}
