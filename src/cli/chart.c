/* Draws the frames, ticks, curves and markers of SVG charts, and defines the styles of curves. */
#include "chart.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "chart_text.h"

/* --- styles --- */

/* Colours that the colour-blind can distinguish (Okabe and Ito), and grey. Their number and those
 * of the dashes and of the markers are coprime, so any two of these recur only after 72 curves. */
static const char *const colours[] = {"#0072b2", "#d55e00", "#009e73", "#000000",
                                      "#cc79a7", "#e69f00", "#56b4e9", "#777777"};
/* Dash patterns, from the one that covers most of the line to the one that covers least. */
static const char *const dashes[CHART_LAYERS] = {
    "none", "18 4", "12 5", "12 4 3 4", "7 5", "7 4 2 4", "4 4", "7 4 2 4 2 4", "2 4"};
enum { COLOURS = sizeof(colours) / sizeof(colours[0]), MARKERS = 11 };

/* SVG paths of markers around (0, 0); every second marker is drawn hollow. */
static const char *const markers[MARKERS] = {"m-4,0a4,4 0 1,0 8,0a4,4 0 1,0 -8,0z",
                                             "m-3.5,-3.5h7v7h-7z",
                                             "m0,-4.5l4.5,8h-9z",
                                             "m0,-5l5,5l-5,5l-5,-5z",
                                             "m-3.5,-3.5h7v7h-7z",
                                             "m-4,0a4,4 0 1,0 8,0a4,4 0 1,0 -8,0z",
                                             "m0,-5l5,5l-5,5l-5,-5z",
                                             "m0,4.5l4.5,-8h-9z",
                                             "m0,4.5l4.5,-8h-9z",
                                             "m0,-4.5l4.5,8h-9z",
                                             "m-5,0h10m-5,-5v10"};

chart_style chart_style_of(int i)
{
    return (chart_style){
        .colour = colours[i % COLOURS], .dash = dashes[i % CHART_LAYERS], .number = i};
}

int chart_layer_of(int i)
{
    return i % CHART_LAYERS;
}

void chart_put_marker(chart *c, const chart_style *s, double x, double y, const char *note)
{
    int kind = s->number % MARKERS;
    CHART_PUT(c, "<path d='M%.1f,%.1f%s' fill='%s' stroke='%s' stroke-width='1.5'", x, y,
              markers[kind], kind % 2 ? "white" : s->colour, s->colour);
    if (note) {
        CHART_PUT(c, "><title>");
        chart_put_escaped(c, note);
        CHART_PUT(c, "</title></path>\n");
    } else {
        CHART_PUT(c, "/>\n");
    }
}

/* --- axes --- */

static double share(const chart_axis *a, double v)
{
    if (!a->logarithmic) return (v - a->low) / (a->high - a->low);
    return log(fmax(v, a->low) / a->low) / log(a->high / a->low);
}

double chart_x(const chart_panel *p, double v)
{
    return p->left + p->width * fmin(fmax(share(&p->x, v), 0), 1);
}

/* The height of a value. If the value is outside of the axis, so is the height, though by at most
 * 100 frames, since SVG coordinates are limited. */
static double at_y(const chart_panel *p, double v)
{
    return p->top + p->height * (1 - fmin(fmax(share(&p->y, v), -100), 100));
}

static double into_frame(const chart_panel *p, double y)
{
    return fmin(fmax(y, p->top), p->top + p->height);
}

void chart_cover(chart_axis *axis, double low, double high)
{
    const double LEAST = 0.01, MOST = 1e300;
    low = fmin(fmax(low, -MOST), MOST);
    high = fmin(fmax(high, -MOST), MOST);
    double size = fmax(fabs(low), fabs(high)), room = size > 0 ? LEAST * size : 1;
    if (high - low < room) {
        double middle = low + (high - low) / 2;
        low = middle - room / 2;
        high = middle + room / 2;
    }
    axis->low = low;
    axis->high = high;
    axis->logarithmic = axis->logarithmic && low > 0;
}

/* --- ticks --- */

enum { MOST_TICKS = 40, LABEL = 10 }; /* pixels between a frame and its labels, or half a marker */

typedef struct ticks {
    chart_tick at[MOST_TICKS];
    int count;
} ticks;

static bool needs_exponent(double v)
{
    return v != 0 && (fabs(v) < 1e-4 || fabs(v) >= 1e6);
}

/* Formats a number with few characters: "1e-30" instead of "1e-030" or "1.000e-30". */
static const char *number_text(double v, bool exponents, char *out, size_t size)
{
    char text[32];
    if (v == 0 || !exponents) {
        (void)snprintf(out, size, "%.6g", v);
        return out;
    }
    (void)snprintf(text, sizeof(text), "%.4e", v);
    char *e = strchr(text, 'e');
    if (!e) return memcpy(out, "-", 2);
    int exponent = 0;
    (void)sscanf(e + 1, "%d", &exponent);
    while (e[-1] == '0') e--;
    if (e[-1] == '.') e--;
    (void)snprintf(out, size, "%.*se%d", (int)(e - text), text, exponent);
    return out;
}

