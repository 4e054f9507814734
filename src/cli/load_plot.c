/* The picture of a load, as SVG: on the left quantiles of latency against the rate, on the right
 * how latency goes up with the percentile at each rate. */
#include <math.h>
#include <stdio.h>

#include "load.h"

/* From light to dark, as quantiles go up: the order is seen without the legend. */
static const char *const shades[] = {"#a6cee3", "#4a98c9", "#1561a9", "#08306b", "#d55e00"};
static const struct {
    const char *name;
    double at;
} curves[] = {{"p50", 0.5}, {"p95", 0.95}, {"p99", 0.99}, {"p99.9", 0.999}, {"mean", -1}};
enum { CURVES = sizeof(curves) / sizeof(curves[0]) };

enum { TOP = 56, HEIGHT = 320, LEFT = 84, PANEL = 400, GAP = 170, RIGHT = 130, BOTTOM = 64 };

typedef struct plot {
    const weft_load *load;
    weft_output *to;
    weft_status status;
    double low, high;         /* latencies, seconds */
    double least, most, tail; /* rates; the last percentile is 1 - 10^-tail */
    int shown;                /* rates that have answers */
} plot;

#define PUT(p, ...)                                                                                \
    do {                                                                                           \
        if ((p)->status == WEFT_OK) (p)->status = weft_output_print((p)->to, __VA_ARGS__);         \
    } while (0)

static double x_of_rate(const weft_load_figures *f)
{
    return f->closed ? (double)f->closed : f->rate > 0 ? f->rate : load_achieved(f);
}

static double value(const weft_load_figures *f, int curve)
{
    return curves[curve].at < 0 ? weft_load_mean(&f->latency)
                                : weft_load_quantile(&f->latency, curves[curve].at);
}

static double at_y(const plot *p, double seconds)
{
    double share = log(fmin(fmax(seconds, p->low), p->high) / p->low) / log(p->high / p->low);
    return TOP + HEIGHT * (1 - share);
}

static double at_rate(const plot *p, double rate)
{
    double room = p->most - p->least;
    return LEFT + PANEL * (room > 0 ? (rate - p->least) / room : 0.5);
}

/* The right panel begins at the median; each further nine of a percentile takes as much room. */
static double at_percentile(const plot *p, double left, double nines)
{
    double first = -log10(0.5);
    return left + PANEL * (nines - first) / (p->tail - first);
}

/* --- frames --- */

static void fit(plot *p)
{
    const weft_load_figures *f;
    int64_t most = 1;
    p->low = INFINITY;
    p->least = INFINITY;
    for (int i = 0; (f = weft_load_at(p->load, i, NULL)); i++) {
        if (!f->ok) continue;
        double x = x_of_rate(f);
        p->shown++;
        p->low = fmin(p->low, weft_load_quantile(&f->latency, 0.5));
        p->low = fmin(p->low, weft_load_mean(&f->latency));
        p->high = fmax(p->high, f->latency.high);
        p->least = fmin(p->least, x);
        p->most = fmax(p->most, x);
        if (f->ok > most) most = f->ok;
    }
    if (!p->shown) p->low = p->high = p->least = 1e-3;
    p->low = fmax(p->low, 1e-6) / 1.3;
    p->high = fmax(p->high * 1.3, p->low * 10);
    if (p->least < p->most / 2) p->least = 0;
    p->tail = fmin(fmax(log10((double)most), 1), 6);
}

static double nice_step(double range, int most)
{
    double power = pow(10, floor(log10(range / most)));
    static const double mantissas[] = {1, 2, 5};
    for (size_t i = 0; i < sizeof(mantissas) / sizeof(mantissas[0]); i++)
        if (range / (mantissas[i] * power) <= most) return mantissas[i] * power;
    return 10 * power;
}

static void print_y(plot *p, double left)
{
    static const double mantissas[] = {1, 2, 5};
    char text[32];
    for (int i = -18; i < 12; i++) {
        double v = mantissas[(i + 18) % 3] * pow(10, floor(i / 3.0));
        if (v < p->low || v > p->high) continue;
        if (v < 1e-3)
            (void)snprintf(text, sizeof(text), "%.3g µs", v * 1e6);
        else
            (void)snprintf(text, sizeof(text), v < 1 ? "%.3g ms" : "%.3g s", v < 1 ? v * 1e3 : v);
        PUT(p,
            "<line x1='%.1f' y1='%.1f' x2='%.1f' y2='%.1f' stroke='%s'/>"
            "<text x='%.1f' y='%.1f' text-anchor='end'>%s</text>\n",
            left, at_y(p, v), left + PANEL, at_y(p, v), (i + 18) % 3 ? "#eee" : "#ccc", left - 8,
            at_y(p, v) + 4, text);
    }
}

static void print_tick(plot *p, double x, const char *text)
{
    PUT(p,
        "<line x1='%.1f' y1='%d' x2='%.1f' y2='%d' stroke='#eee'/>"
        "<text x='%.1f' y='%d' text-anchor='middle'>%s</text>\n",
        x, TOP, x, TOP + HEIGHT, x, TOP + HEIGHT + 20, text);
}

static void print_frame(plot *p, double left, const char *title, const char *axis)
{
    PUT(p,
        "<rect x='%.1f' y='%d' width='%d' height='%d' fill='none' stroke='#555'/>\n"
        "<text x='%.1f' y='%d' font-size='15' font-weight='bold'>%s</text>\n"
        "<text x='%.1f' y='%d' text-anchor='middle'>%s</text>\n",
        left, TOP, PANEL, HEIGHT, left, TOP - 14, title, left + PANEL / 2.0, TOP + HEIGHT + 44,
        axis);
}

