/* The forms of messages with the nonzero elements alone: multiples of a step, numbers, and numbers
 * in bf16. */
#include "compress/kernels/precision.h"

static bool no_hit_is_late(weft_encoded *m, size_t bytes, bool times)
{
    if (m->head.hits > m->head.count || m->bytes < bytes) return false;
    for (uint32_t i = 0; i < m->head.hits; i++) {
        if (!weft_encoded_nonzero(m, times)) return false;
        m->place.hit++;
    }
    return weft_encoded_at_end(m);
}

/* Adds the hits among the next n elements; `number` gives hit i of the message. */
static inline void add_hits(weft_encoded *m, int64_t n, real scale, real *to, bool times,
                            real (*number)(const weft_encoded *m, int64_t i))
{
    struct weft_encoded_place *p = &m->place;
    while (p->left > 0) {
        if (!p->known) p->known = weft_encoded_nonzero(m, times);
        if (!p->known || p->hit >= p->at + n) break;
        to[p->hit - p->at] += scale * number(m, (int64_t)m->head.hits - p->left);
        p->hit++;
        p->left--;
        p->known = false;
    }
}

/* --- multiples of a step --- */

static size_t gaps_bytes(const weft_encoded_head *h)
{
    (void)h;
    return 0;
}

static bool gaps_check(weft_encoded *m, size_t bytes)
{
    return weft_encoded_step_fits(m) && no_hit_is_late(m, bytes, true);
}

static real multiple(const weft_encoded *m, int64_t i)
{
    (void)i;
    return (real)m->place.times * (real)m->head.step;
}

static void gaps_add(weft_encoded *m, int64_t n, double scale, void *to)
{
    add_hits(m, n, (real)scale, to, true, multiple);
}

const weft_form WEFT_REAL_NAME(weft_form_gaps) = {
    .bytes = gaps_bytes, .check = gaps_check, .within = weft_encoded_step_within, .add = gaps_add};

/* --- numbers --- */

static size_t values_bytes(const weft_encoded_head *h)
{
    return h->hits * sizeof(real);
}

static bool values_check(weft_encoded *m, size_t bytes)
{
    return no_hit_is_late(m, bytes, false) &&
           WEFT_REAL_NAME(weft_all_finite)(m->body, m->head.hits);
}

static bool values_within(const weft_encoded *m, double most)
{
    return WEFT_REAL_NAME(weft_all_within)(m->body, m->head.hits, most);
}

static real value(const weft_encoded *m, int64_t i)
{
    return ((const real *)(const void *)m->body)[i];
}

static void values_add(weft_encoded *m, int64_t n, double scale, void *to)
{
    add_hits(m, n, (real)scale, to, false, value);
}

const weft_form WEFT_REAL_NAME(weft_form_values) = {
    .bytes = values_bytes, .check = values_check, .within = values_within, .add = values_add};

/* --- numbers in bf16 --- */

static size_t shorts_bytes(const weft_encoded_head *h)
{
    return (size_t)h->hits * 2;
}

static bool shorts_check(weft_encoded *m, size_t bytes)
{
    return no_hit_is_late(m, bytes, false) && weft_halves_finite(m->body, m->head.hits);
}

static bool shorts_within(const weft_encoded *m, double most)
{
    (void)most;
    return weft_halves_within(m->body, m->head.hits);
}

static real short_at(const weft_encoded *m, int64_t i)
{
    uint16_t half;
    memcpy(&half, m->body + 2 * i, sizeof(half));
    return of_half(half);
}

static void shorts_add(weft_encoded *m, int64_t n, double scale, void *to)
{
    add_hits(m, n, (real)scale, to, false, short_at);
}

const weft_form WEFT_REAL_NAME(weft_form_shorts) = {
    .bytes = shorts_bytes, .check = shorts_check, .within = shorts_within, .add = shorts_add};
