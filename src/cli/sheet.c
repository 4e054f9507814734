/* weft inspect --plot: a sheet of samples. */
#include "sheet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chart.h"
#include "weft/data.h"
#include "weft/output.h"

/* CELL: side of the square of a sample, on paper. MOST_SIDE: pixels of a picture that is not made
 * smaller. */
enum { ROWS = 5, COLUMNS = 8, CELL = 112, GAP = 12, TEXT = 18, TOP = 40, MOST_SIDE = CELL };

typedef struct sheet {
    chart chart;
    const weft_dataset *data;
    const weft_data_stats *stats;
    int inputs;
    int64_t seed;
    int channels, height, width;
    int by; /* pixels of a picture that become one of the sheet, along each side */
    float *x;
    int32_t *classes;             /* of the pixels of a sample; NULL: these have none */
    unsigned char *pixels, *room; /* of the sheet, and of the PNG made of them */
    int64_t *counts; /* samples of each class in each part, then pixels that count nowhere */
} sheet;

/* A number of channel c of a sample as a colour. */
static double colour_of(const sheet *s, int c, double x)
{
    const weft_data_stats *t = s->stats;
    int f = t->features > 1 ? c : 0;
    double value = x * t->deviation[f] + t->mean[f], low = t->bytes ? 0 : t->range.low,
           high = t->bytes ? 255 : t->range.high;
    double colour = high > low ? (value - low) / (high - low) * 255 : 0;
    return colour < 0 ? 0 : colour > 255 ? 255 : colour;
}

/* The mean of the pixels that become one of the sheet. */
static double mean_of(const sheet *s, int c, int y, int x)
{
    double sum = 0;
    for (int j = 0; j < s->by; j++)
        for (int i = 0; i < s->by; i++)
            sum += colour_of(
                s, c,
                (double)
                    s->x[((ptrdiff_t)c * s->height + y * s->by + j) * s->width + x * s->by + i]);
    return sum / s->by / s->by;
}

/* Mixes a pixel of the sheet with the colour of the class of its middle; class 0 has none, and one
 * that counts nowhere is white. */
static void overlay(const sheet *s, int y, int x, unsigned char *pixel)
{
    unsigned char color[3] = {255, 255, 255};
    int32_t class =
        s->classes[(ptrdiff_t)(y * s->by + s->by / 2) * s->width + x * s->by + s->by / 2];
    if (class >= 0) weft_class_color(class, color);
    for (int c = 0; c < 3 && class != 0; c++) pixel[c] = (unsigned char)((pixel[c] + color[c]) / 2);
}

static void paint(const sheet *s)
{
    unsigned char *to = s->pixels;
    for (int y = 0; y < s->height / s->by; y++)
        for (int x = 0; x < s->width / s->by; x++, to += 3) {
            for (int c = 0; c < 3; c++) {
                double colour = mean_of(s, s->channels < 3 ? 0 : c, y, x),
                       opaque = s->channels == 4 ? mean_of(s, 3, y, x) / 255 : 1;
                to[c] = (unsigned char)(colour * opaque + 255 * (1 - opaque) + 0.5);
            }
            if (s->classes) overlay(s, y, x, to);
        }
}

/* Reads the class of a sample. -1: it has none. */
static weft_status class_of(const sheet *s, weft_split split, int64_t i, int32_t *class)
{
    *class = -1;
    return s->stats->classes == 0 || s->stats->positions > 0
               ? WEFT_OK
               : weft_dataset_read(s->data, split, i, s->inputs, class);
}

static const char *class_name(const sheet *s, int class, char *out, size_t size)
{
    if (s->stats->class_names) return s->stats->class_names[class];
    (void)snprintf(out, size, "%d", class);
    return out;
}

