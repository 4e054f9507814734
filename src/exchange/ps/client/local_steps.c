/* Adds up gradients between two pushes, and makes local SGD steps between two pulls. */
#include "exchange/ps/client/local_steps.h"

#include "base/tree_sum.h"
#include "exchange/flat_optimizer.h"

/* --- accumulation --- */

weft_status weft_grad_accumulator_add(weft_grad_accumulator *a, weft_dtype dtype, int64_t count,
                                      const void *gradient, int64_t version, double weight,
                                      bool empty)
{
    size_t bytes = (size_t)count * weft_dtype_size(dtype);
    if (!a->sum) WEFT_TRY(weft_new_aligned(bytes, &a->sum));
    if (a->steps++ > 0) {
        weft_tree_add(dtype, a->sum, gradient, a->sum, count);
    } else {
        memcpy(a->sum, gradient, bytes);
        a->version = version;
        a->weight = 0;
        a->empty = true;
    }
    a->weight += weight;
    a->empty = a->empty && empty;
    return WEFT_OK;
}

void weft_grad_accumulator_free(weft_grad_accumulator *accrual)
{
    free(accrual->sum);
    *accrual = (weft_grad_accumulator){.sum = NULL};
}

/* --- local SGD --- */

struct weft_local_sgd {
    weft_flat_optimizer *optimizer;
};

weft_status weft_local_sgd_open(weft_context *context, const weft_store *like,
                                const weft_optimizer_options *options, weft_dtype dtype,
                                int64_t count, weft_segment_list segments, weft_local_sgd **out)
{
    weft_local_sgd *d;
    weft_optimizer_options plain = *options;
    plain.name = "sgd";
    plain.momentum = plain.weight_decay = 0;
    plain.nesterov = false;
    WEFT_TRY(WEFT_NEW(&d, 1));
    weft_status status =
        weft_flat_optimizer_open(context, like, &plain, dtype, count, segments, 0, &d->optimizer);
    if (status == WEFT_OK)
        *out = d;
    else
        weft_local_sgd_close(&d);
    return status;
}

void weft_local_sgd_close(weft_local_sgd **descent)
{
    if (!descent || !*descent) return;
    weft_flat_optimizer_close(&(*descent)->optimizer);
    free(*descent);
    *descent = NULL;
}

weft_status weft_local_sgd_step(weft_local_sgd *d, int64_t step, void *parameters,
                                const void *gradient)
{
    weft_flat_optimizer_set_step(d->optimizer, step);
    return weft_flat_optimizer_step(d->optimizer, parameters, gradient);
}
