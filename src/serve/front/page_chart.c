/* Draws the charts of the status page, as SVG of a fixed size that the page scales. */
#include <math.h>
#include <stdio.h>

#include "serve/front/page.h"

/* Size of a chart, and positions of its axes. */
enum { WIDTH = 360, HEIGHT = 150, LEFT = 46, RIGHT = 352, TOP = 10, BOTTOM = 126 };

/* --- numbers for people --- */

void weft_add_count(weft_text *text, double x)
{
    static const char *const units[] = {"", " k", " M", " G"};
    int unit = 0;
    for (; x >= 9999.5 && unit < 3; unit++) x /= 1000;
    weft_text_add(text,
                  x >= 99.95 || x == floor(x) ? "%.0f%s"
                  : x >= 9.995                ? "%.1f%s"
                                              : "%.2f%s",
                  x, units[unit]);
}

void weft_add_seconds(weft_text *text, double s)
{
    const char *unit = s < 1e-3 ? "µs" : s < 1 ? "ms" : "s";
    double x = s * (s < 1e-3 ? 1e6 : s < 1 ? 1e3 : 1);
    weft_text_add(text,
                  x >= 99.95 || x == floor(x) ? "%.0f %s"
                  : x >= 9.995                ? "%.1f %s"
                                              : "%.2f %s",
                  x, unit);
}

/* --- axes --- */

static double x_of(double at, double now)
{
    return RIGHT - (RIGHT - LEFT) * (now - at) / WEFT_HISTORY_SECONDS;
}

static void begin(weft_text *text, const char *title)
{
    weft_text_add(text, "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"%s\">", WIDTH, HEIGHT,
                  title);
}

static void level(weft_text *text, double y)
{
    weft_text_add(text, "<line class=\"grid\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>", LEFT,
                  RIGHT, y, y);
    weft_text_add(text, "<text class=\"y\" x=\"%d\" y=\"%.1f\">", LEFT - 6, y + 3.5);
}

static void time_axis(weft_text *text)
{
    static const char *const names[] = {"3 min ago", "2 min", "1 min", "now"};
    static const char *const anchors[] = {"start", "middle", "middle", "end"};
    for (int i = 0; i < 4; i++)
        weft_text_add(text, "<text class=\"x\" text-anchor=\"%s\" x=\"%.1f\" y=\"%d\">%s</text>",
                      anchors[i], LEFT + (RIGHT - LEFT) * i / 3.0, BOTTOM + 16, names[i]);
}

static void end_or_say(weft_text *text, bool anything)
{
    if (!anything)
        weft_text_add(text, "<text class=\"none\" x=\"%d\" y=\"%d\">nothing to draw yet</text>",
                      (LEFT + RIGHT) / 2, (TOP + BOTTOM) / 2);
    weft_text_add(text, "</svg>");
}

/* The smallest number of the form 1, 2 or 5 times a power of ten that is at least x. */
static double round_up(double x)
{
    double power = pow(10, floor(log10(x)));
    double of = x / power;
    return power * (of <= 1 ? 1 : of <= 2 ? 2 : of <= 5 ? 5 : 10);
}

/* Whether more than 6 seconds lie between samples i - 1 and i, because the page was not open. Only
 * the mean of such an interval is known, which is drawn as a level line. */
static bool is_long(const weft_version_history *history, int i)
{
    return weft_version_history_sample(history, i)->at -
               weft_version_history_sample(history, i - 1)->at >
           6;
}

/* --- requests a second --- */

/* The rate of requests between samples i - 1 and i; false: sample i is too old to be drawn. */
static bool rate_at(const weft_version_history *history, int i, double now, double *rate)
{
    const weft_history_sample *a = weft_version_history_sample(history, i - 1),
                              *b = weft_version_history_sample(history, i);
    *rate = (double)(b->stats.requests - a->stats.requests) / (b->at - a->at);
    return now - b->at < WEFT_HISTORY_SECONDS;
}

/* Writes the points of the rates from sample `first` on. *end: x of the last one. */
static void rate_points(weft_text *text, const weft_version_history *history, int first, double now,
                        double top, double *end)
{
    char letter = 'M';
    for (int i = first; i < history->count; i++) {
        double rate;
        (void)rate_at(history, i, now, &rate);
        double y = BOTTOM - (BOTTOM - TOP) * rate / top;
        double from = x_of(weft_version_history_sample(history, i - 1)->at, now);
        if (i == first || is_long(history, i)) {
            weft_text_add(text, "%c%.1f %.1f", letter, WEFT_MAX(from, LEFT), y);
            letter = 'L';
        }
        *end = x_of(weft_version_history_sample(history, i)->at, now);
        weft_text_add(text, "L%.1f %.1f", *end, y);
    }
}

