/* The downlink of a server's range: compressed parameters for learners, without error feedback.
 *
 * The server keeps reference parameters, `public`, which a learner has that applied every message.
 * For a new version their difference to the parameters is encoded, and the decoded message is added
 * on both sides. Omissions of the codec are thus part of the next difference, nothing is lost or
 * counted twice, and all learners at one version have the same bits. Messages are kept while they
 * are shorter than all parameters; a learner that is further behind, or new, gets the reference.
 *
 * The downlink sends no messages and reads no clock. Only one thread may use it at a time. */
#ifndef WEFT_EXCHANGE_PS_RANGE_DOWNLINK_H
#define WEFT_EXCHANGE_PS_RANGE_DOWNLINK_H

#include "actor/actor.h"
#include "compress/compress.h"

typedef struct weft_downlink weft_downlink;

/* Takes the codec, also on failure; the reference is zero. */
weft_status weft_downlink_open(weft_codec *codec, weft_downlink **out) WEFT_NODISCARD;
void weft_downlink_close(weft_downlink **published);
/* [count]; the reference at the newest version. May be written before the first version, for all
 * learners to begin with. */
void *weft_downlink_reference(const weft_downlink *published);
/* Makes a version of these parameters. If the first version is not 0, the reference becomes the
 * parameters. NUMERIC: one of them is not finite. */
weft_status weft_downlink_update(weft_downlink *published, const void *parameters,
                                 int64_t version) WEFT_NODISCARD;
/* The path from version `have` to the newest: with *changes messages for weft_downlink_apply, else
 * the reference. *out is the caller's reference. */
weft_status weft_downlink_delta_since(weft_downlink *published, int64_t have, weft_buffer **out,
                                      bool *changes) WEFT_NODISCARD;

/* Adds messages to [count] numbers. FORMAT: they are damaged. */
weft_status weft_downlink_apply(const weft_buffer *changes, weft_dtype dtype, int64_t count,
                                void *numbers) WEFT_NODISCARD;

#endif
