/* The range of features, by which data in other units than those of the training are found. */
#include <math.h>

#include "data/data.h"

enum { SAMPLES = 64 }; /* of a split that are looked at */

static void take(double value, weft_range *range)
{
    range->low = fmin(range->low, value);
    range->high = fmax(range->high, value);
    range->whole = range->whole && value == floor(value);
}

weft_status weft_range_measure(const weft_source *s, weft_split split, weft_range *out)
{
    int64_t count = s->count[split], samples = WEFT_MIN(count, (int64_t)SAMPLES);
    weft_range range = {.low = INFINITY, .high = -INFINITY, .whole = true};
    float *x;
    WEFT_TRY(WEFT_NEW(&x, weft_source_largest(s)));
    for (int64_t n = 0; n < samples; n++)
        for (int k = 0; k < s->inputs; k++) {
            int64_t i = n * count / samples, size = weft_source_counted(s, split, i, k);
            if (s->input[k].dtype != WEFT_F32) continue;
            if (!s->tabular) s->ops->features(s, split, i, k, x);
            for (int64_t j = 0; j < size; j++)
                take(s->tabular ? s->ops->number(s, split, i, j) : (double)x[j], &range);
        }
    free(x);
    *out = range;
    return WEFT_OK;
}

static bool are_pixels(const weft_range *r)
{
    return r->whole && r->low >= 0 && r->high >= 2 && r->high <= 255;
}

static bool are_fractions(const weft_range *r)
{
    return !r->whole && r->low >= 0 && r->high <= 1;
}

weft_status weft_range_compare(const weft_data_stats *trained, const weft_range *now, bool bytes,
                               bool table, bool real, weft_units *out)
{
    const weft_range *then = &trained->range;
    bool known = trained->bytes || !table;
    *out = (weft_units){1, 1};
    if (then->low > then->high || now->low > now->high) return WEFT_OK;
    if (known && are_pixels(then) && are_fractions(now)) out->up = 255;
    if ((bytes || !table) && are_fractions(then) && are_pixels(now)) out->down = 255;
    if (table || !are_pixels(then) || !real || !now->whole || now->low < 0 || now->high != 1)
        return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "the features are 0 and 1, and those of the training were whole numbers up to "
                     "%g: it cannot be told whether 1 is a fraction; store pixels as bytes, or "
                     "multiply fractions by 255",
                     then->high);
}
