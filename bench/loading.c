/* Measures how many pictures of a folder the loader makes a second, on one and on two threads,
 * beside decoding alone and what models take: weft_loading [SECONDS]
 *
 * It draws a folder of JPEG files of 500x375 and one of 64x64, which samples of 64x64 are made of;
 * nothing is kept decoded. Decoding alone is libjpeg-turbo at the scale that the loader takes, of
 * files that were read before. Models train on samples that are kept decoded. CPU times are those
 * of the process, so they mean something on a busy machine, too. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <turbojpeg.h>
#include <unistd.h>

#include "base/context.h"
#include "data/loader.h"
#include "weft/weft.h"

enum { FILES = 128, SIDE = 64, BATCH = 64 };

typedef struct drawn {
    unsigned char *bytes[FILES];
    unsigned long size[FILES];
    int width, height;
} drawn;

static void stop_on(weft_status status)
{
    if (status == WEFT_OK) return;
    (void)fprintf(stderr, "weft_loading: %s\n", weft_last_message());
    exit(1);
}

static double cpu_seconds(void)
{
    return (double)clock() / CLOCKS_PER_SEC;
}

/* Waves and some noise, so that a file has about as many bytes as one of a camera. */
static void draw_pixels(unsigned char *pixels, int width, int height, int number)
{
    weft_random random;
    weft_random_start(&random, 1, (uint64_t)number);
    double across = weft_random_between(&random, 0.01, 0.1),
           down = weft_random_between(&random, 0.01, 0.1);
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++)
            for (int c = 0; c < 3; c++) {
                double wave = sin(across * x + c) * cos(down * y) * 80 + 128;
                *pixels++ = (unsigned char)(wave + weft_random_between(&random, -20, 20));
            }
}

static void draw_files(drawn *d, const char *folder, int width, int height)
{
    char path[4200];
    unsigned char *pixels = malloc((size_t)width * (size_t)height * 3);
    tjhandle handle = tjInitCompress();
    *d = (drawn){.width = width, .height = height};
    (void)mkdir(folder, 0700);
    for (int i = 0; i < FILES && pixels && handle; i++) {
        draw_pixels(pixels, width, height, i);
        if (tjCompress2(handle, pixels, width, 0, height, TJPF_RGB, &d->bytes[i], &d->size[i],
                        TJSAMP_420, 85, 0) != 0)
            exit(1);
        (void)snprintf(path, sizeof(path), "%s/%d", folder, i % 2);
        (void)mkdir(path, 0700);
        (void)snprintf(path, sizeof(path), "%s/%d/%03d.jpg", folder, i % 2, i);
        FILE *f = fopen(path, "wb");
        if (!f || fwrite(d->bytes[i], d->size[i], 1, f) != 1 || fclose(f) != 0) exit(1);
    }
    (void)tjDestroy(handle);
    free(pixels);
}

/* Decodes the files at an eighth, a quarter or a half, as the loader does. Returns CPU seconds a
 * picture. */
static double decode_alone(const drawn *d, double seconds)
{
    int by = 1;
    while (by < 8 && d->width / (2 * by) >= SIDE && d->height / (2 * by) >= SIDE) by *= 2;
    const tjscalingfactor factor = {1, by};
    int width = TJSCALED(d->width, factor), height = TJSCALED(d->height, factor);
    unsigned char *pixels = malloc((size_t)width * (size_t)height * 3);
    tjhandle handle = tjInitDecompress();
    double began = cpu_seconds();
    int64_t count = 0;
    for (; cpu_seconds() - began < seconds; count++)
        if (tjDecompress2(handle, d->bytes[count % FILES], d->size[count % FILES], pixels, width, 0,
                          height, TJPF_RGB, TJFLAG_ACCURATEDCT) != 0)
            exit(1);
    double each = (cpu_seconds() - began) / (double)count;
    (void)tjDestroy(handle);
    free(pixels);
    return each;
}

