/* The codec onebit, 1-bit SGD (Seide et al. 2014), with a form of messages of its own: for each
 * block, the means of its negative and of its other numbers, and a bit for each number. */
#include <float.h>
#include <math.h>

#include "compress/codec.h"
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

static weft_status take(weft_codec *codec, const void *update, uint32_t number, uint8_t *body)
{
    int64_t block = number;
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

/* --- the form --- */

static int64_t blocks_of(const weft_encoded_head *h)
{
    return (h->count + h->hits - 1) / h->hits;
}

static size_t blocks_bytes(const weft_encoded_head *h)
{
    return h->hits ? (size_t)(2 * blocks_of(h)) * sizeof(real) + (size_t)((h->count + 7) / 8)
                   : SIZE_MAX;
}

static bool blocks_check(weft_encoded *m, size_t bytes)
{
    return m->head.hits && m->bytes == bytes &&
           WEFT_REAL_NAME(weft_all_finite)(m->body, 2 * blocks_of(&m->head));
}

static bool blocks_within(const weft_encoded *m, double most)
{
    return WEFT_REAL_NAME(weft_all_within)(m->body, 2 * blocks_of(&m->head), most);
}

static void blocks_add(weft_encoded *m, int64_t n, double wide, void *numbers)
{
    real scale = (real)wide, *to = numbers;
    int64_t block = m->head.hits, blocks = blocks_of(&m->head);
    const real *means = (const real *)(const void *)m->body;
    const uint8_t *bits = m->body + (size_t)(2 * blocks) * sizeof(real);
    for (int64_t i = m->place.at, end = i + n; i < end; i++)
        to[i - m->place.at] += scale * means[2 * (i / block) + (bits[i / 8] >> i % 8 & 1)];
}

extern const weft_form weft_onebit_float, weft_onebit_double;
const weft_form WEFT_REAL_NAME(weft_onebit) = {.bytes = blocks_bytes,
                                               .check = blocks_check,
                                               .within = blocks_within,
                                               .add = blocks_add,
                                               .take = take};

/* --- the codec, which is compiled once --- */

#if WEFT_REAL_IS_DOUBLE
typedef struct onebit {
    weft_codec head;
    int64_t block;
} onebit;

static weft_status onebit_open(const char *arguments, weft_dtype dtype, int64_t count,
                               weft_codec **out)
{
    double block = 512, warmup = 0;
    weft_codec *codec;
    weft_spec_key keys[] = {
        {.name = "block", .number = &block, .low = 16, .high = 1 << 20, .integer = true},
        WEFT_WARMUP_KEY(&warmup),
        {.name = NULL}};
    WEFT_TRY(weft_codec_parse("onebit", arguments, keys));
    if ((int64_t)block % 8)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "codec onebit: block=%d, must be a multiple of 8; %d is near", (int)block,
                         (int)block / 8 * 8);
    WEFT_TRY(weft_codec_new(sizeof(onebit), dtype, count, true, &codec));
    ((onebit *)codec)->block = (int64_t)block;
    codec->warmup = (int64_t)warmup;
    *out = codec;
    return WEFT_OK;
}

static weft_status onebit_encode(weft_codec *codec, const void *update, uint8_t *message,
                                 size_t *bytes)
{
    return weft_encoded_own(codec, update, (uint32_t)((onebit *)codec)->block, message, bytes);
}

const weft_codec_ops weft_codec_onebit = {
    .name = "onebit",
    .form = "onebit[:block=N][,warmup=N]",
    .help = "sends one sign bit per element, and per block the mean of its "
            "negative elements and the mean of the others",
    .open = onebit_open,
    .close = weft_codec_free,
    .encode = onebit_encode,
    .own = {&weft_onebit_float, &weft_onebit_double},
};
#endif
