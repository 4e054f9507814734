/* The envelope is the frame header of a message: sender, receiver, type, lengths and a checksum of
 * all of it. */
#ifndef WEFT_ACTOR_ENVELOPE_H
#define WEFT_ACTOR_ENVELOPE_H

#include "actor/actor.h"

enum { WEFT_ENVELOPE_BYTES = 40, WEFT_ENVELOPE_VERSION = 1 };

typedef struct weft_envelope {
    weft_actor_id from, to;
    uint32_t type, head_bytes;
    uint64_t payload_bytes;
    uint64_t checksum; /* XXH3 of head and payload, and of the other fields */
    uint64_t inside; /* 1: the payload is memory that sender and receiver share, not bytes on a wire
                        that could change, and the checksum does not cover it */
} weft_envelope;

weft_envelope weft_envelope_of(weft_actor_id from, weft_actor_id to, const weft_message *message,
                               bool inside);
/* Encodes an envelope, little endian: magic "WEFT", version, `inside`, then the other fields in
 * their order. */
void weft_envelope_write(const weft_envelope *envelope, uint8_t to[WEFT_ENVELOPE_BYTES]);
/* Decodes an envelope; false: the bytes are no envelope of this version. */
bool weft_envelope_read(const void *data, size_t bytes, weft_envelope *out);
/* Whether head and payload have the lengths and the checksum of the envelope. payload NULL:
 * none. */
bool weft_envelope_verify_checksum(const weft_envelope *envelope, const void *head,
                                   size_t head_bytes, const void *payload, size_t payload_bytes);
/* Bytes of envelope, head and payload. */
size_t weft_envelope_total(const weft_envelope *envelope);

#endif
