/* Plots a load test as SVG: on the left quantiles of latency against the rate (or the outstanding
 * requests), on the right the latency by percentile for each rate. */
#include <math.h>
#include <stdio.h>

#include "chart.h"
#include "load.h"

static const struct {
    const char *name;
    double at; /* quantile, 0 to 1; below 0: the mean */
} curves[] = {{"p50", 0.5}, {"p95", 0.95}, {"p99", 0.99}, {"p99.9", 0.999}, {"mean", -1}};
enum { CURVES = sizeof(curves) / sizeof(curves[0]) };

enum { TOP = CHART_TOP + 8, HEIGHT = 320, PANEL = 400, RIGHT = 170 };

/* The percentile axis is in nines, -log10(1 - p), and begins at the median: each further nine takes
 * equal room. */
static const double MEDIAN = 0.30102999566398120;

typedef struct plot {
    chart chart;
    const weft_load *load;
    chart_axis latency;          /* in seconds */
    double least, most;          /* range of the rates */
    double tail;                 /* nines where the percentile axis ends: 1 - 10^-tail */
    int shown;                   /* number of rates with responses */
    int curve;                   /* current curve of the left panel */
    const weft_load_result *row; /* row of the current curve in the right panel */
    double last;                 /* nines where its curve ends: log10 of its responses */
} plot;

static double x_of_rate(const weft_load_result *f)
{
    return f->closed ? (double)f->closed : f->rate > 0 ? f->rate : load_achieved(f);
}

static double value(const weft_load_result *f, int curve)
{
    return curves[curve].at < 0 ? weft_load_mean(&f->latency)
                                : weft_load_quantile(&f->latency, curves[curve].at);
}

/* The result of rate `number`, from 0, among those with responses; NULL past the end. */
static const weft_load_result *answered(const weft_load *load, int number)
{
    const weft_load_result *f;
    for (int i = 0; (f = weft_load_at(load, i, NULL)); i++)
        if (f->ok && number-- == 0) return f;
    return NULL;
}

static const char *latency_text(double seconds, char *out, size_t size)
{
    if (seconds < 1e-3)
        (void)snprintf(out, size, "%.3g µs", seconds * 1e6);
    else if (seconds < 1)
        (void)snprintf(out, size, "%.3g ms", seconds * 1e3);
    else
        (void)snprintf(out, size, "%.6g s", seconds);
    return out;
}

static void fit_axes(plot *p)
{
    const weft_load_result *f;
    int64_t most = 1;
    double low = INFINITY, high = 0;
    p->least = INFINITY;
    for (; (f = answered(p->load, p->shown)); p->shown++) {
        low = fmin(low, weft_load_quantile(&f->latency, 0.5));
        low = fmin(low, weft_load_mean(&f->latency));
        high = fmax(high, f->latency.high);
        p->least = fmin(p->least, x_of_rate(f));
        p->most = fmax(p->most, x_of_rate(f));
        if (f->ok > most) most = f->ok;
    }
    if (!p->shown) low = high = p->least = 1e-3;
    low = fmax(low, 1e-6) / 1.3;
    p->latency =
        (chart_axis){.label = "latency (logarithmic)", .logarithmic = true, .text = latency_text};
    chart_cover(&p->latency, low, fmax(high * 1.3, low * 10));
    if (p->least < p->most / 2) p->least = 0;
    p->tail = fmin(fmax(log10((double)most), 1), 6);
}

/* --- quantiles against the rate --- */

static chart_point rate_at(const void *curve, size_t i)
{
    const plot *p = curve;
    const weft_load_result *f = answered(p->load, (int)i);
    return (chart_point){x_of_rate(f), value(f, p->curve)};
}

static void put_rates(plot *p, const char *label)
{
    char note[96];
    chart_entry entries[CURVES];
    chart_panel panel = {.left = CHART_LEFT,
                         .top = TOP,
                         .width = PANEL,
                         .height = HEIGHT,
                         .title = "Latency against load",
                         .x = {.label = label},
                         .y = p->latency};
    chart_cover(&panel.x, p->least, p->most);
    chart_frame(&p->chart, &panel);
    for (int c = CURVES; c-- > 0;) {
        chart_style style = chart_style_of(c);
        entries[c] = (chart_entry){.style = style, .text = curves[c].name};
        p->curve = c;
        chart_curve(&p->chart, &panel, &style, false, rate_at, p, (size_t)p->shown);
        for (int i = 0; i < p->shown; i++) {
            chart_point at = rate_at(p, (size_t)i);
            (void)snprintf(note, sizeof(note), "%s at %.6g: %.4g ms", curves[c].name, at.x,
                           at.y * 1e3);
            chart_mark(&p->chart, &panel, &style, at, note);
        }
    }
    (void)chart_legend(&p->chart, CHART_LEFT + PANEL + 12, TOP, RIGHT - 16, entries, CURVES);
}

/* --- latency by percentile --- */

enum { STEPS = 120 };

static chart_point percentile_at(const void *curve, size_t i)
{
    const plot *p = curve;
    double nines = MEDIAN + (p->last - MEDIAN) * (double)i / STEPS;
    return (chart_point){nines, weft_load_quantile(&p->row->latency, 1 - pow(10, -nines))};
}

static void put_percentiles(plot *p, double left, bool closed)
{
    static const chart_tick nines[] = {{MEDIAN, "50 %"}, {1, "90 %"},    {2, "99 %"},
                                       {3, "99.9 %"},    {4, "99.99 %"}, {5, "99.999 %"},
                                       {6, "99.9999 %"}};
    enum { NAMED = 15, WIDE = 32 };
    chart_entry entries[NAMED];
    char names[NAMED][WIDE];
    int named = 0, every = (p->shown + NAMED - 1) / NAMED;
    chart_panel panel = {.left = left,
                         .top = TOP,
                         .width = PANEL,
                         .height = HEIGHT,
                         .title = "Latency by percentile",
                         .x = {.label = "share of requests that took no longer",
                               .low = MEDIAN,
                               .high = p->tail,
                               .ticks = nines,
                               .tick_count = 1 + (int)p->tail},
                         .y = p->latency};
    chart_frame(&p->chart, &panel);
    for (int i = 0; i < p->shown; i++) {
        chart_style style = chart_style_of(i);
        p->row = answered(p->load, i);
        p->last = fmin(fmax(log10((double)p->row->ok), MEDIAN), p->tail);
        chart_curve(&p->chart, &panel, &style, true, percentile_at, p, STEPS + 1);
        if (i % every) continue;
        entries[named] =
            (chart_entry){.style = style, .text = load_text(p->row, names[named], WIDE)};
        named++;
    }
    chart_text(&p->chart, left + PANEL + 12, TOP + 12, RIGHT - 16, "fill='#555'",
               closed ? "requests" : "requests/s");
    (void)chart_legend(&p->chart, left + PANEL + 12, TOP + 20, RIGHT - 16, entries, named);
}

weft_status plot_load(const weft_load *load, weft_output *to)
{
    plot p = {.chart = {.to = to}, .load = load};
    fit_axes(&p);
    bool both = p.shown > 1, closed = weft_load_at(load, 0, NULL)->closed != 0;
    double left = CHART_LEFT + (both ? PANEL + RIGHT + CHART_LEFT : 0);
    chart_begin(&p.chart, left + PANEL + RIGHT, TOP + HEIGHT + CHART_BOTTOM,
                "Latency of requests, from when they were due");
    if (both) put_rates(&p, closed ? "requests under way" : "requests a second");
    put_percentiles(&p, left, closed);
    chart_end(&p.chart);
    return p.chart.status;
}
