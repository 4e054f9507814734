/* Draws the charts of weft compare for random, odd and extreme loss curves, and checks how their
 * parts lie; also the styles of curves, smoothing, the ranges of axes, and the title. */
#include <math.h>
#include <unistd.h>

#include "base/base.h"
#include "chart_drawing.h"
#include "cli/chart.h"
#include "support.h"

enum { MOST_POINTS = 40 };

static char *draw_goal(const compared_run *all, int count, run_source source, const plot_goal *goal)
{
    char path[] = "/tmp/chart-XXXXXX";
    weft_output *to;
    int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    assert_ok(weft_output_open(path, WEFT_OUTPUT_REPLACE, &to));
    assert_ok(plot_runs(all, count, source, goal, to));
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

static char *draw(const compared_run *all, int count, run_source source)
{
    return draw_goal(all, count, source, NULL);
}

static double between(weft_random *r, double low, double high)
{
    return low + (high - low) * weft_random_unit(r);
}

/* Makes a loss curve of a kind: 0 ordinary, 1 of any scale, 2 partly negative, 3 constant, 4
 * diverging, 5 zero. */
static void make_course(weft_random *r, int kind, course *c, point *points)
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

/* Evaluations at the begin, in the middle and at the end of a run of a second. */
static void add_evaluations(weft_random *r, compared_run *c)
{
    for (int i = 0; i < 3; i++)
        add_evaluation(c, "test",
                       &(evaluation){.loss = between(r, 0, 3),
                                     .metric[0] = {"f1", "F1", between(r, 0, 1)},
                                     .metrics = 1},
                       (point){0.5 * i, 100 * i, 0});
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
            course *training = &c->courses[TRAINING];
            make_course(&r, mixed == 6 ? (int)(weft_random_u32(&r) % 6) : mixed, training,
                        points[i]);
            if (equal && i > 0) memcpy(points[i], points[0], sizeof(points[i]));
            if (equal) training->count = all[0].courses[TRAINING].count;
            if (c->failed && !equal && i % 2) training->count = 0; /* it failed in its first step */
            drawn += training->count > 0;
            if (round % 3 == 0) add_evaluations(&r, c);
        }
        char *text = draw(all, count, (run_source)(round % 2));
        drawing *d = read_drawing(text);
        int rows = round % 3 == 0 ? 3 : 1;
        check_drawing(d, count, rows, 2 * drawn + (rows - 1) * 2 * count);
        for (int i = 0; i < count; i++)
            for (int row = HELD_OUT_LOSS; row < COURSES; row++) free(all[i].courses[row].points);
        assert_non_null(strstr(text, round % 2 ? "virtual time, seconds" : "time, seconds"));
        free(text);
    }
}

/* A goal has a line in both panels of its row, also beyond all values, and each run that reaches it
 * a line to the axis there; nothing else changes. */
static void test_goal(void **state)
{
    (void)state;
    static point losses[] = {{0.1, 10, 2}, {1, 100, 0.5}};
    compared_run all[3];
    for (int i = 0; i < 3; i++) {
        all[i] = compared_run_of(NULL, "run");
        all[i].courses[TRAINING] = (course){losses, 2, 2};
        all[i].reached = i == 1 ? 0.75 : -1;
        add_evaluation(&all[i], "test",
                       &(evaluation){.loss = NAN, .metric[0] = {"f1", "F1", 0.3 * i}, .metrics = 1},
                       (point){0.75, 75, 0});
    }
    for (int row = TRAINING; row < COURSES; row += HELD_OUT_METRIC - TRAINING) {
        const plot_goal goal = {row, 7, "f1=7"};
        char *plain = draw(all, 3, RUNS_SIMULATED);
        char *text = draw_goal(all, 3, RUNS_SIMULATED, &goal);
        int curves = read_drawing(plain)->curves;
        const drawing *d = read_drawing(text);
        assert_int_equal(d->curves, curves + 2 * (1 + 1));
        int found = 0;
        for (const char *at = text; (at = strstr(at, "(target 7)")) != NULL; at++) found++;
        assert_int_equal(found, 2);
        found = 0; /* in the legend, and at two marks */
        for (const char *at = text; (at = strstr(at, "f1=7 after 0.75 s")) != NULL; at++) found++;
        assert_int_equal(found, 3);
        free(plain);
        free(text);
    }
    for (int i = 0; i < 3; i++) free(all[i].courses[HELD_OUT_METRIC].points);
}

