/* Selects the largest magnitudes by radix selection, and applies momentum correction (DGC, Lin et
 * al. 2018). */
#include <math.h>

#include "base/moving_average.h"
#include "compress/kernels/precision.h"

enum { DIGIT = 11 };

/* Counts the values of the next digit (DIGIT bits) of the numbers whose magnitude begins with
 * `prefix`. */
static void count_digits(const real *x, int64_t n, uint64_t prefix, int shift, int64_t *histogram)
{
    memset(histogram, 0, sizeof(int64_t) << DIGIT);
    for (int64_t i = 0; i < n; i++) {
        uint64_t key = magnitude(x[i]);
        if (key >> shift >> DIGIT == prefix) histogram[key >> shift & ((1 << DIGIT) - 1)]++;
    }
}

/* The magnitude of the `most`-th largest number, by radix selection, digit by digit; *equal: how
 * many of the numbers with just that magnitude are among the `most`. */
static uint64_t find_bound(const real *x, int64_t n, int64_t most, int64_t *histogram,
                           int64_t *equal)
{
    uint64_t prefix = 0;
    int shift = (WEFT_REAL_BITS - 1 + DIGIT - 1) / DIGIT * DIGIT;
    while (shift > 0) {
        shift -= DIGIT;
        count_digits(x, n, prefix, shift, histogram);
        int digit = (1 << DIGIT) - 1;
        for (; digit > 0 && histogram[digit] < most; digit--) most -= histogram[digit];
        prefix = prefix << DIGIT | (uint64_t)digit;
    }
    *equal = most;
    return prefix;
}

/* Makes the `most` largest magnitudes of the residual hits. Zeros are never hits, so fewer may be
 * sent. */
weft_status WEFT_REAL_NAME(weft_largest)(weft_codec *codec, int64_t most)
{
    const real *x = codec->residual;
    int64_t equal, *histogram;
    codec->hits.count = 0;
    WEFT_TRY(WEFT_NEW(&histogram, 1 << DIGIT));
    uint64_t bound = find_bound(x, codec->count, most, histogram, &equal);
    free(histogram);
    for (int64_t i = 0; i < codec->count; i++) {
        uint64_t key = magnitude(x[i]);
        if (key < bound || key == 0 || (key == bound && equal-- <= 0)) continue;
        WEFT_TRY(weft_hits_add(&codec->hits, i, 1));
    }
    return WEFT_OK;
}

static double squares(const real *x, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
    return sum;
}

/* The Euclidean norm of the elements that are not padding. */
static double norm(const weft_codec *codec, const real *x)
{
    double sum = 0;
    int64_t at = 0;
    for (size_t i = 0; i < codec->gap_count; i++) {
        sum += squares(x + at, codec->gaps[i].begin - at);
        at = codec->gaps[i].begin + codec->gaps[i].count;
    }
    return sqrt(sum + squares(x + at, codec->count - at));
}

WEFT_CLONES static void follow(real *restrict velocity, real *restrict momentum,
                               const real *restrict u, int64_t n, weft_decay decay, real scale)
{
    real keep = (real)decay.keep, drop = (real)decay.drop;
    for (int64_t i = 0; i < n; i++) {
        momentum[i] = keep * momentum[i] + (scale * u[i] - drop * momentum[i]);
        velocity[i] += momentum[i];
    }
}

weft_status WEFT_REAL_NAME(weft_momentum_add)(weft_codec *codec, void *momentum, const void *update,
                                              double m, double most)
{
    double size = most > 0 ? norm(codec, update) : 0;
    follow(codec->residual, momentum, update, codec->count, weft_decay_of(m),
           (real)(size > most ? most / size : 1));
    return WEFT_REAL_NAME(weft_residual_check)(codec);
}
