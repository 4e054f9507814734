/* Implements the codecs threshold and bitmap: threshold quantization with error feedback (Strom
 * 2015). Where a residual exceeds `tau`, the largest multiple of `tau` is sent that leaves a
 * residual of at most `tau`. With `adaptive`, the step takes the place of `tau` and follows the
 * share of elements that are sent. A step changes by less than 4 % between two messages, so a
 * residual hardly exceeds the step, and needs no clipping. */
#include <float.h>
#include <math.h>

#include "compress/codec.h"

/* While the share of sent elements is between SPARSE and FULL, an adaptive step stays. */
static const double SPARSE = 1e-4, FULL = 1e-2;

typedef struct threshold {
    weft_codec head;
    bool adaptive, bitmap;
} threshold;

static weft_status open_steps(bool bitmap, const char *arguments, weft_dtype dtype, int64_t count,
                              weft_codec **out)
{
    double tau = 1e-3, warmup = 0;
    bool adaptive = false;
    weft_codec *codec;
    weft_spec_key keys[] = {{.name = "tau", .number = &tau, .low = 0, .high = 1e6},
                            {.name = "adaptive", .flag = &adaptive},
                            WEFT_WARMUP_KEY(&warmup),
                            {.name = NULL}};
    const char *name = bitmap ? "bitmap" : "threshold";
    WEFT_TRY(weft_codec_parse(name, arguments, keys));
    if (adaptive && (float)tau == 0)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "codec %s: an adaptive step begins above 0; give another tau", name);
    WEFT_TRY(weft_codec_new(sizeof(threshold), dtype, count, true, &codec));
    threshold *t = (threshold *)codec;
    t->adaptive = adaptive;
    t->bitmap = bitmap;
    codec->warmup = (int64_t)warmup;
    codec->step = weft_codec_round(codec, tau);
    if (adaptive)
        weft_codec_keep_one(codec, "step", "the thresholds", WEFT_CODEC_RANGE, &codec->step);
    *out = codec;
    return WEFT_OK;
}

static weft_status threshold_open(const char *arguments, weft_dtype dtype, int64_t count,
                                  weft_codec **out)
{
    return open_steps(false, arguments, dtype, count, out);
}

static weft_status bitmap_open(const char *arguments, weft_dtype dtype, int64_t count,
                               weft_codec **out)
{
    return open_steps(true, arguments, dtype, count, out);
}

/* Adapts the step to the share of elements that the last message has sent: twenty changes in the
 * same direction double or halve the step. */
static void follow(weft_codec *codec)
{
    double numbers = (double)WEFT_MAX(codec->count - codec->skipped, (int64_t)1);
    double share = (double)codec->hits.count / numbers, factor = exp2(1.0 / 20);
    double step = codec->step;
    if (share > FULL && step * factor < 1e6) step *= factor;
    if (share < SPARSE && step / factor > FLT_MIN) step /= factor;
    codec->step = weft_codec_round(codec, step);
}

static weft_status threshold_encode(weft_codec *codec, const void *update, uint8_t *message,
                                    size_t *bytes)
{
    const threshold *t = (const threshold *)codec;
    double step = codec->step;
    if (step == 0) return weft_encoded_all(codec, update, message, bytes);
    WEFT_TRY(WEFT_OF_REAL(codec->dtype, weft_steps_take)(codec, update, step));
    *bytes = weft_encoded_steps(codec, step, t->bitmap, message);
    if (t->adaptive) follow(codec);
    return WEFT_OK;
}

const weft_codec_ops weft_codec_threshold = {
    .name = "threshold",
    .form = "threshold[:tau=X][,adaptive][,warmup=N]",
    .help = "sends multiples of tau, in the shortest encoding; the residual keeps "
            "the remainders",
    .open = threshold_open,
    .close = weft_codec_free,
    .encode = threshold_encode,
};

const weft_codec_ops weft_codec_bitmap = {
    .name = "bitmap",
    .form = "bitmap[:tau=X][,adaptive][,warmup=N]",
    .help = "sends -tau, 0 or tau, two bits per element",
    .open = bitmap_open,
    .close = weft_codec_free,
    .encode = threshold_encode,
};
