/* The picture of a comparison, as SVG. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "compare.h"

/* Colours that the colour-blind can tell apart (Okabe and Ito), and for more curves than there are,
 * dashes. */
static const char *const colours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                      "#e69f00", "#56b4e9", "#000000"};
static const char *const dashes[] = {"none", "7 4", "2 3", "9 3 2 3"};
enum { COLOURS = sizeof(colours) / sizeof(colours[0]), DASHES = 4 };

enum { WIDTH = 1000, TOP = 34, PANEL = 400, HEIGHT = 300, LEFT = 70, GAP = 90, MOST = 500 };

typedef struct axis {
    double low, high;
    bool logarithmic;
} axis;

typedef struct panel {
    weft_output *to;
    axis x, y;
    double left;
    bool samples; /* against samples, not against time */
} panel;

static double share(const axis *a, double v)
{
    if (a->logarithmic) return log(v / a->low) / log(a->high / a->low);
    return (v - a->low) / (a->high - a->low);
}

static double at_x(const panel *p, double v)
{
    return p->left + PANEL * share(&p->x, v);
}

static double at_y(const panel *p, double v)
{
    double s = fmin(fmax(share(&p->y, v), 0), 1);
    return TOP + HEIGHT * (1 - s);
}

/* 1, 2 or 5 times a power of ten, so that at most `most` of them fit. */
static double nice_step(double range, int most)
{
    static const double all[] = {1, 2, 5, 10};
    double power = pow(10, floor(log10(range / most)));
    for (int i = 0; i < 3; i++)
        if (range / (all[i] * power) <= most) return all[i] * power;
    return 10 * power;
}

static weft_status print_tick(const panel *p, bool vertical, double v)
{
    char text[32];
    (void)snprintf(text, sizeof(text), "%.7g", v);
    if (vertical)
        return weft_output_print(p->to,
                                 "<line x1='%.1f' y1='%.1f' x2='%.1f' y2='%.1f' stroke='#ddd'/>"
                                 "<text x='%.1f' y='%.1f' text-anchor='end'>%s</text>\n",
                                 p->left, at_y(p, v), p->left + PANEL, at_y(p, v), p->left - 7,
                                 at_y(p, v) + 4, text);
    return weft_output_print(p->to,
                             "<line x1='%.1f' y1='%d' x2='%.1f' y2='%d' stroke='#ddd'/>"
                             "<text x='%.1f' y='%d' text-anchor='middle'>%s</text>\n",
                             at_x(p, v), TOP, at_x(p, v), TOP + HEIGHT, at_x(p, v),
                             TOP + HEIGHT + 18, text);
}

static weft_status print_ticks(const panel *p, bool vertical)
{
    const axis *a = vertical ? &p->y : &p->x;
    static const double mantissas[] = {1, 2, 5};
    weft_status status = WEFT_OK;
    if (a->logarithmic) {
        int first = (int)floor(log10(a->low)), last = (int)ceil(log10(a->high));
        for (int i = 3 * first; i <= 3 * last && status == WEFT_OK; i++) {
            int decade = first + (i - 3 * first) / 3;
            double v = mantissas[(i - 3 * first) % 3] * pow(10, decade);
            if (v >= a->low && v <= a->high) status = print_tick(p, vertical, v);
        }
        return status;
    }
    double step = nice_step(a->high - a->low, 6);
    for (int64_t k = (int64_t)ceil(a->low / step);
         status == WEFT_OK && (double)k * step <= a->high * (1 + 1e-9); k++)
        status = print_tick(p, vertical, (double)k * step);
    return status;
}

static weft_status print_frame(const panel *p, const char *title)
{
    weft_status status = print_ticks(p, false);
    if (status == WEFT_OK) status = print_ticks(p, true);
    if (status != WEFT_OK) return status;
    return weft_output_print(
        p->to,
        "<rect x='%.1f' y='%d' width='%d' height='%d' fill='none' stroke='#444'/>\n"
        "<text x='%.1f' y='%d' text-anchor='middle'>%s</text>\n"
        "<text x='%.1f' y='%d' text-anchor='middle' "
        "transform='rotate(-90 %.1f %d)'>training loss%s</text>\n",
        p->left, TOP, PANEL, HEIGHT, p->left + PANEL / 2.0, TOP + HEIGHT + 40, title, p->left - 48,
        TOP + HEIGHT / 2, p->left - 48, TOP + HEIGHT / 2, p->y.logarithmic ? " (logarithmic)" : "");
}

/* As many points as can be seen. What is drawn later is thinner, so that curves that are the same
 * are all seen. */
