/* Quantizes residual plus update to multiples of a step (threshold quantization, Strom 2015). */
#include <math.h>

#include "compress/kernels/precision.h"

enum { BLOCK = 256 };

/* r += u; returns whether an element exceeds a step. */
WEFT_CLONES static bool add_block(real *restrict r, const real *restrict u, int n, real step)
{
    int beyond = 0;
    for (int i = 0; i < n; i++) {
        r[i] += u[i];
        beyond |= !(WEFT_FABS(r[i]) <= step);
    }
    return beyond;
}

/* The largest multiple of `step` that is below x in magnitude; x minus the multiple is at most one
 * step. */
static int32_t times_in(real x, real step)
{
    double times = 1;
    if (WEFT_FABS(x) > 2 * step) times = ceil(fabs((double)x) / (double)step) - 1;
    times = WEFT_MAX(WEFT_MIN(times, 1 << 30), 1);
    return x < 0 ? -(int32_t)times : (int32_t)times;
}

weft_status WEFT_REAL_NAME(weft_steps_take)(weft_codec *codec, const void *update, double wide)
{
    real *r = codec->residual, step = (real)wide;
    const real *u = update;
    codec->hits.count = 0;
    for (int64_t begin = 0; begin < codec->count; begin += BLOCK) {
        int64_t end = WEFT_MIN(begin + BLOCK, codec->count);
        if (!add_block(r + begin, u + begin, (int)(end - begin), step)) continue;
        for (int64_t i = begin; i < end; i++) {
            if (WEFT_FABS(r[i]) <= step) continue;
            if (!isfinite(r[i])) return not_finite(i);
            int32_t times = times_in(r[i], step);
            WEFT_TRY(weft_hits_add(&codec->hits, i, times));
            r[i] -= (real)times * step;
        }
    }
    return WEFT_OK;
}

void WEFT_REAL_NAME(weft_steps_fill)(const weft_nonzeros *hits, double step, int64_t count,
                                     void *numbers)
{
    real *to = numbers;
    memset(to, 0, (size_t)count * sizeof(real));
    for (size_t i = 0; i < hits->count; i++)
        to[hits->list[i].at] = (real)hits->list[i].times * (real)step;
}
