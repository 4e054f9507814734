/* Internals of charts: texts, places, and the marker of a style. */
#ifndef WEFT_CLI_CHART_TEXT_H
#define WEFT_CLI_CHART_TEXT_H

#include "chart.h"

enum { CHART_FONT = 13 }; /* font size in pixels, unless a text has its own */

/* An upper bound of a text's width in pixels, for the common sans-serif fonts. */
double chart_text_width(const char *text, double font);
/* Writes text as XML; characters that XML does not allow become \xNN. */
void chart_put_escaped(chart *c, const char *text);
/* chart.c: the place of a value on the x axis, within the frame. */
double chart_x(const chart_panel *p, double value);
void chart_put_marker(chart *c, const chart_style *style, double x, double y, const char *note);

#endif