static weft_status print_curve(const panel *p, const contestant *c, int number, int count)
{
    double width = 4 - 2.5 * number / (count > 1 ? count - 1 : 1);
    size_t step = c->count / MOST + 1;
    weft_status status = weft_output_print(
        p->to,
        "<polyline fill='none' stroke='%s' stroke-width='%.1f' stroke-linejoin='round' "
        "stroke-dasharray='%s' points='",
        colours[number % COLOURS], width, dashes[number / COLOURS % DASHES]);
    for (size_t i = 0; i < c->count && status == WEFT_OK; i += step) {
        size_t at = i + step >= c->count ? c->count - 1 : i;
        const point *q = &c->points[at];
        status = weft_output_print(p->to, "%.1f,%.1f ",
                                   at_x(p, p->samples ? q->samples : q->seconds), at_y(p, q->loss));
    }
    return status == WEFT_OK ? weft_output_print(p->to, "'/>\n") : status;
}

/* Names come from the command line. */
static weft_status print_escaped(weft_output *to, const char *text)
{
    weft_status status = WEFT_OK;
    for (; *text && status == WEFT_OK; text++)
        status = *text == '<'   ? weft_output_print(to, "&lt;")
                 : *text == '>' ? weft_output_print(to, "&gt;")
                 : *text == '&' ? weft_output_print(to, "&amp;")
                                : weft_output_write(to, text, 1);
    return status;
}

static weft_status print_legend(weft_output *to, const contestant *all, int count)
{
    weft_status status = WEFT_OK;
    for (int i = 0; i < count && status == WEFT_OK; i++) {
        int y = TOP + HEIGHT + 72 + 20 * i;
        status =
            weft_output_print(to,
                              "<line x1='%d' y1='%d' x2='%d' y2='%d' stroke='%s' stroke-width='3' "
                              "stroke-dasharray='%s'/><text x='%d' y='%d'>",
                              LEFT, y - 4, LEFT + 40, y - 4, colours[i % COLOURS],
                              dashes[i / COLOURS % DASHES], LEFT + 50, y);
        if (status == WEFT_OK) status = print_escaped(to, all[i].label);
        if (status == WEFT_OK) status = weft_output_print(to, "</text>\n");
    }
    return status;
}

/* What all curves need; losses that diverge leave the picture at its top. */
static void fit(panel *p, const contestant *all, int count)
{
    double first = 0;
    p->x = (axis){0, 0, false};
    p->y = (axis){INFINITY, 0, false};
    for (int c = 0; c < count; c++) {
        if (all[c].count > 0) first = fmax(first, all[c].points[0].loss);
        for (size_t i = 0; i < all[c].count; i++) {
            const point *q = &all[c].points[i];
            p->x.high = fmax(p->x.high, p->samples ? q->samples : q->seconds);
            p->y.low = fmin(p->y.low, q->loss);
            p->y.high = fmax(p->y.high, q->loss);
        }
    }
    p->y.high = fmin(p->y.high, 2 * first);
    if (!(p->x.high > 0)) p->x.high = 1;
    if (!(p->y.high > p->y.low)) p->y = (axis){0, fmax(p->y.high, 1), false};
    p->y.logarithmic = p->y.low > 0 && p->y.high > 10 * p->y.low;
    if (p->y.logarithmic)
        p->y = (axis){p->y.low / 1.2, p->y.high * 1.2, true};
    else
        p->y = (axis){fmin(p->y.low, 0), p->y.high * 1.05, false};
}

weft_status plot_losses(const contestant *all, int count, bool simulated, weft_output *to)
{
    weft_status status = weft_output_print(
        to,
        "<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d' viewBox='0 0 %d %d' "
        "font-family='Helvetica, Arial, sans-serif' font-size='13' fill='#222'>\n"
        "<title>Training losses of %d strategies</title>\n"
        "<rect width='100%%' height='100%%' fill='white'/>\n",
        WIDTH, TOP + HEIGHT + 72 + 20 * count, WIDTH, TOP + HEIGHT + 72 + 20 * count, count);
    for (int side = 0; side < 2 && status == WEFT_OK; side++) {
        panel p = {.to = to, .left = LEFT + side * (PANEL + GAP), .samples = side == 1};
        fit(&p, all, count);
        status = print_frame(&p, p.samples   ? "samples"
                                 : simulated ? "seconds of virtual time"
                                             : "seconds");
        for (int i = 0; i < count && status == WEFT_OK; i++)
            status = print_curve(&p, &all[i], i, count);
    }
    if (status == WEFT_OK) status = print_legend(to, all, count);
    return status == WEFT_OK ? weft_output_print(to, "</svg>\n") : status;
}
