/* Sends updates through a codec, and adds up the updates and the decoded messages. */
#include "codec_pair.h"

void draw(weft_random *random, weft_dtype dtype, void *to, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        int kind = (int)(i / 100 % 3);
        int64_t x = (int64_t)(weft_random_u32(random) % 401) - 200;
        if (kind == 0 && weft_random_u32(random) % 50) x = 0;
        if (weft_random_u32(random) % 100 == 0) x *= 20;
        weft_number_put(dtype, to, i, (double)x / 1024);
    }
}

line line_open(weft_context *context, const char *spec, weft_dtype dtype, int64_t count,
               uint64_t seed)
{
    line l = {.dtype = dtype, .count = count};
    size_t size = (size_t)count * weft_dtype_size(dtype);
    assert_int_equal(weft_codec_open(context, spec, dtype, count, &l.codec), WEFT_OK);
    l.bound = weft_encoded_bound(dtype, count);
    assert_int_equal(weft_new_aligned(size, &l.update), WEFT_OK);
    assert_int_equal(weft_new_aligned(size, &l.got), WEFT_OK);
    assert_int_equal(weft_new_aligned(l.bound + 64, &l.message), WEFT_OK);
    assert_int_equal(WEFT_NEW(&l.sent, count), WEFT_OK);
    assert_int_equal(WEFT_NEW(&l.given, count), WEFT_OK);
    weft_random_start(&l.random, seed, (uint64_t)count);
    return l;
}

void line_close(line *l)
{
    weft_codec_close(&l->codec);
    free(l->update);
    free(l->message);
    free(l->got);
    free(l->sent);
    free(l->given);
}

void line_receive(line *l, double scale, int64_t piece)
{
    weft_encoded m;
    size_t size = weft_dtype_size(l->dtype);
    assert_int_equal(weft_encoded_open(l->message, l->bytes, l->codec->ops, l->dtype, l->count, &m),
                     WEFT_OK);
    memset(l->got, 0, (size_t)l->count * size);
    for (int64_t at = 0; at < l->count; at += piece)
        weft_encoded_add(&m, WEFT_MIN(piece, l->count - at), scale, (char *)l->got + at * size);
}

void line_send(line *l)
{
    char *behind = (char *)l->message + l->bound;
    memset(behind, 77, 64);
    assert_int_equal(weft_codec_encode(l->codec, l->update, l->message, &l->bytes), WEFT_OK);
    assert_true(l->bytes <= l->bound);
    for (int i = 0; i < 64; i++) assert_int_equal(behind[i], 77);
    line_receive(l, 1, l->count);
    for (int64_t i = 0; i < l->count; i++) {
        l->sent[i] += weft_number_get(l->dtype, l->got, i);
        l->given[i] += weft_number_get(l->dtype, l->update, i);
    }
}

double line_kept(const line *l, int64_t i)
{
    return l->codec->residual ? weft_number_get(l->dtype, l->codec->residual, i) : 0;
}
