#include "exchange/kept.h"

#include <stdio.h>

struct weft_kept {
    weft_dtype dtype;
    int64_t count;
    struct kept_state {
        char name[64];
        weft_codec_extent extent;
        void *data; /* [count] of dtype; SENDER: one double */
    } states[WEFT_CODEC_STATES];
    int state_count;
    weft_codec_gap *gaps; /* what is no parameter, in order */
    size_t gap_count, gap_capacity;
};

static size_t bytes_of(const weft_kept *k, const struct kept_state *s)
{
    if (s->extent == WEFT_CODEC_SENDER) return sizeof(double);
    return (size_t)k->count * weft_dtype_size(k->dtype);
}

/* A sample says what there is; its parameters are the first one, and those of a range alike. */
static weft_status list(weft_kept *k, weft_codec *sample)
{
    weft_codec_state s;
    for (int i = 0; weft_codec_state_of(sample, i, &s); i++) {
        struct kept_state *mine = &k->states[k->state_count];
        (void)snprintf(mine->name, sizeof(mine->name), "%s_%s", sample->ops->name, s.name);
        mine->extent = s.extent;
        WEFT_TRY(weft_new_aligned(bytes_of(k, mine), &mine->data));
        memset(mine->data, 0, bytes_of(k, mine));
        k->state_count++;
        if (s.extent == WEFT_CODEC_SENDER) memcpy(mine->data, s.data, sizeof(double));
        if (s.extent != WEFT_CODEC_RANGE) continue;
        for (int64_t n = 0; n < k->count; n++)
            weft_number_put(k->dtype, mine->data, n, *(const double *)s.data);
    }
    return WEFT_OK;
}

/* --- what is no parameter --- */

/* Its elements become ones, wherever they lie. */
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

/* The same for a range of elements, of which nothing is padded. */
static weft_status mark_range(const weft_kept *k, const weft_store *store, int i, void *all)
{
    int64_t begin, count;
    WEFT_TRY(weft_store_range(store, i, &begin, &count));
    for (int64_t n = begin; n < begin + count; n++) weft_number_put(k->dtype, all, n, 1);
    return WEFT_OK;
}

/* Runs of zeros. */
static weft_status list_gaps(weft_kept *k, const void *all)
{
    for (int64_t i = 0; i < k->count; i++) {
        weft_codec_gap *last = k->gap_count ? &k->gaps[k->gap_count - 1] : NULL;
        if (weft_number_get(k->dtype, all, i) != 0) continue;
        if (last && last->begin + last->count == i) {
            last->count++;
            continue;
        }
        WEFT_TRY(WEFT_GROW(&k->gaps, &k->gap_capacity, k->gap_count));
        k->gaps[k->gap_count++] = (weft_codec_gap){i, 1};
    }
    return WEFT_OK;
}

/* What lies between parameters, and within one whose layout is padded: what is not there any more
 * when all elements are one. */
static weft_status find_gaps(weft_kept *k, weft_store *copy)
{
    void *all;
    size_t bytes;
    weft_status status = WEFT_OK;
    WEFT_TRY(weft_store_map(copy, WEFT_ALL_PARAMETERS, &k->dtype, &all, &bytes));
    memset(all, 0, bytes);
    WEFT_TRY(weft_store_unmap(copy, WEFT_ALL_PARAMETERS, all));
    for (int i = 0; i < weft_store_count(copy); i++)
        if (weft_store_kind(copy, i) == WEFT_VALUE_PARAM && !weft_store_is_spread(copy, i))
            WEFT_TRY(mark(copy, i));
    WEFT_TRY(weft_store_map(copy, WEFT_ALL_PARAMETERS, &k->dtype, &all, &bytes));
    for (int i = 0; i < weft_store_count(copy) && status == WEFT_OK; i++)
        if (weft_store_kind(copy, i) == WEFT_VALUE_PARAM && weft_store_is_spread(copy, i))
            status = mark_range(k, copy, i, all);
    if (status == WEFT_OK) status = list_gaps(k, all);
    weft_store_unmap_read(copy, all);
    return status;
}

