/* Copies codec state between ranges and flat arrays with an element for each parameter. */
#include "exchange/codec_checkpoint.h"

#include <stdio.h>

struct weft_codec_checkpoint {
    weft_dtype dtype;
    int64_t count;
    struct kept_state {
        char name[64], what[96];
        weft_codec_extent extent;
        void *data; /* [count] of dtype; SENDER: one double */
    } states[WEFT_CODEC_STATES];
    int state_count;
    weft_gap_list gaps; /* padding */
    double momentum;    /* coefficient of the codec */
};

static size_t bytes_of(const weft_codec_checkpoint *k, const struct kept_state *s)
{
    if (s->extent == WEFT_CODEC_SENDER) return sizeof(double);
    return (size_t)k->count * weft_dtype_size(k->dtype);
}

/* Lists the states of a sample codec. Its elements have initial values that all parameters begin
 * with. */
static weft_status list(weft_codec_checkpoint *k, weft_codec *sample)
{
    weft_codec_state s;
    for (int i = 0; weft_codec_state_of(sample, i, &s); i++) {
        struct kept_state *mine = &k->states[k->state_count];
        (void)snprintf(mine->name, sizeof(mine->name), "%s_%s", sample->ops->name, s.name);
        (void)snprintf(mine->what, sizeof(mine->what), "%s of %s", s.what, sample->ops->name);
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

/* Whether a codec has a residual. */
static weft_status look_at(weft_codec_checkpoint *k, weft_context *context, const char *spec,
                           bool keeps, bool *loses)
{
    weft_codec *sample;
    WEFT_TRY(weft_codec_open(context, spec, k->dtype, 1, &sample));
    *loses = *loses || sample->residual;
    if (keeps) k->momentum = sample->momentum;
    weft_status status = keeps ? list(k, sample) : WEFT_OK;
    weft_codec_close(&sample);
    return status;
}

static weft_status make(weft_codec_checkpoint *k, weft_context *context, const char *spec,
                        const char *back, const weft_store *store, const weft_shared_params *shared)
{
    void *data;
    size_t bytes;
    bool loses = false;
    WEFT_TRY(weft_store_map(store, WEFT_ALL_PARAMETERS, &k->dtype, &data, &bytes));
    weft_store_unmap_read(store, data);
    k->count = (int64_t)(bytes / weft_dtype_size(k->dtype));
    WEFT_TRY(look_at(k, context, spec, true, &loses));
    if (back) WEFT_TRY(look_at(k, context, back, false, &loses));
    if (!loses || k->count == 0) return WEFT_OK;
    return weft_gaps_of(store, shared, &k->gaps);
}

weft_status weft_codec_checkpoint_open(weft_context *context, const char *spec, const char *back,
                                       const weft_store *store, const weft_shared_params *shared,
                                       weft_codec_checkpoint **out)
{
    WEFT_TRY(WEFT_NEW(out, 1));
    weft_status status = make(*out, context, spec, back, store, shared);
    if (status != WEFT_OK) weft_codec_checkpoint_close(out);
    return status;
}

void weft_codec_checkpoint_close(weft_codec_checkpoint **kept)
{
    if (!kept || !*kept) return;
    for (int i = 0; i < (*kept)->state_count; i++) free((*kept)->states[i].data);
    free((*kept)->gaps.gaps);
    free(*kept);
    *kept = NULL;
}

weft_gap_list weft_codec_checkpoint_padding(const weft_codec_checkpoint *k)
{
    return k ? k->gaps : (weft_gap_list){0};
}

weft_status weft_codec_checkpoint_exclude_padding(const weft_codec_checkpoint *k, weft_codec *codec,
                                                  int64_t begin)
{
    return weft_gaps_skip(k->gaps, codec, begin);
}

weft_status weft_codec_checkpoint_load(const weft_codec_checkpoint *k, weft_codec *codec,
                                       int64_t begin)
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
    return weft_codec_checkpoint_exclude_padding(k, codec, begin);
}

void weft_codec_checkpoint_store(weft_codec_checkpoint *k, weft_codec *codec, int64_t begin)
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

bool weft_codec_checkpoint_state(const weft_codec_checkpoint *k, int i, weft_exchange_state *out)
{
    if (!k || i < 0 || i >= k->state_count) return false;
    const struct kept_state *s = &k->states[i];
    *out = (weft_exchange_state){.name = s->name,
                                 .what = s->what,
                                 .like_parameters = s->extent != WEFT_CODEC_SENDER,
                                 .adds = s->extent == WEFT_CODEC_EACH,
                                 .type = {.dtype = WEFT_F64},
                                 .data = s->data,
                                 .bytes = bytes_of(k, s)};
    return true;
}

void weft_codec_checkpoint_set_momentum(const weft_codec_checkpoint *k,
                                        const weft_exchange_site *site)
{
    const weft_optimizer_options *o = site->optimizer;
    if (k->momentum <= 0 || !o || site->endpoint->learner > 0) return;
    double more = 1 / (1 - k->momentum);
    if (strcmp(o->name, "sgd") != 0 || o->momentum > 0)
        weft_log(
            site->context, WEFT_LOG_NOTE,
            "--compress %s gathers updates with a momentum of %g, on top of that of --optimizer "
            "%s: steps become about %.3g times as large; momentum=0 of the codec, or sgd "
            "without momentum, leaves one of them out",
            site->codec, k->momentum, o->name, more);
}
