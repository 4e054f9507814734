/* The chart of a learning-rate range test, as SVG and as text. */
#include <math.h>
#include <stdio.h>

#include "chart.h"
#include "cli.h"
#include "find_lr.h"

enum { WIDTH = 640, HEIGHT = 320, TOP = 48, LINES = 20, BAR = 40 };

/* The largest loss that the chart shows: that of the steps before its end, where it may burst. */
static double top_of(const lr_test *t)
{
    double low = t->loss[t->lowest], high = t->loss[0];
    for (size_t i = 0; i < t->lowest; i++) high = fmax(high, t->loss[i]);
    return fmin(t->loss[t->count - 1], high) > high ? high : high + 0.25 * (high - low);
}

static chart_point point_at(const void *curve, size_t i)
{
    const lr_test *t = curve;
    return (chart_point){t->rate[i], t->loss[i]};
}

weft_status lr_test_plot(const lr_test *t, const char *title, weft_output *to)
{
    chart c = {.to = to};
    char note[2][64];
    double low = t->loss[t->lowest], margin = 0.05 * (top_of(t) - low);
    size_t tenth = t->lowest; /* the step whose rate is a tenth of that of the smallest loss */
    while (tenth > 0 && t->rate[tenth] > t->rate[t->lowest] / 10) tenth--;
    chart_panel p = {.left = CHART_LEFT,
                     .top = TOP,
                     .width = WIDTH - CHART_LEFT - CHART_RIGHT,
                     .height = HEIGHT,
                     .x = {.label = "learning rate (logarithmic)", .logarithmic = true},
                     .y = {.label = "training loss, moving mean"}};
    chart_cover(&p.x, t->rate[0], t->rate[t->count - 1]);
    chart_cover(&p.y, low - margin, top_of(t) + margin);
    chart_begin(&c, WIDTH, TOP + HEIGHT + CHART_BOTTOM + 40, "Learning-rate range test");
    chart_text(&c, CHART_LEFT, 26, WIDTH - CHART_LEFT - CHART_RIGHT,
               "font-size='15' font-weight='bold'", title);
    chart_frame(&c, &p);
    const chart_style curve = chart_style_of(0), marks[] = {chart_style_of(1), chart_style_of(2)};
    chart_curve(&c, &p, &curve, false, point_at, t, t->count);
    (void)snprintf(note[0], sizeof(note[0]), "steepest fall: %.3g", t->rate[t->steepest]);
    (void)snprintf(note[1], sizeof(note[1]), "a tenth of the minimum's rate: %.3g",
                   t->rate[t->lowest] / 10);
    const chart_entry entries[] = {{.style = marks[0], .text = note[0]},
                                   {.style = marks[1], .text = note[1]}};
    if (t->steepest > 0) {
        chart_mark(&c, &p, &marks[0], point_at(t, t->steepest), note[0]);
        chart_mark(&c, &p, &marks[1], point_at(t, tenth), note[1]);
        (void)chart_legend(&c, CHART_LEFT, TOP + HEIGHT + CHART_BOTTOM,
                           WIDTH - CHART_LEFT - CHART_RIGHT, entries, 2);
    }
    chart_end(&c);
    return c.status;
}

void lr_test_print(const lr_test *t)
{
    double low = t->loss[t->lowest], high = top_of(t);
    size_t every = (t->count + LINES - 1) / LINES;
    char loss[32];
    printf("%10s  %10s\n", "rate", "loss");
    for (size_t i = every - 1; i < t->count; i += every) {
        double share = high > low ? (t->loss[i] - low) / (high - low) : 0;
        int bar = (int)lround(fmin(fmax(share, 0), 1) * BAR);
        printf("%10.3g  %10s  %.*s%s\n", t->rate[i], score_text(t->loss[i], loss, sizeof(loss)),
               bar, "########################################", share > 1 ? ">" : "");
    }
}
