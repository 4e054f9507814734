/* Plots the runs of a comparison as SVG: a row of panels for the training loss, and one each for
 * the loss and the metric of evaluations, if there are some; on the left against time, on the right
 * against samples. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chart.h"
#include "compare.h"

enum { WIDTH = 1000, TOP = 66, PANEL = 352, HEIGHT = 300, LOWER = 200 /* of further rows */ };

typedef struct picture {
    chart chart;
    const compared_run *all;
    int count;
    run_source source;
    const plot_goal *goal; /* NULL: none */
    chart_panel panel;
    char label[120]; /* of the y axis of the panel */
    bool samples;    /* the current panel is against samples instead of time */
    int row, drawn;  /* of the current curve: which course of which run */
} picture;

static double x_of(const picture *p, const point *q)
{
    return p->samples ? q->samples : q->seconds;
}

static const course *course_of(const picture *p, int run)
{
    return &p->all[run].courses[p->row];
}

/* --- ranges of the axes --- */

/* Sets the range of the x axis: from 0, or logarithmic if one run is more than FAR times as long as
 * another, whose curve would vanish at the edge. */
static void fit_x(picture *p)
{
    const double FAR = 6;
    double first = INFINITY, shortest = INFINITY, longest = 0;
    for (int c = 0; c < p->count; c++) {
        const course *k = &p->all[c].courses[TRAINING];
        for (size_t i = 0; i < k->count; i++)
            if (x_of(p, &k->points[i]) > 0) first = fmin(first, x_of(p, &k->points[i]));
        if (k->count == 0) continue;
        double end = x_of(p, &k->points[k->count - 1]);
        longest = fmax(longest, end);
        if (!p->all[c].failed) shortest = fmin(shortest, end);
        for (int row = HELD_OUT_LOSS; row < COURSES; row++) {
            const course *last = &p->all[c].courses[row];
            if (last->count > 0) longest = fmax(longest, x_of(p, &last->points[last->count - 1]));
        }
    }
    chart_axis *a = &p->panel.x;
    a->logarithmic = shortest > 0 && isfinite(shortest) && longest > FAR * shortest;
    if (longest <= 0) longest = 1;
    chart_cover(a, a->logarithmic ? first : 0, longest);
    if (!a->logarithmic) a->high += 0.015 * (a->high - a->low);
}

/* Whether a run decides about the range of the y axis: runs that failed, whose losses diverged, do
 * so only if there are no others. */
static bool sets_range(const picture *p, int run)
{
    bool others = false;
    for (int c = 0; c < p->count; c++) others |= !p->all[c].failed && course_of(p, c)->count > 0;
    return !p->all[run].failed || !others;
}

/* The goal, if it is one of the current row. */
static const plot_goal *goal_of(const picture *p)
{
    return p->goal && p->goal->row == p->row ? p->goal : NULL;
}

static bool is_loss(const picture *p)
{
    return p->row != HELD_OUT_METRIC;
}

/* The range of the current curves without their steep beginnings, which would flatten the other
 * parts: *low to *high. A diverging loss leaves the frame at the top, where it is more than twice
 * of that of all beginnings. */
static void find_range(const picture *p, double *low, double *high)
{
    const double BEGINNING = 0.03;
    double first = -INFINITY;
    const chart_axis *x = &p->panel.x;
    double begin = x->logarithmic ? x->low * pow(x->high / x->low, BEGINNING)
                                  : x->low + BEGINNING * (x->high - x->low);
    *low = INFINITY;
    *high = -INFINITY;
    for (int c = 0; c < p->count; c++) {
        const course *k = course_of(p, c);
        if (!sets_range(p, c)) continue;
        if (k->count > 0) first = fmax(first, k->points[0].value);
        for (size_t i = 0; i < k->count; i++) {
            const point *q = &k->points[i];
            *low = fmin(*low, q->value);
            if (x_of(p, q) >= begin || i + 1 == k->count) *high = fmax(*high, q->value);
        }
    }
    double most = first + fmax(first - *low, fabs(first));
    if (is_loss(p) && most > *low) *high = fmin(*high, most);
    if (!isfinite(*low)) *low = 0, *high = 1; /* no run has a point */
    const plot_goal *goal = goal_of(p);
    if (goal) *low = fmin(*low, goal->value), *high = fmax(*high, goal->value);
}

