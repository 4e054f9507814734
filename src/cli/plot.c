/* The picture of a comparison, as SVG. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "compare.h"

/* Colours that the colour-blind can tell apart (Okabe and Ito). The first curve is drawn whole, and
 * every later one with dashes that no neighbour has: curves that coincide show in each other's
 * gaps, also in black and white. */
static const char *const colours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                      "#e69f00", "#56b4e9", "#000000"};
static const char *const dashes[] = {"8 4", "2 3",  "12 3 2 3",    "5 2",
                                     "1 5", "14 5", "6 3 2 3 2 3", "3 6"};
enum {
    COLOURS = sizeof(colours) / sizeof(colours[0]),
    DASHES = sizeof(dashes) / sizeof(dashes[0])
};

enum { WIDTH = 1000, TOP = 58, PANEL = 395, HEIGHT = 300, LEFT = 84, GAP = 100, MOST = 500 };
/* Of a character, about, in pixels. */
static const double CHARACTER = 7.5;

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
    (void)snprintf(text, sizeof(text), "%.5g", v);
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
        int decades = last - first, every = decades > 8 ? (decades + 7) / 8 : 1;
        for (int decade = first; decade <= last && status == WEFT_OK; decade += every)
            for (int i = 0; i < (decades > 4 ? 1 : 3) && status == WEFT_OK; i++) {
                double v = mantissas[i] * pow(10, decade);
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
        p->left, TOP, PANEL, HEIGHT, p->left + PANEL / 2.0, TOP + HEIGHT + 40, title, p->left - 66,
        TOP + HEIGHT / 2, p->left - 66, TOP + HEIGHT / 2, p->y.logarithmic ? " (logarithmic)" : "");
}

static const char *dashes_of(int number)
{
    return number == 0 ? "none" : dashes[(number - 1) % DASHES];
}

/* As many points as can be seen; one alone is a dot. */
static weft_status print_curve(const panel *p, const contestant *c, int number)
{
    const char *colour = colours[number % COLOURS];
    size_t step = c->count / MOST + 1;
    weft_status status = WEFT_OK;
    if (c->count == 1)
        return weft_output_print(p->to, "<circle r='3' fill='%s' cx='%.1f' cy='%.1f'/>\n", colour,
                                 at_x(p, p->samples ? c->points[0].samples : c->points[0].seconds),
                                 at_y(p, c->points[0].loss));
    status = weft_output_print(p->to,
                               "<polyline fill='none' stroke='%s' stroke-width='2' "
                               "stroke-linejoin='round' stroke-dasharray='%s' points='",
                               colour, dashes_of(number));
    for (size_t i = 0; i < c->count && status == WEFT_OK; i += step) {
        size_t at = i + step >= c->count ? c->count - 1 : i;
        const point *q = &c->points[at];
        status = weft_output_print(p->to, "%.1f,%.1f ",
                                   at_x(p, p->samples ? q->samples : q->seconds), at_y(p, q->loss));
    }
    return status == WEFT_OK ? weft_output_print(p->to, "'/>\n") : status;
}

/* A text from the command line, cut where it would leave the picture. */
static weft_status print_text(weft_output *to, const char *text, double room)
{
    weft_status status = WEFT_OK;
    double most = room / CHARACTER, used = 0;
    for (; *text && status == WEFT_OK; text++) {
        bool begins = ((unsigned char)*text & 0xc0) != 0x80; /* a character of UTF-8 */
        if (begins && ++used > most) return weft_output_print(to, "…");
        status = *text == '<'   ? weft_output_print(to, "&lt;")
                 : *text == '>' ? weft_output_print(to, "&gt;")
                 : *text == '&' ? weft_output_print(to, "&amp;")
                                : weft_output_write(to, text, 1);
    }
    return status;
}

static weft_status print_legend(weft_output *to, const contestant *all, int count)
{
    weft_status status = WEFT_OK;
    for (int i = 0; i < count && status == WEFT_OK; i++) {
        int y = TOP + HEIGHT + 72 + 20 * i;
        status = weft_output_print(
            to,
            "<line x1='%d' y1='%d' x2='%d' y2='%d' stroke='%s' stroke-width='2' "
            "stroke-dasharray='%s'/><text x='%d' y='%d'>",
            LEFT, y - 4, LEFT + 60, y - 4, colours[i % COLOURS], dashes_of(i), LEFT + 70, y);
        if (status == WEFT_OK) status = print_text(to, all[i].label, WIDTH - LEFT - 340);
        if (status == WEFT_OK && all[i].failed)
            status = weft_output_print(to, " (the loss became no number)");
        if (status == WEFT_OK) status = weft_output_print(to, "</text>\n");
    }
    return status;
}

/* The room that all curves need; losses that diverge leave the picture at its top. */
static void fit(panel *p, const contestant *all, int count)
{
    double first = 0;
    p->x = (axis){0, 0, false};
    p->y = (axis){INFINITY, -INFINITY, false};
    for (int c = 0; c < count; c++) {
        if (all[c].count > 0) first = fmax(first, all[c].points[0].loss);
        for (size_t i = 0; i < all[c].count; i++) {
            const point *q = &all[c].points[i];
            p->x.high = fmax(p->x.high, p->samples ? q->samples : q->seconds);
            p->y.low = fmin(p->y.low, q->loss);
            p->y.high = fmax(p->y.high, q->loss);
        }
    }
    if (first > 0) p->y.high = fmin(p->y.high, 2 * first);
    if (!(p->x.high > 0)) p->x.high = 1;
    if (!isfinite(p->y.low)) p->y = (axis){0, 1, false};
    double room = 0.04 * (p->y.high - p->y.low), least = 1e-6 * fmax(fabs(p->y.high), 1e-30);
    if (!(room > least)) room = fmax(0.1 * fabs(p->y.high), 1e-30);
    if (p->y.low > 0 && p->y.high > 8 * p->y.low)
        p->y = (axis){p->y.low / 1.2, p->y.high * 1.2, true};
    else
        p->y = (axis){p->y.low - room, p->y.high + room, false};
}

weft_status plot_losses(const contestant *all, int count, const char *title, bool simulated,
                        weft_output *to)
{
    int height = TOP + HEIGHT + 72 + 20 * count;
    weft_status status = weft_output_print(
        to,
        "<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d' viewBox='0 0 %d %d' "
        "font-family='Helvetica, Arial, sans-serif' font-size='13' fill='#222'>\n"
        "<title>Training losses of %d strategies</title>\n"
        "<rect width='100%%' height='100%%' fill='white'/>\n"
        "<text x='%d' y='26' font-size='16' font-weight='bold'>",
        WIDTH, height, WIDTH, height, count, LEFT);
    if (status == WEFT_OK) status = print_text(to, title, 0.75 * (WIDTH - LEFT));
    if (status == WEFT_OK)
        status = weft_output_print(to, "</text>\n<text x='%d' y='45'>%s</text>\n", LEFT,
                                   simulated ? "simulated, mean loss of all learners"
                                             : "measured on this machine, loss of learner 0");
    for (int side = 0; side < 2 && status == WEFT_OK; side++) {
        panel p = {.to = to, .left = LEFT + side * (PANEL + GAP), .samples = side == 1};
        fit(&p, all, count);
        status = print_frame(&p, p.samples   ? "samples of all learners"
                                 : simulated ? "seconds of virtual time"
                                             : "seconds");
        for (int i = 0; i < count && status == WEFT_OK; i++) status = print_curve(&p, &all[i], i);
    }
    if (status == WEFT_OK) status = print_legend(to, all, count);
    return status == WEFT_OK ? weft_output_print(to, "</svg>\n") : status;
}