static weft_status draw_sample(sheet *s, int place, int64_t i)
{
    char number[32];
    int32_t class;
    int row = place / COLUMNS;
    double left = GAP + (place % COLUMNS) * (CELL + GAP), top = TOP + row * (CELL + TEXT + GAP);
    WEFT_TRY(weft_dataset_draw(s->data, (uint64_t)s->seed, 0, i, 0, s->x));
    WEFT_TRY(class_of(s, WEFT_TRAIN, i, &class));
    if (s->classes)
        WEFT_TRY(weft_dataset_draw(s->data, (uint64_t)s->seed, 0, i, s->inputs, s->classes));
    paint(s);
    CHART_PUT(&s->chart,
              "<image x=\"%g\" y=\"%g\" width=\"%d\" height=\"%d\" "
              "style=\"image-rendering:pixelated\" href=\"",
              left, top, CELL, CELL);
    if (s->chart.status == WEFT_OK)
        s->chart.status =
            sheet_image(s->chart.to, s->pixels, s->width / s->by, s->height / s->by, s->room);
    CHART_PUT(&s->chart, "\"/>\n");
    if (class >= 0)
        chart_text(&s->chart, left, top + CELL + 14, CELL, "",
                   class_name(s, class, number, sizeof(number)));
    return s->chart.status;
}

/* Draws samples that are spread over the training. */
static weft_status draw(sheet *s, const char *title)
{
    int64_t count = weft_dataset_count(s->data, WEFT_TRAIN);
    int shown = count < ROWS * COLUMNS ? (int)count : ROWS * COLUMNS;
    int rows = (shown + COLUMNS - 1) / COLUMNS;
    chart_begin(&s->chart, GAP + COLUMNS * (CELL + GAP), TOP + rows * (CELL + TEXT + GAP), title);
    chart_text(&s->chart, GAP, TOP - 16, COLUMNS * (CELL + GAP), "font-weight='bold'", title);
    for (int k = 0; k < shown && s->chart.status == WEFT_OK; k++)
        s->chart.status = draw_sample(s, k, k * count / shown);
    chart_end(&s->chart);
    return s->chart.status;
}

/* Counts the class of a sample, or those of its pixels. */
static weft_status count_sample(const sheet *s, weft_split split, int64_t i)
{
    int32_t class;
    WEFT_TRY(class_of(s, split, i, &class));
    if (class >= 0) s->counts[class * WEFT_SPLITS + (int)split]++;
    if (!s->classes) return WEFT_OK;
    WEFT_TRY(weft_dataset_read(s->data, split, i, s->inputs, s->classes));
    for (int64_t j = 0; j < s->stats->positions; j++)
        s->counts[(s->classes[j] < 0 ? s->stats->classes : s->classes[j]) * WEFT_SPLITS +
                  (int)split]++;
    return WEFT_OK;
}

/* Prints the number of samples, or of pixels, of each class in each part. */
static weft_status print_classes(const sheet *s, FILE *to)
{
    char number[32];
    int classes = s->stats->positions > 0 && !s->classes ? 0 : s->stats->classes;
    weft_status status = WEFT_OK;
    for (int split = 0; split < WEFT_SPLITS; split++)
        for (int64_t i = 0; status == WEFT_OK && i < weft_dataset_count(s->data, (weft_split)split);
             i++)
            status = count_sample(s, (weft_split)split, i);
    bool validates = weft_dataset_count(s->data, WEFT_VALIDATION) > 0;
    if (status == WEFT_OK && classes > 0)
        fprintf(to, "%-24s %10s %10s%s\n", s->classes ? "pixels of class" : "class", "training",
                "test", validates ? " validation" : "");
    for (int c = 0; c < classes + (classes > 0) && status == WEFT_OK; c++) {
        const int64_t *counts = s->counts + (ptrdiff_t)c * WEFT_SPLITS;
        bool ignored = c == classes;
        if (ignored && !counts[WEFT_TRAIN] && !counts[WEFT_TEST] && !counts[WEFT_VALIDATION]) break;
        fprintf(to, "%-24s %10lld %10lld",
                ignored ? "ignored" : class_name(s, c, number, sizeof(number)),
                (long long)counts[WEFT_TRAIN], (long long)counts[WEFT_TEST]);
        if (validates) fprintf(to, " %10lld", (long long)counts[WEFT_VALIDATION]);
        fprintf(to, "\n");
    }
    return status;
}

