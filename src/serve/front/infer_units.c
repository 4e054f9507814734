/* Brings the numbers of a request to the unit of the training: pixels from 0 to 255, or fractions
 * from 0 to 1. */
#include <math.h>

#include "data/data.h"
#include "serve/front/infer_internal.h"

static double *wide_at(const weft_infer_reader *r, int64_t i)
{
    return r->out->x_double ? r->out->x_double + i : NULL;
}

/* Takes the numbers of all real inputs into the range, or if it is NULL multiplies them. */
static void each_number(const weft_infer_reader *r, weft_range *range, double factor)
{
    int64_t at = 0;
    for (int k = 0; k < r->about->inputs; k++) {
        const weft_input *in = &r->about->input[k];
        int64_t count = r->out->request.rows * weft_shape_elements(&in->shape);
        for (int64_t i = at; in->values == 0 && i < at + count; i++) {
            double *wide = wide_at(r, i), x = wide ? *wide : (double)r->out->x[i];
            if (range) {
                range->low = fmin(range->low, x);
                range->high = fmax(range->high, x);
                range->whole = range->whole && x == floor(x);
            } else if (wide) {
                *wide = x * factor;
            } else {
                r->out->x[i] = (float)(x * factor);
            }
        }
        at += count;
    }
}

weft_status weft_infer_convert(const weft_infer_reader *r)
{
    const weft_data_stats trained = {.bytes = r->about->bytes, .range = r->about->range};
    weft_range now = {.low = INFINITY, .high = -INFINITY, .whole = true};
    weft_units units;
    if (r->out->request.raw || r->about->range.low > r->about->range.high) return WEFT_OK;
    each_number(r, &now, 1);
    WEFT_TRY(weft_range_compare(&trained, &now, !r->not_bytes, r->about->table, false, &units));
    if (units.up != units.down) each_number(r, NULL, units.up / units.down);
    return WEFT_OK;
}