void weft_chart_rate(weft_text *text, const weft_version_history *history, double now)
{
    double most = 0, rate, end = RIGHT;
    int first = 0;
    for (int i = 1; i < history->count; i++)
        if (rate_at(history, i, now, &rate)) {
            first = first ? first : i;
            most = WEFT_MAX(most, rate);
        }
    begin(text, "requests a second over the last three minutes");
    double top = round_up(WEFT_MAX(most, 1));
    for (int i = 0; i <= 2; i++) {
        level(text, BOTTOM - (BOTTOM - TOP) * i / 2.0);
        weft_add_count(text, top * i / 2);
        weft_text_add(text, "</text>");
    }
    if (first) {
        double from = x_of(weft_version_history_sample(history, first - 1)->at, now);
        weft_text_add(text, "<path class=\"area\" d=\"");
        rate_points(text, history, first, now, top, &end);
        weft_text_add(text, "L%.1f %dL%.1f %dZ\"/><path class=\"rate\" d=\"", end, BOTTOM,
                      WEFT_MAX(from, LEFT), BOTTOM);
        rate_points(text, history, first, now, top, &end);
        weft_text_add(text, "\"/>");
    }
    time_axis(text);
    end_or_say(text, first > 0);
}

/* --- latency --- */

enum { QUANTILES = 3 };
static const double quantiles[QUANTILES] = {0.99, 0.95, 0.5};
static const char *const quantile_names[QUANTILES] = {"p99", "p95", "p50"};

/* The quantiles of the latencies of the requests answered between samples i - 1 and i; false: there
 * were none, or sample i is too old to be drawn. */
static bool latency_at(const weft_version_history *history, int i, double now, double *out)
{
    const weft_history_sample *a = weft_version_history_sample(history, i - 1),
                              *b = weft_version_history_sample(history, i);
    weft_batch_queue_stats done;
    weft_history_difference(&a->stats, &b->stats, &done);
    for (int q = 0; q < QUANTILES; q++) out[q] = weft_latency_quantile(done.latency, quantiles[q]);
    return done.requests > 0 && now - b->at < WEFT_HISTORY_SECONDS;
}

typedef struct scale {
    double low, high;
} scale;

static double y_of(const scale *s, double seconds)
{
    double share = log(seconds / s->low) / log(s->high / s->low);
    return BOTTOM - (BOTTOM - TOP) * WEFT_MIN(WEFT_MAX(share, 0), 1);
}

/* The range of the latency axis, slightly wider than that of the quantiles; false: there are no
 * quantiles. */
static bool latency_scale(const weft_version_history *history, double now, scale *s)
{
    *s = (scale){.low = INFINITY, .high = 0};
    for (int i = 1; i < history->count; i++) {
        double at[QUANTILES];
        if (!latency_at(history, i, now, at)) continue;
        s->low = WEFT_MIN(s->low, at[QUANTILES - 1]);
        s->high = WEFT_MAX(s->high, at[0]);
    }
    if (s->high <= 0) return false;
    s->low = WEFT_MAX(s->low / 1.3, 1e-7);
    s->high = WEFT_MAX(s->high * 1.3, 4 * s->low);
    return true;
}

static void latency_levels(weft_text *text, const scale *s)
{
    static const double steps[] = {1, 2, 5};
    const double apart = 18; /* so that labels do not overlap */
    /* A long axis has labels at powers of ten only. */
    size_t count = s->high / s->low > 300 ? 1 : WEFT_COUNT(steps);
    double before = BOTTOM + apart;
    for (int power = -7; power < 5; power++)
        for (size_t i = 0; i < count; i++) {
            double seconds = steps[i] * pow(10, power);
            if (seconds < s->low || seconds > s->high) continue;
            if (before - y_of(s, seconds) < apart) continue;
            before = y_of(s, seconds);
            level(text, before);
            weft_add_seconds(text, seconds);
            weft_text_add(text, "</text>");
        }
}