static void name_y(picture *p)
{
    const char *part = "", *title = "metric";
    for (int c = 0; c < p->count; c++) {
        const compared_run *k = &p->all[c];
        if (*part && *k->part && strcmp(part, k->part) != 0)
            part = "held-out";
        else if (*k->part && strcmp(part, "held-out") != 0)
            part = k->part;
        if (k->held_out.metrics > 0) title = k->held_out.metric[0].title;
    }
    const char *scale = p->panel.y.logarithmic ? " (logarithmic)" : "";
    if (p->row == TRAINING)
        (void)snprintf(p->label, sizeof(p->label), "training loss, smoothed%s", scale);
    else
        (void)snprintf(p->label, sizeof(p->label), "%s %s%s", part, is_loss(p) ? "loss" : title,
                       scale);
    size_t size = strlen(p->label);
    if (goal_of(p))
        (void)snprintf(p->label + size, sizeof(p->label) - size, " (target %.6g)", p->goal->value);
    p->panel.y.label = p->label;
}

static void fit_y(picture *p)
{
    const double FAR = 20, MARGIN = 0.04;
    double low, high;
    find_range(p, &low, &high);
    chart_axis *a = &p->panel.y;
    a->logarithmic = is_loss(p) && low > 0 && high > FAR * low;
    if (a->logarithmic) {
        double part = pow(high / low, MARGIN);
        chart_cover(a, low / part, high * part);
    } else {
        chart_cover(a, low, high);
        double part = MARGIN * (a->high - a->low);
        a->low -= part;
        a->high += part;
    }
    name_y(p);
}

/* --- drawing --- */

static chart_point point_at(const void *curve, size_t i)
{
    const picture *p = curve;
    const point *q = &course_of(p, p->drawn)->points[i];
    return (chart_point){x_of(p, q), q->value};
}

static void put_curve(picture *p, int number)
{
    const course *k = course_of(p, number);
    chart_style style = chart_style_of(number);
    p->drawn = number;
    chart_curve(&p->chart, &p->panel, &style, true, point_at, p, k->count);
    if (p->all[number].failed && p->row == TRAINING && k->count > 0)
        chart_cross(&p->chart, &p->panel, &style, point_at(p, k->count - 1));
}

static chart_point end_of(const void *line, size_t i)
{
    return ((const chart_point *)line)[i];
}

/* Draws a straight line. */
static void put_line(picture *p, const char *colour, const char *dash, chart_point from,
                     chart_point to)
{
    const chart_style style = {.colour = colour, .dash = dash};
    const chart_point ends[] = {from, to};
    chart_curve(&p->chart, &p->panel, &style, false, end_of, ends, 2);
}

/* The goal is a line, and a curve that ends there has a mark and a line down to the axis. */
static void put_goal(picture *p)
{
    const plot_goal *goal = goal_of(p);
    const chart_axis *x = &p->panel.x;
    if (!goal) return;
    put_line(p, "#444", "3 3", (chart_point){x->low, goal->value},
             (chart_point){x->high, goal->value});
    for (int i = 0; i < p->count; i++) {
        const course *k = course_of(p, i);
        if (p->all[i].reached < 0 || k->count == 0) continue;
        char note[120];
        const chart_style style = chart_style_of(i);
        p->drawn = i;
        chart_point at = point_at(p, k->count - 1);
        (void)snprintf(note, sizeof(note), "%s after %.4g s", goal->text, p->all[i].reached);
        put_line(p, style.colour, "2 3", at, (chart_point){at.x, p->panel.y.low});
        chart_mark(&p->chart, &p->panel, &style, at, note);
    }
}

static const char *name_x(const picture *p)
{
    bool log = p->panel.x.logarithmic, steps = p->source == RUNS_OF_FILES;
    if (p->samples && steps) return log ? "steps (logarithmic)" : "steps";
    if (p->samples)
        return log ? "samples of all learners (logarithmic)" : "samples of all learners";
    if (p->source == RUNS_SIMULATED)
        return log ? "virtual time, seconds (logarithmic)" : "virtual time, seconds";
    return log ? "time, seconds (logarithmic)" : "time, seconds";
}

/* Sets the panel of a row and a side, and its ranges. */
static void set_panel(picture *p, int row, int side, double top)
{
    p->row = row;
    p->samples = side == 1;
    p->panel = (chart_panel){.left = CHART_LEFT + side * (PANEL + CHART_LEFT + CHART_RIGHT),
                             .top = top,
                             .width = PANEL,
                             .height = row == TRAINING ? HEIGHT : LOWER};
    fit_x(p);
    fit_y(p);
    p->panel.x.label = name_x(p);
}

static void put_panel(picture *p)
{
    chart_frame(&p->chart, &p->panel);
    for (int layer = 0; layer < CHART_LAYERS; layer++)
        for (int i = 0; i < p->count; i++)
            if (chart_layer_of(i) == layer) put_curve(p, i);
    put_goal(p);
}

/* Draws the title: model and data, if they are the same for all runs. Otherwise the legend tells
 * them. */
