/* Charts of weft compare for random, odd and extreme loss curves. The SVG is well-formed, curves
 * lie in their frames, texts lie inside the picture, and tick labels do not overlap; text widths
 * are estimated here. */
#include <math.h>
#include <unistd.h>

#include "base/base.h"
#include "cli/chart.h"
#include "cli/compare.h"
#include "support.h"

enum { MOST_BOXES = 512, MOST_POINTS = 40, MOST_ATTRIBUTE = 40000 };

typedef struct box {
    double left, top, right, bottom;
} box;

typedef struct drawing {
    const char *text;
    double width, height;
    box reach; /* extent of the curves in the last frame */
    box frames[2], ticks[MOST_BOXES], texts[MOST_BOXES];
    int frame_count, tick_count, text_count;
    int curves, legends; /* numbers of curves and of legend entries */
    char strokes[2 * MOST_RUNS + 2][64], legend_strokes[MOST_RUNS][64];
} drawing;

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

static void read_tag(drawing *d, const char *tag)
{
    if (strncmp(tag, "<rect", 5) == 0 && has(tag, "class", "frame")) {
        double x = number(tag, "x"), y = number(tag, "y");
        assert_true(d->frame_count < 2);
        d->frames[d->frame_count++] =
            (box){x, y, x + number(tag, "width"), y + number(tag, "height")};
    } else if (strncmp(tag, "<text", 5) == 0) {
        assert_true(d->text_count < MOST_BOXES && d->tick_count < MOST_BOXES);
        if (has(tag, "class", "tick")) d->ticks[d->tick_count++] = text_box(tag);
        d->texts[d->text_count++] = text_box(tag);
    } else if (strncmp(tag, "<path", 5) == 0 && has(tag, "class", "curve")) {
        check_path(d, tag);
        style_text(tag, d->strokes[d->curves++]);
    } else if (strncmp(tag, "<path", 5) == 0 && has(tag, "class", "legend")) {
        style_text(tag, d->legend_strokes[d->legends++]);
    }
}

static drawing *read_drawing(const char *text)
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

/* Checks that each tick label stands below or left of a frame, within the frame's length, and that
 * no two labels overlap. */
