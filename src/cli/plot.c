/* Smooths the losses of a comparison and plots those of all runs as SVG, on the left against time,
 * on the right against samples. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "chart.h"
#include "compare.h"

enum { WIDTH = 1000, TOP = 66, PANEL = 384, HEIGHT = 300, RIGHT = 16 };

typedef struct picture {
    chart chart;
    const compared_run *all;
    int count;
    bool simulated;
    chart_panel panel;
    bool samples; /* the current panel is against samples instead of time */
    int drawn;    /* index of the current curve */
} picture;

static double x_of(const picture *p, const point *q)
{
    return p->samples ? q->samples : q->seconds;
}

/* --- smoothing --- */

/* A window is as long as a block, so it is the rest of a block and the beginning of the next one,
 * and no loss is ever subtracted: a huge loss would leave its rounding error in all other means.
 * The loop runs over the blocks backwards, so that the losses of the block before are unchanged. */
void smooth_losses(compared_run *c)
{
    size_t window = c->count / 40 + 1;
    for (size_t block = (c->count + window - 1) / window; block-- > 0;) {
        size_t begin = block * window;
        point *now = c->points + begin, *last = now - (block > 0 ? window : 0);
        double rest = 0;
        for (size_t i = 1; i < window && begin + i < c->count; i++) now[i].loss += now[i - 1].loss;
        for (size_t i = window; i-- > 0;) {
            double size = (double)(block > 0 ? window : i + 1);
            if (begin + i < c->count) now[i].loss = (now[i].loss + rest) / size;
            if (block > 0) rest += last[i].loss;
        }
    }
}

/* --- ranges of the axes --- */

/* Sets the range of the x axis: from 0, or logarithmic if one run is more than FAR times as long as
 * another, whose curve would vanish at the edge. */
static void fit_x(picture *p)
{
    const double FAR = 6;
    double first = INFINITY, shortest = INFINITY, longest = 0;
    for (int c = 0; c < p->count; c++) {
        const compared_run *k = &p->all[c];
        for (size_t i = 0; i < k->count; i++)
            if (x_of(p, &k->points[i]) > 0) first = fmin(first, x_of(p, &k->points[i]));
        if (k->count == 0) continue;
        double end = x_of(p, &k->points[k->count - 1]);
        longest = fmax(longest, end);
        if (!k->failed) shortest = fmin(shortest, end);
    }
    chart_axis *a = &p->panel.x;
    a->logarithmic = shortest > 0 && isfinite(shortest) && longest > FAR * shortest;
    if (longest <= 0) longest = 1;
    chart_cover(a, a->logarithmic ? first : 0, longest);
    if (!a->logarithmic) a->high += 0.015 * (a->high - a->low);
}

/* Whether a run decides about the range of the y axis: runs that failed, whose losses diverged, do
 * so only if there are no others. */
static bool sets_range(const picture *p, const compared_run *k)
{
    bool others = false;
    for (int c = 0; c < p->count; c++) others |= !p->all[c].failed && p->all[c].count > 0;
    return !k->failed || !others;
}

/* Sets the range of the y axis to that of the curves without their steep beginnings, which would
 * flatten the other parts. A diverging loss leaves the frame at the top. */
static void fit_y(picture *p)
{
    const double BEGINNING = 0.03, FAR = 20, MARGIN = 0.04;
    double low = INFINITY, first = -INFINITY, high = -INFINITY;
    double begin = p->panel.x.low + BEGINNING * (p->panel.x.high - p->panel.x.low);
    for (int c = 0; c < p->count; c++) {
        const compared_run *k = &p->all[c];
        if (!sets_range(p, k)) continue;
        if (k->count > 0) first = fmax(first, k->points[0].loss);
        for (size_t i = 0; i < k->count; i++) {
            const point *q = &k->points[i];
            low = fmin(low, q->loss);
            if (x_of(p, q) >= begin || i + 1 == k->count) high = fmax(high, q->loss);
        }
    }
    double most = first + (first - low) / 4;
    if (most > low) high = fmin(high, most);
    if (!isfinite(low)) low = 0, high = 1; /* no run has a point */
    chart_axis *a = &p->panel.y;
    a->logarithmic = low > 0 && high > FAR * low;
    if (a->logarithmic) {
        double part = pow(high / low, MARGIN);
        chart_cover(a, low / part, high * part);
    } else {
        chart_cover(a, low, high);
        double part = MARGIN * (a->high - a->low);
        a->low -= part;
        a->high += part;
    }
    a->label = a->logarithmic ? "training loss, smoothed (logarithmic)" : "training loss, smoothed";
}

