/* Every update goes to every peer, and what it says is added, once. */
#include "exchange/gossip/peer.h"

static weft_status apply(weft_peer *p, const weft_blob *payload)
{
    const weft_peer_options *o = &p->options;
    weft_message message;
    WEFT_TRY(weft_message_open(payload->data, payload->bytes, o->dtype, o->count, &message));
    weft_message_add(&message, o->count, 1, p->now);
    return WEFT_OK;
}

static void add(const weft_peer *p, double scale, const weft_blob *payload, void *to)
{
    const weft_peer_options *o = &p->options;
    weft_message message;
    if (weft_message_open(payload->data, payload->bytes, o->dtype, o->count, &message) == WEFT_OK)
        weft_message_add(&message, o->count, scale, to);
}

static weft_status updates_computed(weft_peer *p, void *change)
{
    const weft_peer_options *o = &p->options;
    weft_blob *blob;
    WEFT_TRY(weft_blob_new(weft_message_bound(o->dtype, o->count), &blob));
    weft_status status = weft_codec_encode(o->codec, change, blob->data, &blob->bytes);
    if (status == WEFT_OK) status = apply(p, blob);
    if (status == WEFT_OK) status = weft_rumours_say(p, blob, false);
    weft_blob_drop(&blob);
    return status;
}

const weft_peer_mode weft_peer_updates = {
    .computed = updates_computed,
    .heard = apply,
    .add = add,
};
