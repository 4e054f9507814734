/* Measures how fast one core encodes updates with each codec and adds encoded updates to
 * parameters, compared with a copy (McCalpin's STREAM) in the same run: weft_codecs [ROUNDS]
 *
 * Rates count the bytes that must go through memory. To encode, the codec reads the update, and
 * reads and writes the residual; a copy reads and writes. Copy and codec take turns; a share is the
 * codec's rate divided by that of the copy, as the median over the rounds. Adding is given as a
 * time, since a sparse update touches few of the parameters. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compress/compress.h"

enum { COUNT = 1 << 24, MOST = 99 };

static void stop_on(weft_status status)
{
    if (status == WEFT_OK) return;
    (void)fprintf(stderr, "weft_codecs: %s\n", weft_last_message());
    exit(1);
}

static int by_size(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static double median(double *x, int n)
{
    qsort(x, (size_t)n, sizeof(*x), by_size);
    return x[n / 2];
}

typedef struct room {
    float *update, *to;
    char *message;
} room;

/* Draws an update whose numbers are small against tau = 0.1, so that the threshold codecs send few
 * of them each time. */
static void draw(float *update)
{
    weft_random random;
    weft_random_start(&random, 1, 1);
    for (int64_t i = 0; i < COUNT; i++) {
        double x = weft_random_between(&random, -1, 1);
        update[i] = (float)(x * x * x * x * x * 0.02);
    }
}

static double copy_rate(const room *r)
{
    double began = weft_seconds();
    memcpy(r->to, r->update, COUNT * sizeof(float));
    return 2.0 * COUNT * sizeof(float) / (weft_seconds() - began);
}

static void measure(weft_context *context, const char *spec, const room *r, int rounds)
{
    double encode[MOST], add[MOST], copy[MOST], share[MOST];
    weft_codec *codec;
    size_t bytes = 0;
    weft_encoded message;
    stop_on(weft_codec_open(context, spec, WEFT_F32, COUNT, &codec));
    for (int k = 0; k < 3; k++) stop_on(weft_codec_encode(codec, r->update, r->message, &bytes));
    for (int k = 0; k < rounds; k++) {
        copy[k] = copy_rate(r);
        double began = weft_seconds();
        stop_on(weft_codec_encode(codec, r->update, r->message, &bytes));
        encode[k] = 3.0 * COUNT * sizeof(float) / (weft_seconds() - began);
        share[k] = encode[k] / copy[k];
        began = weft_seconds();
        stop_on(weft_encoded_open(r->message, bytes, codec->ops, WEFT_F32, COUNT, &message));
        weft_encoded_add(&message, COUNT, 1, r->to);
        add[k] = weft_seconds() - began;
    }
    bool goal = strncmp(spec, "threshold", strlen("threshold")) == 0;
    printf(
        "  %-26s %5.1f GB/s, %3.0f %% of a copy's %.1f%s; 1/%.0f of the bytes, added in %.1f ms\n",
        spec, median(encode, rounds) / 1e9, 100 * median(share, rounds), median(copy, rounds) / 1e9,
        goal ? " (goal: 25 %)" : "", (double)COUNT * sizeof(float) / (double)bytes,
        1e3 * median(add, rounds));
    weft_codec_close(&codec);
}

int main(int argc, char **argv)
{
    static const char *const specs[] = {"threshold:tau=0.1",
                                        "threshold:tau=0.1,adaptive",
                                        "bitmap:tau=0.1",
                                        "onebit",
                                        "bf16",
                                        "topk:ratio=0.01,values=bf16",
                                        "dgc:ratio=0.001"};
    weft_context *context;
    room r;
    int rounds = argc > 1 ? atoi(argv[1]) : 11;
    rounds = rounds < 1 ? 1 : rounds > MOST ? MOST : rounds;
    stop_on(weft_context_create(&context));
    stop_on(weft_new_bytes(&r.update, COUNT, sizeof(float)));
    stop_on(weft_new_bytes(&r.to, COUNT, sizeof(float)));
    stop_on(weft_new_bytes(&r.message, 1, weft_encoded_bound(WEFT_F32, COUNT)));
    draw(r.update);
    for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++)
        measure(context, specs[i], &r, rounds);
    free(r.update);
    free(r.to);
    free(r.message);
    weft_context_destroy(&context);
    return 0;
}
