/* Reads the elements of a chart's SVG into boxes and checks how these lie. */
#include <math.h>

#include "base/base.h"
#include "chart_drawing.h"
#include "support.h"

enum { MOST_ATTRIBUTE = 40000 };

/* --- reading --- */

/* The value of an attribute of the element that begins at `tag`; false: it has none. */
static bool attribute(const char *tag, const char *name, char *out, size_t size)
{
    char key[64];
    const char *end = strchr(tag, '>');
    (void)snprintf(key, sizeof(key), " %s='", name);
    const char *at = strstr(tag, key);
    if (!at || !end || at > end) return false;
    at += strlen(key);
    const char *quote = strchr(at, '\'');
    assert_non_null(quote);
    assert_true((size_t)(quote - at) < size);
    memcpy(out, at, (size_t)(quote - at));
    out[quote - at] = '\0';
    return true;
}

static double number(const char *tag, const char *name)
{
    char text[32];
    if (!attribute(tag, name, text, sizeof(text))) fail_msg("no %s in %.80s", name, tag);
    double x = strtod(text, NULL);
    assert_true(isfinite(x));
    return x;
}

static bool has(const char *tag, const char *name, const char *value)
{
    char text[64];
    return attribute(tag, name, text, sizeof(text)) && strcmp(text, value) == 0;
}

/* Checks that tags nest, attributes are quoted, and special characters are entities. */
static void check_well_formed(const char *text)
{
    static const char *const entities[] = {"&lt;", "&gt;", "&amp;", "&#39;"};
    char open[16][16];
    int depth = 0;
    for (const char *at = text; *at; at++) {
        if (*at == '&') {
            bool known = false;
            for (size_t i = 0; i < WEFT_COUNT(entities); i++)
                known = known || strncmp(at, entities[i], strlen(entities[i])) == 0;
            if (!known) fail_msg("no entity: %.20s", at);
        }
        assert_true((unsigned char)*at >= 0x20 || *at == '\n');
        if (*at != '<') {
            assert_true(*at != '>');
            continue;
        }
        const char *end = strchr(at, '>');
        assert_non_null(end);
        int quotes = 0;
        for (const char *q = at; q < end; q++) quotes += *q == '\'';
        assert_true(quotes % 2 == 0);
        size_t size = strcspn(at + 1, " />");
        if (at[1] == '/') {
            assert_true(depth-- > 0);
            size = strcspn(at + 2, ">");
            assert_true(strlen(open[depth]) == size && strncmp(open[depth], at + 2, size) == 0);
        } else if (end[-1] != '/') {
            assert_true(depth < 16 && size < sizeof(open[0]));
            (void)snprintf(open[depth++], sizeof(open[0]), "%.*s", (int)size, at + 1);
        }
        at = end;
    }
    assert_int_equal(depth, 0);
}

/* The box of a text, by an estimate of its width: narrow characters take 0.35 of the font size,
 * others 0.6. */
static box text_box(const char *tag)
{
    char anchor[16] = "start";
    const char *from = strchr(tag, '>') + 1, *to = strchr(from, '<');
    double size = attribute(tag, "font-size", anchor, sizeof(anchor)) ? 15 : 13, count = 0;
    for (const char *c = from; c < to; c++) {
        if (*c == '&') c = strchr(c, ';');
        if (((unsigned char)*c & 0xC0) != 0x80) count += strchr(".-,: ", *c) ? 0.35 : 0.6;
    }
    (void)snprintf(anchor, sizeof(anchor), "start");
    (void)attribute(tag, "text-anchor", anchor, sizeof(anchor));
    double width = size * count, x = number(tag, "x"), y = number(tag, "y");
    double left = anchor[0] == 's' ? x : anchor[0] == 'm' ? x - width / 2 : x - width;
    if (strstr(tag, "rotate(-90") && strstr(tag, "rotate(-90") < from) /* rotated around (x, y) */
        return (box){x - 0.8 * size, y - width / 2, x + 0.2 * size, y + width / 2};
    return (box){left, y - 0.8 * size, left + width, y + 0.2 * size};
}

static bool within(const box *inner, const box *outer)
{
    const double SLACK = 0.3; /* coordinates are written with one decimal */
    return inner->left >= outer->left - SLACK && inner->right <= outer->right + SLACK &&
           inner->top >= outer->top - SLACK && inner->bottom <= outer->bottom + SLACK;
}

static void style_text(const char *tag, char *out)
{
    char colour[16], dash[24], width[8];
    assert_true(attribute(tag, "stroke", colour, sizeof(colour)));
    assert_true(attribute(tag, "stroke-dasharray", dash, sizeof(dash)));
    assert_true(attribute(tag, "stroke-width", width, sizeof(width)));
    (void)snprintf(out, 64, "%s %s %s", colour, dash, width);
}

/* Checks that all points of a curve lie in the frame that was drawn last, and extends d->reach by
 * them. */
