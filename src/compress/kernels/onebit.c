/* Quantizes to one bit per number (1-bit SGD, Seide et al. 2014): for each block, the means of its
 * negative and of its other numbers, and a bit for each number. */
#include <float.h>
#include <math.h>

#include "compress/kernels/precision.h"

enum { LANES = 16 };

/* Moments of residual plus update in a block: the sums of the negative numbers (below) and of the
 * others (above), their counts, and the largest magnitude. A sum with a number that is not finite
 * is not finite either. */
typedef struct moments {
    double below, above;
    int64_t above_count, count; /* of the others, and of all */
    double most;
} moments;

WEFT_CLONES static void add_lanes(real *restrict r, const real *restrict u, int64_t n,
                                  real *restrict below, real *restrict above, real *restrict count,
                                  real *restrict most)
{
    for (int64_t i = 0; i < n; i += LANES)
        for (int k = 0; k < LANES; k++) {
            real x = r[i + k] + u[i + k], size = WEFT_FABS(x);
            r[i + k] = x;
            below[k] += x < 0 ? x : 0;
            above[k] += x < 0 ? 0 : x;
            count[k] += x < 0 ? 0 : 1;
            most[k] = size > most[k] ? size : most[k];
        }
}

static void add_run(real *r, const real *u, int64_t n, moments *m)
{
    real below[LANES] = {0}, above[LANES] = {0}, count[LANES] = {0}, most[LANES] = {0};
    int64_t whole = n / LANES * LANES;
    add_lanes(r, u, whole, below, above, count, most);
    for (int64_t i = whole; i < n; i++) {
        int k = (int)(i - whole);
        real x = r[i] + u[i], size = WEFT_FABS(x);
        r[i] = x;
        *(x < 0 ? &below[k] : &above[k]) += x;
        count[k] += x < 0 ? 0 : 1;
        most[k] = size > most[k] ? size : most[k];
    }
    for (int k = 0; k < LANES; k++) {
        m->below += (double)below[k];
        m->above += (double)above[k];
        m->above_count += (int64_t)count[k];
        m->most = WEFT_MAX(m->most, (double)most[k]);
    }
    m->count += n;
}

/* The moments of n elements from `begin` on, without padding. *gap: the index of the first gap that
 * does not end before the elements; the call advances it. */
static moments add_block(const weft_codec *codec, const real *u, int64_t begin, int64_t n,
                         size_t *gap)
{
    moments m = {0};
    int64_t end = begin + n;
    real *r = codec->residual;
    for (int64_t at = begin; at < end;) {
        const weft_codec_gap *g = *gap < codec->gap_count ? &codec->gaps[*gap] : NULL;
        int64_t until = g ? WEFT_MIN(g->begin, end) : end;
        if (until > at) add_run(r + at, u + at, until - at, &m);
        at = g ? WEFT_MAX(g->begin + g->count, at) : end;
        if (g && at <= end) ++*gap;
    }
    return m;
}

/* The mean, rounded to 15 bits below the highest bit of the largest magnitude, so that it can be
 * subtracted from numbers with few digits without rounding. */
static real rounded(double sum, int64_t count, double most)
{
    if (count == 0 || most == 0) return 0;
    int unit = ilogb(most) - 15;
    return (real)ldexp(rint(ldexp(sum / (double)count, -unit)), unit);
}

static void put_bits(real *r, int64_t n, const real *means, uint8_t *bits)
{
    for (int64_t i = 0; i < n; i += 8) {
        unsigned byte = 0;
        for (int64_t k = 0; k < 8 && i + k < n; k++) {
            unsigned bit = !(r[i + k] < 0);
            byte |= bit << k;
            r[i + k] -= means[bit];
        }
        bits[i / 8] = (uint8_t)byte;
    }
}

static weft_status too_large(const weft_codec *codec)
{
    WEFT_TRY(WEFT_REAL_NAME(weft_residual_check)(codec));
    return weft_fail(WEFT_ERR_NUMERIC, "an update is too large for its mean");
}

weft_status WEFT_REAL_NAME(weft_blocks_take)(weft_codec *codec, const void *update, int64_t block,
                                             uint8_t *body)
{
    real *r = codec->residual, *means = (real *)(void *)body;
    const real *u = update;
    int64_t blocks = (codec->count + block - 1) / block;
    uint8_t *bits = body + (size_t)(2 * blocks) * sizeof(real);
    size_t gap = 0;
    for (int64_t b = 0; b < blocks; b++, means += 2) {
        int64_t begin = b * block, n = WEFT_MIN(block, codec->count - begin);
        moments m = add_block(codec, u, begin, n, &gap);
        if (!isfinite(m.below) || !isfinite(m.above)) return too_large(codec);
        means[0] = rounded(m.below, m.count - m.above_count, m.most);
        means[1] = rounded(m.above, m.above_count, m.most);
        put_bits(r + begin, n, means, bits + begin / 8);
    }
    return WEFT_OK;
}
