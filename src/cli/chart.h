/* Charts as SVG: panels with axes, curves that differ in dashes and markers as well as in colour,
 * and legends. All texts stay inside the picture, by an estimate of their width. */
#ifndef WEFT_CLI_CHART_H
#define WEFT_CLI_CHART_H

#include <stdbool.h>
#include <stddef.h>

#include "weft/output.h"

typedef struct chart {
    weft_output *to;
    weft_status status; /* the first failure; nothing is written after it */
    double width;       /* of the picture, in pixels */
} chart;

/* Writes a piece of SVG, unless an earlier one has failed. */
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
    /* Formats the label of a tick; NULL: as a number. */
    const char *(*text)(double value, char *out, size_t size);
    const chart_tick *ticks; /* positions of ticks; NULL: round numbers */
    int tick_count;
} chart_axis;

typedef struct chart_panel {
    double left, top, width, height; /* of the frame, in pixels */
    const char *title;               /* above the frame; NULL: none */
    chart_axis x, y;
} chart_panel;

/* Margins of a frame for ticks, labels and title, in pixels. The one on the right holds half of the
 * last tick's label. */
enum { CHART_LEFT = 100, CHART_TOP = 34, CHART_BOTTOM = 52, CHART_RIGHT = 48 };

typedef struct chart_style {
    const char *colour, *dash;
    int number; /* determines the marker */
    bool bar;   /* the legend shows a bar in place of a line */
} chart_style;

typedef struct chart_point {
    double x, y; /* in the units of the axes */
} chart_point;
/* Point i of a curve. */
typedef chart_point (*chart_point_fn)(const void *curve, size_t i);

typedef struct chart_entry {
    chart_style style;
    const char *text;
    const char *note; /* shown in parentheses after the text; NULL: none */
} chart_entry;

void chart_begin(chart *c, double width, double height, const char *title);
void chart_end(chart *c);

/* Draws text from x on; if it is wider than `room` pixels it ends with an ellipsis. */
void chart_text(chart *c, double x, double y, double room, const char *attributes,
                const char *text);

/* Sets the range of an axis, extended if low and high are (nearly) equal, so that its ticks differ
 * in their first four digits. */
void chart_cover(chart_axis *axis, double low, double high);
void chart_frame(chart *c, const chart_panel *p);

/* The style of curve i: 72 styles differ in any two of colour, dashes and marker. */
chart_style chart_style_of(int i);
/* The layer of curve i, by which callers draw: curves of layer 0 first, then of layer 1, and so on.
 * A later layer has sparser dashes, so its curves do not hide those of earlier layers. */
enum { CHART_LAYERS = 9 };
int chart_layer_of(int i);

/* Draws the part of a curve inside the frame. marked: with a few markers, at different positions
 * for each style. */
void chart_curve(chart *c, const chart_panel *p, const chart_style *style, bool marked,
                 chart_point_fn at, const void *curve, size_t count);
/* Draws a marker at a point (clamped to the frame) with a tooltip. */
void chart_mark(chart *c, const chart_panel *p, const chart_style *style, chart_point at,
                const char *note);
/* Draws a cross where a curve ends prematurely. */
void chart_cross(chart *c, const chart_panel *p, const chart_style *style, chart_point at);

/* Draws a bar from one x to another, whose middle and height in pixels are given, with a tooltip
 * (NULL: none). */
void chart_bar(chart *c, const chart_panel *p, const char *colour, double from, double to,
               double middle, double height, const char *note);

/* Draws the legend, one entry below the other, `width` pixels wide; long entries are wrapped.
 * Returns its height. to NULL: only computes the height. */
double chart_legend(chart *to, double left, double top, double width, const chart_entry *entries,
                    int count);

#endif
