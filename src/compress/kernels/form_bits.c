/* The form of messages with two bits for each element, which say its multiple of a step. */
#include "compress/kernels/precision.h"

static size_t bitmap_bytes(const weft_encoded_head *h)
{
    return (size_t)((h->count + 3) / 4);
}

static bool bitmap_check(weft_encoded *m, size_t bytes)
{
    int32_t times;
    uint32_t hits = 0;
    if (!weft_encoded_step_fits(m) || m->bytes < bytes) return false;
    for (int64_t i = 0; i < m->head.count; i++) {
        unsigned pair = m->body[i / 4] >> i % 4 * 2 & 3;
        hits += pair != 0;
        if (pair == 3 && !weft_encoded_levels(m, &times)) return false;
    }
    bool rest = m->head.count % 4 && m->body[bytes - 1] >> m->head.count % 4 * 2;
    return weft_encoded_at_end(m) && hits == m->head.hits && !rest;
}

static void bitmap_add(weft_encoded *m, int64_t n, double wide, void *numbers)
{
    real scale = (real)wide, *to = numbers, step = (real)m->head.step;
    for (int64_t i = m->place.at, end = i + n; i < end; i++) {
        unsigned byte = m->body[i / 4];
        if (byte == 0) {
            i |= 3;
            continue;
        }
        int32_t times = (int32_t[]){0, 1, -1, 0}[byte >> i % 4 * 2 & 3];
        if ((byte >> i % 4 * 2 & 3) == 3) (void)weft_encoded_levels(m, &times);
        if (times) to[i - m->place.at] += scale * ((real)times * step);
    }
}

const weft_form WEFT_REAL_NAME(weft_form_bitmap) = {.bytes = bitmap_bytes,
                                                    .check = bitmap_check,
                                                    .within = weft_encoded_step_within,
                                                    .add = bitmap_add};
