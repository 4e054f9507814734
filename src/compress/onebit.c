/* Implements the codec onebit, 1-bit SGD (Seide et al. 2014); kernels/onebit.c has its
 * arithmetic. */
#include "compress/codec.h"

typedef struct onebit {
    weft_codec head;
    int64_t block;
} onebit;

static weft_status onebit_open(const char *arguments, weft_dtype dtype, int64_t count,
                               weft_codec **out)
{
    double block = 512, warmup = 0;
    weft_codec *codec;
    weft_spec_key keys[] = {
        {.name = "block", .number = &block, .low = 16, .high = 1 << 20, .integer = true},
        WEFT_WARMUP_KEY(&warmup),
        {.name = NULL}};
    WEFT_TRY(weft_codec_parse("onebit", arguments, keys));
    if ((int64_t)block % 8)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "codec onebit: block=%d, must be a multiple of 8; %d is near", (int)block,
                         (int)block / 8 * 8);
    WEFT_TRY(weft_codec_new(sizeof(onebit), dtype, count, true, &codec));
    ((onebit *)codec)->block = (int64_t)block;
    codec->warmup = (int64_t)warmup;
    *out = codec;
    return WEFT_OK;
}

static weft_status onebit_encode(weft_codec *codec, const void *update, uint8_t *message,
                                 size_t *bytes)
{
    int64_t block = ((onebit *)codec)->block;
    weft_encoded_head head = {WEFT_MESSAGE_BLOCKS, codec->dtype, (uint32_t)block, codec->count, 0};
    size_t table = weft_encoded_table(&head);
    /* A range of a few numbers is shorter in the dense encoding. */
    if (table >= (size_t)codec->count * weft_dtype_size(codec->dtype))
        return weft_encoded_all(codec, update, message, bytes);
    WEFT_TRY(WEFT_OF_REAL(codec->dtype, weft_blocks_take)(codec, update, block,
                                                          message + WEFT_MESSAGE_HEADER));
    weft_encoded_begin(message, &head);
    *bytes = WEFT_MESSAGE_HEADER + table;
    return WEFT_OK;
}

const weft_codec_ops weft_codec_onebit = {
    .name = "onebit",
    .form = "onebit[:block=N][,warmup=N]",
    .help = "sends one sign bit per element, and per block the mean of its "
            "negative elements and the mean of the others",
    .open = onebit_open,
    .close = weft_codec_free,
    .encode = onebit_encode,
};