static void latency_line(weft_text *text, const weft_version_history *history, const scale *s,
                         int q, double now)
{
    bool down = true; /* the line is interrupted where there were no requests */
    weft_text_add(text, "<path class=\"%s\" d=\"", quantile_names[q]);
    for (int i = 1; i < history->count; i++) {
        double at[QUANTILES];
        bool there = latency_at(history, i, now, at);
        if (there && is_long(history, i)) {
            weft_text_add(
                text, "%c%.1f %.1f", down ? 'M' : 'L',
                WEFT_MAX(x_of(weft_version_history_sample(history, i - 1)->at, now), LEFT),
                y_of(s, at[q]));
            down = false;
        }
        if (there)
            weft_text_add(text, "%c%.1f %.1f", down ? 'M' : 'L',
                          x_of(weft_version_history_sample(history, i)->at, now), y_of(s, at[q]));
        if (there && down) weft_text_add(text, "h.1");
        down = !there;
    }
    weft_text_add(text, "\"/>");
}

void weft_chart_latency(weft_text *text, const weft_version_history *history, double now)
{
    scale s;
    bool any = latency_scale(history, now, &s);
    double expected =
        history->count ? weft_version_history_sample(history, history->count - 1)->stats.predicted
                       : 0;
    begin(text, "latency of requests over the last three minutes");
    if (any) latency_levels(text, &s);
    if (any && expected > s.low && expected < s.high)
        weft_text_add(text,
                      "<line class=\"expected\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>",
                      LEFT, RIGHT, y_of(&s, expected), y_of(&s, expected));
    for (int q = 0; any && q < QUANTILES; q++) latency_line(text, history, &s, q, now);
    time_axis(text);
    end_or_say(text, any);
}

/* --- batches --- */

/* Writes the range of rows of a bar, or where bars are narrow its upper end, below every second bar
 * if need be. */
static void batch_label(weft_text *text, double x, int64_t low, int64_t high, bool narrow)
{
    weft_text_add(text, "<text class=\"x\" text-anchor=\"middle\" x=\"%.1f\" y=\"%d\">", x,
                  BOTTOM + 16);
    if (low < high && !narrow)
        weft_text_add(text, "%lld–%lld</text>", (long long)low, (long long)high);
    else
        weft_text_add(text, "%s%lld</text>", low < high ? "≤" : "", (long long)high);
}

void weft_chart_batches(weft_text *text, const int64_t *cells, int64_t limit)
{
    /* Widths that the texts 33–64 and ≤512 need; a share like <0.1% is as wide as the former. */
    const double range = 42, end = 30;
    int count = 1;
    int64_t all = 0, most = 0;
    while (count < WEFT_BATCH_CELLS && 1LL << (count - 1) < limit) count++;
    for (int i = 0; i < count; i++) {
        all += cells[i];
        most = WEFT_MAX(most, cells[i]);
    }
    begin(text, "how many batches had how many rows");
    double wide = (double)(RIGHT - LEFT) / count;
    for (int i = 0; i < count; i++) {
        int64_t low = i ? (1LL << (i - 1)) + 1 : 1, high = WEFT_MIN(1LL << i, limit);
        double x = LEFT + wide * i, share = all ? (double)cells[i] / (double)all : 0;
        double tall = most ? (BOTTOM - TOP - 12) * (double)cells[i] / (double)most : 0;
        if (cells[i])
            weft_text_add(text,
                          "<rect class=\"bar\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" "
                          "height=\"%.1f\" rx=\"2\"/>",
                          x + wide * 0.12, BOTTOM - WEFT_MAX(tall, 1), wide * 0.76,
                          WEFT_MAX(tall, 1));
        if (cells[i] && (wide >= range || share >= 0.0995))
            weft_text_add(text, "<text class=\"bar\" x=\"%.1f\" y=\"%.1f\">%s%.*f%%</text>",
                          x + wide / 2, BOTTOM - WEFT_MAX(tall, 1) - 4,
                          share < 0.0005 ? "&lt;" : "", share < 0.0995, WEFT_MAX(100 * share, 0.1));
        if (wide >= end || (count - 1 - i) % 2 == 0)
            batch_label(text, x + wide / 2, low, high, wide < range);
    }
    weft_text_add(text, "<line class=\"axis\" x1=\"%d\" x2=\"%d\" y1=\"%d\" y2=\"%d\"/>", LEFT,
                  RIGHT, BOTTOM, BOTTOM);
    end_or_say(text, all > 0);
}
