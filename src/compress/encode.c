/* Encodes the nonzero elements (hits) of a codec as a message, in the shortest form. */
#include "compress/bits.h"
#include "compress/kernels/kernels.h"

weft_status weft_hits_add(weft_nonzeros *hits, int64_t at, int32_t times)
{
    WEFT_TRY(WEFT_GROW(&hits->list, &hits->capacity, hits->count));
    hits->list[hits->count++] = (weft_nonzero){(uint32_t)at, times};
    return WEFT_OK;
}

static void put(uint8_t *to, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++) to[i] = (uint8_t)(value >> 8 * i);
}

void weft_encoded_begin(uint8_t *message, const weft_encoded_head *head)
{
    uint64_t step;
    memcpy(&step, &head->step, sizeof(step));
    put(message, (uint64_t)head->form, 1);
    put(message + 1, (uint64_t)head->dtype, 1);
    put(message + 2, WEFT_MESSAGE_VERSION, 1);
    put(message + 3, 0, 1);
    put(message + 4, head->hits, 4);
    put(message + 8, (uint64_t)head->count, 8);
    put(message + 16, step, 8);
}

static weft_encoded_head head_of(const weft_codec *codec, weft_encoded_form form, double step)
{
    return (weft_encoded_head){form, codec->dtype, (uint32_t)codec->hits.count, codec->count, step};
}

static size_t dense_bytes(const weft_codec *codec)
{
    return (size_t)codec->count * weft_dtype_size(codec->dtype);
}

static uint32_t times_of(const weft_nonzero *hit)
{
    return (uint32_t)(hit->times < 0 ? -hit->times : hit->times);
}

/* Encodes the gaps before the hits, and with `times` their signs and multiples, into [body, end).
 * *bytes: the size. False: there is no room. */
static bool put_gaps(const weft_codec *codec, bool times, uint8_t *body, const uint8_t *end,
                     size_t *bytes)
{
    const weft_nonzeros *hits = &codec->hits;
    weft_bits b = {.at = body, .end = body + (end - body)};
    weft_gaps gaps = weft_gaps_begin(codec->count, (uint32_t)hits->count);
    int64_t next = 0;
    for (size_t i = 0; i < hits->count && !b.full; i++) {
        const weft_nonzero *hit = &hits->list[i];
        weft_gaps_put(&gaps, &b, (uint64_t)(hit->at - next));
        next = (int64_t)hit->at + 1;
        if (!times) continue;
        weft_bits_put(&b, hit->times < 0, 1);
        weft_times_put(&b, times_of(hit));
    }
    weft_bits_flush(&b);
    *bytes = (size_t)(b.at - body);
    return !b.full;
}

static size_t bitmap_bytes(const weft_codec *codec)
{
    uint64_t bits = 0;
    for (size_t i = 0; i < codec->hits.count; i++) {
        uint32_t times = times_of(&codec->hits.list[i]);
        if (times > 1) bits += 1 + (uint64_t)weft_times_size(times - 1);
    }
    return (size_t)((codec->count + 3) / 4) + (size_t)((bits + 7) / 8);
}

static void put_bitmap(const weft_codec *codec, uint8_t *body, size_t bytes)
{
    size_t pairs = (size_t)((codec->count + 3) / 4);
    weft_bits b = {.at = body + pairs, .end = body + bytes};
    memset(body, 0, pairs);
    for (size_t i = 0; i < codec->hits.count; i++) {
        const weft_nonzero *hit = &codec->hits.list[i];
        uint32_t times = times_of(hit);
        unsigned pair = times > 1 ? 3 : hit->times < 0 ? 2 : 1;
        body[hit->at / 4] = (uint8_t)(body[hit->at / 4] | pair << hit->at % 4 * 2);
        if (times < 2) continue;
        weft_bits_put(&b, hit->times < 0, 1);
        weft_times_put(&b, times - 1);
    }
    weft_bits_flush(&b);
}