/* --- quantiles against the rate --- */

static void print_curve(plot *p, int curve)
{
    const weft_load_figures *f;
    PUT(p,
        "<polyline fill='none' stroke='%s' stroke-width='2.5' stroke-linejoin='round'%s points='",
        shades[curve], curves[curve].at < 0 ? " stroke-dasharray='6 4'" : "");
    for (int i = 0; (f = weft_load_at(p->load, i, NULL)); i++)
        if (f->ok) PUT(p, "%.1f,%.1f ", at_rate(p, x_of_rate(f)), at_y(p, value(f, curve)));
    PUT(p, "'/>\n");
    for (int i = 0; (f = weft_load_at(p->load, i, NULL)); i++)
        if (f->ok)
            PUT(p,
                "<circle cx='%.1f' cy='%.1f' r='3.2' fill='%s'><title>%s at %.6g: %.4g "
                "ms</title></circle>\n",
                at_rate(p, x_of_rate(f)), at_y(p, value(f, curve)), shades[curve],
                curves[curve].name, x_of_rate(f), value(f, curve) * 1e3);
}

static void print_rates(plot *p)
{
    char text[32];
    const weft_load_figures *first = weft_load_at(p->load, 0, NULL);
    double room = p->most - p->least, step = room > 0 ? nice_step(room, 6) : 1;
    for (double k = ceil(p->least / step); k * step <= p->most * (1 + 1e-9); k++) {
        (void)snprintf(text, sizeof(text), "%.7g", k * step);
        print_tick(p, at_rate(p, k * step), text);
    }
    print_y(p, LEFT);
    print_frame(p, LEFT, "Latency against load",
                first->closed ? "requests under way" : "requests a second");
    for (int c = CURVES; c-- > 0;) print_curve(p, c);
    for (int c = 0; c < CURVES; c++) {
        int y = TOP + 12 + 17 * c, x = LEFT + PANEL + 12;
        PUT(p,
            "<line x1='%d' y1='%d' x2='%d' y2='%d' stroke='%s' stroke-width='2.5'%s/>"
            "<text x='%d' y='%d'>%s</text>\n",
            x, y - 4, x + 20, y - 4, shades[c], curves[c].at < 0 ? " stroke-dasharray='6 4'" : "",
            x + 26, y, curves[c].name);
    }
}

/* --- latency by percentile --- */

/* From blue at the lowest rate to red at the highest. */
static void colour(const plot *p, int at, char *out, size_t size)
{
    double share = p->shown > 1 ? (double)at / (p->shown - 1) : 0;
    (void)snprintf(out, size, "hsl(%.0f,75%%,%.0f%%)", 215 * (1 - share), 45 - 5 * share);
}

static void print_percentiles(plot *p, double left)
{
    static const char *const names[] = {"90 %",    "99 %",     "99.9 %",
                                        "99.99 %", "99.999 %", "99.9999 %"};
    enum { STEPS = 120, NAMED = 20 };
    const weft_load_figures *f;
    char shade[40], text[32];
    print_tick(p, left, "50 %");
    for (int nines = 1; nines <= (int)p->tail; nines++)
        print_tick(p, at_percentile(p, left, nines), names[nines - 1]);
    print_y(p, left);
    print_frame(p, left, "Latency by percentile", "share of requests that took no longer");
    PUT(p, "<text x='%.1f' y='%d' fill='#666'>requests%s</text>\n", left + PANEL + 12, TOP + 12,
        weft_load_at(p->load, 0, NULL)->closed ? "" : "/s");
    for (int i = 0, at = 0; (f = weft_load_at(p->load, i, NULL)); i++) {
        if (!f->ok) continue;
        double first = -log10(0.5), last = fmin(fmax(log10((double)f->ok), first), p->tail);
        colour(p, at, shade, sizeof(shade));
        PUT(p, "<polyline fill='none' stroke='%s' stroke-width='2' points='", shade);
        for (int k = 0; k <= STEPS; k++) {
            double nines = first + (last - first) * k / STEPS;
            PUT(p, "%.1f,%.1f ", at_percentile(p, left, nines),
                at_y(p, weft_load_quantile(&f->latency, 1 - pow(10, -nines))));
        }
        PUT(p, "'/>\n");
        int every = (p->shown + NAMED - 1) / NAMED, y = TOP + 32 + 17 * (at / every);
        if (at % every == 0)
            PUT(p,
                "<line x1='%.1f' y1='%d' x2='%.1f' y2='%d' stroke='%s' stroke-width='3'/>"
                "<text x='%.1f' y='%d'>%s</text>\n",
                left + PANEL + 12, y - 4, left + PANEL + 32, y - 4, shade, left + PANEL + 38, y,
                load_text(f, text, sizeof(text)));
        at++;
    }
}

weft_status plot_load(const weft_load *load, weft_output *to)
{
    plot p = {.load = load, .to = to};
    fit(&p);
    bool both = p.shown > 1;
    double left = both ? LEFT + PANEL + GAP : LEFT;
    int width = (int)left + PANEL + RIGHT, height = TOP + HEIGHT + BOTTOM;
    PUT(&p,
        "<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d' viewBox='0 0 %d %d' "
        "font-family='Helvetica, Arial, sans-serif' font-size='13' fill='#222'>\n"
        "<title>Latency of requests, from when they were due</title>\n"
        "<rect width='100%%' height='100%%' fill='white'/>\n",
        width, height, width, height);
    if (both) print_rates(&p);
    print_percentiles(&p, left);
    PUT(&p, "</svg>\n");
    return p.status;
}
