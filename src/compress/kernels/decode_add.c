/* Adds the numbers of an encoded update to an array, for each form of encoding. */
#include "compress/kernels/precision.h"

WEFT_CLONES static void add_dense(real *restrict to, const real *restrict x, int64_t n, real scale)
{
    for (int64_t i = 0; i < n; i++) to[i] += scale * x[i];
}

static real half_at(const uint8_t *numbers, int64_t i)
{
    uint16_t half;
    memcpy(&half, numbers + 2 * i, sizeof(half));
    return of_half(half);
}

WEFT_CLONES static void add_halves(real *restrict to, const uint16_t *restrict x, int64_t n,
                                   real scale)
{
    for (int64_t i = 0; i < n; i++) to[i] += scale * of_half(x[i]);
}

static real hit_number(const weft_encoded *m)
{
    int64_t i = (int64_t)m->head.hits - m->place.left;
    if (m->head.form == WEFT_MESSAGE_GAPS) return (real)m->place.times * (real)m->head.step;
    if (m->head.form == WEFT_MESSAGE_SHORTS) return half_at(m->body, i);
    return ((const real *)(const void *)m->body)[i];
}

static void add_hits(weft_encoded *m, int64_t n, real scale, real *to)
{
    struct weft_encoded_place *p = &m->place;
    while (p->left > 0) {
        if (!p->known) p->known = weft_encoded_nonzero(m);
        if (!p->known || p->hit >= p->at + n) break;
        to[p->hit - p->at] += scale * hit_number(m);
        p->hit++;
        p->left--;
        p->known = false;
    }
}

static void add_bitmap(weft_encoded *m, int64_t n, real scale, real *to)
{
    real step = (real)m->head.step;
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

static void add_blocks(const weft_encoded *m, int64_t n, real scale, real *to)
{
    int64_t block = m->head.hits, blocks = (m->head.count + block - 1) / block;
    const real *means = (const real *)(const void *)m->body;
    const uint8_t *bits = m->body + (size_t)(2 * blocks) * sizeof(real);
    for (int64_t i = m->place.at, end = i + n; i < end; i++)
        to[i - m->place.at] += scale * means[2 * (i / block) + (bits[i / 8] >> i % 8 & 1)];
}

void WEFT_REAL_NAME(weft_encoded_add)(weft_encoded *m, int64_t n, double wide, void *numbers)
{
    real scale = (real)wide, *to = numbers;
    switch (m->head.form) {
    case WEFT_MESSAGE_DENSE:
        add_dense(to, (const real *)(const void *)m->body + m->place.at, n, scale);
        break;
    case WEFT_MESSAGE_HALVES:
        add_halves(to, (const uint16_t *)(const void *)m->body + m->place.at, n, scale);
        break;
    case WEFT_MESSAGE_GAPS:
    case WEFT_MESSAGE_VALUES:
    case WEFT_MESSAGE_SHORTS: add_hits(m, n, scale, to); break;
    case WEFT_MESSAGE_BITMAP: add_bitmap(m, n, scale, to); break;
    case WEFT_MESSAGE_BLOCKS: add_blocks(m, n, scale, to); break;
    case WEFT_MESSAGE_FORMS: break;
    }
    m->place.at += n;
}