size_t weft_encoded_steps(weft_codec *codec, double step, bool bitmap, uint8_t *message)
{
    uint8_t *body = message + WEFT_MESSAGE_HEADER;
    size_t map = bitmap_bytes(codec), all = dense_bytes(codec), bytes;
    weft_encoded_head head = head_of(codec, WEFT_MESSAGE_GAPS, step);
    if (bitmap || !put_gaps(codec, true, body, body + WEFT_MIN(map, all), &bytes)) {
        head.form = map <= all ? WEFT_MESSAGE_BITMAP : WEFT_MESSAGE_DENSE;
        bytes = WEFT_MIN(map, all);
        if (map <= all)
            put_bitmap(codec, body, bytes);
        else
            WEFT_OF_REAL(codec->dtype, weft_steps_fill)(&codec->hits, step, codec->count, body);
    }
    weft_encoded_begin(message, &head);
    return WEFT_MESSAGE_HEADER + bytes;
}

size_t weft_encoded_numbers(weft_codec *codec, bool halves, uint8_t *message)
{
    uint8_t *body = message + WEFT_MESSAGE_HEADER;
    weft_encoded_head head = head_of(codec, halves ? WEFT_MESSAGE_SHORTS : WEFT_MESSAGE_VALUES, 0);
    size_t table = weft_encoded_table(&head), all = dense_bytes(codec), bytes;
    if (table < all && put_gaps(codec, false, body + table, body + all, &bytes)) {
        WEFT_OF_REAL(codec->dtype, weft_hits_take)(codec, halves, body);
        weft_encoded_begin(message, &head);
        return WEFT_MESSAGE_HEADER + table + bytes;
    }
    return weft_encoded_residual(codec, message); /* shorter here */
}

size_t weft_encoded_residual(weft_codec *codec, uint8_t *message)
{
    size_t all = dense_bytes(codec);
    weft_encoded_head head = head_of(codec, WEFT_MESSAGE_DENSE, 0);
    memcpy(message + WEFT_MESSAGE_HEADER, codec->residual, all);
    memset(codec->residual, 0, all);
    weft_encoded_begin(message, &head);
    return WEFT_MESSAGE_HEADER + all;
}

weft_status weft_encoded_own(weft_codec *codec, const void *update, uint32_t number,
                             uint8_t *message, size_t *bytes)
{
    const weft_form *form = codec->ops->own[codec->dtype == WEFT_F64];
    weft_encoded_head head = {WEFT_MESSAGE_OWN, codec->dtype, number, codec->count,
                              codec->ops->tag};
    size_t table = form->bytes(&head);
    if (table >= dense_bytes(codec)) return weft_encoded_all(codec, update, message, bytes);
    WEFT_TRY(form->take(codec, update, number, message + WEFT_MESSAGE_HEADER));
    weft_encoded_begin(message, &head);
    *bytes = WEFT_MESSAGE_HEADER + table;
    return WEFT_OK;
}

weft_status weft_encoded_all(weft_codec *codec, const void *update, uint8_t *message, size_t *bytes)
{
    codec->hits.count = (size_t)codec->count;
    weft_encoded_head head = head_of(codec, WEFT_MESSAGE_DENSE, 0);
    uint8_t *body = message + WEFT_MESSAGE_HEADER;
    if (update) WEFT_TRY(WEFT_OF_REAL(codec->dtype, weft_all_take)(codec, update, body));
    weft_encoded_begin(message, &head);
    *bytes = WEFT_MESSAGE_HEADER + dense_bytes(codec);
    return WEFT_OK;
}

size_t weft_encoded_zeros(weft_dtype dtype, int64_t count, void *message)
{
    weft_encoded_head head = {WEFT_MESSAGE_VALUES, dtype, 0, count, 0};
    weft_encoded_begin(message, &head);
    return WEFT_MESSAGE_HEADER;
}

void *weft_encoded_begin_sum(weft_dtype dtype, int64_t count, void *message)
{
    weft_encoded_head head = {WEFT_MESSAGE_DENSE, dtype, (uint32_t)count, count, 0};
    memset(message, 0, weft_encoded_bound(dtype, count));
    weft_encoded_begin(message, &head);
    return (uint8_t *)message + WEFT_MESSAGE_HEADER;
}
