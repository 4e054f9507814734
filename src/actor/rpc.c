/* Packs and parses protobuf messages, and calls the handler of a message by its type. */
#include "actor/rpc.h"

/* Bound on the bytes of a packed protobuf message; larger ones are neither sent nor parsed. */
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

weft_status weft_rpc_dispatch(const weft_rpc_handler *h, void *self, const weft_message *message)
{
    ProtobufCMessage *content = NULL;
    while (h && h->handle && h->type != message->type) h++;
    if (!h || !h->handle) return WEFT_OK;
    if (h->kind && message->head_bytes <= MOST)
        content = protobuf_c_message_unpack(h->kind, NULL, message->head_bytes, message->head);
    weft_status status = h->kind && !content ? WEFT_OK : h->handle(self, message, content);
    if (content) protobuf_c_message_free_unpacked(content, NULL);
    return status;
}