/* --- drawing --- */

static chart_point point_at(const void *curve, size_t i)
{
    const picture *p = curve;
    const point *q = &p->all[p->drawn].points[i];
    return (chart_point){x_of(p, q), q->loss};
}

static void put_curve(picture *p, int number)
{
    const compared_run *k = &p->all[number];
    chart_style style = chart_style_of(number);
    p->drawn = number;
    chart_curve(&p->chart, &p->panel, &style, true, point_at, p, k->count);
    if (k->failed && k->count > 0)
        chart_cross(&p->chart, &p->panel, &style, point_at(p, k->count - 1));
}

static void put_panel(picture *p)
{
    int side = p->samples ? 1 : 0;
    p->panel = (chart_panel){.left = CHART_LEFT + side * (PANEL + CHART_LEFT + RIGHT),
                             .top = TOP,
                             .width = PANEL,
                             .height = HEIGHT};
    fit_x(p);
    fit_y(p);
    bool log = p->panel.x.logarithmic;
    p->panel.x.label =
        p->samples     ? log ? "samples of all learners (logarithmic)" : "samples of all learners"
        : p->simulated ? log ? "virtual time, seconds (logarithmic)" : "virtual time, seconds"
        : log          ? "time, seconds (logarithmic)"
                       : "time, seconds";
    chart_frame(&p->chart, &p->panel);
    for (int layer = 0; layer < CHART_LAYERS; layer++)
        for (int i = 0; i < p->count; i++)
            if (chart_layer_of(i) == layer) put_curve(p, i);
}

/* Draws the title: model and data, if they are the same for all runs. Otherwise the legend tells
 * them. */
static void put_title(picture *p)
{
    const char *subject = p->all[0].subject;
    int least = p->all[0].learners, most = least;
    char line[160], learners[48];
    for (int i = 1; i < p->count; i++) {
        const compared_run *k = &p->all[i];
        if (!subject || !k->subject || strcmp(k->subject, subject) != 0)
            subject = "several models or data";
        if (k->learners < least) least = k->learners;
        if (k->learners > most) most = k->learners;
    }
    (void)snprintf(learners, sizeof(learners),
                   least < most ? "%d to %d learners"
                   : least == 1 ? "%d learner"
                                : "%d learners",
                   least, most);
    (void)snprintf(line, sizeof(line), "%d strategies, %s, %s", p->count, learners,
                   p->simulated ? "simulated: mean loss of all learners"
                                : "measured on this machine: loss of learner 0");
    double room = WIDTH - CHART_LEFT - RIGHT;
    chart_text(&p->chart, CHART_LEFT, 26, room, "font-size='15' font-weight='bold'",
               subject ? subject : "comparison");
    chart_text(&p->chart, CHART_LEFT, 46, room, "fill='#555'", line);
}

weft_status plot_losses(const compared_run *all, int count, bool simulated, weft_output *to)
{
    picture p = {.chart = {.to = to}, .all = all, .count = count, .simulated = simulated};
    chart_entry entries[MOST_RUNS];
    for (int i = 0; i < count; i++)
        entries[i] =
            (chart_entry){.style = chart_style_of(i),
                          .text = all[i].label,
                          .note = all[i].failed ? "×: the loss became NaN or infinite" : NULL};
    double left = CHART_LEFT, top = TOP + HEIGHT + CHART_BOTTOM + 8, width = WIDTH - left - RIGHT;
    double height = chart_legend(NULL, left, top, width, entries, count);
    chart_begin(&p.chart, WIDTH, top + height + 12, "Training losses of a comparison");
    put_title(&p);
    for (int side = 0; side < 2; side++) {
        p.samples = side == 1;
        put_panel(&p);
    }
    (void)chart_legend(&p.chart, left, top, width, entries, count);
    chart_end(&p.chart);
    return p.chart.status;
}
