/* Implements mode `updates` (Strom 2015): the change of each step is encoded and broadcast, and
 * each peer adds the update once. */
#include "exchange/gossip/peer_internal.h"

static weft_status apply(weft_peer *p, const weft_buffer *payload)
{
    const weft_peer_options *o = &p->options;
    weft_encoded message;
    weft_actor_work(&p->head, WEFT_WORK_DECODE, o->codec->ops->name, 2 * (double)p->bytes);
    WEFT_TRY(weft_encoded_open(payload->data, payload->bytes, o->codec->ops, o->dtype, o->count,
                               &message));
    weft_encoded_add(&message, o->count, 1, p->current);
    return WEFT_OK;
}

static void add(const weft_peer *p, double scale, const weft_buffer *payload, void *to)
{
    const weft_peer_options *o = &p->options;
    weft_encoded message;
    if (weft_encoded_open(payload->data, payload->bytes, o->codec->ops, o->dtype, o->count,
                          &message) == WEFT_OK)
        weft_encoded_add(&message, o->count, scale, to);
}

/* p->state is a scratch buffer for the largest message, reused at every step: new buffers of that
 * size, between small long-lived ones, would fragment the heap. */
static void updates_close(weft_peer *p)
{
    weft_buffer *scratch = p->state;
    weft_buffer_unref(&scratch);
}

/* Encodes and broadcasts the change of a step. A step without samples has none: it is not
 * broadcast, and the codec keeps its residual for a step that counts. Queues and logs may hold the
 * update for long, so it is copied from the scratch buffer into a buffer of just its size. */
static weft_status updates_computed(weft_peer *p, void *change)
{
    const weft_peer_options *o = &p->options;
    weft_buffer *scratch = p->state, *payload;
    if (o->empty && *o->empty) return WEFT_OK;
    weft_status status = weft_buffer_reuse(weft_encoded_bound(o->dtype, o->count), &scratch);
    p->state = scratch;
    WEFT_TRY(status);
    weft_actor_work(&p->head, WEFT_WORK_ENCODE, o->codec->ops->name, 2 * (double)p->bytes);
    WEFT_TRY(weft_codec_encode(o->codec, change, scratch->data, &scratch->bytes));
    scratch->fixed = WEFT_MESSAGE_HEADER;
    WEFT_TRY(weft_buffer_compact(scratch, &payload));
    status = apply(p, payload);
    if (status == WEFT_OK) status = weft_broadcast_send(p, payload, false);
    weft_buffer_unref(&payload);
    return status;
}

const weft_peer_mode weft_peer_updates = {
    .name = "updates",
    .least = {.encoded = 2, .decoded = 2},
    .close = updates_close,
    .computed = updates_computed,
    .apply = apply,
    .add = add,
};
