/* The downlink of a server's range: compressed parameters for learners, without error feedback.
 *
 * The server keeps reference parameters, `public`: those of a learner that has applied every
 * message. For a new version the server encodes the difference of the parameters to the reference;
 * server and learner each add the decoded message to their copy of the reference. Omissions of the
 * codec are thus part of the next difference: nothing is lost or counted twice, and all learners at
 * one version have the same bits. The server keeps messages while they are together shorter than
 * all parameters; a learner that is further behind, or new, gets the whole reference.
 *
 * A downlink neither sends messages nor reads a clock. Only one thread may use a downlink at a
 * time. */
#ifndef WEFT_EXCHANGE_PS_RANGE_DOWNLINK_H
#define WEFT_EXCHANGE_PS_RANGE_DOWNLINK_H

#include <sys/uio.h>

#include "actor/actor.h"
#include "compress/compress.h"

typedef struct weft_downlink weft_downlink;

/* Opens a downlink, which takes the codec, also on failure. The reference is zero. */
weft_status weft_downlink_open(weft_codec *codec, weft_downlink **out) WEFT_NODISCARD;
/* The bytes of a downlink of so many numbers, beside its codec and the messages of late learners.
 */
size_t weft_downlink_bytes(weft_dtype dtype, int64_t count);
void weft_downlink_close(weft_downlink **published);
/* The reference parameters at the newest version, [count]. The caller may write them before the
 * first version; all learners begin with them. */
void *weft_downlink_reference(const weft_downlink *published);
/* The name of its codec. */
const char *weft_downlink_codec(const weft_downlink *published);
/* State i of a codec of a downlink from which, with the same reference, it encodes the same
 * messages: all but the residual. false past the last one. */
bool weft_downlink_codec_state(weft_codec *codec, int i, weft_codec_state *out);
/* Sets parts to the state of the downlink in memory, the reference first, and returns their number;
 * parts NULL: the number alone. A state of one number is a double. */
int weft_downlink_parts(const weft_downlink *published, struct iovec *parts);
/* The version of the reference; -1: none yet. */
int64_t weft_downlink_version(const weft_downlink *published);
/* Continues at that version of another downlink, whose state the caller has written. Learners of
 * earlier versions get the whole reference. */
void weft_downlink_continue(weft_downlink *published, int64_t version);
/* Brings the reference to a new version of the parameters. If the first version is not 0, the
 * reference becomes the parameters. NUMERIC: a parameter is not finite. */
weft_status weft_downlink_update(weft_downlink *published, const void *parameters,
                                 int64_t version) WEFT_NODISCARD;
/* The payload that brings a learner from version `have` to the newest one: with *changes the
 * messages for weft_downlink_apply, otherwise the whole reference. The caller releases *out. */
weft_status weft_downlink_delta_since(weft_downlink *published, int64_t have, weft_buffer **out,
                                      bool *changes) WEFT_NODISCARD;

/* Adds the messages of such a payload, which the downlink codec has encoded, to numbers[count], the
 * learner's parameters. FORMAT: the messages are damaged. */
weft_status weft_downlink_apply(const weft_buffer *changes, const weft_codec_ops *codec,
                                weft_dtype dtype, int64_t count, void *numbers) WEFT_NODISCARD;

#endif