static void check_path(drawing *d, const char *tag)
{
    static char path[MOST_ATTRIBUTE];
    const box *frame = &d->frames[d->frame_count - 1];
    box *all = &d->reach;
    assert_true(d->frame_count > 0);
    assert_true(attribute(tag, "d", path, sizeof(path)));
    for (char *at = path; *at;) {
        char *end;
        assert_true(*at == 'M' || *at == 'L');
        double x = strtod(at + 1, &end);
        assert_true(end > at + 1 && *end == ',');
        at = end + 1;
        double y = strtod(at, &end);
        assert_true(end > at);
        at = end;
        box place = {x, y, x, y};
        if (!within(&place, frame)) fail_msg("(%g, %g) is not inside the frame", x, y);
        *all =
            (box){fmin(all->left, x), fmin(all->top, y), fmax(all->right, x), fmax(all->bottom, y)};
    }
}

/* The label of a tick is centred at its grid line, also at the ends of an axis. */
static void read_tick(drawing *d, const char *tag)
{
    double x = number(tag, "x"), y = number(tag, "y");
    if (has(tag, "text-anchor", "middle") ? x != d->grid_x : fabs(y - 4 - d->grid_y) > 0.11)
        fail_msg("the label at (%g, %g) is not on its tick at (%g, %g)", x, y, d->grid_x,
                 d->grid_y);
    d->ticks[d->tick_count++] = text_box(tag);
}

static void read_tag(drawing *d, const char *tag)
{
    if (strncmp(tag, "<rect", 5) == 0 && has(tag, "class", "frame")) {
        double x = number(tag, "x"), y = number(tag, "y");
        assert_true(d->frame_count < 2 * COURSES);
        d->frames[d->frame_count++] =
            (box){x, y, x + number(tag, "width"), y + number(tag, "height")};
    } else if (strncmp(tag, "<line", 5) == 0) {
        d->grid_x = number(tag, "x1");
        d->grid_y = number(tag, "y1");
    } else if (strncmp(tag, "<text", 5) == 0) {
        assert_true(d->text_count < MOST_BOXES && d->tick_count < MOST_BOXES);
        if (has(tag, "class", "tick")) read_tick(d, tag);
        d->texts[d->text_count++] = text_box(tag);
    } else if (strncmp(tag, "<path", 5) == 0 && has(tag, "class", "curve")) {
        check_path(d, tag);
        style_text(tag, d->strokes[d->curves++]);
    } else if (strncmp(tag, "<path", 5) == 0 && has(tag, "class", "legend")) {
        style_text(tag, d->legend_strokes[d->legends++]);
    }
}

drawing *read_drawing(const char *text)
{
    static drawing d;
    memset(&d, 0, sizeof(d));
    check_well_formed(text);
    d.text = text;
    d.reach = (box){INFINITY, INFINITY, 0, 0};
    d.width = number(text, "width");
    d.height = number(text, "height");
    for (const char *at = strchr(text + 1, '<'); at; at = strchr(at + 1, '<')) read_tag(&d, at);
    return &d;
}

/* --- the contract --- */

/* Checks that each tick label stands below or left of a frame, and that no two labels overlap. */
static void check_ticks(const drawing *d)
{
    for (int i = 0; i < d->tick_count; i++) {
        const box *t = &d->ticks[i];
        bool placed = false;
        for (int k = 0; k < d->frame_count; k++) {
            const box *f = &d->frames[k];
            box below = {f->left - 60, f->bottom, f->right + 48, f->bottom + 30},
                beside = {f->left - 95, f->top - 8, f->left, f->bottom + 8};
            placed = placed || within(t, &below) || within(t, &beside);
        }
        if (!placed)
            fail_msg("tick %d, from (%.1f, %.1f) to (%.1f, %.1f), stands out", i, t->left, t->top,
                     t->right, t->bottom);
        for (int j = 0; j < i; j++) {
            const box *o = &d->ticks[j];
            bool apart = t->right <= o->left || o->right <= t->left || t->bottom <= o->top ||
                         o->bottom <= t->top;
            if (!apart) fail_msg("ticks %d and %d lie over each other", j, i);
        }
    }
    assert_true(d->tick_count >= 4 * d->frame_count); /* at least two on each axis */
}

void check_drawing(const drawing *d, int runs, int rows, int curves)
{
    box all = {0, 0, d->width, d->height};
    assert_int_equal(d->frame_count, 2 * rows);
    for (int i = 0; i < d->text_count; i++)
        if (!within(&d->texts[i], &all))
            fail_msg(
                "text %d, from (%.1f, %.1f) to (%.1f, %.1f), leaves the picture of %.0f x %.0f", i,
                d->texts[i].left, d->texts[i].top, d->texts[i].right, d->texts[i].bottom, d->width,
                d->height);
    check_ticks(d);
    assert_int_equal(d->legends, runs);
    assert_int_equal(d->curves, curves);
    for (int i = 0; i < runs; i++)
        for (int j = 0; j < i; j++)
            assert_string_not_equal(d->legend_strokes[i], d->legend_strokes[j]);
    for (int i = 0; i < d->curves; i++) {
        bool known = false;
        for (int j = 0; j < runs; j++)
            known = known || strcmp(d->strokes[i], d->legend_strokes[j]) == 0;
        assert_true(known);
    }
}
