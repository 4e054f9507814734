/* Finds the padding in the memory of all parameters (WEFT_ALL_PARAMETERS of a store). */
#include "exchange/codec_checkpoint.h"

typedef struct gap_list {
    weft_dtype dtype;
    int64_t elements;
    weft_codec_gap *gaps;
    size_t count, capacity;
} gap_list;

/* Sets the elements of parameter i to 1, in whatever memory layout the store has it. */
static weft_status mark(weft_store *store, int i)
{
    weft_type type = weft_store_type(store, i);
    int64_t n = weft_shape_elements(&type.shape);
    void *ones;
    WEFT_TRY(weft_new_bytes(&ones, (size_t)n, weft_dtype_size(type.dtype)));
    for (int64_t k = 0; k < n; k++) weft_number_put(type.dtype, ones, k, 1);
    weft_status status = weft_store_write(store, i, ones);
    free(ones);
    return status;
}

/* Sets the range of a sharded tensor to 1 in the memory `all`. Such a range has no padding. */
static weft_status mark_range(const gap_list *l, const weft_store *store, int i, void *all)
{
    int64_t begin, count;
    WEFT_TRY(weft_store_range(store, i, &begin, &count));
    for (int64_t n = begin; n < begin + count; n++) weft_number_put(l->dtype, all, n, 1);
    return WEFT_OK;
}

/* Lists the runs of zeros in memory: the padding. */
static weft_status list_gaps(gap_list *l, const void *all)
{
    for (int64_t i = 0; i < l->elements; i++) {
        weft_codec_gap *last = l->count ? &l->gaps[l->count - 1] : NULL;
        if (weft_number_get(l->dtype, all, i) != 0) continue;
        if (last && last->begin + last->count == i) {
            last->count++;
            continue;
        }
        WEFT_TRY(WEFT_GROW(&l->gaps, &l->capacity, l->count));
        l->gaps[l->count++] = (weft_codec_gap){i, 1};
    }
    return WEFT_OK;
}

/* Sets the parameters that this rank leads to 1: with `spread` the ranges of sharded tensors,
 * otherwise the whole tensors. Parameters that another rank leads stay zero, and count as
 * padding. */
static weft_status mark_all(const gap_list *l, weft_store *copy, const weft_shared_params *shared,
                            bool spread, void *all)
{
    int64_t parameter = 0;
    for (int i = 0; i < weft_store_count(copy); i++) {
        if (weft_store_kind(copy, i) != WEFT_VALUE_PARAM) continue;
        bool own = !shared || weft_shared_params_is_leader_with(shared, parameter++);
        if (own && weft_store_is_spread(copy, i) == spread)
            WEFT_TRY(spread ? mark_range(l, copy, i, all) : mark(copy, i));
    }
    return WEFT_OK;
}

/* Sets the memory of the copy to 0, and then all elements of its parameters to 1: memory that is
 * still 0 is padding. */
static weft_status find_gaps(gap_list *l, weft_store *copy, const weft_shared_params *shared)
{
    void *all;
    size_t bytes;
    WEFT_TRY(weft_store_map(copy, WEFT_ALL_PARAMETERS, &l->dtype, &all, &bytes));
    l->elements = (int64_t)(bytes / weft_dtype_size(l->dtype));
    memset(all, 0, bytes);
    WEFT_TRY(weft_store_unmap(copy, WEFT_ALL_PARAMETERS, all));
    WEFT_TRY(mark_all(l, copy, shared, false, NULL));
    WEFT_TRY(weft_store_map(copy, WEFT_ALL_PARAMETERS, &l->dtype, &all, &bytes));
    weft_status status = mark_all(l, copy, shared, true, all);
    if (status == WEFT_OK) status = list_gaps(l, all);
    weft_store_unmap_read(copy, all);
    return status;
}

weft_status weft_gaps_of(const weft_store *store, const weft_shared_params *shared,
                         weft_gap_list *out)
{
    gap_list l = {.gaps = NULL};
    weft_store *copy;
    *out = (weft_gap_list){0};
    WEFT_TRY(weft_store_clone(store, &copy));
    weft_status status = find_gaps(&l, copy, shared);
    weft_store_destroy(&copy);
    if (status != WEFT_OK) {
        free(l.gaps);
        return status;
    }
    *out = (weft_gap_list){l.gaps, l.count};
    return WEFT_OK;
}

weft_status weft_parameter_gaps(const weft_store *store, weft_gap_list *out)
{
    return weft_gaps_of(store, NULL, out);
}

weft_status weft_gaps_skip(weft_gap_list gaps, weft_codec *codec, int64_t begin)
{
    for (size_t i = 0; i < gaps.count; i++) {
        const weft_codec_gap *g = &gaps.gaps[i];
        int64_t from = WEFT_MAX(g->begin, begin);
        int64_t until = WEFT_MIN(g->begin + g->count, begin + codec->count);
        if (until > from) WEFT_TRY(weft_codec_skip(codec, from - begin, until - from));
    }
    return WEFT_OK;
}
