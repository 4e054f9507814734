/* Copies codec state between the codecs of ranges and flat arrays that have one element for each
 * parameter. */
#include "exchange/codec_checkpoint.h"
#include "exchange/flat_optimizer.h"

#include <stdio.h>

struct weft_codec_checkpoint {
    weft_dtype dtype;
    int64_t count;
    struct codec_state {
        char name[64], what[96];
        weft_codec_extent extent;
        void *data; /* [count] of dtype; with extent SENDER one double */
    } states[WEFT_CODEC_STATES];
    int state_count;
    weft_gap_list gaps; /* padding, which codecs leave out */
    double momentum;    /* momentum coefficient of the codec; 0: none */
};

static size_t bytes_of(const weft_codec_checkpoint *checkpoint, const struct codec_state *s)
{
    if (s->extent == WEFT_CODEC_SENDER) return sizeof(double);
    return (size_t)checkpoint->count * weft_dtype_size(checkpoint->dtype);
}

void weft_codec_state_name(char *out, size_t size, const char *prefix, const char *codec,
                           const char *state)
{
    (void)snprintf(out, size, "%s%s_%s", prefix, codec, state);
    for (char *c = out; *c; c++)
        if (*c == '-' || *c == '.') *c = '_';
}

/* Lists the states of a sample codec, which has one element. The initial values of the sample
 * become those of all parameters. */
static weft_status list(weft_codec_checkpoint *checkpoint, weft_codec *sample)
{
    weft_codec_state s;
    for (int i = 0; weft_codec_state_of(sample, i, &s); i++) {
        struct codec_state *mine = &checkpoint->states[checkpoint->state_count];
        weft_codec_state_name(mine->name, sizeof(mine->name), "", sample->ops->name, s.name);
        (void)snprintf(mine->what, sizeof(mine->what), "%s of %s", s.what, sample->ops->name);
        mine->extent = s.extent;
        /* Zeros that are not written, as in a run without checkpoints, are not resident. */
        WEFT_TRY(weft_new_bytes(&mine->data, bytes_of(checkpoint, mine), 1));
        checkpoint->state_count++;
        if (s.extent == WEFT_CODEC_SENDER) memcpy(mine->data, s.data, sizeof(double));
        if (s.extent != WEFT_CODEC_RANGE) continue;
        for (int64_t n = 0; n < checkpoint->count; n++)
            weft_number_put(checkpoint->dtype, mine->data, n, *(const double *)s.data);
    }
    return WEFT_OK;
}

/* Opens a sample of a codec. Sets *loses if the codec has a residual; with `keeps` also records its
 * states and momentum. */
static weft_status look_at(weft_codec_checkpoint *checkpoint, weft_context *context,
                           const char *spec, bool keeps, bool *loses)
{
    weft_codec *sample;
    WEFT_TRY(weft_codec_open(context, spec, checkpoint->dtype, 1, &sample));
    *loses = *loses || sample->residual;
    if (keeps) checkpoint->momentum = sample->momentum;
    weft_status status = keeps ? list(checkpoint, sample) : WEFT_OK;
    weft_codec_close(&sample);
    return status;
}

