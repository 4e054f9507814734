/* The form of messages with two bits for each element, which say its multiple of a step. */
#include "compress/kernels/precision.h"

static size_t bitmap_bytes(const weft_encoded_head *h)
{
    return (size_t)((h->count + 3) / 4);
}

/* The lower bit of each pair that is 3, or is not 0. */
static unsigned threes(unsigned byte)
{
    return byte & byte >> 1 & 0x55;
}

static unsigned nonzero(unsigned byte)
{
    return (byte | byte >> 1) & 0x55;
}

static bool bitmap_check(weft_encoded *m, size_t bytes)
{
    int32_t times;
    uint32_t hits = 0;
    if (!weft_encoded_step_fits(m) || m->bytes < bytes) return false;
    if (m->head.count % 4 && m->body[bytes - 1] >> m->head.count % 4 * 2) return false;
    for (size_t i = 0; i < bytes; i++) {
        hits += (uint32_t)__builtin_popcount(nonzero(m->body[i]));
        for (unsigned left = threes(m->body[i]); left; left &= left - 1)
            if (!weft_encoded_levels(m, &times)) return false;
    }
    return weft_encoded_at_end(m) && hits == m->head.hits;
}

/* Minus zero changes no number, so that four elements of the multiples 0, 1 and -1 take no branch.
 */
static void bitmap_add(weft_encoded *m, int64_t n, double wide, void *numbers)
{
    real scale = (real)wide, step = (real)m->head.step, *to = numbers;
    const real once = scale * step, add[] = {-(real)0, once, -once, -(real)0};
    const int64_t at = m->place.at;
    for (int64_t i = 0; i < n;) {
        unsigned byte = m->body[(at + i) / 4], pair = byte >> (at + i) % 4 * 2 & 3;
        if ((at + i) % 4 == 0 && n - i >= 4 && !threes(byte)) {
            for (int k = 0; byte && k < 4; k++) to[i + k] += add[byte >> 2 * k & 3];
            i += 4;
            continue;
        }
        int32_t times = 0;
        if (pair == 3) (void)weft_encoded_levels(m, &times);
        to[i++] += pair == 3 ? scale * ((real)times * step) : add[pair];
    }
}

const weft_form WEFT_REAL_NAME(weft_form_bitmap) = {.bytes = bitmap_bytes,
                                                    .check = bitmap_check,
                                                    .within = weft_encoded_step_within,
                                                    .add = bitmap_add};