static void add_tick(ticks *t, const chart_axis *a, double v)
{
    double margin = a->logarithmic ? 0 : 1e-9 * (a->high - a->low);
    if (t->count == MOST_TICKS || v < a->low - margin || v > a->high + margin) return;
    t->at[t->count++].at = v;
}

/* The numbers of an axis all have exponents if one of them needs it. */
static void name_ticks(ticks *t, const chart_axis *a)
{
    bool exponents = false;
    for (int i = 0; i < t->count; i++) exponents = exponents || needs_exponent(t->at[i].at);
    for (int i = 0; i < t->count; i++) {
        chart_tick *tick = &t->at[i];
        if (a->text)
            (void)a->text(tick->at, tick->text, sizeof(tick->text));
        else
            (void)number_text(tick->at, exponents, tick->text, sizeof(tick->text));
    }
}

/* 1, 2 or 5 times a power of ten, so that at most `most` steps fit. */
static double nice_step(double range, int most)
{
    static const double mantissas[] = {1, 2, 5};
    double power = pow(10, floor(log10(range / most)));
    for (int i = 0; i < 3; i++)
        if (range / (mantissas[i] * power) <= most) return mantissas[i] * power;
    return 10 * power;
}

static void add_decades(ticks *t, const chart_axis *a, int most)
{
    static const double mantissas[] = {1, 2, 5};
    int first = (int)floor(log10(a->low)), last = (int)ceil(log10(a->high));
    int inside = a->high / a->low <= 300 && most > 5 ? 3 : 1, every = (last - first) / most + 1;
    for (int d = first; d <= last; d++)
        for (int m = 0; m < inside; m++)
            if (d % every == 0) add_tick(t, a, mantissas[m] * pow(10, d));
}

static void place_ticks(const chart_axis *a, int most, ticks *out)
{
    if (a->logarithmic && a->high / a->low >= 10) {
        add_decades(out, a, most);
        return;
    }
    double step = nice_step(a->high - a->low, most);
    for (double k = ceil(a->low / step - 1e-9); k * step <= a->high + 1e-9 * step; k++)
        add_tick(out, a, k == 0 ? 0 : k * step);
}

static void choose_ticks(const chart_axis *a, int most, ticks *out)
{
    out->count = 0;
    for (int i = 0; i < a->tick_count && i < MOST_TICKS; i++) out->at[out->count++] = a->ticks[i];
    if (a->ticks) return;
    place_ticks(a, most, out);
    name_ticks(out, a);
}

/* Returns the centre of a tick's label along the axis, which is at the tick; *size gets the label's
 * extent with a gap. Only a label that would leave the picture is shifted. */
static double place_label(const chart *c, const chart_panel *p, bool vertical, const chart_tick *t,
                          double *size)
{
    const double GAP = 8;
    double own = vertical ? CHART_FONT : chart_text_width(t->text, CHART_FONT);
    *size = own + GAP;
    if (vertical) return at_y(p, t->at);
    return fmin(fmax(chart_x(p, t->at), own / 2), c->width - own / 2);
}

static bool labels_fit(const chart *c, const chart_panel *p, bool vertical, const ticks *t)
{
    double before = 0, size_before = 0, size;
    for (int i = 0; i < t->count; i++) {
        double at = place_label(c, p, vertical, &t->at[i], &size);
        if (i > 0 && fabs(at - before) < (size + size_before) / 2) return false;
        before = at;
        size_before = size;
    }
    return true;
}

static void put_grid(chart *c, const chart_panel *p, bool vertical, double at)
{
    double right = p->left + p->width, bottom = p->top + p->height;
    CHART_PUT(c, "<line class='grid' x1='%.1f' y1='%.1f' x2='%.1f' y2='%.1f' stroke='#ddd'/>\n",
              vertical ? p->left : at, vertical ? at : p->top, vertical ? right : at,
              vertical ? at : bottom);
}

/* Draws grid lines and labels of an axis; returns the width of the widest label. */
static double put_ticks(chart *c, const chart_panel *p, bool vertical)
{
    const chart_axis *a = vertical ? &p->y : &p->x;
    ticks t;
    double size, widest = 0;
    for (int most = 8; most > 0; most--) {
        choose_ticks(a, most, &t);
        if (labels_fit(c, p, vertical, &t)) break;
    }
    /* Ticks that the caller gives may still be too close together; then some get no label. */
    double before = 0, size_before = 0;
    for (int i = 0; i < t.count; i++) {
        double at = place_label(c, p, vertical, &t.at[i], &size);
        put_grid(c, p, vertical, vertical ? at_y(p, t.at[i].at) : chart_x(p, t.at[i].at));
        if (size_before > 0 && fabs(at - before) < (size + size_before) / 2) continue;
        before = at;
        size_before = size;
        CHART_PUT(c, "<text class='tick' x='%.1f' y='%.1f' text-anchor='%s'>",
                  vertical ? p->left - LABEL : at, vertical ? at + 4 : p->top + p->height + 18,
                  vertical ? "end" : "middle");
        chart_put_escaped(c, t.at[i].text);
        CHART_PUT(c, "</text>\n");
        widest = fmax(widest, chart_text_width(t.at[i].text, CHART_FONT));
    }
    return widest;
}

