/* What goes between learners and servers, see wire.proto. */
#ifndef WEFT_EXCHANGE_SERVER_WIRE_H
#define WEFT_EXCHANGE_SERVER_WIRE_H

#include "actor/actor.h"
#include "wire.pb-c.h"

typedef enum weft_wire_type {
    WEFT_WIRE_PUSH = 1,
    WEFT_WIRE_PUSHED,
    WEFT_WIRE_PULL,
    WEFT_WIRE_PARAMETERS
} weft_wire_type;

/* Packs a message and sends it with a payload, which may be NULL. */
weft_status weft_wire_send(weft_actor *from, weft_actor_id to, weft_wire_type type,
                           const void *message, weft_blob *payload) WEFT_NODISCARD;
/* The message of a letter, of the descriptor's kind; NULL: it is none. The caller frees it with
 * weft_wire_free. */
void *weft_wire_read(const weft_letter *letter, const ProtobufCMessageDescriptor *kind);
void weft_wire_free(void *message);

#endif
