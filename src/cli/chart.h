/* Charts as SVG: panels with axes whose ticks fit, curves that differ by dashes and markers as well
 * as by colour, and legends. All texts stay inside the picture, by an estimate of their width. */
#ifndef WEFT_CLI_CHART_H
#define WEFT_CLI_CHART_H

#include <stdbool.h>
#include <stddef.h>

#include "weft/output.h"

typedef struct chart {
    weft_output *to;
    weft_status status; /* the first failure; nothing is written after it */
} chart;

/* Writes a piece of SVG, unless something has failed before. */
#define CHART_PUT(c, ...)                                                                          \
    do {                                                                                           \
        if ((c)->status == WEFT_OK) (c)->status = weft_output_print((c)->to, __VA_ARGS__);         \
    } while (0)

typedef struct chart_tick {
    double at;
    char text[24];
} chart_tick;

typedef struct chart_axis {
    const char *label;
    double low, high;
    bool logarithmic;
    /* How a tick is written; NULL: as a number. */
    const char *(*text)(double value, char *out, size_t size);
    const chart_tick *ticks; /* where ticks are; NULL: at round numbers */
    int tick_count;
} chart_axis;

typedef struct chart_panel {
    double left, top, width, height; /* of the frame, pixels */
    const char *title;               /* above the frame; NULL: none */
    chart_axis x, y;
} chart_panel;

/* Pixels around a frame that ticks, labels and title take. */
enum { CHART_LEFT = 100, CHART_TOP = 34, CHART_BOTTOM = 52 };

typedef struct chart_style {
    const char *colour, *dash;
    int number; /* chooses the marker */
} chart_style;

typedef struct chart_point {
    double x, y; /* in the units of the axes */
} chart_point;
/* Point i of a curve. */
typedef chart_point (*chart_point_fn)(const void *curve, size_t i);

typedef struct chart_entry {
    chart_style style;
    const char *text;
    const char *note; /* behind the text; NULL: none */
} chart_entry;

void chart_begin(chart *c, double width, double height, const char *title);
void chart_end(chart *c);

/* A text that begins at x; where it is wider than `room` pixels, its end becomes an ellipsis. */
void chart_text(chart *c, double x, double y, double room, const char *attributes,
                const char *text);

/* Makes an axis reach from low to high, or a little further where these are (nearly) the same, so
 * that its ticks differ in their first four digits. */
void chart_cover(chart_axis *axis, double low, double high);
void chart_frame(chart *c, const chart_panel *p);

/* Curve i of a chart: 72 of them differ in colour and dashes, and without colours in dashes and
 * markers. */
chart_style chart_style_of(int i);
/* Curves that are drawn later do not hide those before if their dashes are thinner: draw those of
 * layer 0 first, then those of layer 1, and so on. */
enum { CHART_LAYERS = 9 };
int chart_layer_of(int i);

/* What of the curve lies inside the frame. `marked`: with a few markers, at other places for each
 * style. */
void chart_curve(chart *c, const chart_panel *p, const chart_style *style, bool marked,
                 chart_point_fn at, const void *curve, size_t count);
/* A marker at a point (on the edge of the frame if it lies outside) with a note that is shown under
 * the pointer. */
void chart_mark(chart *c, const chart_panel *p, const chart_style *style, chart_point at,
                const char *note);
/* A cross: the curve ends here, and should not. */
void chart_cross(chart *c, const chart_panel *p, const chart_style *style, chart_point at);

/* Entries in as many columns as fit and are of use, `width` pixels wide; what is longer is wrapped.
 * Returns the height; to NULL: only that. */
double chart_legend(chart *to, double left, double top, double width, const chart_entry *entries,
                    int count);

#endif