static void put_title(picture *p)
{
    static const char *const sources[] = {[RUNS_MEASURED] =
                                              "measured on this machine: loss of learner 0",
                                          [RUNS_SIMULATED] = "simulated: mean loss of all learners",
                                          [RUNS_OF_FILES] = "from their files of metrics"};
    const char *subject = p->all[0].subject;
    int least = p->all[0].learners, most = least;
    char line[160], learners[48] = "";
    for (int i = 1; i < p->count; i++) {
        const compared_run *k = &p->all[i];
        bool alike =
            subject == k->subject || (subject && k->subject && strcmp(k->subject, subject) == 0);
        if (!alike) subject = "several models or data";
        if (k->learners < least) least = k->learners;
        if (k->learners > most) most = k->learners;
    }
    if (most > 0)
        (void)snprintf(learners, sizeof(learners),
                       least < most ? ", %d to %d learners"
                       : least == 1 ? ", %d learner"
                                    : ", %d learners",
                       least, most);
    (void)snprintf(line, sizeof(line), "%d %s%s, %s", p->count,
                   p->source == RUNS_OF_FILES ? "runs" : "strategies", learners,
                   sources[p->source]);
    double room = WIDTH - CHART_LEFT - CHART_RIGHT;
    chart_text(&p->chart, CHART_LEFT, 26, room, "font-size='15' font-weight='bold'",
               subject ? subject : "comparison");
    chart_text(&p->chart, CHART_LEFT, 46, room, "fill='#555'", line);
}

/* --- the legend --- */

enum { NOTE = 160 };

typedef struct legend {
    chart_entry entries[MOST_RUNS];
    char notes[MOST_RUNS][NOTE];
} legend;

/* The highest value of the current curve, if it rises from its beginning out of the frame. */
static double risen(const picture *p, int run)
{
    const course *k = course_of(p, run);
    double most = -INFINITY, begin = k->count > 0 ? k->points[0].value : 0;
    for (size_t i = 0; i < k->count; i++)
        if (k->points[i].value > begin) most = fmax(most, k->points[i].value);
    return most > p->panel.y.high ? most : -INFINITY;
}

/* The legend's note about a run: that its loss is not finite, or beyond the frame of a panel.
 * Returns NULL for nothing. Moves the panel. */
static const char *note_of(picture *p, int run, char *out)
{
    static const char *const losses[COURSES] = {
        [TRAINING] = "loss", [HELD_OUT_LOSS] = "held-out loss"};
    const bool failed = p->all[run].failed;
    size_t size = 0;
    *out = '\0';
    if (failed) size += (size_t)snprintf(out, NOTE, "×: the loss became NaN or infinite");
    if (p->goal && p->all[run].reached >= 0)
        size +=
            (size_t)snprintf(out, NOTE, "%.80s after %.4g s", p->goal->text, p->all[run].reached);
    for (int row = 0; row < COURSES; row++) {
        if (!losses[row]) continue;
        set_panel(p, row, 0, TOP);
        double most = risen(p, run);
        if (isfinite(most) && size < NOTE)
            size += (size_t)snprintf(out + size, NOTE - size,
                                     "%sclipped at the frame: its %s rises to %.4g",
                                     size > 0 ? "; " : "", losses[row], most);
    }
    return *out ? out : NULL;
}

/* --- the picture --- */

static bool has_row(const compared_run *all, int count, int row)
{
    bool has = row == TRAINING;
    for (int i = 0; i < count; i++) has = has || all[i].courses[row].count > 0;
    return has;
}

weft_status plot_runs(const compared_run *all, int count, run_source source, const plot_goal *goal,
                      weft_output *to)
{
    picture p = {.chart = {.to = to}, .all = all, .count = count, .source = source, .goal = goal};
    legend *l = calloc(1, sizeof(*l));
    if (!l) return WEFT_ERR_MEMORY;
    double left = CHART_LEFT, top = TOP, width = WIDTH - left - CHART_RIGHT;
    for (int i = 0; i < count; i++)
        l->entries[i] = (chart_entry){
            .style = chart_style_of(i), .text = all[i].label, .note = note_of(&p, i, l->notes[i])};
    for (int row = 0; row < COURSES; row++)
        if (has_row(all, count, row)) top += (row == TRAINING ? HEIGHT : LOWER) + CHART_BOTTOM + 12;
    double height = chart_legend(NULL, left, top, width, l->entries, count);
    chart_begin(&p.chart, WIDTH, top + height + 12, "Training losses of a comparison");
    put_title(&p);
    top = TOP;
    for (int row = 0; row < COURSES; row++) {
        if (!has_row(all, count, row)) continue;
        for (int side = 0; side < 2; side++) {
            set_panel(&p, row, side, top);
            put_panel(&p);
        }
        top += p.panel.height + CHART_BOTTOM + 12;
    }
    (void)chart_legend(&p.chart, left, top, width, l->entries, count);
    chart_end(&p.chart);
    free(l);
    return p.chart.status;
}
