/* The range of features, by which data in other units than those of the training are found. */
#include <math.h>

#include "data/data.h"

enum { SAMPLES = 64 }; /* of a split that are looked at */

static void extend_range(double value, weft_range *range)
{
    range->low = value < range->low ? value : range->low;
    range->high = value > range->high ? value : range->high;
    range->whole = range->whole && value == floor(value);
}

void weft_range_take(const float *x, const double *wide, int64_t count, weft_range *range)
{
    for (int64_t j = 0; j < count; j++) extend_range(wide ? wide[j] : (double)x[j], range);
}

weft_status weft_range_measure(const weft_source *s, weft_split split, weft_range *out)
{
    int64_t count = s->count[split], samples = WEFT_MIN(count, (int64_t)SAMPLES);
    weft_range range = weft_range_none();
    float *x;
    WEFT_TRY(WEFT_NEW(&x, weft_source_largest(s)));
    for (int64_t n = 0; n < samples; n++)
        for (int k = 0; k < s->inputs; k++) {
            int64_t i = n * count / samples, size = weft_source_counted(s, split, i, k);
            if (s->input[k].dtype != WEFT_F32) continue;
            if (!s->tabular) s->ops->features(s, split, i, k, x);
            if (!s->tabular) weft_range_take(x, NULL, size, &range);
            for (int64_t j = 0; s->tabular && j < size; j++)
                extend_range(s->ops->number(s, split, i, j), &range);
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

/* Whether the training tells the unit of later features: the columns of a table have units of their
 * own, unless its type says what they are. */
static bool has_unit(const weft_data_stats *trained, const weft_number_type *type)
{
    const weft_range *then = &trained->range;
    if (then->low > then->high) return false;
    return (are_pixels(then) && (trained->bytes || !type->table)) ||
           (are_fractions(then) && (type->bytes || !type->table));
}

weft_status weft_range_compare(const weft_data_stats *trained, const weft_range *now,
                               const weft_number_type *type, weft_units *out)
{
    const weft_range *then = &trained->range;
    *out = (weft_units){1, 1};
    if (!has_unit(trained, type) || now->low > now->high) return WEFT_OK;
    if (are_pixels(then) && are_fractions(now)) out->up = 255;
    if (are_fractions(then) && are_pixels(now)) out->down = 255;
    if (type->table || !now->whole || now->low < 0 || now->high != 1) return WEFT_OK;
    if (are_pixels(then) && type->fractional)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "the features are 0 and 1, and those of the training were whole numbers "
                         "up to %g: it cannot be told whether 1 is a fraction; store pixels as "
                         "bytes, or multiply fractions by 255",
                         then->high);
    if (are_fractions(then) && !type->fractional)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "the features are integers, 0 and 1, and those of the training were "
                         "fractions: it cannot be told whether 1 is a pixel of 255; store "
                         "fractions as floats, or divide pixels by 255");
    return WEFT_OK;
}

bool weft_units_vary(const weft_data_stats *trained, const weft_number_type *type)
{
    return type->fractional && has_unit(trained, type);
}

bool weft_units_fit(const weft_data_stats *trained, const weft_units *units, const weft_range *row)
{
    if (units->up != 1) return row->low >= 0 && row->high <= 1;
    bool as_pixels = are_pixels(&trained->range) || units->down != 1;
    return as_pixels ? !are_fractions(row) : !are_pixels(row);
}

weft_status weft_units_refuse(const char *where, const weft_range *row)
{
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "%s has numbers from %g to %g, %s, and other samples have others: it cannot "
                     "be told in which unit they are; bring all samples to one",
                     where, row->low, row->high,
                     are_fractions(row) ? "fractions from 0 to 1" : "no fractions from 0 to 1");
}
