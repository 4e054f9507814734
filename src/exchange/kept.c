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
    weft_codec_gap *holdings; /* of parameters, in order */
    int holding_count;
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

static int by_begin(const void *a, const void *b)
{
    const weft_codec_gap *x = a, *y = b;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

static weft_status list_holdings(weft_kept *k, weft_store *store)
{
    void *data;
    size_t bytes;
    int n = weft_store_count(store);
    WEFT_TRY(weft_store_map(store, WEFT_ALL_PARAMETERS, &k->dtype, &data, &bytes));
    weft_store_unmap_read(store, data);
    k->count = (int64_t)(bytes / weft_dtype_size(k->dtype));
    WEFT_TRY(WEFT_NEW(&k->holdings, n + 1));
    for (int i = 0; i < n; i++) {
        weft_codec_gap *h = &k->holdings[k->holding_count];
        if (weft_store_kind(store, i) != WEFT_VALUE_PARAM) continue;
        WEFT_TRY(weft_store_range(store, i, &h->begin, &h->count));
        k->holding_count++;
    }
    qsort(k->holdings, (size_t)k->holding_count, sizeof(*k->holdings), by_begin);
    k->holdings[k->holding_count] = (weft_codec_gap){k->count, 0};
    return WEFT_OK;
}

static weft_status make(weft_kept *k, weft_context *context, const char *spec, weft_store *store)
{
    weft_codec *sample;
    WEFT_TRY(list_holdings(k, store));
    WEFT_TRY(weft_codec_open(context, spec, k->dtype, 1, &sample));
    weft_status status = list(k, sample);
    weft_codec_close(&sample);
    return status;
}

weft_status weft_kept_open(weft_context *context, const char *spec, weft_store *store,
                           weft_kept **out)
{
    WEFT_TRY(WEFT_NEW(out, 1));
    weft_status status = make(*out, context, spec, store);
    if (status != WEFT_OK) weft_kept_close(out);
    return status;
}

void weft_kept_close(weft_kept **kept)
{
    if (!kept || !*kept) return;
    for (int i = 0; i < (*kept)->state_count; i++) free((*kept)->states[i].data);
    free((*kept)->holdings);
    free(*kept);
    *kept = NULL;
}

/* What lies between parameters. */
weft_status weft_kept_skip(const weft_kept *k, weft_codec *codec, int64_t begin)
{
    int64_t at = begin, end = begin + codec->count;
    for (int i = 0; i <= k->holding_count; i++) {
        const weft_codec_gap *h = &k->holdings[i];
        int64_t until = WEFT_MIN(h->begin, end);
        if (until > at) WEFT_TRY(weft_codec_skip(codec, at - begin, until - at));
        at = WEFT_MAX(at, h->begin + h->count);
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
                                 .type = {.dtype = WEFT_F64},
                                 .data = s->data,
                                 .bytes = bytes_of(k, s)};
    return true;
}