static weft_status make(weft_codec_checkpoint *checkpoint, weft_context *context, const char *spec,
                        const char *back, const weft_store *store, const weft_shared_params *shared)
{
    void *data;
    size_t bytes;
    bool loses = false;
    WEFT_TRY(weft_store_map(store, WEFT_ALL_PARAMETERS, &checkpoint->dtype, &data, &bytes));
    weft_store_unmap_read(store, data);
    checkpoint->count = (int64_t)(bytes / weft_dtype_size(checkpoint->dtype));
    WEFT_TRY(look_at(checkpoint, context, spec, true, &loses));
    if (back) WEFT_TRY(look_at(checkpoint, context, back, false, &loses));
    if (!loses || checkpoint->count == 0) return WEFT_OK;
    return weft_gaps_of(store, shared, &checkpoint->gaps);
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

void weft_codec_checkpoint_close(weft_codec_checkpoint **checkpoint)
{
    if (!checkpoint || !*checkpoint) return;
    for (int i = 0; i < (*checkpoint)->state_count; i++) free((*checkpoint)->states[i].data);
    free((*checkpoint)->gaps.gaps);
    free(*checkpoint);
    *checkpoint = NULL;
}

weft_gap_list weft_codec_checkpoint_padding(const weft_codec_checkpoint *checkpoint)
{
    return checkpoint ? checkpoint->gaps : (weft_gap_list){0};
}

weft_status weft_codec_checkpoint_exclude_padding(const weft_codec_checkpoint *checkpoint,
                                                  weft_codec *codec, int64_t begin)
{
    return weft_gaps_skip(checkpoint->gaps, codec, begin);
}

int64_t weft_codec_checkpoint_first(const weft_codec_checkpoint *checkpoint, int64_t begin)
{
    const weft_gap_list gaps = checkpoint->gaps;
    for (size_t i = 0; i < gaps.count; i++)
        if (gaps.gaps[i].begin <= begin)
            begin = WEFT_MAX(begin, gaps.gaps[i].begin + gaps.gaps[i].count);
    return begin;
}

weft_status weft_codec_checkpoint_load(const weft_codec_checkpoint *checkpoint, weft_codec *codec,
                                       int64_t begin)
{
    weft_codec_state s;
    size_t size = weft_dtype_size(checkpoint->dtype);
    int64_t first = weft_codec_checkpoint_first(checkpoint, begin);
    for (int i = 0; weft_codec_state_of(codec, i, &s); i++) {
        const char *from = checkpoint->states[i].data;
        switch (s.extent) {
        case WEFT_CODEC_EACH:
            memcpy(s.data, from + (size_t)begin * size, (size_t)codec->count * size);
            break;
        case WEFT_CODEC_RANGE:
            if (first < begin + codec->count) /* else the range is padding alone */
                *(double *)s.data = weft_number_get(checkpoint->dtype, from, first);
            break;
        case WEFT_CODEC_SENDER: memcpy(s.data, from, sizeof(double)); break;
        }
    }
    return weft_codec_checkpoint_exclude_padding(checkpoint, codec, begin);
}

void weft_codec_checkpoint_store(weft_codec_checkpoint *checkpoint, weft_codec *codec,
                                 int64_t begin)
{
    weft_codec_state s;
    size_t size = weft_dtype_size(checkpoint->dtype);
    for (int i = 0; weft_codec_state_of(codec, i, &s); i++) {
        char *to = checkpoint->states[i].data;
        switch (s.extent) {
        case WEFT_CODEC_EACH:
            memcpy(to + (size_t)begin * size, s.data, (size_t)codec->count * size);
            break;
        case WEFT_CODEC_RANGE:
            for (int64_t n = begin; n < begin + codec->count; n++)
                weft_number_put(checkpoint->dtype, to, n, *(const double *)s.data);
            break;
        case WEFT_CODEC_SENDER: memcpy(to, s.data, sizeof(double)); break;
        }
    }
}

bool weft_codec_checkpoint_state(const weft_codec_checkpoint *checkpoint, int i,
                                 weft_exchange_state *out)
{
    if (!checkpoint || i < 0 || i >= checkpoint->state_count) return false;
    const struct codec_state *s = &checkpoint->states[i];
    *out = (weft_exchange_state){.name = s->name,
                                 .what = s->what,
                                 .like_parameters = s->extent != WEFT_CODEC_SENDER,
                                 .adds = s->extent == WEFT_CODEC_EACH,
                                 .type = {.dtype = WEFT_F64},
                                 .data = s->data,
                                 .bytes = bytes_of(checkpoint, s)};
    return true;
}

/* Whether the optimizer keeps a number for each parameter. */
static weft_status has_moments(weft_context *context, const weft_store *store, weft_dtype dtype,
                               const weft_optimizer_options *options, bool *out)
{
    enum { SAMPLE = 2 };
    weft_optimizer_options own = *options;
    weft_flat_optimizer *sample;
    weft_exchange_state s;
    own.clip_norm = 0;
    own.accumulate = 1;
    own.update = WEFT_UPDATE_HERE;
    own.multipliers = own.frozen = NULL;
    WEFT_TRY(weft_flat_optimizer_open(context, store, &own, dtype, SAMPLE,
                                      (weft_segment_list){.count = 0}, 0, &sample));
    *out = false;
    for (int i = 0; weft_flat_optimizer_state(sample, i, &s); i++)
        *out = *out || weft_shape_elements(&s.type.shape) == SAMPLE;
    weft_flat_optimizer_close(&sample);
    return WEFT_OK;
}

weft_status weft_codec_checkpoint_note_momentum(const weft_codec_checkpoint *checkpoint,
                                                weft_context *context, const weft_store *store,
                                                const char *codec, const weft_optimizer_options *o)
{
    bool moments;
    if (checkpoint->momentum <= 0 || !o) return WEFT_OK;
    double more = 1 / (1 - checkpoint->momentum);
    WEFT_TRY(has_moments(context, store, checkpoint->dtype, o, &moments));
    if (moments)
        weft_log(
            context, WEFT_LOG_NOTE,
            "--compress %s gathers updates with a momentum of %g, on top of that of --optimizer "
            "%s: steps become about %.3g times as large; momentum=0 of the codec, or sgd "
            "without momentum, leaves one of them out",
            codec, checkpoint->momentum, o->name, more);
    return WEFT_OK;
}
