/* Implements the codec none, which sends exact numbers, and the codec bf16, which sends all numbers
 * rounded to bf16, with error feedback. */
#include "compress/codec.h"

static weft_status no_options(const char *name, const char *arguments)
{
    if (!*arguments) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT, "codec %s takes no options, not '%s'", name, arguments);
}

static weft_status none_open(const char *arguments, weft_dtype dtype, int64_t count,
                             weft_codec **out)
{
    WEFT_TRY(no_options("none", arguments));
    return weft_codec_new(sizeof(weft_codec), dtype, count, false, out);
}

static weft_status bf16_open(const char *arguments, weft_dtype dtype, int64_t count,
                             weft_codec **out)
{
    WEFT_TRY(no_options("bf16", arguments));
    return weft_codec_new(sizeof(weft_codec), dtype, count, true, out);
}

static weft_status bf16_encode(weft_codec *codec, const void *update, uint8_t *message,
                               size_t *bytes)
{
    weft_encoded_head head = {WEFT_MESSAGE_HALVES, codec->dtype, (uint32_t)codec->count,
                              codec->count, 0};
    uint16_t *numbers = (uint16_t *)(void *)(message + WEFT_MESSAGE_HEADER);
    WEFT_TRY(WEFT_OF_REAL(codec->dtype, weft_halves_take)(codec, update, numbers));
    weft_encoded_begin(message, &head);
    *bytes = WEFT_MESSAGE_HEADER + (size_t)codec->count * 2;
    return WEFT_OK;
}

const weft_codec_ops weft_codec_none = {
    .name = "none",
    .form = "none",
    .help = "no compression",
    .open = none_open,
    .close = weft_codec_free,
    .encode = weft_encoded_all,
    .plain = true,
};

const weft_codec_ops weft_codec_bf16 = {
    .name = "bf16",
    .form = "bf16",
    .help = "sends bf16, 16 bits per element",
    .open = bf16_open,
    .close = weft_codec_free,
    .encode = bf16_encode,
};
