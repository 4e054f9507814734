/* The mean of the learners: averages their parameters and state, and compares their parameters, all
 * as they are mapped: the learners have one memory layout, whatever their devices. */
#include "exchange/exchange.h"
#include "formats/safetensors.h"

/* Divides numbers by n. A quotient of two floats is rounded as one of doubles that is rounded to a
 * float: a double has more than twice as many digits. */
static void divide(weft_dtype dtype, void *data, int64_t count, int n)
{
    float *singles = data;
    double *doubles = data;
    if (dtype == WEFT_F32)
        for (int64_t i = 0; i < count; i++) singles[i] /= (float)n;
    else if (dtype == WEFT_F64)
        for (int64_t i = 0; i < count; i++) doubles[i] /= n;
    else
        for (int64_t i = 0; i < count; i++)
            weft_number_put(dtype, data, i, weft_number_get(dtype, data, i) / n);
}

weft_status weft_exchange_mean(weft_exchange *e, const char *what, weft_dtype dtype, void *data,
                               int64_t count)
{
    int n = e->setup.endpoint->learners;
    WEFT_TRY(weft_learner_group_run(
        e->setup.endpoint, WEFT_TRANSFER(.kind = WEFT_ALL_REDUCE, .dtype = dtype, .what = what,
                                         .send = data, .receive = data, .count = count)));
    divide(dtype, data, count, n);
    return WEFT_OK;
}

/* Whether tensor i of the store, which is no parameter, is averaged with the parameters. Statistics
 * and averages over updates are, since they belong to the averaged weights. Counters are equal in
 * all learners, and sums begin anew, so they are not. */
static bool is_averaged(const weft_store *store, int i, bool optimizer)
{
    weft_role role = weft_store_role(store, i);
    return weft_dtype_is_float(weft_store_type(store, i).dtype) &&
           (role == WEFT_ROLE_STATISTIC || role == WEFT_ROLE_AVERAGE ||
            (role == WEFT_ROLE_OPTIMIZER && optimizer));
}

size_t weft_exchange_changes_bytes(int64_t count)
{
    return (size_t)count * weft_dtype_size(WEFT_BF16);
}

/* Replaces numbers by `base`, which all learners have, and the mean of what they have changed. The
 * changes cross ranks in bf16: a learner rounds each once, and the sum rounds in the fixed tree. */
static weft_status mean_of_changes(weft_exchange *e, const char *what, weft_dtype dtype,
                                   const void *base, void *data, int64_t count)
{
    uint16_t *change;
    int n = e->setup.endpoint->learners;
    WEFT_TRY(weft_new_bytes(&change, weft_exchange_changes_bytes(count), 1));
    for (int64_t i = 0; i < count; i++)
        change[i] = weft_bf16_of(
            (float)(weft_number_get(dtype, data, i) - weft_number_get(dtype, base, i)));
    weft_status status = weft_learner_group_run(
        e->setup.endpoint, WEFT_TRANSFER(.kind = WEFT_ALL_REDUCE, .dtype = WEFT_BF16, .what = what,
                                         .send = change, .receive = change, .count = count));
    for (int64_t i = 0; i < count && status == WEFT_OK; i++)
        weft_number_put(dtype, data, i,
                        weft_number_get(dtype, base, i) + (double)weft_bf16_float(change[i]) / n);
    free(change);
    return status;
}

/* Averages tensor i in its memory layout. base: see weft_exchange_average_from. */
static weft_status average_mapped(weft_exchange *e, int i, const void *base)
{
    weft_store *store = e->setup.store;
    weft_dtype dtype;
    void *data;
    size_t bytes;
    WEFT_TRY(weft_store_map(store, i, &dtype, &data, &bytes));
    const char *what =
        i == WEFT_ALL_PARAMETERS ? "parameters of the learners" : weft_store_name(store, i);
    int64_t count = (int64_t)(bytes / weft_dtype_size(dtype));
    weft_status status = base ? mean_of_changes(e, what, dtype, base, data, count)
                              : weft_exchange_mean(e, what, dtype, data, count);
    weft_status back = weft_store_unmap(store, i, data);
    return status == WEFT_OK ? back : status;
}

/* Whether the ranks that hold this shard in the learners have different numbers. */
static weft_status compare(weft_exchange *e, const char *what, uint64_t mine, bool *differ)
{
    uint64_t *all;
    int n = e->setup.endpoint->learners;
    WEFT_TRY(WEFT_NEW(&all, n));
    weft_status status = weft_learner_group_run(
        e->setup.endpoint, WEFT_TRANSFER(.kind = WEFT_ALL_GATHER, .dtype = WEFT_U8, .what = what,
                                         .send = &mine, .receive = all, .count = sizeof(mine)));
    *differ = false;
    for (int r = 0; r < n; r++) *differ = *differ || all[r] != all[0];
    free(all);
    return status;
}

weft_status weft_exchange_check_layouts(weft_exchange *e)
{
    bool differ;
    if (e->layouts) return WEFT_OK;
    WEFT_TRY(compare(e, "parameter layouts", weft_store_form(e->setup.store), &differ));
    e->layouts = !differ;
    if (!differ) return WEFT_OK;
    return weft_fail(WEFT_ERR_INTERNAL,
                     "exchange %s: the learners have different memory layouts of their parameters",
                     e->ops->name);
}

weft_status weft_exchange_average_from(weft_exchange *e, bool optimizer, const void *base)
{
    weft_store *store = e->setup.store;
    WEFT_TRY(weft_exchange_check_layouts(e));
    WEFT_TRY(average_mapped(e, WEFT_ALL_PARAMETERS, base));
    for (int i = 0; i < weft_store_count(store); i++)
        if (is_averaged(store, i, optimizer)) WEFT_TRY(average_mapped(e, i, NULL));
    return WEFT_OK;
}

weft_status weft_exchange_average_learners(weft_exchange *e, bool optimizer)
{
    return weft_exchange_average_from(e, optimizer, NULL);
}

weft_status weft_exchange_learners_differ(weft_exchange *e, bool *differ)
{
    void *data;
    size_t bytes;
    weft_dtype dtype;
    double count;
    WEFT_TRY(weft_exchange_check_layouts(e));
    WEFT_TRY(weft_store_map(e->setup.store, WEFT_ALL_PARAMETERS, &dtype, &data, &bytes));
    uint64_t sum = weft_crc32(data, bytes);
    weft_store_unmap_read(e->setup.store, data);
    WEFT_TRY(compare(e, "checksums of the parameters", sum, differ));
    count = *differ;
    WEFT_TRY(weft_comm_run(e->setup.learner,
                           WEFT_TRANSFER(.kind = WEFT_ALL_REDUCE, .dtype = WEFT_F64,
                                         .what = "whether learners differ", .send = &count,
                                         .receive = &count, .count = 1)));
    *differ = count > 0;
    return WEFT_OK;
}

weft_status weft_exchange_equalize_learners(weft_exchange *e, bool optimizer)
{
    bool differ;
    WEFT_TRY(weft_exchange_learners_differ(e, &differ));
    return differ ? weft_exchange_average_learners(e, optimizer) : WEFT_OK;
}
