/* Brings the rows of a request to the form of the training: channels first, and pixels from 0 to
 * 255 or fractions from 0 to 1, by the rules for data of a file (data.h). */
#include <stdio.h>

#include "data/channel_layout.h"
#include "serve/front/infer_internal.h"
#include "serve/request_rows.h"

/* A place in the numbers of a request. */
static float *single_at(const weft_inference *in, int64_t i)
{
    return in->x ? in->x + i : NULL;
}

static double *wide_at(const weft_inference *in, int64_t i)
{
    return in->x_double ? in->x_double + i : NULL;
}

/* --- channels --- */

/* Moves the channels of all rows of an input, which begin at `at`, to the front. */
static weft_status move_channels(const weft_shape *shape, int64_t rows, int64_t at,
                                 const weft_inference *in)
{
    int64_t size = weft_shape_elements(shape);
    size_t each = in->x_double ? sizeof(double) : sizeof(float);
    void *copy;
    WEFT_TRY(weft_new_bytes(&copy, (size_t)size, each));
    for (int64_t row = 0; row < rows; row++, at += size) {
        void *x = in->x_double ? (void *)wide_at(in, at) : (void *)single_at(in, at);
        memcpy(copy, x, (size_t)size * each);
        weft_layout_move_channels(shape, each, copy, x);
    }
    free(copy);
    return WEFT_OK;
}

static weft_status order(const weft_servable_info *about, weft_inference *in,
                         unsigned channels_last)
{
    int64_t at = 0;
    for (int k = 0; k < about->inputs; k++) {
        const weft_shape *shape = &about->input[k].shape;
        if (channels_last >> k & 1) WEFT_TRY(move_channels(shape, in->request.rows, at, in));
        at += in->request.rows * weft_shape_elements(shape);
    }
    return WEFT_OK;
}

/* --- units --- */

/* Calls `each` for the numbers that count of each row of all real inputs. */
static weft_status each_row(const weft_servable_info *about, weft_inference *in, void *user,
                            weft_status (*each)(void *user, int row, float *x, double *wide,
                                                int64_t count))
{
    int64_t at = 0;
    for (int k = 0; k < about->inputs; k++) {
        const weft_input *input = &about->input[k];
        int64_t size = weft_shape_elements(&input->shape);
        for (int64_t row = 0; row < in->request.rows; row++, at += size)
            if (input->values == 0)
                WEFT_TRY(each(user, (int)row + 1, single_at(in, at), wide_at(in, at),
                              weft_request_counted(about->input, k, &in->request, row)));
    }
    return WEFT_OK;
}

static weft_status copy_row(void *user, int row, float *x, double *wide, int64_t count)
{
    (void)row;
    weft_range_take(x, wide, count, user);
    return WEFT_OK;
}

typedef struct conversion {
    const weft_data_stats *trained;
    weft_units units;
    bool vary;
} conversion;

static weft_status convert(void *user, int row, float *x, double *wide, int64_t count)
{
    const conversion *c = user;
    weft_range range = weft_range_none();
    char where[32];
    if (c->vary) weft_range_take(x, wide, count, &range);
    (void)snprintf(where, sizeof(where), "row %d", row);
    if (c->vary && !weft_units_fit(c->trained, &c->units, &range))
        return weft_units_refuse(where, &range);
    if (c->units.up == c->units.down) return WEFT_OK;
    for (int64_t j = 0; j < count; j++)
        if (wide)
            wide[j] = weft_in_units(wide[j], &c->units);
        else
            x[j] = (float)weft_in_units((double)x[j], &c->units);
    return WEFT_OK;
}

weft_status weft_inference_prepare(const weft_servable_info *about, weft_inference *in,
                                   const weft_number_type *type, unsigned channels_last)
{
    const weft_data_stats trained = {.bytes = about->bytes, .range = about->range};
    weft_range now = weft_range_none();
    conversion c = {.trained = &trained, .vary = weft_units_vary(&trained, type)};
    in->request.x = in->x;
    in->request.x_double = in->x_double;
    in->request.prediction = in->prediction;
    WEFT_TRY(order(about, in, channels_last));
    if (in->request.raw || about->range.low > about->range.high) return WEFT_OK;
    WEFT_TRY(each_row(about, in, &now, copy_row));
    WEFT_TRY(weft_range_compare(&trained, &now, type, &c.units));
    return each_row(about, in, &c, convert);
}
