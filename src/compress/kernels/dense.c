/* Takes all numbers of residual plus update, exactly or rounded to bf16, and checks that they are
 * finite. */
#include <float.h>
#include <math.h>

#include "compress/kernels/precision.h"

/* The numbers of a block, which stay in the cache between their copy and their check. */
enum { BLOCK = 4096 };

WEFT_CLONES static bool all_within(const real *restrict x, int64_t n, real most)
{
    int wrong = 0;
    for (int64_t i = 0; i < n; i++) wrong |= !(WEFT_FABS(x[i]) <= most);
    return !wrong;
}

static bool all_finite(const real *x, int64_t n)
{
    return all_within(x, n, WEFT_REAL_MOST);
}

bool WEFT_REAL_NAME(weft_all_within)(const void *numbers, int64_t n, double most)
{
    return all_within(numbers, n, (real)most);
}

bool WEFT_REAL_NAME(weft_all_finite)(const void *numbers, int64_t n)
{
    return all_finite(numbers, n);
}

/* Fails and names the first number that is not finite; x[0] is element `at` of the range. */
static weft_status check(const real *x, int64_t n, int64_t at)
{
    if (all_finite(x, n)) return WEFT_OK;
    int64_t i = 0;
    while (isfinite(x[i])) i++;
    return not_finite(at + i);
}

WEFT_CLONES static void add(real *restrict r, const real *restrict u, int64_t n)
{
    for (int64_t i = 0; i < n; i++) r[i] += u[i];
}

weft_status WEFT_REAL_NAME(weft_residual_check)(const weft_codec *codec)
{
    return check(codec->residual, codec->count, 0);
}

weft_status WEFT_REAL_NAME(weft_residual_add)(weft_codec *codec, const void *update)
{
    add(codec->residual, update, codec->count);
    return check(codec->residual, codec->count, 0);
}

/* to = u + r, or u if r is NULL, with a check; the first number is element `at` of the range. */
static weft_status add_residual(const real *u, const real *r, int64_t at, int64_t n, real *to)
{
    for (int64_t i = 0; i < n; i += BLOCK) {
        int64_t some = WEFT_MIN((int64_t)BLOCK, n - i);
        memcpy(to + i, u + i, (size_t)some * sizeof(real));
        if (r) add(to + i, r + i, some);
        WEFT_TRY(check(to + i, some, at + i));
    }
    return WEFT_OK;
}

weft_status WEFT_REAL_NAME(weft_numbers_lay)(const void *numbers, int64_t at, int64_t n, void *body)
{
    return add_residual(numbers, NULL, at, n, (real *)body + at);
}

weft_status WEFT_REAL_NAME(weft_all_take)(weft_codec *codec, const void *update, void *numbers)
{
    WEFT_TRY(add_residual(update, codec->residual, 0, codec->count, numbers));
    if (codec->residual) memset(codec->residual, 0, (size_t)codec->count * sizeof(real));
    return WEFT_OK;
}

/* Rounds a finite x to the nearest bf16 (ties to even), but never to infinity: the largest bf16 is
 * a little below the largest float. */
static inline uint16_t near_half(real x)
{
    const uint32_t most = 0x7f7f;
    float f = (float)x; /* infinite for a double out of its range */
    uint32_t bits;
    memcpy(&bits, &f, sizeof(bits));
    uint32_t half = ((bits & 0x7fffffff) + 0x7fff + (bits >> 16 & 1)) >> 16;
    return (uint16_t)(bits >> 31 << 15 | (half < most ? half : most));
}

WEFT_CLONES static void take_halves(real *restrict r, uint16_t *restrict numbers, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        numbers[i] = near_half(r[i]);
        r[i] -= of_half(numbers[i]);
    }
}

weft_status WEFT_REAL_NAME(weft_halves_take)(weft_codec *codec, const void *update,
                                             uint16_t *numbers)
{
    WEFT_TRY(WEFT_REAL_NAME(weft_residual_add)(codec, update));
    take_halves(codec->residual, numbers, codec->count);
    return WEFT_OK;
}

void WEFT_REAL_NAME(weft_hits_take)(weft_codec *codec, bool halves, uint8_t *numbers)
{
    real *r = codec->residual;
    for (size_t i = 0; i < codec->hits.count; i++) {
        real *x = &r[codec->hits.list[i].at];
        if (halves) {
            uint16_t half = near_half(*x);
            memcpy(numbers + 2 * i, &half, sizeof(half));
            *x -= of_half(half);
        } else {
            memcpy(numbers + i * sizeof(real), x, sizeof(real));
            *x = 0;
        }
    }
}
