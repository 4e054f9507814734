/* The forms of messages with all numbers: as they are, and in bf16. */
#include "compress/kernels/precision.h"

WEFT_CLONES static void add_reals(real *restrict to, const real *restrict x, int64_t n, real scale)
{
    for (int64_t i = 0; i < n; i++) to[i] += scale * x[i];
}

WEFT_CLONES static void add_each(real *restrict to, const uint16_t *restrict x, int64_t n,
                                 real scale)
{
    for (int64_t i = 0; i < n; i++) to[i] += scale * of_half(x[i]);
}

static size_t dense_bytes(const weft_encoded_head *h)
{
    return (size_t)h->count * sizeof(real);
}

static bool dense_check(weft_encoded *m, size_t bytes)
{
    return m->bytes == bytes && WEFT_REAL_NAME(weft_all_finite)(m->body, m->head.count);
}

static bool dense_within(const weft_encoded *m, double most)
{
    return WEFT_REAL_NAME(weft_all_within)(m->body, m->head.count, most);
}

static void dense_add(weft_encoded *m, int64_t n, double scale, void *to)
{
    add_reals(to, (const real *)(const void *)m->body + m->place.at, n, (real)scale);
}

const weft_form WEFT_REAL_NAME(weft_form_dense) = {.bytes = dense_bytes,
                                                   .check = dense_check,
                                                   .within = dense_within,
                                                   .add = dense_add,
                                                   .plain = true};

static size_t halves_bytes(const weft_encoded_head *h)
{
    return (size_t)h->count * 2;
}

static bool halves_check(weft_encoded *m, size_t bytes)
{
    return m->bytes == bytes && weft_halves_finite(m->body, m->head.count);
}

static bool halves_within(const weft_encoded *m, double most)
{
    (void)most; /* squares of bf16 numbers have the range of float */
    return weft_halves_within(m->body, m->head.count);
}

static void halves_add(weft_encoded *m, int64_t n, double scale, void *to)
{
    add_each(to, (const uint16_t *)(const void *)m->body + m->place.at, n, (real)scale);
}

const weft_form WEFT_REAL_NAME(weft_form_halves) = {
    .bytes = halves_bytes, .check = halves_check, .within = halves_within, .add = halves_add};