/* Whether a codec leaves anything out. */
static weft_status look_at(weft_kept *k, weft_context *context, const char *spec, bool keeps,
                           bool *loses)
{
    weft_codec *sample;
    WEFT_TRY(weft_codec_open(context, spec, k->dtype, 1, &sample));
    *loses = *loses || sample->residual;
    weft_status status = keeps ? list(k, sample) : WEFT_OK;
    weft_codec_close(&sample);
    return status;
}

static weft_status make(weft_kept *k, weft_context *context, const char *spec, const char *back,
                        const weft_store *store)
{
    weft_store *copy;
    void *data;
    size_t bytes;
    bool loses = false;
    WEFT_TRY(weft_store_map(store, WEFT_ALL_PARAMETERS, &k->dtype, &data, &bytes));
    weft_store_unmap_read(store, data);
    k->count = (int64_t)(bytes / weft_dtype_size(k->dtype));
    WEFT_TRY(look_at(k, context, spec, true, &loses));
    if (back) WEFT_TRY(look_at(k, context, back, false, &loses));
    if (!loses || k->count == 0) return WEFT_OK;
    WEFT_TRY(weft_store_clone(store, &copy));
    weft_status status = find_gaps(k, copy);
    weft_store_destroy(&copy);
    return status;
}

weft_status weft_kept_open(weft_context *context, const char *spec, const char *back,
                           const weft_store *store, weft_kept **out)
{
    WEFT_TRY(WEFT_NEW(out, 1));
    weft_status status = make(*out, context, spec, back, store);
    if (status != WEFT_OK) weft_kept_close(out);
    return status;
}

void weft_kept_close(weft_kept **kept)
{
    if (!kept || !*kept) return;
    for (int i = 0; i < (*kept)->state_count; i++) free((*kept)->states[i].data);
    free((*kept)->gaps);
    free(*kept);
    *kept = NULL;
}

weft_status weft_kept_skip(const weft_kept *k, weft_codec *codec, int64_t begin)
{
    for (size_t i = 0; i < k->gap_count; i++) {
        const weft_codec_gap *g = &k->gaps[i];
        int64_t from = WEFT_MAX(g->begin, begin);
        int64_t until = WEFT_MIN(g->begin + g->count, begin + codec->count);
        if (until > from) WEFT_TRY(weft_codec_skip(codec, from - begin, until - from));
    }
    return WEFT_OK;
}

weft_status weft_kept_give(const weft_kept *k, weft_codec *codec, int64_t begin)
{
    weft_codec_state s;
    size_t size = weft_dtype_size(k->dtype);
    for (int i = 0; weft_codec_state_of(codec, i, &s); i++) {
        const char *from = k->states[i].data;
        switch (s.extent) {
        case WEFT_CODEC_EACH:
            memcpy(s.data, from + (size_t)begin * size, (size_t)codec->count * size);
            break;
        case WEFT_CODEC_RANGE: *(double *)s.data = weft_number_get(k->dtype, from, begin); break;
        case WEFT_CODEC_SENDER: memcpy(s.data, from, sizeof(double)); break;
        }
    }
    return weft_kept_skip(k, codec, begin);
}

void weft_kept_take(weft_kept *k, weft_codec *codec, int64_t begin)
{
    weft_codec_state s;
    size_t size = weft_dtype_size(k->dtype);
    for (int i = 0; weft_codec_state_of(codec, i, &s); i++) {
        char *to = k->states[i].data;
        switch (s.extent) {
        case WEFT_CODEC_EACH:
            memcpy(to + (size_t)begin * size, s.data, (size_t)codec->count * size);
            break;
        case WEFT_CODEC_RANGE:
            for (int64_t n = begin; n < begin + codec->count; n++)
                weft_number_put(k->dtype, to, n, *(const double *)s.data);
            break;
        case WEFT_CODEC_SENDER: memcpy(to, s.data, sizeof(double)); break;
        }
    }
}

bool weft_kept_state(const weft_kept *k, int i, weft_exchange_state *out)
{
    if (!k || i < 0 || i >= k->state_count) return false;
    const struct kept_state *s = &k->states[i];
    *out = (weft_exchange_state){.name = s->name,
                                 .like_parameters = s->extent != WEFT_CODEC_SENDER,
                                 .adds = s->extent == WEFT_CODEC_EACH,
                                 .type = {.dtype = WEFT_F64},
                                 .data = s->data,
                                 .bytes = bytes_of(k, s)};
    return true;
}
