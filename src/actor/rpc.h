/* Messages of protobuf as the heads of messages. */
#ifndef WEFT_EXCHANGE_WIRE_H
#define WEFT_EXCHANGE_WIRE_H

#include <protobuf-c/protobuf-c.h>

#include "actor/actor.h"

/* Of all protocols, so that a message that has gone astray is none of somebody else's. */
typedef enum weft_wire_type {
    WEFT_WIRE_PUSH = 1,
    WEFT_WIRE_PUSHED,
    WEFT_WIRE_PULL,
    WEFT_WIRE_PARAMETERS,
    WEFT_WIRE_RUMOUR,
    WEFT_WIRE_HEARD,
    WEFT_WIRE_MEET,
    WEFT_WIRE_MET,
    WEFT_WIRE_JOIN,
    WEFT_WIRE_WELCOME,
    WEFT_WIRE_REFUSED,
    WEFT_WIRE_VIEW,
    WEFT_WIRE_BEAT,
    WEFT_WIRE_ALIVE,
    WEFT_WIRE_RECALL,
    WEFT_WIRE_READY,
    WEFT_WIRE_LEAVE,
    WEFT_WIRE_LEFT,
    WEFT_WIRE_ASK,
    WEFT_WIRE_GIVE,
    WEFT_WIRE_GIVEN,
    WEFT_WIRE_REPLICATE,
    WEFT_WIRE_STATE,
    WEFT_WIRE_REPLICATED,
    WEFT_WIRE_AGAIN,
    WEFT_WIRE_NOD,
    WEFT_WIRE_GREET,
    WEFT_WIRE_GREETED,
    WEFT_WIRE_WANT,
    WEFT_WIRE_SNAPSHOT,
    WEFT_WIRE_SHARE,
    WEFT_WIRE_SHARED,
    WEFT_WIRE_MEAN,
    WEFT_WIRE_LOST
} weft_wire_type;

/* Packs a message (a struct that protoc-c made) and sends it with a payload, which may be NULL. */
weft_status weft_wire_send(weft_actor *from, weft_actor_id to, weft_wire_type type,
                           const void *message, weft_blob *payload) WEFT_NODISCARD;
/* The protobuf message in a message, of this kind; NULL: it has none. The caller frees it with
 * weft_wire_free. */
void *weft_wire_read(const weft_message *message, const ProtobufCMessageDescriptor *kind);
void weft_wire_free(void *message);

#endif
