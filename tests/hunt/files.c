/* Writes the model and the data files of a case without code of the library, whose parsers read
 * these files. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "hunt.h"

static FILE *make(const char *path)
{
    FILE *f = fopen(path, "wb");
    if (!f) {
        fprintf(stderr, "hunt: %s: %s\n", path, strerror(errno));
        exit(3);
    }
    return f;
}

static void end(FILE *f)
{
    if (fclose(f) != 0) {
        fprintf(stderr, "hunt: a file of data cannot be written: %s\n", strerror(errno));
        exit(3);
    }
}

static float draw_number(dice *d, bool bytes)
{
    if (bytes) return (float)between(d, 0, 255);
    return (float)between(d, -1000000, 1000000) * 1e-6F;
}

/* Draws the label of sample i. Sample 0 has the largest label, so the data have as many classes as
 * the case says. */
static int draw_label(dice *d, const samples *s, int i)
{
    int label = s->classes - 1;
    if (i == 0) return label;
    do label = between(d, 0, s->classes - 1);
    while (s->absent >> label & 1U);
    return label;
}

/* Draws a number to predict; with a large scale, all such numbers are far from zero. */
static double draw_target(dice *d, const samples *s)
{
    return s->scale * (double)draw_number(d, false) + (s->scale - 1);
}

static double draw_weight(dice *d, const samples *s)
{
    static const double some[] = {0.25, 1, 1, 2, 3.5};
    int i = between(d, 0, 4);
    return s->weights > 1 && chance(d, 0.2) ? 0 : some[i];
}

/* --- idx: four files, numbers big-endian --- */

static void put_big(FILE *f, uint32_t x)
{
    const unsigned char b[] = {(unsigned char)(x >> 24), (unsigned char)(x >> 16),
                               (unsigned char)(x >> 8), (unsigned char)x};
    (void)!fwrite(b, 1, 4, f);
}

static void write_idx(const samples *s, dice *d, const char *part, int count)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "data/%s-images-idx3-ubyte", part);
    FILE *f = make(path);
    int dims = s->shape.dims;
    put_big(f, (s->bytes ? 0x0800U : 0x0D00U) | (unsigned)(2 + dims));
    put_big(f, (uint32_t)count);
    put_big(f, (uint32_t)s->shape.channels);
    for (int i = 0; i < dims; i++) put_big(f, (uint32_t)s->shape.side[i]);
    for (int i = 0; i < count * sample_size(&s->shape); i++) {
        float x = draw_number(d, s->bytes);
        uint32_t bits;
        memcpy(&bits, &x, sizeof(bits));
        if (s->bytes)
            fputc((int)x, f);
        else
            put_big(f, bits);
    }
    end(f);
    (void)snprintf(path, sizeof(path), "data/%s-labels-idx1-ubyte", part);
    f = make(path);
    put_big(f, 0x0801U);
    put_big(f, (uint32_t)count);
    for (int i = 0; i < count; i++) fputc(draw_label(d, s, i), f);
    end(f);
}

/* --- npy --- */

static void npy_header(FILE *f, const char *descr, const char *shape)
{
    char text[128];
    int size = snprintf(text, sizeof(text),
                        "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", descr, shape);
    int padded = (10 + size + 1 + 63) / 64 * 64 - 10;
    fprintf(f, "\x93NUMPY");
    fputc(1, f);
    fputc(0, f);
    fputc(padded & 255, f);
    fputc(padded >> 8, f);
    fprintf(f, "%s%*s\n", text, padded - size - 1, "");
}

/* The number of positions that count of each sample; sample 0 has all. */
static void write_lengths(const samples *s, dice *d)
{
    char shape[32];
    int count = s->train + s->test;
    FILE *f = make("n.npy");
    (void)snprintf(shape, sizeof(shape), "%d,", count);
    npy_header(f, "<i4", shape);
    for (int i = 0; i < count; i++) {
        int32_t length = i ? between(d, 0, s->shape.channels) : s->shape.channels;
        (void)!fwrite(&length, sizeof(length), 1, f);
    }
    end(f);
}

