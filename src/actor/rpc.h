/* The rpc layer packs and parses protobuf messages, which are the heads of actors' messages, and
 * calls their handlers. */
#ifndef WEFT_ACTOR_RPC_H
#define WEFT_ACTOR_RPC_H

#include <protobuf-c/protobuf-c.h>

#include "actor/actor.h"

/* Message types, numbered over all protocols, so that no protocol misreads a message of another. */
typedef enum weft_rpc_type {
    WEFT_RPC_PUSH = 1,
    WEFT_RPC_PUSH_ACK,
    WEFT_RPC_PULL,
    WEFT_RPC_PULL_REPLY,
    WEFT_RPC_UPDATE,
    WEFT_RPC_UPDATE_ACK,
    WEFT_RPC_AVERAGE_REQUEST,
    WEFT_RPC_AVERAGE_REPLY,
    WEFT_RPC_JOIN,
    WEFT_RPC_JOIN_ACK,
    WEFT_RPC_REJECT,
    WEFT_RPC_VIEW,
    WEFT_RPC_HEARTBEAT,
    WEFT_RPC_HEARTBEAT_ACK,
    WEFT_RPC_VIEW_REQUEST,
    WEFT_RPC_IN_SYNC,
    WEFT_RPC_LEAVE,
    WEFT_RPC_LEAVE_ACK,
    WEFT_RPC_QUERY,
    WEFT_RPC_INIT,
    WEFT_RPC_INIT_ACK,
    WEFT_RPC_APPEND,
    WEFT_RPC_RANGE_SNAPSHOT,
    WEFT_RPC_APPEND_ACK,
    WEFT_RPC_RESEND,
    WEFT_RPC_PEER_HEARTBEAT,
    WEFT_RPC_SYNC_REQUEST,
    WEFT_RPC_SYNC_REPLY,
    WEFT_RPC_STATE_REQUEST,
    WEFT_RPC_STATE_REPLY,
    WEFT_RPC_PARTIAL_SUM,
    WEFT_RPC_PARTIAL_SUM_ACK,
    WEFT_RPC_FINAL_MEAN,
    WEFT_RPC_STATE_LOST,
    WEFT_RPC_TYPES
} weft_rpc_type;

/* Roles of senders and receivers, as bits. OTHER: a client, or a process that is no member in the
 * view of the receiver. */
typedef enum weft_rpc_role {
    WEFT_RPC_COORDINATOR = 1,
    WEFT_RPC_LEARNER = 2,
    WEFT_RPC_SERVER = 4,
    WEFT_RPC_OTHER = 8
} weft_rpc_role;
/* Whether a sender of this role sends messages of this type to a receiver of that role. Receivers
 * ignore all others. */
bool weft_rpc_may_send(uint32_t type, weft_rpc_role sender, weft_rpc_role receiver);

/* Packs a message (a struct that protoc-c made) and sends it with a payload, which may be NULL. */
weft_status weft_rpc_send(weft_actor *from, weft_actor_id to, weft_rpc_type type,
                          const void *message, weft_buffer *payload) WEFT_NODISCARD;
/* Makes the texts of a parsed message printable, also those of the messages within it: they reach
 * logs and terminals. */
void weft_rpc_clean(ProtobufCMessage *message);

/* A handler: `content` is the parsed protobuf message of `message`, and `self` the actor or object
 * to which the handler belongs. */
typedef weft_status weft_rpc_handle(void *self, const weft_message *message, const void *content);
/* A row of a table of handlers, which ends with a row without one. */
typedef struct weft_rpc_handler {
    uint32_t type;
    const ProtobufCMessageDescriptor *kind; /* NULL: the message has no content to parse */
    weft_rpc_handle *handle;
} weft_rpc_handler;
/* Calls the handler of a message's type. A message whose type has no handler, or whose content
 * cannot be parsed, is ignored. handlers NULL: there are none. */
weft_status weft_rpc_dispatch(const weft_rpc_handler *handlers, void *self,
                              const weft_message *message) WEFT_NODISCARD;

#endif