/* Up to nine curves differ in their dashes; more differ in any two of colour, dashes and marker.
 * Curves that coincide are all visible, since those with denser dashes are drawn first. */
static void test_styles(void **state)
{
    (void)state;
    for (int i = 0; i < MOST_RUNS; i++)
        for (int j = 0; j < i; j++) {
            chart_style a = chart_style_of(i), b = chart_style_of(j);
            assert_true(strcmp(a.dash, b.dash) != 0 || a.number % 11 != b.number % 11);
            assert_true(strcmp(a.colour, b.colour) != 0 || a.number % 11 != b.number % 11);
            assert_true((strcmp(a.dash, b.dash) == 0) == (chart_layer_of(i) == chart_layer_of(j)));
        }
    static point points[12][3];
    compared_run all[12] = {{.words = NULL}};
    for (int i = 0; i < 12; i++) {
        all[i] = (compared_run){
            .label = "same", .courses[TRAINING] = {.points = points[i], .count = 3}, .learners = 2};
        for (int k = 0; k < 3; k++) points[i][k] = (point){k, 100 * k, 3 - k};
    }
    char *text = draw(all, 12, RUNS_MEASURED);
    drawing *d = read_drawing(text);
    check_drawing(d, 12, 1, 24);
    assert_string_equal(d->strokes[0], d->legend_strokes[0]); /* solid lines first */
    assert_string_equal(d->strokes[1], d->legend_strokes[9]);
    assert_string_equal(d->strokes[11], d->legend_strokes[8]);
    free(text);
}

/* Numbers of one axis have one form: with exponents if one of them needs it. */
static void test_numbers(void **state)
{
    (void)state;
    static point points[3];
    static const struct {
        double loss;
        const char *one, *other, *no;
    } all[] = {{1e6, ">1e6<", ">4e5<", ">400000<"},
               {5e5, ">500000<", ">100000<", ">1e5<"},
               {3e-4, ">1e-4<", ">5e-5<", ">0.0001<"}};
    compared_run run = {
        .label = "run", .courses[TRAINING] = {.points = points, .count = 3}, .learners = 2};
    for (size_t i = 0; i < WEFT_COUNT(all); i++) {
        for (int k = 0; k < 3; k++) points[k] = (point){k + 1, k + 1, all[i].loss * k / 2};
        char *text = draw(&run, 1, RUNS_MEASURED);
        if (!strstr(text, all[i].one) || !strstr(text, all[i].other) || strstr(text, all[i].no))
            fail_msg("%g: %s", all[i].loss, text);
        free(text);
    }
}

