/* The downlink encodes the differences of new versions to the reference parameters, and keeps the
 * messages that lead from version to version. */
#include "exchange/ps/range/downlink.h"

/* Each message follows its length, and both are padded to multiples of this many bytes. */
enum { UNIT = 8 };

/* The message that brings a learner from one version to another. */
typedef struct link {
    int64_t from, to; /* versions */
    size_t bytes;
    uint8_t *message; /* with its length before it */
} link;

struct weft_downlink {
    weft_codec *codec;
    size_t bytes;                /* size of all parameters of the range */
    char *public, *difference;   /* the reference; the difference of the parameters to it */
    uint8_t *room;               /* buffer for the encoder */
    int64_t version;             /* version of the reference; -1: none yet */
    link *links;                 /* without gaps; the last one leads to `version` */
    size_t count, capacity, sum; /* count: number of links; sum: bytes of their messages */
    weft_buffer *last; /* payload of the last reply, for all learners with version last_have */
    int64_t last_have;
    bool last_changes;
};

static void forget(weft_downlink *p, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        p->sum -= p->links[i].bytes;
        free(p->links[i].message);
    }
    p->count -= count;
    if (p->count) memmove(p->links, p->links + count, p->count * sizeof(link));
}

void weft_downlink_close(weft_downlink **published)
{
    if (!published || !*published) return;
    weft_downlink *p = *published;
    forget(p, p->count);
    weft_codec_close(&p->codec);
    weft_buffer_unref(&p->last);
    free(p->links);
    free(p->public);
    free(p->difference);
    free(p->room);
    free(p);
    *published = NULL;
}

size_t weft_downlink_bytes(weft_dtype dtype, int64_t count)
{
    return 2 * (size_t)count * weft_dtype_size(dtype) + weft_encoded_bound(dtype, count);
}

static weft_status make_room(weft_downlink *p)
{
    WEFT_TRY(weft_new_aligned(p->bytes, &p->public));
    WEFT_TRY(weft_new_aligned(p->bytes, &p->difference));
    memset(p->public, 0, p->bytes);
    return weft_new_aligned(weft_encoded_bound(p->codec->dtype, p->codec->count), &p->room);
}

weft_status weft_downlink_open(weft_codec *codec, weft_downlink **out)
{
    weft_downlink *p;
    weft_status status = WEFT_NEW(&p, 1);
    if (status != WEFT_OK) {
        weft_codec_close(&codec);
        return status;
    }
    p->codec = codec;
    p->bytes = (size_t)codec->count * weft_dtype_size(codec->dtype);
    p->version = -1;
    status = make_room(p);
    *out = p;
    if (status != WEFT_OK) weft_downlink_close(out);
    return status;
}

const char *weft_downlink_codec(const weft_downlink *p)
{
    return p->codec->ops->name;
}

void *weft_downlink_reference(const weft_downlink *p)
{
    return p->public;
}

bool weft_downlink_codec_state(weft_codec *codec, int i, weft_codec_state *out)
{
    for (int k = 0; weft_codec_state_of(codec, k, out); k++)
        if (out->data != codec->residual && i-- == 0) return true;
    return false;
}

int weft_downlink_parts(const weft_downlink *p, struct iovec *parts)
{
    weft_codec_state s;
    int n = 0;
    if (parts) parts[0] = (struct iovec){p->public, p->bytes};
    for (; weft_downlink_codec_state(p->codec, n, &s); n++)
        if (parts)
            parts[n + 1] =
                (struct iovec){s.data, s.extent == WEFT_CODEC_EACH ? p->bytes : sizeof(double)};
    return n + 1;
}

int64_t weft_downlink_version(const weft_downlink *p)
{
    return p->version;
}

void weft_downlink_continue(weft_downlink *p, int64_t version)
{
    forget(p, p->count);
    weft_buffer_unref(&p->last);
    p->version = version;
}

#define SUBTRACT(type)                                                                             \
    do {                                                                                           \
        type *to = (type *)(void *)p->difference;                                                  \
        const type *a = parameters, *b = (const type *)(const void *)p->public;                    \
        for (int64_t i = 0; i < p->codec->count; i++) to[i] = a[i] - b[i];                         \
    } while (0)

/* Encodes the difference of the parameters to the reference. The difference already contains the
 * omissions of earlier messages, so the codec's residual is cleared. */
