/* Packs and parses protobuf messages, and calls the handler of a message by its type. */
#include "actor/rpc.h"

/* Bound on the bytes of a packed protobuf message; larger ones are neither sent nor parsed. */
enum { MOST = 1024 };

/* The senders of each type of message, by the role of its receiver. A member takes requests of
 * others only as far as these may have a newer view; a coordinator that recovers its view knows no
 * members. */
typedef struct type_rule {
    uint8_t coordinator, learner, server, other;
} type_rule;

enum {
    C = WEFT_RPC_COORDINATOR,
    L = WEFT_RPC_LEARNER,
    S = WEFT_RPC_SERVER,
    O = WEFT_RPC_OTHER,
    ANY = L | S | O
};
static const type_rule rules[WEFT_RPC_TYPES] = {
    [WEFT_RPC_PUSH] = {.server = L | O},
    [WEFT_RPC_PUSH_ACK] = {.learner = S},
    [WEFT_RPC_PULL] = {.server = L | O},
    [WEFT_RPC_PULL_REPLY] = {.learner = S},
    [WEFT_RPC_UPDATE] = {.learner = L},
    [WEFT_RPC_UPDATE_ACK] = {.learner = L},
    [WEFT_RPC_AVERAGE_REQUEST] = {.learner = L},
    [WEFT_RPC_AVERAGE_REPLY] = {.learner = L},
    [WEFT_RPC_JOIN] = {.coordinator = ANY},
    [WEFT_RPC_JOIN_ACK] = {.coordinator = ANY, .learner = C, .server = C, .other = C},
    [WEFT_RPC_REJECT] = {.coordinator = ANY, .learner = C, .server = C, .other = C},
    [WEFT_RPC_VIEW] = {.coordinator = ANY, .learner = C | L | O, .server = C, .other = C},
    [WEFT_RPC_HEARTBEAT] = {.coordinator = ANY},
    [WEFT_RPC_HEARTBEAT_ACK] = {.learner = C, .server = C},
    [WEFT_RPC_VIEW_REQUEST] = {.learner = C | L | O, .server = C},
    [WEFT_RPC_IN_SYNC] = {.coordinator = S},
    [WEFT_RPC_LEAVE] = {.coordinator = ANY},
    [WEFT_RPC_LEAVE_ACK] = {.learner = C, .server = C, .other = C},
    [WEFT_RPC_QUERY] = {.coordinator = ANY},
    [WEFT_RPC_INIT] = {.server = L},
    [WEFT_RPC_INIT_ACK] = {.learner = S},
    [WEFT_RPC_APPEND] = {.server = S},
    [WEFT_RPC_RANGE_SNAPSHOT] = {.server = S},
    [WEFT_RPC_APPEND_ACK] = {.server = S},
    [WEFT_RPC_RESEND] = {.learner = S},
    [WEFT_RPC_PEER_HEARTBEAT] = {.learner = L | O},
    [WEFT_RPC_SYNC_REQUEST] = {.learner = L | O},
    [WEFT_RPC_SYNC_REPLY] = {.learner = L},
    [WEFT_RPC_STATE_REQUEST] = {.learner = L},
    [WEFT_RPC_STATE_REPLY] = {.learner = L},
    [WEFT_RPC_PARTIAL_SUM] = {.learner = L},
    [WEFT_RPC_PARTIAL_SUM_ACK] = {.learner = L},
    [WEFT_RPC_FINAL_MEAN] = {.learner = L},
    [WEFT_RPC_STATE_LOST] = {.coordinator = L | S},
};

bool weft_rpc_may_send(uint32_t type, weft_rpc_role sender, weft_rpc_role receiver)
{
    if (type >= WEFT_RPC_TYPES) return false;
    const type_rule *r = &rules[type];
    switch (receiver) {
    case WEFT_RPC_COORDINATOR: return r->coordinator & sender;
    case WEFT_RPC_LEARNER: return r->learner & sender;
    case WEFT_RPC_SERVER: return r->server & sender;
    case WEFT_RPC_OTHER: return r->other & sender;
    }
    return false;
}

weft_status weft_rpc_send(weft_actor *from, weft_actor_id to, weft_rpc_type type,
                          const void *message, weft_buffer *payload)
{
    uint8_t head[MOST];
    size_t bytes = protobuf_c_message_get_packed_size(message);
    if (bytes > sizeof(head))
        return weft_fail(WEFT_ERR_INTERNAL, "a message of %zu bytes, at most %d", bytes, MOST);
    protobuf_c_message_pack(message, head);
    return weft_actor_send(
        from, to,
        &(weft_message){
            .type = (uint32_t)type, .head = head, .head_bytes = bytes, .payload = payload});
}

/* Calls itself for the messages of a field. */
static void clean_field(const ProtobufCFieldDescriptor *f, void *value)
{
    if (f->type == PROTOBUF_C_TYPE_MESSAGE && *(ProtobufCMessage **)value)
        weft_rpc_clean(*(ProtobufCMessage **)value);
    /* The default is memory of the program. */
    if (f->type == PROTOBUF_C_TYPE_STRING && *(char **)value && **(char **)value &&
        *(const void **)value != f->default_value)
        weft_make_printable(*(char **)value);
}

void weft_rpc_clean(ProtobufCMessage *message)
{
    char *base = (char *)message;
    for (unsigned i = 0; i < message->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &message->descriptor->fields[i];
        void *at = base + f->offset;
        if (f->type != PROTOBUF_C_TYPE_MESSAGE && f->type != PROTOBUF_C_TYPE_STRING) continue;
        if (f->label != PROTOBUF_C_LABEL_REPEATED) {
            clean_field(f, at);
            continue;
        }
        size_t count = *(size_t *)(void *)(base + f->quantifier_offset);
        for (size_t k = 0; k < count; k++) clean_field(f, *(void ***)at + k);
    }
}

weft_status weft_rpc_dispatch(const weft_rpc_handler *h, void *self, const weft_message *message)
{
    ProtobufCMessage *content = NULL;
    while (h && h->handle && h->type != message->type) h++;
    if (!h || !h->handle) return WEFT_OK;
    if (h->kind && message->head_bytes <= MOST)
        content = protobuf_c_message_unpack(h->kind, NULL, message->head_bytes, message->head);
    if (content) weft_rpc_clean(content);
    weft_status status = h->kind && !content ? WEFT_OK : h->handle(self, message, content);
    if (content) protobuf_c_message_free_unpacked(content, NULL);
    return status;
}
