/* Packs and parses RPC messages. */
#include "actor/rpc.h"

/* No valid message is larger. */
enum { MOST = 1024 };

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

void *weft_rpc_parse(const weft_message *message, const ProtobufCMessageDescriptor *kind)
{
    if (message->head_bytes > MOST) return NULL;
    return protobuf_c_message_unpack(kind, NULL, message->head_bytes, message->head);
}

void weft_rpc_free(void *message)
{
    if (message) protobuf_c_message_free_unpacked(message, NULL);
}