static void write_npy(const samples *s, dice *d)
{
    char shape[96];
    int count = s->train + s->test;
    const sample_shape *one = &s->shape;
    int used = snprintf(shape, sizeof(shape), "%d", count);
    if (!s->last) used += snprintf(shape + used, sizeof(shape) - used, ", %d", one->channels);
    for (int i = 0; i < one->dims; i++)
        used += snprintf(shape + used, sizeof(shape) - used, ", %d", one->side[i]);
    if (s->last) (void)snprintf(shape + used, sizeof(shape) - used, ", %d", one->channels);
    FILE *f = make("x.npy");
    npy_header(f, s->bytes ? "|u1" : "<f4", shape);
    for (int i = 0; i < count * sample_size(&s->shape); i++) {
        float x = draw_number(d, s->bytes);
        if (s->bytes)
            fputc((int)x, f);
        else
            (void)!fwrite(&x, sizeof(x), 1, f);
    }
    end(f);
    f = make("y.npy");
    (void)snprintf(shape, sizeof(shape), s->targets > 1 ? "%d, %d" : "%d,", count, s->targets);
    npy_header(f, s->targets ? "<f8" : "<i4", shape);
    for (int i = 0; i < count * s->targets; i++) {
        double target = draw_target(d, s);
        (void)!fwrite(&target, sizeof(target), 1, f);
    }
    for (int i = 0; i < count && !s->targets; i++) {
        int32_t label = draw_label(d, s, i);
        (void)!fwrite(&label, sizeof(label), 1, f);
    }
    end(f);
    if (!s->weights) return;
    f = make("w.npy");
    (void)snprintf(shape, sizeof(shape), "%d,", count);
    npy_header(f, "<f8", shape);
    for (int i = 0; i < count; i++) {
        double weight = draw_weight(d, s);
        (void)!fwrite(&weight, sizeof(weight), 1, f);
    }
    end(f);
}

/* --- csv --- */

int category_count(const samples *s, int held)
{
    /* Each category is in more rows than there are outside the training, so the training has all.
     */
    int most = (s->train + s->test + held) / (s->test + held + 1);
    int count = s->categories < most ? s->categories : most;
    count = count < s->shape.channels ? count : s->shape.channels;
    return s->format == CSV && count > 1 ? count : 0;
}

/* Writes what row i of the table is to predict. */
static void write_answers(FILE *f, const samples *s, dice *d, int i)
{
    for (int j = 0; j < s->targets; j++) {
        if (j) fputc(',', f);
        if (s->several)
            fprintf(f, "%d", i < 2 ? i : between(d, 0, 1)); /* each column has both */
        else
            fprintf(f, "%.17g", draw_target(d, s));
    }
    if (!s->targets) fprintf(f, "%d", draw_label(d, s, i));
    fputc('\n', f);
}

static void write_csv(const samples *s, dice *d, int categories)
{
    FILE *f = make("data.csv");
    int numbers = s->shape.channels - categories;
    for (int j = 0; j < numbers; j++) fprintf(f, "c%d,", j);
    fprintf(f, "%s%slabel", categories ? "kind," : "", s->weights ? "often," : "");
    for (int j = 1; j < s->targets; j++) fprintf(f, ",label%d", j);
    fputc('\n', f);
    for (int i = 0; i < s->train + s->test; i++) {
        for (int j = 0; j < numbers; j++) fprintf(f, "%.9g,", (double)draw_number(d, s->bytes));
        if (categories) fprintf(f, "of %c,", 'a' + i % categories);
        if (s->weights) fprintf(f, "%.9g,", draw_weight(d, s));
        write_answers(f, s, d, i);
    }
    end(f);
}

/* --- tokens: the windows of the training part, and behind them those of the test part --- */

int64_t token_count(const samples *s, int windows)
{
    return windows ? (int64_t)windows * s->shape.channels + 1 : 0;
}

static void write_tokens(const samples *s, dice *d)
{
    FILE *f = make("tokens.bin");
    for (int64_t i = token_count(s, s->train) + token_count(s, s->test); i-- > 0;) {
        fputc(draw_label(d, s, (int)i), f);
        fputc(0, f);
    }
    end(f);
}

void write_case(const hunt_case *c)
{
    dice d = {c->samples.seed};
    samples all = c->samples;
    all.train += c->judging.held;
    FILE *f = make("net.yaml");
    print_model(f, c);
    end(f);
    switch (c->samples.format) {
    case IDX:
        (void)mkdir("data", 0777);
        write_idx(&all, &d, "train", all.train);
        write_idx(&all, &d, "t10k", c->samples.test);
        break;
    case NPY:
        write_npy(&all, &d);
        if (reads_lengths(c)) write_lengths(&all, &d);
        break;
    case TOKENS: write_tokens(&all, &d); break;
    default: write_csv(&all, &d, category_count(&c->samples, c->judging.held)); break;
    }
}