/* Every loss becomes the mean of the last ones, also in a run that has huge losses elsewhere. */
static void test_smooth(void **state)
{
    (void)state;
    static point points[1000], raw[1000];
    weft_random r;
    weft_random_start(&r, 3, 1);
    for (size_t count = 0; count <= WEFT_COUNT(points); count += count < 90 ? 1 : 91) {
        course run = {.points = points, .count = count};
        size_t window = count / 40 + 1;
        for (size_t i = 0; i < count; i++) {
            bool huge = i == count / 3 || i + 1 == count;
            raw[i].value = points[i].value = huge ? 1e291 : between(&r, 0.1, 2);
        }
        smooth_course(&run);
        for (size_t i = 0; i < count; i++) {
            size_t begin = i + 1 < window ? 0 : i + 1 - window;
            double mean = 0;
            for (size_t k = begin; k <= i; k++) mean += raw[k].value / (double)(i + 1 - begin);
            if (!(fabs(points[i].value - mean) <= 1e-12 * mean))
                fail_msg("mean %zu of %zu losses is %g, not %g", i, count, points[i].value, mean);
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
        {.label = "steep", .courses[TRAINING] = {.points = points[0], .count = 100}, .learners = 4},
        {.label = "flat", .courses[TRAINING] = {.points = points[1], .count = 100}, .learners = 4},
        {.label = "away",
         .courses[TRAINING] = {.points = points[2], .count = 50},
         .learners = 4,
         .failed = true}};
    for (int i = 0; i < 100; i++) {
        points[0][i] = (point){i + 1, 100 * (i + 1), i == 0 ? 50 : 1 + 0.005 * (100 - i)};
        points[1][i] = (point){i + 1, 100 * (i + 1), 1.5};
        points[2][i] = (point){i + 1, 100 * (i + 1), pow(10, i / 2.0)};
    }
    char *text = draw(all, 2, RUNS_MEASURED);
    const drawing *d = read_drawing(text);
    const box *frame = &d->frames[1];
    assert_true(d->reach.bottom - d->reach.top > 0.9 * (frame->bottom - frame->top));
    assert_true(d->reach.right - d->reach.left > 0.9 * (frame->right - frame->left));
    assert_null(strstr(text, "logarithmic"));
    assert_non_null(strstr(text, ">1.2<"));
    assert_null(strstr(text, ">50<"));
    free(text);
    text = draw(all, 3, RUNS_MEASURED);
    assert_null(strstr(text, "logarithmic"));
    assert_non_null(strstr(text, ">1.2<"));
    assert_null(strstr(text, ">50<"));
    assert_non_null(strstr(text, "away (×: the loss became NaN or infinite; clipped at the frame: "
                                 "its loss rises to 3.162e+24)"));
    free(text);
    /* A finite loss that rises out of the frame is told, too. */
    all[2].failed = false;
    for (int i = 0; i < 50; i++) points[2][i].value = 40 + 4 * i;
    text = draw(all, 3, RUNS_MEASURED);
    assert_non_null(strstr(text, "away (clipped at the frame: its loss rises to 236)"));
    assert_null(strstr(text, "steep ("));
    free(text);
    for (int i = 0; i < 100; i++) points[0][i].value = exp(-i / 10.0);
    for (int i = 0; i < 100; i++) points[1][i].seconds = 100 * (i + 1);
    text = draw(all, 2, RUNS_SIMULATED);
    assert_non_null(strstr(text, "smoothed (logarithmic)"));
    assert_non_null(strstr(text, "virtual time, seconds (logarithmic)"));
    assert_non_null(strstr(text, "2 strategies, 4 learners, simulated"));
    free(text);
    /* The ticks of one or two decades are at 1, 2 and 5 times a power of ten. */
    for (int i = 0; i < 100; i++) points[0][i].value = points[1][i].value = exp(-i / 25.0);
    text = draw(all, 2, RUNS_SIMULATED);
    assert_true(strstr(text, ">0.2<") && strstr(text, ">0.5<") && strstr(text, ">0.05<"));
    assert_true(!strstr(text, ">0.3<") && !strstr(text, ">0.4<"));
    free(text);
}

/* A loss of evaluations is shown whole unless it rises to more than twice of all first ones, and
 * the legend tells of those that do. */
static void test_range_of_evaluations(void **state)
{
    (void)state;
    static point training[2] = {{1, 100, 2}, {2, 200, 1}};
    static point falls[3] = {{0.5, 50, 1.1}, {1, 100, 1.08}, {2, 200, 1.05}};
    static point rises[3] = {{0.5, 50, 1.11}, {1, 100, 1.12}, {2, 200, 1.145}};
    compared_run all[2] = {{.label = "falls", .courses[HELD_OUT_LOSS] = {falls, 3, 3}},
                           {.label = "rises", .courses[HELD_OUT_LOSS] = {rises, 3, 3}}};
    for (int i = 0; i < 2; i++) all[i].courses[TRAINING] = (course){training, 2, 2};
    char *text = draw(all, 2, RUNS_OF_FILES);
    assert_non_null(strstr(text, ">1.14<"));
    assert_null(strstr(text, "clipped"));
    free(text);
    rises[2].value = 14;
    text = draw(all, 2, RUNS_OF_FILES);
    assert_non_null(strstr(text, "rises (clipped at the frame: its held-out loss rises to 14)"));
    assert_null(strstr(text, "falls ("));
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
                                        .courses[TRAINING] = {.points = points, .count = 2},
                                        .learners = i == odd ? 8 : 2,
                                        .subject = i != odd ? common
                                                   : known  ? other
                                                            : NULL};
            char *text = draw(all, RUNS, RUNS_MEASURED);
            assert_true((strstr(text, ">lenet on mnist<") != NULL) == (odd < 0));
            assert_true((strstr(text, ">several models or data<") != NULL) == (odd >= 0));
            assert_true((strstr(text, "2 to 8 learners") != NULL) == (odd >= 0));
            free(text);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_goal),
        cmocka_unit_test(test_styles),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_smooth),
        cmocka_unit_test(test_range),
        cmocka_unit_test(test_range_of_evaluations),
        cmocka_unit_test(test_title),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
