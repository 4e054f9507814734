/* Codecs that programs and plug-ins add (weft/codec_ops.h). */
#include "base/registry.h"
#include "compress/codec.h"
#include "weft/codec_ops.h"

/* The codec of an entry, and the struct that it was made of. */
typedef struct added_kind {
    weft_codec_ops ops;
    const weft_codec_rule *rule;
} added_kind;

typedef struct added_codec {
    weft_codec head;
    const added_kind *kind;
    void *state;
    uint32_t *at; /* [count] */
} added_codec;

static void close_codec(weft_codec *codec)
{
    added_codec *a = (added_codec *)codec;
    a->kind->rule->close(a->state);
    free(a->at);
    weft_codec_free(codec);
}

/* Cuts warmup=N off the beginning of arguments. */
static weft_status take_warmup(const char **arguments, int64_t *warmup)
{
    double number = 0;
    const weft_spec_key keys[] = {WEFT_WARMUP_KEY(&number), {.name = NULL}};
    size_t name = strlen(keys[0].name), size = strcspn(*arguments, ",");
    char *text;
    if (strncmp(*arguments, keys[0].name, name) != 0 || (*arguments)[name] != '=') return WEFT_OK;
    WEFT_TRY(weft_format(&text, "%.*s", (int)size, *arguments));
    weft_status status = weft_codec_parse("added", text, keys);
    free(text);
    *warmup = (int64_t)number;
    *arguments += size + ((*arguments)[size] == ',');
    return status;
}

static weft_status open_codec(const weft_codec_ops *ops, const char *arguments, weft_dtype dtype,
                              int64_t count, weft_codec **out)
{
    const added_kind *kind = (const added_kind *)(const void *)ops;
    int64_t warmup = 0;
    void *state = NULL;
    weft_codec *codec;
    WEFT_TRY(take_warmup(&arguments, &warmup));
    uint64_t before = weft_failures();
    weft_status status = kind->rule->open(arguments, count, &state);
    WEFT_TRY(weft_ensure_message(status, before, "codec", ops->name, "open"));
    status = weft_codec_new(sizeof(added_codec), dtype, count, true, &codec);
    if (status != WEFT_OK) {
        kind->rule->close(state);
        return status;
    }
    added_codec *a = (added_codec *)codec;
    a->kind = kind;
    a->state = state;
    codec->warmup = warmup;
    status = WEFT_NEW(&a->at, WEFT_MAX(count, (int64_t)1));
    if (status == WEFT_OK)
        *out = codec;
    else
        close_codec(codec);
    return status;
}

/* Takes the choice as the hits of the message. */
static weft_status take_choice(added_codec *a, int64_t chosen)
{
    weft_codec *codec = &a->head;
    const char *name = a->kind->ops.name;
    if (chosen < 0 || chosen > codec->count)
        return weft_fail(WEFT_ERR_FORMAT,
                         "codec %s has chosen %lld of %lld numbers, must be from 0 to all", name,
                         (long long)chosen, (long long)codec->count);
    codec->hits.count = 0;
    for (int64_t i = 0; i < chosen; i++) {
        if (a->at[i] >= codec->count || (i > 0 && a->at[i] <= a->at[i - 1]))
            return weft_fail(WEFT_ERR_FORMAT,
                             "codec %s has chosen number %u of %lld, must be ascending and below",
                             name, a->at[i], (long long)codec->count);
        if (weft_number_get(codec->dtype, codec->residual, a->at[i]) != 0)
            WEFT_TRY(weft_hits_add(&codec->hits, a->at[i], 1));
    }
    return WEFT_OK;
}

static weft_status encode(weft_codec *codec, const void *update, uint8_t *message, size_t *bytes)
{
    added_codec *a = (added_codec *)codec;
    int64_t chosen = -1;
    const weft_codec_choice choice = {.dtype = codec->dtype,
                                      .count = codec->count,
                                      .numbers = codec->residual,
                                      .message = (int64_t)codec->messages,
                                      .at = a->at,
                                      .chosen = &chosen};
    WEFT_TRY(WEFT_OF_REAL(codec->dtype, weft_residual_add)(codec, update));
    WEFT_TRY(WEFT_OF_REAL(codec->dtype, weft_residual_check)(codec));
    uint64_t before = weft_failures();
    weft_status status = a->kind->rule->choose(a->state, &choice);
    WEFT_TRY(weft_ensure_message(status, before, "codec", a->kind->ops.name, "choose"));
    WEFT_TRY(take_choice(a, chosen));
    *bytes = weft_encoded_numbers(codec, a->kind->rule->halves, message);
    return WEFT_OK;
}

static weft_status accept(weft_context *context, const weft_entry *entry, const void *ops,
                          void **made)
{
    const weft_codec_rule *rule = ops;
    added_kind *kind;
    (void)context;
    WEFT_TRY(weft_entry_need(entry, "open", rule->open));
    WEFT_TRY(weft_entry_need(entry, "close", rule->close));
    WEFT_TRY(weft_entry_need(entry, "choose", rule->choose));
    WEFT_TRY(WEFT_NEW(&kind, 1));
    *made = kind;
    kind->rule = rule;
    kind->ops = (weft_codec_ops){.name = entry->name,
                                 .form = entry->form,
                                 .help = entry->summary,
                                 .open_added = open_codec,
                                 .close = close_codec,
                                 .encode = encode};
    return WEFT_OK;
}

const weft_extension weft_codecs_extension = {.kind = WEFT_KIND_CODEC,
                                              .type = "weft_codec_rule",
                                              .size = sizeof(weft_codec_rule),
                                              .least = sizeof(weft_codec_rule),
                                              .accept = accept};
