#include "serve/request_rows.h"

#include "data/data.h"

static double number(const weft_inference_request *q, int64_t i)
{
    return q->x_double ? q->x_double[i] : (double)q->x[i];
}

int64_t weft_request_counted(const weft_input *inputs, int k, const weft_inference_request *q,
                             int64_t row)
{
    const weft_input *in = &inputs[k];
    int64_t before = 0, size = weft_shape_elements(&in->shape);
    if (in->lengths == 0 || inputs[in->lengths - 1].shape.rank > 0) return size;
    for (int i = 0; i < in->lengths - 1; i++) before += weft_shape_elements(&inputs[i].shape);
    double length = number(q, q->rows * before + row), positions = (double)in->shape.dim[0];
    return length >= 0 && length < positions ? size / in->shape.dim[0] * (int64_t)length : size;
}

static weft_status check_tokens(const weft_input *in, const weft_inference_request *q, int64_t at)
{
    int64_t size = weft_shape_elements(&in->shape);
    for (int64_t i = 0; i < q->rows * size; i++) {
        double x = number(q, at + i);
        if (x >= 0 && x < in->values && x == (double)(int32_t)x) continue;
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "input '%s': number %lld of row %lld is %.*f, must be a whole number "
                         "from 0 to %d",
                         in->name, (long long)(i % size + 1), (long long)(i / size + 1),
                         x == floor(x) ? 0 : 6, x, in->values - 1);
    }
    return WEFT_OK;
}

/* Number j of a row as the model would get it. */
static float normalised(const weft_data_stats *stats, bool table, const weft_inference_request *q,
                        int64_t first, int64_t j, int64_t size)
{
    double x = number(q, first + j);
    int64_t f = weft_feature_of(stats, j, size);
    if (q->raw) return (float)x;
    if (table) return weft_normalise_wide(x, stats->mean[f], stats->deviation[f]);
    return weft_normalise_single((float)x, (float)stats->mean[f], (float)(1 / stats->deviation[f]));
}

weft_status weft_request_check_rows(const weft_data_stats *stats, bool table,
                                    const weft_inference_request *q)
{
    int64_t at = 0;
    for (int k = 0; k < stats->inputs; k++) {
        const weft_input *in = &stats->input[k];
        int64_t size = weft_shape_elements(&in->shape);
        if (in->values > 0) WEFT_TRY(check_tokens(in, q, at));
        at += q->rows * size;
    }
    at = 0;
    for (int k = 0; k < stats->inputs; k++) {
        const weft_input *in = &stats->input[k];
        int64_t size = weft_shape_elements(&in->shape);
        for (int64_t row = 0; row < q->rows; row++, at += size) {
            int64_t j = 0,
                    count = in->values > 0 ? 0 : weft_request_counted(stats->input, k, q, row);
            while (j < count && isfinite(normalised(stats, table, q, at, j, size))) j++;
            if (j == count) continue;
            return weft_fail(WEFT_ERR_ARGUMENT,
                             "input '%s': number %lld of row %lld is %.15g, and not a finite "
                             "number in single precision%s",
                             in->name, (long long)j + 1, (long long)row + 1, number(q, at + j),
                             q->raw ? "" : " after normalisation");
        }
    }
    return WEFT_OK;
}