static void check_ticks(const drawing *d)
{
    for (int i = 0; i < d->tick_count; i++) {
        const box *t = &d->ticks[i];
        bool placed = false;
        for (int k = 0; k < d->frame_count; k++) {
            const box *f = &d->frames[k];
            box below = {f->left, f->bottom, f->right, f->bottom + 30},
                beside = {f->left - 95, f->top, f->left, f->bottom};
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

static void check_drawing(const drawing *d, int runs, int with_points)
{
    box all = {0, 0, d->width, d->height};
    assert_int_equal(d->frame_count, 2);
    for (int i = 0; i < d->text_count; i++)
        if (!within(&d->texts[i], &all))
            fail_msg(
                "text %d, from (%.1f, %.1f) to (%.1f, %.1f), leaves the picture of %.0f x %.0f", i,
                d->texts[i].left, d->texts[i].top, d->texts[i].right, d->texts[i].bottom, d->width,
                d->height);
    check_ticks(d);
    assert_int_equal(d->legends, runs);
    assert_int_equal(d->curves, 2 * with_points);
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

/* --- drawing --- */

static char *draw(const compared_run *all, int count, bool simulated)
{
    char path[] = "/tmp/chart-XXXXXX";
    weft_output *to;
    int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    assert_ok(weft_output_open(path, WEFT_OUTPUT_REPLACE, &to));
    assert_ok(plot_losses(all, count, simulated, to));
    assert_ok(weft_output_close(&to, true));
    weft_bytes bytes;
    assert_ok(weft_file_map(path, &bytes));
    char *text = calloc(bytes.size + 1, 1);
    assert_non_null(text);
    memcpy(text, bytes.data, bytes.size);
    weft_file_unmap(&bytes);
    unlink(path);
    return text;
}

static double between(weft_random *r, double low, double high)
{
    return low + (high - low) * weft_random_unit(r);
}

/* Makes a loss curve of a kind: 0 ordinary, 1 of any scale, 2 partly negative, 3 constant, 4
 * diverging, 5 zero. */
static void make_course(weft_random *r, int kind, compared_run *c, point *points)
{
    double seconds = 0, samples = 0, scale = kind == 1 ? pow(10, between(r, -30, 30)) : 1;
    double step = pow(10, kind == 1 ? between(r, -9, 6) : between(r, -2, 0));
    c->points = points;
    c->count = weft_random_u32(r) % 5 == 0 ? 1 : 1 + weft_random_u32(r) % MOST_POINTS;
    for (size_t i = 0; i < c->count; i++) {
        double loss = 0.1 + 2 * exp(-(double)i / 5) + between(r, 0, 0.1);
        seconds += step * between(r, 0.1, 2);
        samples += 100;
        if (kind == 2) loss = between(r, -3, 1);
        if (kind == 3) loss = 2.302585;
        if (kind == 4) loss = pow(10, (double)i * 7);
        if (kind == 5) loss = 0;
        points[i] = (point){seconds, samples, scale * loss};
    }
}

static void test_random(void **state)
{
    (void)state;
    static point points[MOST_RUNS][MOST_POINTS];
    static const char long_name[] =
        "server:policy=async,push=4,fetch=8,bound=inf servers=16 compress=topk:ratio=0.0001 "
        "compress-downlink=threshold:tau=0.003 lr-schedule=cosine warmup=100 momentum=0.9 "
        "weight-decay=0.0001 mesh=data=2,tensor=2,pipeline=2 batch=12345678 model=resnet";
    static const char *const names[] = {
        "average", "gossip:mode=average compress=bf16",
        "<a & b='c'> \x1b[31m\xff µ 日本 " /* escapes, no UTF-8, wide characters */, long_name,
        "MMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMM"};
    weft_random r;
    weft_random_start(&r, 7, 1);
    for (int round = 0; round < 300; round++) {
        compared_run all[MOST_RUNS] = {{.words = NULL}};
        int count = round % 10 == 0 ? MOST_RUNS : 2 + (int)(weft_random_u32(&r) % 9), drawn = 0;
        int mixed = (int)(weft_random_u32(&r) % 7);
        bool equal = round % 4 == 1; /* all runs have the same curve */
        for (int i = 0; i < count; i++) {
            compared_run *c = &all[i];
            c->label = names[weft_random_u32(&r) % (mixed == 6 ? 5 : 3)];
            c->subject = (char *)(uintptr_t)names[round % 5];
            c->learners = 1 + (int)(weft_random_u32(&r) % 1024);
            c->failed = weft_random_u32(&r) % 6 == 0;
            make_course(&r, mixed == 6 ? (int)(weft_random_u32(&r) % 6) : mixed, c, points[i]);
            if (equal && i > 0) memcpy(points[i], points[0], sizeof(points[i]));
            if (equal) c->count = all[0].count;
            if (c->failed && !equal && i % 2) c->count = 0; /* it failed in its first step */
            drawn += c->count > 0;
        }
        char *text = draw(all, count, round % 2);
        drawing *d = read_drawing(text);
        check_drawing(d, count, drawn);
        assert_non_null(strstr(text, round % 2 ? "virtual time, seconds" : "time, seconds"));
        free(text);
    }
}

/* Up to nine curves differ in their dashes; more differ in dashes and markers. Curves that coincide
 * are all visible, since those with denser dashes are drawn first. */
static void test_styles(void **state)
{
    (void)state;
    for (int i = 0; i < MOST_RUNS; i++)
        for (int j = 0; j < i; j++) {
            chart_style a = chart_style_of(i), b = chart_style_of(j);
            assert_true(strcmp(a.dash, b.dash) != 0 || a.number % 8 != b.number % 8);
            assert_true((strcmp(a.dash, b.dash) == 0) == (chart_layer_of(i) == chart_layer_of(j)));
        }
    static point points[12][3];
    compared_run all[12] = {{.words = NULL}};
    for (int i = 0; i < 12; i++) {
        all[i] = (compared_run){.label = "same", .points = points[i], .count = 3, .learners = 2};
        for (int k = 0; k < 3; k++) points[i][k] = (point){k, 100 * k, 3 - k};
    }
    char *text = draw(all, 12, false);
    drawing *d = read_drawing(text);
    check_drawing(d, 12, 12);
    assert_string_equal(d->strokes[0], d->legend_strokes[0]); /* solid lines first */
    assert_string_equal(d->strokes[1], d->legend_strokes[9]);
    assert_string_equal(d->strokes[11], d->legend_strokes[8]);
    free(text);
}

/* Every loss becomes the mean of the last ones, also in a run that has huge losses elsewhere. */
static void test_smooth(void **state)
{
    (void)state;
    static point points[1000], raw[1000];
    weft_random r;
    weft_random_start(&r, 3, 1);
    for (size_t count = 0; count <= WEFT_COUNT(points); count += count < 90 ? 1 : 91) {
        compared_run run = {.points = points, .count = count};
        size_t window = count / 40 + 1;
        for (size_t i = 0; i < count; i++) {
            bool huge = i == count / 3 || i + 1 == count;
            raw[i].loss = points[i].loss = huge ? 1e291 : between(&r, 0.1, 2);
        }
        smooth_losses(&run);
        for (size_t i = 0; i < count; i++) {
            size_t begin = i + 1 < window ? 0 : i + 1 - window;
            double mean = 0;
            for (size_t k = begin; k <= i; k++) mean += raw[k].loss / (double)(i + 1 - begin);
            if (!(fabs(points[i].loss - mean) <= 1e-12 * mean))
                fail_msg("mean %zu of %zu losses is %g, not %g", i, count, points[i].loss, mean);
        }
    }
}

/* The axes leave out a steep beginning and a run that diverges, and a loss over several decades is
 * drawn over its logarithm. */
static void test_range(void **state)
{
    (void)state;
    static point points[3][100];
    compared_run all[3] = {
        {.label = "steep", .points = points[0], .count = 100, .learners = 4},
        {.label = "flat", .points = points[1], .count = 100, .learners = 4},
        {.label = "away", .points = points[2], .count = 50, .learners = 4, .failed = true}};
    for (int i = 0; i < 100; i++) {
        points[0][i] = (point){i + 1, 100 * (i + 1), i == 0 ? 50 : 1 + 0.005 * (100 - i)};
        points[1][i] = (point){i + 1, 100 * (i + 1), 1.5};
        points[2][i] = (point){i + 1, 100 * (i + 1), pow(10, i / 2.0)};
    }
    char *text = draw(all, 2, false);
    const drawing *d = read_drawing(text);
    const box *frame = &d->frames[1];
    assert_true(d->reach.bottom - d->reach.top > 0.9 * (frame->bottom - frame->top));
    assert_true(d->reach.right - d->reach.left > 0.9 * (frame->right - frame->left));
    assert_null(strstr(text, "logarithmic"));
    assert_non_null(strstr(text, ">1.2<"));
    assert_null(strstr(text, ">50<"));
    free(text);
    text = draw(all, 3, false);
    assert_null(strstr(text, "logarithmic"));
    assert_non_null(strstr(text, ">1.2<"));
    assert_null(strstr(text, ">50<"));
    assert_non_null(strstr(text, "away (×: the loss became NaN or infinite)"));
    free(text);
    for (int i = 0; i < 100; i++) points[0][i].loss = exp(-i / 10.0);
    for (int i = 0; i < 100; i++) points[1][i].seconds = 100 * (i + 1);
    text = draw(all, 2, true);
    assert_non_null(strstr(text, "smoothed (logarithmic)"));
    assert_non_null(strstr(text, "virtual time, seconds (logarithmic)"));
    assert_non_null(strstr(text, "2 strategies, 4 learners, simulated"));
    free(text);
    /* The ticks of one or two decades are at 1, 2 and 5 times a power of ten. */
    for (int i = 0; i < 100; i++) points[0][i].loss = points[1][i].loss = exp(-i / 25.0);
    text = draw(all, 2, true);
    assert_true(strstr(text, ">0.2<") && strstr(text, ">0.5<") && strstr(text, ">0.05<"));
    assert_true(!strstr(text, ">0.3<") && !strstr(text, ">0.4<"));
    free(text);
}

/* The title names model and data if all runs have the same ones, whichever run differs. */
static void test_title(void **state)
{
    (void)state;
    enum { RUNS = 4 };
    static point points[2] = {{1, 100, 2}, {2, 200, 1}};
    char common[] = "lenet on mnist", other[] = "mlp on glyphs";
    for (int odd = -1; odd < RUNS; odd++)
        for (int known = 0; known < 2; known++) {
            compared_run all[RUNS] = {{.words = NULL}};
            for (int i = 0; i < RUNS; i++)
                all[i] = (compared_run){.label = "run",
                                        .points = points,
                                        .count = 2,
                                        .learners = i == odd ? 8 : 2,
                                        .subject = i != odd ? common
                                                   : known  ? other
                                                            : NULL};
            char *text = draw(all, RUNS, false);
            assert_true((strstr(text, ">lenet on mnist<") != NULL) == (odd < 0));
            assert_true((strstr(text, ">several models or data<") != NULL) == (odd >= 0));
            assert_true((strstr(text, "2 to 8 learners") != NULL) == (odd >= 0));
            free(text);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random), cmocka_unit_test(test_styles), cmocka_unit_test(test_smooth),
        cmocka_unit_test(test_range),  cmocka_unit_test(test_title),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
