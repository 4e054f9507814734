/* Registers the built-in codecs and implements their common parts: opening, encoding with warm-up
 * and padding, and state for checkpoints. A new codec has a file of its own and a line in
 * `codecs`. */
#include "compress/codec.h"

#include <stdio.h>

#include "base/registry.h"

/* The count of messages stops here. No warm-up is longer, and a float can represent each count up
 * to here. */
static const double MOST_MESSAGES = 1 << 24;

static const weft_codec_ops *const codecs[] = {
    &weft_codec_none,   &weft_codec_bf16, &weft_codec_threshold, &weft_codec_bitmap,
    &weft_codec_onebit, &weft_codec_topk, &weft_codec_dgc,
};

weft_status weft_codecs_register(weft_context *context)
{
    weft_entry entries[WEFT_COUNT(codecs)];
    weft_context_extend(context, &weft_codecs_extension);
    for (size_t i = 0; i < WEFT_COUNT(codecs); i++)
        entries[i] = (weft_entry){.kind = WEFT_KIND_CODEC,
                                  .name = codecs[i]->name,
                                  .form = codecs[i]->form,
                                  .summary = codecs[i]->help,
                                  .ops = codecs[i]};
    return weft_registry_add(context, entries, (int)WEFT_COUNT(codecs));
}

weft_status weft_codec_find(const weft_context *context, const char *spec,
                            const weft_codec_ops **ops)
{
    const weft_entry *entry;
    WEFT_TRY(weft_registry_find(context, WEFT_KIND_CODEC, spec, strcspn(spec, ":"), &entry));
    *ops = entry->ops;
    return WEFT_OK;
}

static weft_status open_codec(weft_context *context, const char *spec, weft_dtype dtype,
                              int64_t count, weft_codec **out)
{
    const weft_codec_ops *ops;
    const char *colon = strchr(spec, ':'), *arguments = colon ? colon + 1 : "";
    WEFT_TRY(weft_codec_find(context, spec, &ops));
    WEFT_TRY(ops->open_added ? ops->open_added(ops, arguments, dtype, count, out)
                             : ops->open(arguments, dtype, count, out));
    (*out)->ops = ops;
    return WEFT_OK;
}

weft_status weft_codec_open(weft_context *context, const char *spec, weft_dtype dtype,
                            int64_t count, weft_codec **out)
{
    if (dtype != WEFT_F32 && dtype != WEFT_F64)
        return weft_fail(WEFT_ERR_ARGUMENT, "updates of %s cannot be encoded, only f32 and f64",
                         weft_dtype_name(dtype));
    if (count < 1 || count > UINT32_MAX)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "a range of %lld numbers cannot be encoded, only 1 to %lld; share the "
                         "parameters out in more ranges",
                         (long long)count, (long long)UINT32_MAX);
    return open_codec(context, spec, dtype, count, out);
}

weft_status weft_codec_open_back(weft_context *context, const char *spec, weft_dtype dtype,
                                 int64_t count, weft_codec **out)
{
    WEFT_TRY(weft_codec_open(context, spec, dtype, count, out));
    if ((*out)->ops->back) (*out)->ops->back(*out);
    return WEFT_OK;
}

const char *weft_codec_back(const char *there, const char *back)
{
    if (back && *back) return back;
    return there && *there ? there : "none";
}

weft_status weft_codec_momentum(weft_context *context, const char *spec, double *out)
{
    weft_codec *codec = NULL;
    WEFT_TRY(open_codec(context, spec, WEFT_F32, 0, &codec));
    *out = codec->momentum;
    weft_codec_close(&codec);
    return WEFT_OK;
}

bool weft_codec_is_plain(const weft_context *context, const char *spec)
{
    const weft_entry *entry =
        weft_registry_look(context, WEFT_KIND_CODEC, spec, strcspn(spec, ":"));
    return entry && ((const weft_codec_ops *)entry->ops)->plain;
}

weft_status weft_codec_check(weft_context *context, const char *spec)
{
    double momentum;
    return weft_codec_momentum(context, spec, &momentum);
}

void weft_codec_close(weft_codec **codec)
{
    if (!codec || !*codec) return;
    (*codec)->ops->close(*codec);
    *codec = NULL;
}

bool weft_codec_state_of(weft_codec *codec, int i, weft_codec_state *out)
{
    if (i < 0 || i >= codec->state_count) return false;
    *out = codec->states[i];
    return true;
}

size_t weft_encoded_bound(weft_dtype dtype, int64_t count)
{
    return WEFT_MESSAGE_HEADER + (size_t)count * weft_dtype_size(dtype);
}

