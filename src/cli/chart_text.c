/* Draws the texts and legends of SVG charts, within an estimate of their widths. */
#include "chart_text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "weft/status.h"

/* --- texts --- */

/* Bytes of the UTF-8 character that begins here. */
static size_t character_bytes(const char *text)
{
    size_t n = 1;
    while (((unsigned char)text[n] & 0xC0) == 0x80) n++;
    return n;
}

/* Width of a character relative to the font size, in the widest common font (DejaVu Sans). */
static double character_width(const char *text)
{
    unsigned char c = (unsigned char)*text;
    if (c >= 0x80) return 1;
    if (strchr("ijlI|'.,:;![]()/ -", c)) return 0.4;
    if (strchr("mwMWOQ%@", c)) return 1;
    if (strchr("+=<>~^#", c)) return 0.84;
    if (c >= 'A' && c <= 'Z') return 0.78;
    return 0.64;
}

double chart_text_width(const char *text, double font)
{
    double width = 0;
    for (; *text; text += character_bytes(text)) width += character_width(text);
    return font * width;
}

/* Number of bytes of a text that fit into `room` pixels, at least one character. */
static size_t bytes_within(const char *text, double font, double room)
{
    size_t used = 0;
    double width = 0;
    while (text[used]) {
        width += font * character_width(text + used);
        if (width > room && used > 0) break;
        used += character_bytes(text + used);
    }
    return used;
}

enum { SHOWN = 4000 }; /* bytes that are drawn of a label or title; the rest is cut */

static void put_bytes(chart *c, const char *text, size_t size)
{
    for (; size > 0 && c->status == WEFT_OK; size--, text++) {
        const char *entity = *text == '<'    ? "&lt;"
                             : *text == '>'  ? "&gt;"
                             : *text == '&'  ? "&amp;"
                             : *text == '\'' ? "&#39;"
                                             : NULL;
        c->status = entity ? weft_output_write(c->to, entity, strlen(entity))
                           : weft_output_write(c->to, text, 1);
    }
}

void chart_put_escaped(chart *c, const char *text)
{
    char shown[SHOWN];
    (void)weft_printable(text, shown, sizeof(shown));
    put_bytes(c, shown, strlen(shown));
}

void chart_text(chart *c, double x, double y, double room, const char *attributes, const char *text)
{
    /* The width is estimated for titles, which are larger and bold. */
    const double LARGE = 1.3 * CHART_FONT;
    char shown[SHOWN];
    size_t size = strlen(weft_printable(text, shown, sizeof(shown)));
    bool whole = chart_text_width(shown, LARGE) <= room;
    if (!whole) size = bytes_within(shown, LARGE, room - LARGE);
    CHART_PUT(c, "<text x='%.1f' y='%.1f' %s>", x, y, attributes);
    put_bytes(c, shown, size);
    CHART_PUT(c, "%s</text>\n", whole ? "" : "…");
}

void chart_begin(chart *c, double width, double height, const char *title)
{
    c->width = width;
    CHART_PUT(c,
              "<svg xmlns='http://www.w3.org/2000/svg' width='%.0f' height='%.0f' viewBox='0 0 "
              "%.0f %.0f' font-family='Helvetica, Arial, sans-serif' font-size='%d' fill='#222'>\n"
              "<title>",
              width, height, width, height, CHART_FONT);
    chart_put_escaped(c, title);
    CHART_PUT(c, "</title>\n<rect width='100%%' height='100%%' fill='white'/>\n");
}

void chart_end(chart *c)
{
    CHART_PUT(c, "</svg>\n");
}

/* --- bars --- */

static void put_bar(chart *c, const char *colour, double x, double width, double top, double height,
                    const char *note)
{
    CHART_PUT(c, "<rect class='bar' x='%.2f' y='%.1f' width='%.2f' height='%.1f' fill='%s'", x, top,
              width, height, colour);
    if (note) {
        CHART_PUT(c, "><title>");
        chart_put_escaped(c, note);
        CHART_PUT(c, "</title></rect>\n");
    } else {
        CHART_PUT(c, "/>\n");
    }
}

void chart_bar(chart *c, const chart_panel *p, const char *colour, double from, double to,
               double middle, double height, const char *note)
{
    double x = chart_x(p, from);
    put_bar(c, colour, x, chart_x(p, to) - x, middle - height / 2, height, note);
}

/* --- legends --- */

enum { ROW = 20, STROKE = 56 }; /* pixels */

/* Number of bytes that fit on a line; the line ends after a blank, comma or colon if possible. */
static size_t line_bytes(const char *text, double room)
{
    size_t fit = bytes_within(text, CHART_FONT, room);
    if (!text[fit]) return fit;
    for (size_t n = fit; n > fit / 2; n--)
        if (strchr(" ,:", text[n - 1])) return n;
    return fit;
}

/* Writes the text of an entry, with its note, to `out`, which has SHOWN bytes. */
static const char *entry_text(const chart_entry *e, char *out)
{
    enum { NOTE = 200 };
    size_t size = strlen(weft_printable(e->text, out, SHOWN - NOTE));
    if (e->note) (void)snprintf(out + size, NOTE, " (%s)", e->note);
    return out;
}

/* Draws an entry whose text has `room` pixels; returns the number of lines. */
static int put_entry(chart *c, double x, double y, double room, const chart_entry *e)
{
    char shown[SHOWN];
    const char *text = entry_text(e, shown);
    int lines = 0;
    if (c && e->style.bar) {
        put_bar(c, e->style.colour, x, STROKE - 10, y + 3, 12, NULL);
    } else if (c) {
        CHART_PUT(c,
                  "<path class='legend' fill='none' stroke='%s' stroke-width='2' "
                  "stroke-dasharray='%s' d='M%.1f,%.1fh%d'/>\n",
                  e->style.colour, e->style.dash, x, y + 9, STROKE - 10);
        chart_put_marker(c, &e->style, x + (STROKE - 10) / 2.0, y + 9, NULL);
    }
    do {
        size_t size = line_bytes(text, room);
        if (c) {
            CHART_PUT(c, "<text class='legend' x='%.1f' y='%.1f'>", x + STROKE,
                      y + ROW * lines + 13);
            put_bytes(c, text, size);
            CHART_PUT(c, "</text>\n");
        }
        text += size;
        lines++;
    } while (*text);
    return lines;
}

double chart_legend(chart *to, double left, double top, double width, const chart_entry *entries,
                    int count)
{
    int rows = 0;
    for (int i = 0; i < count; i++)
        rows += put_entry(to, left, top + ROW * rows, width - STROKE, &entries[i]);
    return ROW * rows;
}