/* Takes the shape of pictures. false: samples are none. */
static bool take_shape(sheet *s)
{
    weft_shape shape = weft_dataset_shape(s->data);
    s->inputs = s->stats->inputs;
    if (s->inputs != 1 || s->stats->input[0].values > 0 || shape.rank < 2 || shape.rank > 3)
        return false;
    int64_t channels = shape.rank == 3 ? shape.dim[0] : 1, height = shape.dim[shape.rank - 2],
            width = shape.dim[shape.rank - 1];
    if (channels > 4 || height > 16384 || width > 16384 ||
        (s->stats->features != 1 && s->stats->features != channels))
        return false;
    s->channels = (int)channels;
    s->height = (int)height;
    s->width = (int)width;
    s->by = (s->height > s->width ? s->height : s->width) / MOST_SIDE;
    if (s->by < 1) s->by = 1;
    return s->height >= s->by && s->width >= s->by;
}

/* Makes room for a sample and its picture. */
static bool make_room(sheet *s)
{
    size_t pixels = (size_t)s->height * (size_t)s->width;
    s->x = malloc(pixels * (size_t)s->channels * sizeof(*s->x));
    s->pixels = malloc(pixels * 3);
    s->room = malloc(sheet_image_bytes(s->width, s->height));
    s->counts = calloc(((size_t)s->stats->classes + 1) * WEFT_SPLITS, sizeof(*s->counts));
    bool each = s->stats->positions == (int64_t)pixels;
    if (each) s->classes = malloc(pixels * sizeof(*s->classes));
    return s->x && s->pixels && s->room && s->counts && (s->classes || !each);
}

static weft_status write_to(sheet *s, const char *path, const weft_train_options *o)
{
    char title[200];
    (void)snprintf(title, sizeof(title), "%.120s%s%.60s", o->task.data,
                   o->samples.augment ? ", " : "", o->samples.augment ? o->samples.augment : "");
    WEFT_TRY(print_classes(s, weft_output_is_standard(path) ? stderr : stdout));
    WEFT_TRY(weft_output_open(path, WEFT_OUTPUT_REPLACE, &s->chart.to));
    weft_status status = draw(s, title), end = weft_output_close(&s->chart.to, status == WEFT_OK);
    if (status != WEFT_OK || end != WEFT_OK) return status != WEFT_OK ? status : end;
    if (!weft_output_is_standard(path)) printf("wrote %s\n", path);
    return WEFT_OK;
}

/* Opens the data as the training has them; *out must be closed even on failure, unless it is NULL.
 */
static weft_status open_data(weft_context *context, const weft_train_options *o, weft_dataset **out)
{
    const weft_task_choice *task = &o->task;
    weft_status status = weft_options_check(weft_train_table(context), o);
    if (status == WEFT_OK)
        status = weft_dataset_open_validated(context, task->data, task->normalize, NULL,
                                             task->validation, (uint64_t)task->seed, out);
    for (int i = 0; i < WEFT_SPLITS && status == WEFT_OK; i++)
        status = weft_dataset_prepare(*out, (weft_split)i);
    return status;
}

/* Returns the exit code. */
static int write_data(weft_dataset *data, const weft_train_options *o, const char *path)
{
    sheet s = {.data = data, .stats = weft_dataset_stats(data), .seed = o->task.seed};
    int code = 1;
    if (!take_shape(&s)) {
        fprintf(stderr, "weft: samples of %.200s are no pictures, so --plot has nothing to draw\n",
                o->task.data);
        return 2;
    }
    if (weft_dataset_count(data, WEFT_TRAIN) == 0) {
        fprintf(stderr,
                "weft: data '%.200s': the training part is empty, so --plot has nothing to "
                "draw\n",
                o->task.data);
        return 2;
    }
    weft_status status = weft_dataset_set_augment(data, o->samples.augment);
    if (status != WEFT_OK) return report_failure(status);
    if (make_room(&s))
        code = report_failure(write_to(&s, path, o));
    else
        fprintf(stderr, "weft: there is no memory for the sheet\n");
    free(s.x);
    free(s.pixels);
    free(s.room);
    free(s.counts);
    free(s.classes);
    return code;
}

int sheet_write(weft_context *context, const weft_train_options *options, const char *path)
{
    weft_dataset *data = NULL;
    weft_status status = open_data(context, options, &data);
    int code = status == WEFT_OK ? write_data(data, options, path) : report_failure(status);
    weft_dataset_close(&data);
    return code;
}
