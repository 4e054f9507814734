/* Implements the codec topk, which sends the numbers of the largest magnitude, and the codec dgc,
 * Deep Gradient Compression (Lin et al. 2018): topk with local clipping, momentum correction,
 * momentum factor masking and warm-up. */
#include <math.h>
#include <stdio.h>

#include "compress/codec.h"

typedef struct largest {
    weft_codec head;
    double ratio;             /* share of the elements that is sent */
    bool halves;              /* numbers are sent in bf16 */
    double momentum_of, most; /* dgc: momentum coefficient; clip of the norm, 0: none */
    int64_t stages;           /* dgc: messages over which the ratio decreases */
    void *momentum;           /* dgc: [count] */
} largest;

static weft_status parse_values(const char *name, const char *text, bool *halves)
{
    char what[64];
    int i = 0;
    (void)snprintf(what, sizeof(what), "codec %s: values", name);
    if (text) WEFT_TRY(weft_choose(what, text, "full,bf16", NULL, &i));
    *halves = i > 0;
    return WEFT_OK;
}

static weft_status parse(const char *name, const char *arguments, const weft_spec_key *keys,
                         char **values, bool *halves)
{
    weft_status status = weft_codec_parse(name, arguments, keys);
    if (status == WEFT_OK) status = parse_values(name, *values, halves);
    free(*values);
    return status;
}

static weft_status topk_open(const char *arguments, weft_dtype dtype, int64_t count,
                             weft_codec **out)
{
    double ratio = 0.01, warmup = 0;
    char *values = NULL;
    bool halves;
    weft_codec *codec;
    weft_spec_key keys[] = {{.name = "ratio", .number = &ratio, .low = 1e-6, .high = 1},
                            {.name = "values", .text = &values},
                            WEFT_WARMUP_KEY(&warmup),
                            {.name = NULL}};
    WEFT_TRY(parse("topk", arguments, keys, &values, &halves));
    WEFT_TRY(weft_codec_new(sizeof(largest), dtype, count, true, &codec));
    largest *l = (largest *)codec;
    l->ratio = ratio;
    l->halves = halves;
    codec->warmup = (int64_t)warmup;
    *out = codec;
    return WEFT_OK;
}

static weft_status dgc_open(const char *arguments, weft_dtype dtype, int64_t count,
                            weft_codec **out)
{
    double ratio = 0.001, momentum = 0.9, clip = 0, warmup = 0;
    char *values = NULL;
    bool halves;
    weft_codec *codec;
    weft_spec_key keys[] = {{.name = "ratio", .number = &ratio, .low = 1e-6, .high = 1},
                            {.name = "momentum", .number = &momentum, .low = 0, .high = 0.999999},
                            {.name = "clip", .number = &clip, .low = 0, .high = 1e9},
                            {.name = "values", .text = &values},
                            WEFT_WARMUP_KEY(&warmup),
                            {.name = NULL}};
    WEFT_TRY(parse("dgc", arguments, keys, &values, &halves));
    WEFT_TRY(weft_codec_new(sizeof(largest), dtype, count, true, &codec));
    largest *l = (largest *)codec;
    l->ratio = ratio;
    l->halves = halves;
    l->momentum_of = codec->momentum = momentum;
    l->most = clip;
    l->stages = (int64_t)warmup;
    weft_status status = weft_codec_keep(codec, "momentum", "the momentum", &l->momentum);
    if (status != WEFT_OK)
        weft_codec_free(codec);
    else
        *out = codec;
    return status;
}

static int64_t how_many(const weft_codec *codec, double ratio)
{
    return WEFT_MAX((int64_t)ceil(ratio * (double)(codec->count - codec->skipped)), 1);
}

static weft_status topk_encode(weft_codec *codec, const void *update, uint8_t *message,
                               size_t *bytes)
{
    const largest *l = (const largest *)codec;
    WEFT_TRY(WEFT_OF_REAL(codec->dtype, weft_residual_add)(codec, update));
    WEFT_TRY(WEFT_OF_REAL(codec->dtype, weft_largest)(codec, how_many(codec, l->ratio)));
    *bytes = weft_encoded_numbers(codec, l->halves, message);
    return WEFT_OK;
}

/* The warm-up of dgc: the ratios are 1/4, 1/16, 1/64 and 1/256, each for a quarter of the first
 * `stages` messages, but never below `ratio`. */
static double ratio_now(const largest *l)
{
    double part = l->stages ? l->head.messages / (double)l->stages : 1;
    return part < 1 ? WEFT_MAX(l->ratio, pow(0.25, 1 + floor(4 * part))) : l->ratio;
}

/* Momentum factor masking (DGC): clears the momentum of sent elements, which would otherwise push
 * them on in a stale direction. The caller leaves it out if all elements are sent. */
static void end_momentum(largest *l)
{
    const weft_nonzeros *hits = &l->head.hits;
    size_t size = weft_dtype_size(l->head.dtype);
    for (size_t i = 0; i < hits->count; i++)
        memset((char *)l->momentum + hits->list[i].at * size, 0, size);
}

static weft_status dgc_encode(weft_codec *codec, const void *update, uint8_t *message,
                              size_t *bytes)
{
    largest *l = (largest *)codec;
    double ratio = ratio_now(l);
    WEFT_TRY(WEFT_OF_REAL(codec->dtype, weft_momentum_add)(codec, l->momentum, update,
                                                           l->momentum_of, l->most));
    weft_codec_empty_gaps(codec, codec->residual);
    weft_codec_empty_gaps(codec, l->momentum);
    WEFT_TRY(WEFT_OF_REAL(codec->dtype, weft_largest)(codec, how_many(codec, ratio)));
    if (ratio < 1) end_momentum(l);
    *bytes = weft_encoded_numbers(codec, l->halves, message);
    return WEFT_OK;
}

static void dgc_back(weft_codec *codec)
{
    largest *l = (largest *)codec;
    l->momentum_of = l->most = 0;
}

const weft_codec_ops weft_codec_topk = {
    .name = "topk",
    .form = "topk[:ratio=X][,values=full|bf16][,warmup=N]",
    .help = "sends the elements of largest magnitude; the residual keeps the others",
    .open = topk_open,
    .close = weft_codec_free,
    .encode = topk_encode,
};

const weft_codec_ops weft_codec_dgc = {
    .name = "dgc",
    .form = "dgc[:ratio=X][,momentum=X][,clip=X][,values=full|bf16][,warmup=N]",
    .help = "deep gradient compression: topk with momentum correction, local "
            "clipping and warm-up",
    .open = dgc_open,
    .close = weft_codec_free,
    .back = dgc_back,
    .encode = dgc_encode,
};
