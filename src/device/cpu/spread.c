/* Spreads out operands of functions of each element, whose elements hold for several of the
 * result's, or which are of bool. */
#include "device/cpu/spread.h"

bool cpu_spread_is_scalar(const cpu_spread *s)
{
    return s->rank == 1 && s->stride[0] == 0;
}

/* Writes `count` neighbouring elements of an operand, or one of them as often (step 0). */
static void spread_run(const cpu_spread *s, const void *operand, int64_t from, int64_t step,
                       float *to, int64_t count)
{
    const float *x = operand;
    const uint16_t *narrow = operand;
    const uint8_t *flags = operand;
    if (s->dtype == WEFT_BF16 && step)
        weft_widen_from(narrow + from, to, count);
    else if (s->dtype == WEFT_BF16)
        for (int64_t j = 0; j < count; j++) to[j] = weft_bf16_float(narrow[from]);
    else if (s->dtype == WEFT_BOOL)
        for (int64_t j = 0; j < count; j++) to[j] = flags[from + j * step] != 0;
    else if (step)
        memcpy(to, x + from, (size_t)count * sizeof(*to));
    else
        for (int64_t j = 0; j < count; j++) to[j] = x[from];
}

void cpu_spread_out(const cpu_spread *s, const void *operand, float *to, int64_t at, int64_t count)
{
    int last = s->rank - 1;
    int64_t index[WEFT_MAX_RANK], from = 0;
    for (int d = last; d >= 0; at /= s->dim[d--]) {
        index[d] = at % s->dim[d];
        from += index[d] * s->stride[d];
    }
    while (count > 0) {
        int64_t run = WEFT_MIN(s->dim[last] - index[last], count);
        spread_run(s, operand, from, s->stride[last] != 0, to, run);
        to += run;
        count -= run;
        from += run * s->stride[last];
        index[last] += run;
        for (int d = last; d > 0 && index[d] == s->dim[d]; d--) {
            from += s->stride[d - 1] - s->dim[d] * s->stride[d];
            index[d] = 0;
            index[d - 1]++;
        }
    }
}

cpu_spread cpu_spread_of(const weft_type *operand, const weft_shape *full)
{
    cpu_spread s = {.dtype = operand->dtype, .rank = 1, .dim = {1}};
    int64_t stride[WEFT_MAX_RANK];
    weft_broadcast_strides(&operand->shape, full, stride);
    for (int d = 0; d < full->rank; d++) {
        int64_t *dim = &s.dim[s.rank - 1], *last = &s.stride[s.rank - 1];
        if (full->dim[d] == 1) continue;
        bool joins = *dim == 1 || *last == stride[d] * full->dim[d];
        *(joins ? dim : &s.dim[s.rank]) = joins ? *dim * full->dim[d] : full->dim[d];
        *(joins ? last : &s.stride[s.rank]) = stride[d];
        s.rank += !joins;
    }
    return s;
}