void chart_frame(chart *c, const chart_panel *p)
{
    (void)put_ticks(c, p, false);
    double middle = p->top + p->height / 2, x = p->left - put_ticks(c, p, true) - LABEL - 9;
    CHART_PUT(c,
              "<rect class='frame' x='%.1f' y='%.1f' width='%.1f' height='%.1f' fill='none' "
              "stroke='#444'/>\n"
              "<text x='%.1f' y='%.1f' text-anchor='middle'>%s</text>\n"
              "<text x='%.1f' y='%.1f' text-anchor='middle' transform='rotate(-90 %.1f "
              "%.1f)'>%s</text>\n",
              p->left, p->top, p->width, p->height, p->left + p->width / 2, p->top + p->height + 40,
              p->x.label, x, middle, x, middle, p->y.label);
    if (p->title)
        chart_text(c, p->left, p->top - 12, p->width, "font-size='15' font-weight='bold'",
                   p->title);
}

/* --- curves --- */

typedef struct pen {
    chart *c;
    const chart_panel *p;
    bool down;   /* the last point was drawn */
    double x, y; /* the last point */
} pen;

/* Continues the curve to the point at height `edge` between the last point and (x, y). */
static void move_to_edge(pen *q, double x, double y, double edge)
{
    double part = (edge - q->y) / (y - q->y);
    CHART_PUT(q->c, "%s%.1f,%.1f", q->down ? "L" : "M", q->x + part * (x - q->x), edge);
    q->down = true;
}

static void draw_to(pen *q, double x, double y, bool first)
{
    double top = q->p->top, bottom = top + q->p->height;
    bool was_in = !first && q->y >= top && q->y <= bottom, is_in = y >= top && y <= bottom;
    bool crosses = !first && ((q->y < top && y >= top) || (q->y > bottom && y <= bottom));
    if (!first && !was_in && crosses) {
        q->down = false;
        move_to_edge(q, x, y, q->y < top ? top : bottom);
    }
    if (is_in) {
        CHART_PUT(q->c, "%s%.1f,%.1f", q->down ? "L" : "M", x, y);
        q->down = true;
    } else if (q->down) {
        move_to_edge(q, x, y, y < top ? top : bottom);
        q->down = false;
    }
    q->x = x;
    q->y = y;
}

/* Draws markers where the curve crosses EACH vertical lines, whose positions differ between styles;
 * a curve that crosses none gets a marker at its last point. */
static void put_markers(chart *c, const chart_panel *p, const chart_style *s, chart_point_fn get,
                        const void *curve, size_t count)
{
    enum { EACH = 4 };
    chart_point q = get(curve, 0);
    double before = chart_x(p, q.x), height = at_y(p, q.y);
    int put = 0;
    for (size_t i = 1; i < count; i++) {
        q = get(curve, i);
        double x = chart_x(p, q.x), y = at_y(p, q.y);
        for (int k = 0; k < EACH; k++) {
            double part = (s->number * 5 % CHART_LAYERS + 0.5) / CHART_LAYERS;
            double at = p->left + p->width * (k + part) / EACH;
            if (at <= before || at > x) continue;
            double h = height + (y - height) * (at - before) / (x - before);
            if (h != into_frame(p, h)) continue;
            chart_put_marker(c, s, at, h, NULL);
            put++;
        }
        before = x;
        height = y;
    }
    if (put == 0) chart_mark(c, p, s, q, NULL);
}

void chart_curve(chart *c, const chart_panel *p, const chart_style *style, bool marked,
                 chart_point_fn at, const void *curve, size_t count)
{
    enum { MOST = 500 }; /* drawn points of a curve */
    size_t step = count / MOST + 1;
    pen q = {.c = c, .p = p};
    if (count == 0) return;
    chart_point first = at(curve, 0);
    CHART_PUT(c,
              "<path class='curve' fill='none' stroke='%s' stroke-width='2' "
              "stroke-linejoin='round' stroke-dasharray='%s' d='M%.1f,%.1f",
              style->colour, style->dash, chart_x(p, first.x), into_frame(p, at_y(p, first.y)));
    for (size_t i = 0; i < count; i += step) {
        chart_point point = at(curve, i + step >= count && i > 0 ? count - 1 : i);
        draw_to(&q, chart_x(p, point.x), at_y(p, point.y), i == 0);
    }
    CHART_PUT(c, "'/>\n");
    if (marked) put_markers(c, p, style, at, curve, count);
}

void chart_mark(chart *c, const chart_panel *p, const chart_style *style, chart_point at,
                const char *note)
{
    chart_put_marker(c, style, chart_x(p, at.x), into_frame(p, at_y(p, at.y)), note);
}

void chart_cross(chart *c, const chart_panel *p, const chart_style *style, chart_point at)
{
    CHART_PUT(c,
              "<path d='M%.1f,%.1fm-6,-6l12,12m0,-12l-12,12' fill='none' stroke='%s' "
              "stroke-width='3'/>\n",
              chart_x(p, at.x), into_frame(p, at_y(p, at.y)), style->colour);
}