static void load(weft_context *context, const char *folder, int threads, double seconds,
                 double decoding)
{
    weft_context *c;
    weft_dataset *data;
    weft_batch batch;
    char spec[4200];
    const weft_loader_options o = {.batch = BATCH, .shuffle = true, .seed = 1};
    stop_on(weft_context_with_threads(context, threads, &c));
    (void)snprintf(spec, sizeof(spec), "images:%s,size=%d,test=0,cache=0", folder, SIDE);
    stop_on(weft_dataset_open(c, spec, NULL, NULL, &data));
    stop_on(weft_dataset_prepare(data, WEFT_TRAIN));
    stop_on(weft_batch_open(data, &o, &batch));
    double began = weft_seconds(), used = cpu_seconds();
    int64_t count = 0;
    for (int epoch = 0; weft_seconds() - began < seconds; epoch++)
        for (int64_t at = 0; at < FILES; at += BATCH, count += BATCH)
            weft_batch_make(data, &o, epoch, at, &batch);
    double took = weft_seconds() - began, each = (cpu_seconds() - used) / (double)count;
    printf("  %d thread%s %6.0f samples/s, %4.0f us of CPU each, %.2f times decoding alone\n",
           threads, threads > 1 ? "s:" : ": ", (double)count / took, each * 1e6, each / decoding);
    weft_batch_close(&batch);
    weft_dataset_close(&data);
    weft_context_destroy(&c);
}

static void note_rate(void *user, const weft_event *e)
{
    if (e->kind == WEFT_EVENT_SUMMARY) *(double *)user = e->samples_per_second;
}

static void train(weft_context *context, const char *folder, const char *model, int steps)
{
    weft_train_options options = {0};
    weft_trainer *trainer;
    char data[4200], count[16];
    double rate = 0;
    (void)snprintf(data, sizeof(data), "images:%s,size=%d,test=0", folder, SIDE);
    (void)snprintf(count, sizeof(count), "%d", steps);
    const char *const given[][2] = {
        {"model", model}, {"data", data}, {"batch", "64"}, {"steps", count}};
    const weft_option *table = weft_train_table(context);
    stop_on(weft_train_options_init(context, &options));
    for (size_t i = 0; i < WEFT_COUNT(given); i++)
        stop_on(weft_options_set(table, &options, given[i][0], given[i][1]));
    stop_on(weft_trainer_create(context, &options, &trainer));
    stop_on(weft_trainer_run(trainer, note_rate, &rate));
    printf("  %-8s takes %6.0f samples/s\n", model, rate);
    weft_trainer_destroy(&trainer);
    weft_options_free(table, &options);
}

int main(int argc, char **argv)
{
    static const int sizes[][2] = {{500, 375}, {SIDE, SIDE}};
    static drawn d;
    const char *root = getenv("TMPDIR");
    char base[2048], folder[4096], command[4200];
    weft_context *context;
    double seconds = argc > 1 ? strtod(argv[1], NULL) : 3;
    (void)snprintf(base, sizeof(base), "%s/weft-loading-XXXXXX", root ? root : "/tmp");
    if (!mkdtemp(base)) return 1;
    stop_on(weft_context_create(&context));
    for (size_t k = 0; k < WEFT_COUNT(sizes); k++) {
        (void)snprintf(folder, sizeof(folder), "%s/%d", base, sizes[k][0]);
        draw_files(&d, folder, sizes[k][0], sizes[k][1]);
        double decoding = decode_alone(&d, seconds);
        printf("JPEG of %dx%d, %lu bytes: decoding alone %.0f us\n", sizes[k][0], sizes[k][1],
               d.size[0], decoding * 1e6);
        for (int threads = 1; threads <= 2; threads++)
            load(context, folder, threads, seconds, decoding);
        for (int i = 0; i < FILES; i++) tjFree(d.bytes[i]);
    }
    train(context, folder, "lenet", 60);
    train(context, folder, "resnet", 12);
    weft_context_destroy(&context);
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", base);
    return system(command) == 0 ? 0 : 1;
}
