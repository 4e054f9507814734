/* The inside of charts: texts, and the marker of a style. */
#ifndef WEFT_CLI_CHART_TEXT_H
#define WEFT_CLI_CHART_TEXT_H

#include "chart.h"

enum { CHART_FONT = 13 }; /* pixels, unless a text says otherwise */

/* Pixels that a text takes at most in the usual sans-serif fonts. */
double chart_text_width(const char *text, double font);
/* As XML has it; what XML cannot have becomes \xNN. */
void chart_put_escaped(chart *c, const char *text);
void chart_put_marker(chart *c, const chart_style *style, double x, double y, const char *note);

#endif