static weft_status encode(weft_downlink *p, const void *parameters, size_t *bytes)
{
    if (p->codec->dtype == WEFT_F64)
        SUBTRACT(double);
    else
        SUBTRACT(float);
    for (size_t i = 0; i < p->codec->gap_count; i++) {
        size_t size = weft_dtype_size(p->codec->dtype);
        memset(p->difference + (size_t)p->codec->gaps[i].begin * size, 0,
               (size_t)p->codec->gaps[i].count * size);
    }
    if (p->codec->residual) memset(p->codec->residual, 0, p->bytes);
    weft_status status = weft_codec_encode(p->codec, p->difference, p->room, bytes);
    if (status != WEFT_ERR_NUMERIC) return status;
    return weft_fail_within(status, "the parameters of a server are no longer finite. A smaller "
                                    "--lr, --clip-norm or --warmup may help");
}

static weft_status add_link(weft_downlink *p, int64_t version, size_t bytes)
{
    size_t padded = (bytes + UNIT - 1) / UNIT * UNIT;
    link new = {p->version, version, UNIT + padded, NULL};
    uint64_t length = bytes;
    weft_encoded message;
    WEFT_TRY(WEFT_GROW(&p->links, &p->capacity, p->count));
    WEFT_TRY(weft_new_bytes(&new.message, 1, new.bytes));
    for (int i = 0; i < UNIT; i++) new.message[i] = (uint8_t)(length >> 8 * i);
    memcpy(new.message + UNIT, p->room, bytes);
    memset(new.message + UNIT + bytes, 0, padded - bytes);
    p->links[p->count++] = new;
    p->sum += new.bytes;
    WEFT_TRY(weft_encoded_open(p->room, bytes, p->codec->ops, p->codec->dtype, p->codec->count,
                               &message));
    weft_encoded_add(&message, p->codec->count, 1, p->public);
    while (p->sum >= p->bytes) forget(p, 1);
    return WEFT_OK;
}

weft_status weft_downlink_update(weft_downlink *p, const void *parameters, int64_t version)
{
    size_t bytes;
    if (p->version < 0 && version > 0) memcpy(p->public, parameters, p->bytes);
    if (p->version < 0) p->version = version;
    if (version == p->version) return WEFT_OK;
    WEFT_TRY(encode(p, parameters, &bytes));
    weft_buffer_unref(&p->last);
    if (UNIT + bytes >= p->bytes) { /* all parameters are shorter than the message */
        memcpy(p->public, parameters, p->bytes);
        forget(p, p->count);
    } else {
        WEFT_TRY(add_link(p, version, bytes));
    }
    p->version = version;
    return WEFT_OK;
}

/* Index of the kept message that leads on from version `have`; `count`: there is none. */
static size_t link_from(const weft_downlink *p, int64_t have)
{
    size_t i = 0;
    while (i < p->count && p->links[i].from != have) i++;
    return i;
}

static weft_status pack(weft_downlink *p, int64_t have)
{
    size_t first = link_from(p, have), bytes = 0;
    p->last_changes = first < p->count;
    for (size_t i = first; i < p->count; i++) bytes += p->links[i].bytes;
    WEFT_TRY(weft_buffer_new(p->last_changes ? bytes : p->bytes, &p->last));
    char *at = p->last->data;
    if (!p->last_changes) memcpy(at, p->public, p->bytes);
    if (p->last_changes) p->last->fixed = (p->count - first) * (UNIT + WEFT_MESSAGE_HEADER);
    for (size_t i = first; i < p->count; i++) {
        memcpy(at, p->links[i].message, p->links[i].bytes);
        at += p->links[i].bytes;
    }
    p->last_have = have;
    return WEFT_OK;
}

weft_status weft_downlink_delta_since(weft_downlink *p, int64_t have, weft_buffer **out,
                                      bool *changes)
{
    if (p->last && p->last_have != have) weft_buffer_unref(&p->last);
    if (!p->last) WEFT_TRY(pack(p, have));
    *out = weft_buffer_ref(p->last);
    *changes = p->last_changes;
    return WEFT_OK;
}

weft_status weft_downlink_apply(const weft_buffer *changes, const weft_codec_ops *codec,
                                weft_dtype dtype, int64_t count, void *numbers)
{
    const uint8_t *at = changes->data, *end = at + changes->bytes;
    while (end - at >= UNIT) {
        uint64_t length = 0;
        weft_encoded message;
        for (int i = 0; i < UNIT; i++) length |= (uint64_t)at[i] << 8 * i;
        if (length > (uint64_t)(end - at) - UNIT) break;
        at += UNIT;
        WEFT_TRY(weft_encoded_open(at, (size_t)length, codec, dtype, count, &message));
        weft_encoded_add(&message, count, 1, numbers);
        at += WEFT_MIN((size_t)(end - at), ((size_t)length + UNIT - 1) / UNIT * UNIT);
    }
    if (at == end) return WEFT_OK;
    return weft_fail(WEFT_ERR_FORMAT, "changes of %zu bytes are damaged", changes->bytes);
}
