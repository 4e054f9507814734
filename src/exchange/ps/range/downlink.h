/*
 * What learners know of a server's range, where parameters come back to them compressed.
 *
 * The server keeps the numbers that a learner has who took in everything: `public`. When parameters
 * have a new version, what they are apart from those is encoded, and what the message says is added
 * on both sides. So nothing is ever lost or counted twice, whatever a codec leaves out: it is part
 * of the next difference, and all who are at the same version have the same bits. Messages are kept
 * while it is shorter to send them than all numbers; who is farther behind, or new, gets those.
 *
 * No messages and no time of its own. One thread at a time.
 */
#ifndef WEFT_EXCHANGE_PS_RANGE_DOWNLINK_H
#define WEFT_EXCHANGE_PS_RANGE_DOWNLINK_H

#include "actor/actor.h"
#include "compress/compress.h"

typedef struct weft_downlink weft_downlink;

/* Takes the codec, also if this fails; all zeros. */
weft_status weft_downlink_open(weft_codec *codec, weft_downlink **out) WEFT_NODISCARD;
void weft_downlink_close(weft_downlink **published);
/* [count]; what those know who have the newest version. May be written before the first version
 * there is, and is then what all begin with. */
void *weft_downlink_reference(const weft_downlink *published);
/* The parameters are these now. Where the first version of which it hears is not 0 all begin with
 * these parameters. NUMERIC: one of them is no finite number. */
weft_status weft_downlink_update(weft_downlink *published, const void *parameters,
                                 int64_t version) WEFT_NODISCARD;
/* What leads from version `have` to the newest: with *changes messages for weft_downlink_apply,
 * else all numbers. The blob is the caller's hold on it. */
weft_status weft_downlink_delta_since(weft_downlink *published, int64_t have, weft_buffer **out,
                                      bool *changes) WEFT_NODISCARD;

/* Adds messages to [count] numbers. FORMAT: they are damaged. */
weft_status weft_downlink_apply(const weft_buffer *changes, weft_dtype dtype, int64_t count,
                                void *numbers) WEFT_NODISCARD;

#endif