/* Sets the residual of padding to minus the update, so that both add up to zero. */
static void close_gaps(weft_codec *codec, const void *update)
{
    for (size_t i = 0; codec->residual && i < codec->gap_count; i++)
        for (int64_t k = 0; k < codec->gaps[i].count; k++)
            weft_number_put(codec->dtype, codec->residual, codec->gaps[i].begin + k,
                            -weft_number_get(codec->dtype, update, codec->gaps[i].begin + k));
}

void weft_codec_empty_gaps(const weft_codec *codec, void *numbers)
{
    size_t size = weft_dtype_size(codec->dtype);
    for (size_t i = 0; numbers && i < codec->gap_count; i++)
        memset((char *)numbers + (size_t)codec->gaps[i].begin * size, 0,
               (size_t)codec->gaps[i].count * size);
}

weft_status weft_codec_encode(weft_codec *codec, const void *update, void *message, size_t *bytes)
{
    close_gaps(codec, update);
    if ((int64_t)codec->messages < codec->warmup)
        WEFT_TRY(weft_encoded_all(codec, update, message, bytes));
    else
        WEFT_TRY(codec->ops->encode(codec, update, message, bytes));
    weft_codec_empty_gaps(codec, codec->residual);
    if (codec->messages < MOST_MESSAGES) codec->messages++;
    return WEFT_OK;
}

weft_status weft_codec_write_slice(const weft_codec *codec, const void *numbers, int64_t at,
                                   int64_t n, void *message)
{
    char *body = (char *)message + WEFT_MESSAGE_HEADER;
    return WEFT_OF_REAL(codec->dtype, weft_numbers_lay)(numbers, at, n, body);
}

weft_status weft_codec_skip(weft_codec *codec, int64_t begin, int64_t count)
{
    WEFT_TRY(WEFT_GROW(&codec->gaps, &codec->gap_capacity, codec->gap_count));
    codec->gaps[codec->gap_count++] = (weft_codec_gap){begin, count};
    codec->skipped += count;
    return WEFT_OK;
}

weft_status weft_codec_new(size_t size, weft_dtype dtype, int64_t count, bool residual,
                           weft_codec **out)
{
    weft_codec *codec;
    weft_status status = WEFT_OK;
    WEFT_TRY(weft_new_bytes(&codec, 1, size));
    codec->dtype = dtype;
    codec->count = count;
    if (residual)
        weft_codec_keep_one(codec, "messages", "the message counts", WEFT_CODEC_SENDER,
                            &codec->messages);
    if (residual) status = weft_codec_keep(codec, "residual", "the residuals", &codec->residual);
    if (status != WEFT_OK)
        weft_codec_free(codec);
    else
        *out = codec;
    return status;
}

weft_status weft_codec_keep(weft_codec *codec, const char *name, const char *what, void **data)
{
    *data = NULL;
    if (codec->count == 0) return WEFT_OK;
    WEFT_TRY(weft_new_aligned((size_t)codec->count * weft_dtype_size(codec->dtype), data));
    codec->states[codec->state_count++] = (weft_codec_state){name, what, WEFT_CODEC_EACH, *data};
    return WEFT_OK;
}

weft_status weft_codec_bytes(weft_context *context, const char *spec, weft_dtype dtype,
                             int64_t count, double *out)
{
    weft_codec *codec;
    enum { FEW = 64 };
    *out = 0;
    WEFT_TRY(weft_codec_open(context, spec, dtype, FEW, &codec));
    for (int i = 0; i < codec->state_count; i++)
        if (codec->states[i].extent == WEFT_CODEC_EACH)
            *out += (double)count * (double)weft_dtype_size(dtype);
    weft_codec_close(&codec);
    return WEFT_OK;
}

void weft_codec_keep_one(weft_codec *codec, const char *name, const char *what,
                         weft_codec_extent extent, double *number)
{
    codec->states[codec->state_count++] = (weft_codec_state){name, what, extent, number};
}

double weft_codec_round(const weft_codec *codec, double number)
{
    return codec->dtype == WEFT_F32 ? (double)(float)number : number;
}

void weft_codec_free(weft_codec *codec)
{
    for (int i = 0; i < codec->state_count; i++)
        if (codec->states[i].extent == WEFT_CODEC_EACH) free(codec->states[i].data);
    free(codec->hits.list);
    free(codec->gaps);
    free(codec);
}

weft_status weft_codec_parse(const char *name, const char *arguments, const weft_spec_key *keys)
{
    char kind[64];
    (void)snprintf(kind, sizeof(kind), "codec %s", name);
    return *arguments ? weft_spec_parse(kind, arguments, keys) : WEFT_OK;
}
