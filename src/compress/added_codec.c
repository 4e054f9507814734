/* Codecs that programs and plug-ins add (weft/codec_ops.h). */
#include <float.h>

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

/* --- a form of its own --- */

static weft_codec_message message_of(const weft_encoded *m)
{
    return (weft_codec_message){.dtype = m->head.dtype,
                                .count = m->head.count,
                                .number = m->head.hits,
                                .body = m->body,
                                .bytes = m->bytes};
}

static const weft_codec_rule *rule_of(const weft_encoded *m)
{
    return ((const added_kind *)(const void *)m->codec)->rule;
}

static size_t own_bytes(const weft_encoded_head *head)
{
    (void)head;
    return 0;
}

static bool own_within(const weft_encoded *m, double most)
{
    const weft_codec_message message = message_of(m);
    return rule_of(m)->valid(&message, most);
}

static bool own_check(weft_encoded *m, size_t bytes)
{
    (void)bytes;
    return own_within(m, m->head.dtype == WEFT_F32 ? (double)FLT_MAX : DBL_MAX);
}

static void own_add(weft_encoded *m, int64_t n, double scale, void *to)
{
    const weft_codec_message message = message_of(m);
    rule_of(m)->add(&message, m->place.at, n, scale, to);
}

static const weft_form own_form = {
    .bytes = own_bytes, .check = own_check, .within = own_within, .add = own_add};

/* Encodes the residual in the codec's own form, and takes off what the message says. */
static weft_status encode_own(added_codec *a, const weft_codec_choice *choice, uint8_t *message,
                              size_t *bytes)
{
    weft_codec *codec = &a->head;
    uint8_t *body = message + WEFT_MESSAGE_HEADER;
    size_t all = (size_t)codec->count * weft_dtype_size(codec->dtype);
    weft_codec_message m = {
        .dtype = codec->dtype, .count = codec->count, .body = body, .bytes = all};
    weft_encoded read;
    uint64_t before = weft_failures();
    weft_status status = a->kind->rule->encode(a->state, choice, body, &m);
    WEFT_TRY(weft_ensure_message(status, before, "codec", codec->ops->name, "encode"));
    if (m.bytes == all) {
        *bytes = weft_encoded_residual(codec, message);
        return WEFT_OK;
    }
    if (m.bytes > all)
        return weft_fail(WEFT_ERR_FORMAT, "codec %s has written %zu bytes, must be at most %zu",
                         codec->ops->name, m.bytes, all);
    const weft_encoded_head head = {WEFT_MESSAGE_OWN, codec->dtype, m.number, codec->count,
                                    codec->ops->tag};
    weft_encoded_begin(message, &head);
    *bytes = WEFT_MESSAGE_HEADER + m.bytes;
    status = weft_encoded_open(message, *bytes, codec->ops, codec->dtype, codec->count, &read);
    if (status != WEFT_OK)
        return weft_fail_within(status, "codec %s refuses its own message", codec->ops->name);
    weft_encoded_add(&read, codec->count, -1, codec->residual);
    return WEFT_OK;
}

static weft_status encode(weft_codec *codec, const void *update, uint8_t *message, size_t *bytes)
{
    added_codec *a = (added_codec *)codec;
    int64_t chosen = -1;
    const weft_codec_choice own = {.dtype = codec->dtype,
                                   .count = codec->count,
                                   .numbers = codec->residual,
                                   .message = (int64_t)codec->messages};
    weft_codec_choice choice = own;
    choice.at = a->at;
    choice.chosen = &chosen;
    WEFT_TRY(WEFT_OF_REAL(codec->dtype, weft_residual_add)(codec, update));
    WEFT_TRY(WEFT_OF_REAL(codec->dtype, weft_residual_check)(codec));
    if (a->kind->rule->encode) return encode_own(a, &own, message, bytes);
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
    if (rule->encode || rule->valid || rule->add) {
        WEFT_TRY(weft_entry_need(entry, "encode", rule->encode));
        WEFT_TRY(weft_entry_need(entry, "valid", rule->valid));
        WEFT_TRY(weft_entry_need(entry, "add", rule->add));
        if (rule->choose || rule->halves)
            return weft_fail(WEFT_ERR_ARGUMENT,
                             "codec %s: with a form of its own it has no use for 'choose' and "
                             "'halves'; leave them out",
                             entry->name);
    } else {
        WEFT_TRY(weft_entry_need(entry, "choose", rule->choose));
    }
    WEFT_TRY(WEFT_NEW(&kind, 1));
    *made = kind;
    kind->rule = rule;
    kind->ops = (weft_codec_ops){.name = entry->name,
                                 .form = entry->form,
                                 .help = entry->summary,
                                 .open_added = open_codec,
                                 .close = close_codec,
                                 .encode = encode,
                                 .tag = 1 + (double)(weft_hash_text(entry->name) >> 12)};
    if (rule->encode) kind->ops.own[0] = kind->ops.own[1] = &own_form;
    return WEFT_OK;
}

const weft_extension weft_codecs_extension = {.kind = WEFT_KIND_CODEC,
                                              .type = "weft_codec_rule",
                                              .size = sizeof(weft_codec_rule),
                                              .least = offsetof(weft_codec_rule, encode),
                                              .accept = accept};
