/* The mean of the learners: averages their parameters and state, and compares their parameters. The
 * devices of learners may have different memory layouts; tensors are then averaged one by one in
 * the plain (row-major) layout. */
#include "exchange/exchange.h"
#include "formats/safetensors.h"

enum { UNKNOWN, ALIKE, DIFFERENT }; /* weft_exchange.layouts */

weft_status weft_exchange_mean(weft_exchange *e, const char *what, weft_dtype dtype, void *data,
                               int64_t count)
{
    int n = e->setup.endpoint->learners;
    WEFT_TRY(weft_learner_group_run(
        e->setup.endpoint, WEFT_TRANSFER(.kind = WEFT_ALL_REDUCE, .dtype = dtype, .what = what,
                                         .send = data, .receive = data, .count = count)));
    for (int64_t i = 0; i < count; i++)
        weft_number_put(dtype, data, i, weft_number_get(dtype, data, i) / n);
    return WEFT_OK;
}

/* Whether tensor i of the store, which is no parameter, is averaged with the parameters. Statistics
 * are, since they belong to the averaged weights. Counters are equal in all learners, and sums
 * begin anew, so they are not. */
static bool is_averaged(const weft_store *store, int i, bool optimizer)
{
    weft_role role = weft_store_role(store, i);
    return weft_dtype_is_float(weft_store_type(store, i).dtype) &&
           (role == WEFT_ROLE_STATISTIC || (role == WEFT_ROLE_OPTIMIZER && optimizer));
}

/* Averages tensor i in its memory layout. */
static weft_status average_mapped(weft_exchange *e, int i)
{
    weft_store *store = e->setup.store;
    weft_dtype dtype;
    void *data;
    size_t bytes;
    WEFT_TRY(weft_store_map(store, i, &dtype, &data, &bytes));
    const char *what =
        i == WEFT_ALL_PARAMETERS ? "parameters of the learners" : weft_store_name(store, i);
    weft_status status =
        weft_exchange_mean(e, what, dtype, data, (int64_t)(bytes / weft_dtype_size(dtype)));
    weft_status back = weft_store_unmap(store, i, data);
    return status == WEFT_OK ? back : status;
}

/* Reads tensor i in the plain layout; the caller frees *data. */
static weft_status read_plain(const weft_store *store, int i, weft_type *type, void **data)
{
    *type = weft_store_type(store, i);
    WEFT_TRY(weft_new_aligned(weft_type_bytes(type), data));
    weft_status status = weft_store_read(store, i, *data);
    if (status != WEFT_OK) free(*data);
    return status;
}

static weft_status average_plain(weft_exchange *e, int i)
{
    weft_store *store = e->setup.store;
    weft_type type;
    void *data;
    WEFT_TRY(read_plain(store, i, &type, &data));
    weft_status status = weft_exchange_mean(e, weft_store_name(store, i), type.dtype, data,
                                            weft_shape_elements(&type.shape));
    if (status == WEFT_OK) status = weft_store_write(store, i, data);
    free(data);
    return status;
}

/* Checks that every averaged tensor can be read in the plain layout. A tensor that ZeRO shards into
 * ranges cannot. */
static weft_status check_plain(const weft_exchange *e, bool optimizer)
{
    weft_store *store = e->setup.store;
    for (int i = 0; i < weft_store_count(store); i++) {
        weft_type type;
        void *data;
        if (weft_store_kind(store, i) != WEFT_VALUE_PARAM && !is_averaged(store, i, optimizer))
            continue;
        weft_status status = read_plain(store, i, &type, &data);
        if (status == WEFT_ERR_UNSUPPORTED)
            return weft_fail(WEFT_ERR_UNSUPPORTED,
                             "exchange %s: the devices of the learners have different memory "
                             "layouts for '%s', so its ranges cannot be averaged; give all "
                             "learners the same --device, or --zero 0",
                             e->ops->name, weft_store_name(store, i));
        WEFT_TRY(status);
        free(data);
    }
    return WEFT_OK;
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

weft_status weft_exchange_compare_layouts(weft_exchange *e, bool optimizer)
{
    bool differ;
    if (e->layouts != UNKNOWN) return WEFT_OK;
    WEFT_TRY(compare(e, "parameter layouts", weft_store_form(e->setup.store), &differ));
    if (differ) WEFT_TRY(check_plain(e, optimizer));
    e->layouts = differ ? DIFFERENT : ALIKE;
    return WEFT_OK;
}

weft_status weft_exchange_check_layouts(weft_exchange *e)
{
    bool differ = e->layouts == DIFFERENT;
    if (e->layouts == UNKNOWN)
        WEFT_TRY(compare(e, "parameter layouts", weft_store_form(e->setup.store), &differ));
    if (!differ) return WEFT_OK;
    return weft_fail(WEFT_ERR_UNSUPPORTED,
                     "exchange %s: the devices of the learners have different memory layouts; "
                     "give all learners the same --device",
                     e->ops->name);
}

weft_status weft_exchange_average_learners(weft_exchange *e, bool optimizer)
{
    weft_store *store = e->setup.store;
    WEFT_TRY(weft_exchange_compare_layouts(e, optimizer));
    if (e->layouts == ALIKE) WEFT_TRY(average_mapped(e, WEFT_ALL_PARAMETERS));
    for (int i = 0; i < weft_store_count(store) && e->layouts == DIFFERENT; i++)
        if (weft_store_kind(store, i) == WEFT_VALUE_PARAM) WEFT_TRY(average_plain(e, i));
    for (int i = 0; i < weft_store_count(store); i++)
        if (is_averaged(store, i, optimizer))
            WEFT_TRY(e->layouts == ALIKE ? average_mapped(e, i) : average_plain(e, i));
    return WEFT_OK;
}

/* A checksum of the parameters: of their plain values where memory layouts differ. */
static weft_status checksum(const weft_exchange *e, uint64_t *sum)
{
    weft_store *store = e->setup.store;
    void *data;
    size_t bytes;
    weft_dtype dtype;
    weft_type type;
    if (e->layouts == ALIKE) {
        WEFT_TRY(weft_store_map(store, WEFT_ALL_PARAMETERS, &dtype, &data, &bytes));
        *sum = weft_crc32(data, bytes);
        weft_store_unmap_read(store, data);
        return WEFT_OK;
    }
    *sum = 0;
    for (int i = 0; i < weft_store_count(store); i++) {
        if (weft_store_kind(store, i) != WEFT_VALUE_PARAM) continue;
        WEFT_TRY(read_plain(store, i, &type, &data));
        *sum = weft_mix(*sum, weft_crc32(data, weft_type_bytes(&type)));
        free(data);
    }
    return WEFT_OK;
}

weft_status weft_exchange_learners_differ(weft_exchange *e, bool *differ)
{
    uint64_t sum;
    double count;
    WEFT_TRY(weft_exchange_compare_layouts(e, false));
    WEFT_TRY(checksum(e, &sum));
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
